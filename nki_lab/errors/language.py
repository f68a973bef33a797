"""Errors NKI1xx: what the text of a kernel may say."""

from __future__ import annotations

from nki_lab.errors.nki_error import NkiError
from nki_lab.source import Span


class LanguageError(NkiError):
    """The kernel's text says something NKI does not allow."""

    code = "NKI100"
    page = """
        The text of the kernel says something that NKI does not allow, or that nki_lab cannot trace. Nothing
        has run.
        """


class OutsideKernel(LanguageError):
    """An instruction or nki.language function was called outside a kernel."""

    code = "NKI101"
    page = """
        Instructions and the functions of nki.language describe what a NeuronCore does; they mean something
        only while a kernel is traced. Put the call into a function decorated with @nki.jit, and call that
        function with arrays. A helper function needs no decorator, as long as a kernel calls it.
        """
    wrong = """
        import nki.language as nl

        tile = nl.zeros((128, 4), dtype=nl.float32)
        """
    right = """
        @nki.jit
        def kernel(x):
            tile = nl.zeros((128, 4), dtype=nl.float32)
            return stored(tile)
        """


class NotModelled(LanguageError):
    """A real NKI feature that this version does not model."""

    code = "NKI102"
    page = """
        The feature exists in NKI, and this version of nki_lab has no model of it. It refuses the feature by
        name, since a wrong result would be worse. The help line says what can be used in its place.
        """
    wrong = """
        import nki.compiler

        nki.compiler.enable_stack_allocator
        """
    right = "import nki.isa"


class TensorOperator(LanguageError, TypeError):
    """A Python operator was applied to a tensor."""

    code = "NKI103"
    page = """
        NKI tensors have no Python operators: `a + b` does not say which engine adds, or where the result
        goes. Write nl.add(a, b), or the instruction with the destination you mean.
        """
    wrong = "nisa.tensor_copy(dst=t, src=t + t)"
    right = "nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)"


class TileAssignment(LanguageError, TypeError):
    """A value that is not a tensor was assigned to elements of a tensor, or an attribute of it was assigned."""

    code = "NKI104"
    page = """
        `tile[...] = value` copies a tensor, as nisa.tensor_copy(dst=tile[...], src=value) does; Python's
        numbers and arrays cannot be assigned. Fill a tile with nisa.memset. To save the copy, give the view
        as `dst` to the instruction that makes the value.
        """
    wrong = "t[:, 0:2] = 1.0"
    right = "nisa.memset(dst=t[:, 0:2], value=1.0)"


class ViewError(LanguageError, ValueError):
    """A kernel requested a view of a tensor that its layout does not allow."""

    code = "NKI105"
    page = """
        Slices, reshapes and permutations of a tensor only change the order in which its bytes are read.
        The requested view would need the bytes in other places, such as a reshape across partitions. Copy
        the data instead.
        """
    wrong = "nisa.memset(dst=t.reshape((128, 3)), value=1.0)"
    right = "nisa.memset(dst=t.reshape((128, 2, 2)), value=1.0)"


class OutOfBounds(LanguageError, IndexError):
    """An index or slice reaches outside its tensor."""

    code = "NKI106"
    page = """
        An index or slice reaches past the end of its axis. Unlike NumPy, NKI does not shorten slices. Where
        the last tile is smaller, compute its size: min(tile, size - start).
        """
    wrong = "nisa.memset(dst=t[:, 2:6], value=1.0)"
    right = "nisa.memset(dst=t[:, 2:4], value=1.0)"


class TensorArgument(LanguageError, ValueError):
    """A tensor was created with a shape, dtype, buffer or address NKI does not have."""

    code = "NKI107"
    page = """
        A tensor needs a shape of positive integers, an NKI dtype, and a memory. In SBUF and PSUM, axis 0 is
        the partition axis with at most 128 elements, and there is at least one more axis.
        """
    wrong = """
        row = nl.ndarray((256, 4), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=row, value=1.0)
        """
    right = """
        row = nl.ndarray((128, 2, 4), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=row, value=1.0)
        nisa.tensor_copy(dst=t, src=row[:, 0, :])
        """


class TensorArgumentType(TensorArgument, TypeError):
    """A shape or memory is of another Python type than NKI takes."""


class UnknownName(LanguageError, AttributeError):
    """A name that NKI does not have; close matches are offered."""

    code = "NKI108"
    page = """
        The kernel reads a name that neither the notebook (or file), nor Python, nor NKI has. It is checked
        when the kernel is defined, so define helpers and constants before the kernel. Or it asks a tensor
        for an attribute of NumPy arrays; use functions of nki.language instead, such as nl.sum(t, axis=1).
        """
    wrong = "nisa.tensor_coppy(dst=t, src=t)"
    right = "nisa.tensor_copy(dst=t[:, 0:2], src=t[:, 2:4])"


class KernelRaised(LanguageError):
    """The author's own Python raised while the kernel was traced."""

    code = "NKI109"
    _is_one_line = False
    page = """
        A kernel is run once by Python while it is traced, and its own Python raised: an `assert` that does
        not hold, a missing key, a division by zero. The note names the exception; the line is yours.
        """
    wrong = """
        sizes = [2, 4]
        nisa.memset(dst=t[:, 0 : sizes[2]], value=1.0)
        """
    right = wrong.replace("sizes[2]", "sizes[1]")


class NotAllowed(LanguageError):
    """A Python construct that no NKI front end compiles."""

    code = "NKI110"
    page = """
        No NKI compiler accepts this Python construct in a kernel: `try`, `yield`, `global` and the like
        have no meaning in a program for the engines. They may be used outside kernels to prepare arguments.
        """
    wrong = """
        @nki.jit
        def kernel(x):
            yield stored(nl.load(x))
        """
    right = wrong.replace("yield", "return")


class MixedDialects(NotAllowed):
    """A kernel, with what it calls, takes its names from the modules of two dialects."""


class KernelResult(LanguageError):
    """A kernel returned nothing, or something that is not a tensor in shared HBM."""

    code = "NKI111"
    page = """
        A kernel returns tensors in shared HBM, made with nl.ndarray(..., buffer=nl.shared_hbm).
        Tiles in SBUF or PSUM are gone when the kernel ends; copy them out with nisa.dma_copy. A kernel may
        return nothing only if it writes one of its inputs.
        """
    wrong = """
        @nki.jit
        def kernel(x):
            return nl.load(x)
        """
    right = """
        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            return out
        """


class KernelArgument(LanguageError, TypeError):
    """A kernel was called with an argument it cannot take."""

    code = "NKI112"
    page = """
        A kernel takes arrays (NumPy, PyTorch on the CPU, JAX) of dtypes NKI has, and Python values that
        are constants of the program. NumPy makes float64 and int64 by default: cast them.
        """
    wrong = """
        import numpy as np
        import nki
        import nki.language as nl

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            return out

        kernel(np.zeros((128, 4)))
        """
    right = wrong.replace("np.zeros((128, 4))", "np.zeros((128, 4), dtype=np.float32)")


class ObjectFields(LanguageError, TypeError):
    """An NKIObject was built with fields that its class does not have."""

    code = "NKI113"
    page = """
        An NKIObject takes its annotated fields as keywords, and no others. Fields that are left out are
        None unless the class gives them a value.
        """
    wrong = """
        class Sizes(nl.NKIObject):
            rows: int = 128

        @nki.jit
        def kernel(x):
            sizes = Sizes(row=64)
            return stored(nl.load(x[0 : sizes.rows]))
        """
    right = wrong.replace("row=64", "rows=64")


class StrictFinding(LanguageError):
    """A finding that `strict` turns into an error."""

    code = "NKI115"
    page = """
        Findings are facts an author should know that do not stop a kernel: a read of memory nothing wrote,
        something the compiler of their version of NKI refuses. --strict and NKI_LAB_STRICT=1 make each one
        an error.
        """
    wrong = """
        %%nki --run "kernel(x)" --strict --nki 0.6
        def kernel(x):
            t = nl.load(x)
            for k, value in enumerate((1.0, 2.0)):
                nisa.memset(dst=t[:, k : k + 1], value=value)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        """
    right = """
        %%nki --run "kernel(x)" --strict --nki 0.6
        def kernel(x):
            t = nl.load(x)
            for k in range(2):
                nisa.memset(dst=t[:, k : k + 1], value=k + 1.0)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        """


class BadSyntax(LanguageError):
    """The text of a cell is not Python."""

    code = "NKI116"
    page = """
        A `%%nki` cell is Python below its first line. The mark shows where Python stopped reading; the
        mistake may be a little earlier, such as a bracket that is never closed. Other magics and shell
        commands need separate cells.
        """
    wrong = """
        %%nki
        def kernel(x):
            return nl.load(x
        """
    right = wrong.replace("nl.load(x", "nl.load(x)")

    @classmethod
    def of(cls, problem: str | None, place: Span) -> BadSyntax:
        """Return the error of a place where Python stopped reading."""
        return cls(
            f"this is not Python: {problem}",
            stack=(place,),
            help="mend the line; the mistake may be a little earlier, such as a bracket that is never closed",
        )


class RegisterValue(LanguageError, TypeError):
    """Python asked for the value of a register, which is only known at run time."""

    code = "NKI117"
    page = """
        A register holds a value that only the device knows, so Python cannot test it, convert it or compute
        with it while the kernel is traced. Use it as a bound of nl.fori_loop, as the condition of
        nl.while_loop, or as an index: nl.ds(register, n), t.select(dim, register) or
        t.ap(..., scalar_offset=register). To step through a tensor in tiles, give the loop a step.
        """
    wrong = """
        n = nisa.register_alloc(2)
        for k in range(n):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
        """
    right = """
        n = nisa.register_alloc(2)

        def body(k):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

        nl.fori_loop(0, n, body)
        """


class LoopControl(LanguageError):
    """A device loop is left with break, continue or return, or its bounds or body are of a wrong kind."""

    code = "NKI118"
    page = """
        A loop that the device runs is traced once and ends by its bound or condition: break, continue and
        return cannot leave it, the body of nl.fori_loop returns nothing, and that of nl.while_loop the
        register with the next condition. Loops over range() are unrolled and have none of these limits.
        """
    wrong = """
        def body(k):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
            return t

        nl.fori_loop(0, 2, body)
        """
    right = """
        def body(k):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

        nl.fori_loop(0, 2, body)
        """


class CoresDiffer(LanguageError):
    """The programs of the two cores of a logical core do not fit together."""

    code = "NKI119"
    page = """
        A kernel launched on two cores, kernel[2](...), is traced once per core. The cores may issue other
        instructions, but their device loops must be the same, shared_hbm tensors must pair by name or by
        order of creation, with one shape and dtype, and both must return the same tensors.
        """
    wrong = """
        import numpy as np
        import nki
        import nki.language as nl

        @nki.jit
        def kernel(x):
            rows = 64 * (1 + nl.program_id(0))
            out = nl.ndarray((rows, 4), dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x[0:rows]))
            return out

        kernel[2](np.ones((128, 4), dtype=np.float32))
        """
    right = """
        import numpy as np
        import nki
        import nki.language as nl

        @nki.jit
        def kernel(x):
            first = 64 * nl.program_id(0)
            out = nl.ndarray((128, 4), dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out[first : first + 64], nl.load(x[first : first + 64]))
            return out

        kernel[2](np.ones((128, 4), dtype=np.float32))
        """


class RemovedLoop(LanguageError, TypeError):
    """A form of a device loop that the kernel's version of NKI no longer has."""

    code = "NKI120"
    page = """
        NKI 0.7 runs kernels as Python, to which a register has no value: loops over nl.dynamic_range and
        `while` over a register are gone. Write nl.fori_loop and nl.while_loop. Kernels for NKI 0.6 and
        before still run, with `# nki: 0.6` above them; 0.6 deprecates these loops.
        """
    wrong = """
        %%nki --run "kernel(x)"
        def kernel(x):
            t = nl.load(x)
            for i in nl.dynamic_range(4):
                nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        """
    right = """
        %%nki --run "kernel(x)"
        def kernel(x):
            t = nl.load(x)

            def body(i):
                nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

            nl.fori_loop(0, 4, body)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, t)
            return out
        """


class MixedVersions(LanguageError):
    """A kernel, with what it calls, is written for two versions of NKI."""

    code = "NKI121"
    page = """
        A kernel is written for one version of NKI: the one that `# nki: 0.6` above it, nki.jit(nki="0.6")
        or --nki 0.6 names, else the newest. What it calls must be written for the same version, and no
        version has all that two of them have: nl.dynamic_range ended with 0.6, and nl.tiles began with
        0.7.
        """
    wrong = """
        # nki: 0.5
        @nki.jit
        def double(t):
            nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)

        # nki: 0.6
        @nki.jit
        def kernel(x):
            t = nl.load(x)
            double(t)
            return stored(t)
        """
    right = wrong.replace("# nki: 0.5", "# nki: 0.6")


class LoopTensor(LoopControl):
    """A tensor that is made in the body of a device loop is used behind the loop."""

    code = "NKI122"
    page = """
        A tensor made in the body of a device loop ends with it: the body is one piece of the program that
        the device runs again and again, and so is the place of the tensor (nki/migration/index.rst, NKI
        0.6.0). Make what lives on before the loop, and let the body write into it.
        """
    wrong = """
        tiles = []

        def body(k):
            tiles.append(nl.load(x))

        nl.fori_loop(0, 2, body)
        nisa.tensor_copy(dst=t, src=tiles[0])
        """
    right = """
        tile = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)

        def body(k):
            nisa.dma_copy(dst=tile, src=x)

        nl.fori_loop(0, 2, body)
        nisa.tensor_copy(dst=t, src=tile)
        """


class LoopOrder(LoopControl):
    """A device loop stands inside nl.no_reorder."""

    code = "NKI123"
    page = """
        A block of nl.no_reorder keeps the order of instructions; a loop that the device runs cannot be one
        of them (nki/migration/index.rst, NKI 0.6.0). Put the block into the body of the loop. Loops over
        range() are unrolled and may stand in the block.
        """
    wrong = """
        def body(k):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

        with nl.no_reorder():
            nl.fori_loop(0, 2, body)
        """
    right = """
        def body(k):
            with nl.no_reorder():
                nisa.tensor_scalar(dst=t, data=t, op0=nl.add, operand0=1.0)

        nl.fori_loop(0, 2, body)
        """


class LoopState(LoopControl):
    """The body of a device loop changes a value of Python, which only its first pass would see."""

    code = "NKI124"
    page = """
        The body of a device loop is traced once. A counter that it increases, or a list that it changes,
        has its first value in every pass that the device makes. State that crosses passes lives in SBUF or
        HBM (nki/migration/index.rst, NKI 0.6.0). In kernels for NKI 0.6 and before it is a finding.

        Where something that a body reaches has changed, such as the count of an allocator, nki_lab traces
        the kernel once more, with the passes that Python would run. What gives the same instructions in
        each pass is not told.
        """
    wrong = """
        scale = [1.0]

        def body(k):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=scale[0])
            scale[0] = 2 * scale[0]

        nl.fori_loop(0, 3, body)
        """
    right = """
        scale = nl.full((128, 1), 1.0, dtype=nl.float32)

        def body(k):
            nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=scale)
            nisa.tensor_scalar(dst=scale, data=scale, op0=nl.multiply, operand0=2.0)

        nl.fori_loop(0, 3, body)
        """


class LoopName(LoopControl):
    """Two instructions in the body of a device loop have one name."""

    code = "NKI125"
    page = """
        The body of a device loop is traced once, so that `name=` of its instructions must differ: a name
        stands for the instruction in every pass. In a loop over range() in the body, put its index into the
        name. (Rule of the published guide for moving loops from NKI 0.5 to 0.6.)
        """
    wrong = """
        def body(k):
            for part in range(2):
                tile = t[:, 2 * part : 2 * part + 2]
                nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0, name="add")

        nl.fori_loop(0, 2, body)
        """
    right = wrong.replace('name="add"', 'name=f"add_{part}"')


class LoopsDiffer(CoresDiffer):
    """The two cores of a logical core make different numbers of passes through a device loop."""

    code = "NKI126"
    page = """
        Both cores of a logical core run the same device loops, with the same number of passes: other
        numbers may lock the chip or give wrong results, and NKI's compiler does not notice
        (release-notes/components/nki.rst, known issues). What the cores do in the body may differ.
        """
    wrong = """
        import numpy as np
        import nki
        import nki.isa as nisa
        import nki.language as nl

        @nki.jit
        def kernel(x):
            out = nl.ndarray((2, 128, 4), dtype=x.dtype, buffer=nl.shared_hbm)
            mine = out[nl.program_id(0)]
            nl.fori_loop(0, 1 + nl.program_id(0), lambda k: nisa.dma_copy(dst=mine, src=x))
            return out

        kernel[2](np.ones((128, 4), dtype=np.float32))
        """
    right = wrong.replace("1 + nl.program_id(0)", "2")


class LncMismatch(KernelArgument):
    """A kernel is launched on another number of cores than NEURON_LOGICAL_NC_CONFIG says."""

    code = "NKI127"
    page = """
        The number of physical cores in a logical core (LNC) must be one for a kernel and the compiler,
        which calls a mismatch NCC_EVRF066 since NKI 0.7. NEURON_LOGICAL_NC_CONFIG sets it for both, and a
        kernel that is called without brackets takes it from there; kernel[1](...) and kernel[2](...) must
        agree with it.
        """
    wrong = """
        import os
        import numpy as np
        import nki
        import nki.language as nl

        @nki.jit
        def kernel(x):
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, nl.load(x))
            return out

        os.environ["NEURON_LOGICAL_NC_CONFIG"] = "1"
        kernel[2](np.ones((128, 4), dtype=np.float32))
        """
    right = wrong.replace("kernel[2](", "kernel(")


class NoGradient(LanguageError):
    """A kernel has a part that nki_lab.autodiff.backward cannot differentiate."""

    code = "NKI131"
    page = """
        nki_lab.autodiff.backward makes the kernel of the gradients from a rule for each instruction. Loops
        that the device runs, addresses in registers, bits of floats, random numbers and some instructions
        have no rule. The line is that of your kernel. Where the gradient is known, write its kernel by
        hand.
        """
    wrong = """
        import numpy as np
        import nki
        import nki.isa as nisa
        import nki.language as nl
        from nki_lab.autodiff import backward

        @nki.jit
        def kernel(x):
            tile = nl.load(x)
            nisa.tensor_reduce(dst=tile[:, 0:1], op=nl.multiply, data=tile, axis=1)
            out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
            nl.store(out, tile)
            return out

        backward(kernel, np.ones((128, 4), dtype=np.float32))
        """
    right = wrong.replace("op=nl.multiply", "op=nl.add")


class NestedConfiguration(LanguageError):
    """A kernel calls one with another compile configuration."""

    code = "NKI130"
    page = """
        A kernel that another kernel calls becomes a part of it, so it cannot have its own compile
        configuration. Since NKI 0.7 a differing one is an error, unless the calling kernel has
        specialization_config=SpecializationConfig(allow_nested_config_override=True).
        """
    wrong = """
        @nki.jit(compile_config=nki.compiler.CompileConfig(prefetch_auto=True))
        def double(t):
            nisa.tensor_tensor(dst=t, data1=t, data2=t, op=nl.add)

        @nki.jit
        def kernel(x):
            t = nl.load(x)
            double(t)
            return stored(t)
        """
    right = wrong.replace(
        "@nki.jit\n", "@nki.jit(compile_config=nki.compiler.CompileConfig(prefetch_auto=True))\n"
    )
