"""Retargeting: whether an instruction may write into another tensor than it was emitted for."""

from __future__ import annotations

from collections.abc import Sequence

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.definition.operands import Order
from nki_lab.ir.program.nodes import Loop
from nki_lab.ir.tensor.footprint import footprint, overlap
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Span


def obstacle_of(
    body: Sequence[Instruction | Loop], i: Instruction, dst: NkiTensor, fresh: Storage | None
) -> str:
    """Say why an instruction cannot write into another tensor; empty where it can.

    Args:
        body: the scope that is open.
        made: the instruction.
        dst: the tensor.
        fresh: what nothing but `made` can have used.
    """
    definition = i.definition
    following: list[Instruction | Loop] = []
    for node in reversed(body):
        if node is i:
            break
        following.append(node)
    else:
        return "it is not in the scope that is open"
    if "dst" not in definition.operands or i.form.broken:
        return "it writes no `dst`"
    before = i.dst
    if definition.position["dst"] in i.form.reads and before.storage is not fresh:
        return f"it also reads {before.describe()}"
    if before.storage.origin != "temporary" or before.storage is dst.storage:
        return f"it was emitted for {before.describe()}"
    if (before.shape, before.dtype) != (dst.shape, dst.dtype):
        return f"its result is {before.describe()}"
    for view in i.read():
        if _may_meet(view, dst) and not (
            _same_place(view, dst) and definition.order_of("dst") is Order.STREAM
        ):
            return f"it reads {view.describe()}"
    if following and (dst.dynamic is not None or dst.storage.address is not None):
        return f"other instructions follow it, and the address of {dst.describe()} is not fixed by the compiler"
    for node in reversed(following):
        if isinstance(node, Loop):
            return f"a device loop at {Span.of(node.stack[0])} follows it"
        for view in (*node.read(), *node.written()):
            if _may_meet(view, before) or _may_meet(view, dst):
                return f"{node.definition.name} uses {view.describe()} after it"
    return ""


def _may_meet(a: NkiTensor, b: NkiTensor) -> bool:
    return a.storage is b.storage and overlap(footprint(a), footprint(b))


def _same_place(a: NkiTensor, b: NkiTensor) -> bool:
    return (a.offset, a.strides) == (b.offset, b.strides) and a.dynamic is b.dynamic
