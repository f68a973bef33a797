"""`t[...] = value` and `t[...] += value`.

A value that nothing else holds was made by a call whose result is assigned at once: its instruction writes into `t`
instead, where that computes the same (`Builder.retarget`). Otherwise the value is copied.
"""

from __future__ import annotations

from math import prod
from typing import Any

from nki_lab.beta1.broadcasting import across
from nki_lab.beta1.elementwise import binary
from nki_lab.beta1.index import Box
from nki_lab.beta1.inserted import INSERTED
from nki_lab.beta1.memory import store
from nki_lab.beta1.notes import Notes, noted
from nki_lab.beta1.program import running
from nki_lab.beta1.reducing import OverTrips
from nki_lab.beta1.results import copied, filled, on_chip, spread
from nki_lab.beta1.tile import Tile, means
from nki_lab.errors import InstructionError, NotModelled, ViewError
from nki_lab.ir.building.builder import current
from nki_lab.ir.building.retarget import retarget_again
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.isa.matmul import nc_matmul


@means("assign")
def assign(t: Tile, value: Any, temporary: bool = False) -> None:
    """Copy a value into a part of a tensor, cast to its dtype.

    Args:
        t: the part.
        value: a tile, or a number.
        temporary: nothing but the assignment holds the value.
    """
    if type(value) is OverTrips:
        combined = value.onto(t)
        assign(t, combined, temporary=combined is not value.tile)
        running().reduced.update(id(i) for i in current().body[-1:])
        return
    if type(value) is not Tile:
        if t.on_chip:
            filled(_written(t), value)
        else:
            store(t, value)
        return
    if _same(t, value):
        return
    if not t.on_chip:
        if value.on_chip:
            store(t, value)
        else:
            dma_copy(dst=t.target(), src=value.read())
        return
    if value.covers is not None and value.shape == t.shape:
        _assign_boxes(t, value, temporary)
        return
    if value.shape != t.shape:
        value = _fitted(value, t.shape)
    if temporary and value.shape == t.shape and _retargeted(_written(t), value):
        return
    source = on_chip(value, "t[...] = value", "value")
    if source.shape[0] != t.shape[0] == prod(t.shape[:1]) and source.shape[0] == 1:
        source = across(source, t.shape[0])
    target = _written(t)
    if temporary:
        _name_rounded(value, target)
    tensor_copy(dst=target, src=spread(source.read(), target.shape))


def _assign_boxes(t: Tile, value: Tile, temporary: bool) -> None:
    """Copy what a mask has left; elements of `t` that are masked off stay."""
    assert value.covers is not None
    known = temporary and len(value.made) == len(value.covers)
    for at, box in enumerate(value.covers):
        target = _written(t, box)
        target.storage.masked = True
        if not (known and _retargets(value.made[at], target)):
            value.base.storage.owner = current()  # the other boxes of the value are still there
            if temporary:
                _name_rounded(value, target)
            tensor_copy(dst=target, src=value.read(box))


def _name_rounded(value: Tile, target: NkiTensor) -> None:
    """Name the result of a call that is rounded, and assigned at once to a wider tensor which the kernel places.

    The author cannot place it, as the old compiler did not ask for it: it counts as inserted.
    """
    base = value.base
    if (
        target.storage.address is not None
        and isinstance(base, NkiTensor)
        and base.dtype is not target.dtype
        and base.storage.address is None
        and not base.storage.name.startswith(INSERTED)
    ):
        base.storage.name = f"{INSERTED}_{base.storage.name}"


def _written(t: Tile, box: Box | None = None) -> NkiTensor:
    """Return the view that is about to be written."""
    view = t.target(box)
    if t.zeros is not None:
        t.zeros.write(view)
    return view


def _same(t: Tile, value: Tile) -> bool:
    """Tell whether both are one part of one tensor, as at the end of `t[...] += value`."""
    if value is t:
        return True
    a, b = t.base, value.base
    if type(a) is not NkiTensor or type(b) is not NkiTensor or a.storage is not b.storage:
        return False
    return t.axes is None is value.axes and (a.offset, a.shape, a.strides, a.dtype) == (
        b.offset, b.shape, b.strides, b.dtype,
    )  # fmt: skip


def _fitted(value: Tile, shape: tuple[int, ...]) -> Tile:
    """Return a tile in a shape with as many elements."""
    if value.shape == shape or value.size != prod(shape):
        return value
    try:
        return _with_made(value.reshape(shape), value)
    except ViewError:
        return copied(value).reshape(shape)


def _with_made(tile: Tile, value: Tile) -> Tile:
    tile.made = value.made
    return tile


def _retargeted(target: NkiTensor, value: Tile, **changes: Any) -> bool:
    """Let the one instruction that made a value write into a target; return whether it does."""
    return len(value.made) == 1 and _retargets(value.made[0], target, **changes)


def _retargets(i: Any, target: NkiTensor, **changes: Any) -> bool:
    """Let an instruction write into a target instead; return whether it does."""
    definition, args, builder = i.definition, i.args, current()
    at = definition.position.get("dst")
    if at is None or args[at].shape != target.shape:
        return False
    if (notes := noted()) is not None:
        _note_distances(notes, i, target)
    moves = definition is tensor_copy or definition is dma_copy
    moves = moves and args[definition.position["src"]].dtype is args[at].dtype
    if retarget_again(builder, i, target, changes, moves):
        return True
    if target.storage.buffer not in definition.operands["dst"].spaces:
        return False
    try:
        builder.retarget(i, target, moves, **changes)
    except InstructionError:
        return False
    return True


def _note_distances(notes: Notes, i: Instruction, target: NkiTensor) -> None:
    """Note how far from a target the same tensor is used, from the instruction on that is to write into it."""
    for node in reversed(current().body):
        if type(node) is Instruction and not node.form.broken:
            views = [v for v in (*node.read(), *node.written()) if v.storage is target.storage]
            notes.same += [v.offset - target.offset for v in views]
        if node is i:
            break


def _accumulated(t: Tile, product: Tile, box: Box | None) -> bool:
    """Let the Tensor engine add a product to a part of PSUM; return whether it does."""
    accumulate = None if t.zeros is not None else True
    if box is not None and t.zeros is not None and not t.zeros.settled(t.target()):
        t.zeros.settle(t.target())  # what the product leaves out must be zero
    if t.zeros is not None and t.zeros.set:
        return False
    target = t.target(box)
    if product.shape != t.shape or not _retargeted(target, product, accumulate=accumulate):
        return False
    if t.zeros is not None:
        t.zeros.write(target)
    return True


@means("augment")
def augment(t: Tile, other: Any, name: str, temporary: bool = False) -> Tile:
    """Change a tensor in place: `t += other`; products are added by the Tensor engine where `t` is in PSUM."""
    if not t.on_chip:
        raise NotModelled(
            f"an augmented assignment to {t.describe()}",
            help="load it, compute, and store the result",
        )
    if type(t.base) is not NkiTensor:
        t.target()  # an error where these are several blocks
    is_product = isinstance(other, Tile) and other.made and other.made[-1].definition is nc_matmul
    accumulates = name == "add" and t.in_psum and is_product and temporary
    if isinstance(other, Tile) and other.covers is not None and other.shape == t.shape:
        # What a mask has left is added; the rest of the tensor stays.
        if not accumulates or len(other.covers) != 1 or not _accumulated(t, other, other.covers[0]):
            for box in other.covers:
                key = tuple(slice(*ends) for ends in box)
                augment(t[key], other[key], name)
        return t
    if accumulates and _accumulated(t, _fitted(other, t.shape), None):
        return t
    result = binary(name, t, other, dtype=t.dtype, partitions=False)
    assign(t, result, temporary=True)
    return t
