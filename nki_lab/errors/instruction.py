"""Errors NKI2xx: rules of one instruction."""

from __future__ import annotations

from nki_lab.errors.nki_error import NkiError


class InstructionError(NkiError):
    """An instruction breaks one of its rules."""

    code = "NKI200"
    page = """
        An instruction is used in a way the hardware cannot carry out. Nothing has run: instructions are
        checked while the kernel is traced.
        """
    wrong = "nisa.sendrecv(t, t, send_to_rank=1, recv_from_rank=1, pipe_id=0)"
    right = f"""
        if nl.num_programs() == 2:
            {wrong}
        """


class WrongCall(InstructionError, TypeError):
    """An instruction or function of NKI was called with missing, extra or unknown arguments."""

    code = "NKI201"
    page = """
        An instruction or function of NKI was called with an argument it does not have, or without one it
        needs. The note lists its parameters; `explain` with its name shows them with their meaning.
        Instructions return no tile: the first argument, `dst`, is the tile they write.
        """
    wrong = "nisa.memset(t, 1.0, shape=(128, 4))"
    right = "nisa.memset(t, 1.0)"


class WrongOperand(InstructionError, TypeError):
    """An operand is not a tensor, or not in a memory the instruction can reach."""

    code = "NKI202"
    page = """
        Each engine reaches some memories and not others: Tensor reads SBUF and writes PSUM, GpSimd does not
        reach PSUM, and only DMA reaches HBM. Move the data first: nisa.dma_copy between HBM and SBUF,
        nisa.tensor_copy between PSUM and SBUF.
        """
    wrong = "nisa.tensor_copy(dst=t, src=x)"
    right = "nisa.dma_copy(dst=t, src=x)"


class RuleBroken(InstructionError, ValueError):
    """A hardware rule of an instruction does not hold."""

    code = "NKI203"
    page = """
        An instruction has limits that follow from the hardware: sizes, dtypes, positions, combinations of
        arguments. The message is the rule that does not hold, the notes show the operands, the help says
        what to change. `explain` with the name of the instruction lists all of its rules.
        """
    wrong = "nisa.tensor_tensor(dst=t, data1=t, data2=t[:, 0:2], op=nl.add)"
    right = "nisa.tensor_tensor(dst=t[:, 0:2], data1=t[:, 2:4], data2=t[:, 0:2], op=nl.add)"


class NotOnTarget(InstructionError):
    """The target does not have the instruction or the form of it."""

    code = "NKI204"
    page = """
        The chip the kernel is compiled for lacks the instruction or this form of it; another chip has it.
        Choose it with --target, %nki_target or NEURON_PLATFORM_TARGET_OVERRIDE, or use what the help
        names.
        """
    wrong = """
        %%nki --run "kernel(x)" --target trn1
        def kernel(x):
            t = nl.load(x)
            nisa.rand2(dst=t, min=0.0, max=1.0)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        """
    right = wrong.replace("trn1", "trn3")


class BrokenProgram(InstructionError):
    """Parts of a program do not fit together: a faulty pass, or a text form edited by hand."""

    code = "NKI205"
    page = """
        A program does not fit together: an instruction uses a tensor the program does not have, or runs
        before what it needs. Programs traced from Python never show it; check text edited by hand. If you
        edited none, please report it.
        """
    wrong = """
        nkir 1
        kernel copied on trn2 with addresses {
          param x = %x
          storage %x: float32[128x4] in shared_hbm, input
          storage %t: float32[128x4] in sbuf, at (0, 0)
          storage %u: float32[128x4] in sbuf

          dma_copy(dst=%t, src=%x)
          tensor_copy(dst=%u, src=%t)
          dma_copy(dst=%x, src=%u)
        }
        """
    right = wrong.replace("%u: float32[128x4] in sbuf", "%u: float32[128x4] in sbuf, at (0, 16)")
    usual_help = "correct the text that was edited; if none was, please report it"


class RawEnum(InstructionError, TypeError):
    """An integer was given where an instruction takes a member of an enumeration."""

    code = "NKI206"
    page = """
        Since version 0.3 NKI takes members of enumerations, such as nisa.dge_mode.hwdge, and no integers.
        To run a kernel written for an older NKI as it is, allow it: --allow NKI206, NKI_LAB_ALLOW=NKI206,
        nki_lab.run(..., allow="NKI206"). The integers then mean the members of the same value.
        """
    wrong = "nisa.dma_copy(dst=t, src=x, dge_mode=2)"
    right = "nisa.dma_copy(dst=t, src=x, dge_mode=nisa.dge_mode.hwdge)"
