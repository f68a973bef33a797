"""Retargeting: lets an instruction write into another tensor than it was emitted for, where that computes the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nki_lab.dtypes import float32
from nki_lab.errors import InstructionError
from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.definition.operands import Order
from nki_lab.ir.definition.rule_errors import rule_error
from nki_lab.ir.program.nodes import Loop
from nki_lab.ir.program.overwritten import may_meet
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Span


def retarget(
    builder: Any,
    i: Instruction,
    dst: NkiTensor,
    changes: Mapping[str, Any],
    fresh: Storage | None,
    moves: bool = False,
) -> None:
    """Let an instruction write into `dst` instead of the tensor it was emitted for.

    This is for dialects whose instructions return new tiles: `a[...] = nl.add(b, c)` writes into `a`, without a
    copy. The instruction keeps its place. The tensor that it wrote before holds nothing: a later use of it is an
    error.

    Args:
        builder: of the trace.
        i: an instruction of the innermost scope that is open.
        dst: a tensor with the shape of the result, in a memory that the instruction writes to. Its dtype is that of the
            result; or the result is a float32, as it was computed, and is rounded once in either case.
        changes: other arguments that change, such as `accumulate=None`.
        fresh: the tensor that nothing but the instruction can have used.
        moves: the instruction moves values of one dtype: it may cast them to another.

    Raises:
        InstructionError: this would compute something else, or break a rule of the instruction. Nothing has
            changed then, and a copy does what was meant.
    """
    key = _key(i, dst, moves, changes)
    form = None if key is None else builder.retargeted.get(key)
    # Only where dtypes differ it matters whether the result may be cast.
    casts = i.dst.dtype is not dst.dtype and (moves or (not changes and _computed(i)))
    obstacle = (
        "it has run, as a debug run does at once"
        if builder.watch is not None
        else obstacle_of(builder.body, i, dst, fresh, casts)
    )
    if form is None and not obstacle:
        formed = builder.formed(i.definition, i.with_args(dst=dst, **changes).args, 4)
        form = formed.form
        if form.broken:
            raise rule_error(form.broken[0], formed)
        numerics = i.definition.numerics
        if not moves and numerics is not None and numerics(i) != numerics(formed):
            obstacle = "it would compute in other types"
    if obstacle:
        raise InstructionError(
            f"{i.definition.name} cannot write into {dst.describe()} instead: {obstacle}",
            stack=builder.stack(3),
            help="copy its result with nisa.tensor_copy, or nisa.dma_copy where HBM takes part",
        )
    assert form is not None
    if key is not None:
        builder.retargeted[key] = form
    _write(builder, i, dst, changes, form)


def retarget_again(
    builder: Any, i: Instruction, dst: NkiTensor, changes: Mapping[str, Any], moves: bool
) -> bool:
    """Do what `retarget` does where `i` is the last instruction, and one of its form was retargeted so.

    Returns whether it has: where it has not, `retarget` may.
    """
    body, at = builder.body, i.definition.position["dst"]
    before, storage = i.args[at], dst.storage
    if (
        not body
        or body[-1] is not i
        or before.shape != dst.shape
        or before.storage.origin != "temporary"
        or before.storage is storage
        or builder.watch is not None
        or at in i.form.reads
    ):
        return False
    key = _key(i, dst, moves, changes)
    form = None if key is None else builder.retargeted.get(key)
    if form is None:
        return False
    for view in i.read():
        if view.storage is storage and _blocks(i, view, dst):
            return False
    _write(builder, i, dst, changes, form)
    builder.note_changed()
    return True


def _write(
    builder: Any, i: Instruction, dst: NkiTensor, changes: Mapping[str, Any], form: Form
) -> None:
    """Give an instruction another tensor to write into."""
    position, args = i.definition.position, list(i.args)
    at = position["dst"]
    args[at].storage.owner = i
    args[at] = dst
    for name, value in changes.items():
        args[position[name]] = value
    i.args, i.form = tuple(args), form
    if form.remarks:
        builder.remark(form.remarks, i)


def obstacle_of(
    body: Sequence[Instruction | Loop],
    i: Instruction,
    dst: NkiTensor,
    fresh: Storage | None,
    casts: bool = False,
) -> str:
    """Say why an instruction cannot write into another tensor; empty where it can.

    Args:
        body: the scope that is open.
        i: the instruction.
        dst: the tensor.
        fresh: what nothing but `i` can have used.
        casts: the tensor may have another dtype than the result.
    """
    definition = i.definition
    following: list[Instruction | Loop] = []
    for node in reversed(body):
        if node is i:
            break
        following.append(node)
    else:
        return "it is not in the scope that is open"
    position = definition.position.get("dst")
    if position is None or i.form.broken:
        return "it writes no `dst`"
    before = i.args[position]
    if position in i.form.reads and before.storage is not fresh:
        return f"it also reads {before.describe()}"
    if before.storage.origin != "temporary" or before.storage is dst.storage:
        return f"it was emitted for {before.describe()}"
    if before.shape != dst.shape or not (casts or before.dtype is dst.dtype):
        return f"its result is {before.describe()}"
    for view in i.read():
        if _blocks(i, view, dst):
            return f"it reads {view.describe()}"
    if following and (dst.dynamic is not None or dst.storage.address is not None):
        return f"other instructions follow it, and the address of {dst.describe()} is not fixed by the compiler"
    for node in reversed(following):
        if isinstance(node, Loop):
            return f"a device loop at {Span.of(node.stack[0])} follows it"
        for view in (*node.read(), *node.written()):
            if may_meet(view, before) or may_meet(view, dst):
                return f"{node.definition.name} uses {view.describe()} after it"
    return ""


def _computed(i: Instruction) -> bool:
    """Tell whether a result is what an instruction has computed in float32, without being rounded."""
    numerics = i.definition.numerics
    compute = {} if numerics is None else numerics(i)
    return i.dst.dtype is float32 and compute.get("dst", float32.np) == float32.np


def _key(i: Instruction, dst: NkiTensor, moves: bool, changes: Mapping[str, Any]) -> Any:
    """Return what tells the form that an instruction has with another `dst` and other arguments; None: form it.

    Equal keys have one form: forms are told apart by nothing else.
    """
    storage = dst.storage
    if (
        dst.dynamic is not None
        or storage.address is not None
        or storage.loop
        or storage.owner is not i.args[i.definition.position["dst"]].storage.owner
        or i.definition.identities
    ):
        return None
    first = dst.offset * dst.dtype.itemsize // storage.form_bytes
    return i.form, storage.buffer, dst.dtype, dst.strides, first, moves, *changes.items()


def _blocks(i: Instruction, view: NkiTensor, dst: NkiTensor) -> bool:
    """Tell whether an instruction reads elements of `dst` that it would have overwritten before."""
    if (view.offset, view.strides) == (dst.offset, dst.strides) and view.dynamic is dst.dynamic:
        return i.definition.order_of("dst") is not Order.STREAM and may_meet(view, dst)
    return may_meet(view, dst)
