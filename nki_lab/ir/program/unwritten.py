"""Says what counts as a read of memory that nothing has written, and how it is reported.

A compiler pass decides it where addresses are fixed, the simulator where values of the device decide; both use this.
"""

from __future__ import annotations

from nki_lab.ir.definition.instruction import UPDATE, WRITE, Instruction
from nki_lab.ir.definition.operands import State
from nki_lab.ir.program.nodes import Finding, Kernel
from nki_lab.ir.tensor.view import NkiTensor

KIND, CODE = "uninitialized", "NKI401"


def old_value_is_read(i: Instruction, position: int, role: str) -> bool:
    """Tell whether an instruction computes with the values an operand holds before it.

    Most operands that are updated just keep some elements. With `accumulate` the old value is added, except that the
    first write with `accumulate=None` needs none.
    """
    if role != UPDATE:
        return role != WRITE
    operand = i.definition.operands[i.definition.params[position]]
    if operand.part_written:
        return True
    at = i.definition.position.get("accumulate")
    return at is not None and i.args[at] is not None


def may_keep_elements(i: Instruction, position: int, role: str) -> bool:
    """Tell whether some elements of an operand that is written may keep the values they have."""
    if role != UPDATE or "accumulate" in i.definition.position:
        return False
    return i.definition.operands[i.definition.params[position]].part is None


def unwritten_read(
    i: Instruction, position: int, view: NkiTensor, missing: int, first: tuple[int, ...]
) -> Finding:
    """Return the finding on an operand with `missing` elements that nothing wrote, the first at index `first`."""
    what = "all" if missing == view.size else f"{missing} of {view.size}"
    help = "write the tile first, e.g. nisa.memset(dst=tile, value=0.0) or nisa.dma_copy"
    if "accumulate" in i.definition.position and i.definition.params[position] == "dst":
        help = "leave `accumulate` out, or pass accumulate=False for the first product"
    return Finding(
        KIND,
        f"{i.definition.name}: {what} elements of {i.definition.params[position]} = {view.describe()} are read"
        f" but were never written, the first at index {list(first)}",
        i.stack,
        help=help,
        code=CODE,
    )


def unwritten_result(view: NkiTensor, missing: int) -> Finding:
    """Return the finding on a result with `missing` elements that nothing wrote."""
    return Finding(
        KIND,
        f"{missing} of {view.size} elements of the result {view.describe()} are never written",
        view.storage.stack,
        help="write every element with nisa.dma_copy before the kernel returns",
        code=CODE,
    )


def unset_state(i: Instruction, state: State) -> Finding:
    """Return the finding on a hidden register that is read before an instruction sets it."""
    # By engine and not by partition: the first reset anywhere counts, so that nothing is reported wrongly.
    return Finding(
        KIND,
        f"{i.definition.name}: {state.title} is read before any instruction has set it",
        i.stack,
        help="start with reduce_cmd=nisa.reduce_cmd.reset_reduce; what an earlier kernel or idle left is undefined",
        code=CODE,
    )


def left_to_a_run(kernel: Kernel) -> tuple[Finding, ...]:
    """Return the finding that a check was not made because no values are computed; empty where nothing needs them."""
    storages = [kernel.storages[key] for key in sorted(kernel.tracked)]
    if not storages:
        return ()
    names = ", ".join(dict.fromkeys(f"`{s.name}`" for s in storages))
    return (
        Finding(
            "unchecked",
            f"not checked: whether elements of {names} are read before they are written depends on values that are"
            " only known at run time",
            storages[0].stack,
            help="run the kernel: nki_lab.run(kernel, ...)",
        ),
    )
