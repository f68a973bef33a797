"""New tiles for results, and operands as instructions take them: what each family of functions is written with.

A function of tiles does this:

    x = on_chip(x, "nl.exp")                        # an error for a tensor of HBM
    out = new(x.shape, dtype)
    return each(out, mask, lambda box: activation(dst=out.target(box), op=op, data=part(x, box, out.shape)))

`each` emits one instruction for every box of the result that the mask leaves; `box` is None for all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

from nki_lab.beta1.index import Box
from nki_lab.beta1.inserted import INSERTED
from nki_lab.beta1.masks import boxes, whole
from nki_lab.beta1.promotion import number
from nki_lab.beta1.tile import Tile
from nki_lab.dtypes import DType
from nki_lab.errors import WrongOperand
from nki_lab.errors.beta1 import WrongMemory, older
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import memset, tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.targets.spaces import SBUF, MemoryRegion


def new(shape: Sequence[int], dtype: DType, buffer: MemoryRegion = SBUF, name: str = "") -> Tile:
    """Return a tile of a new tensor on the chip."""
    if type(shape) is not tuple or len(shape) < 2:
        shape = (*map(int, shape), *(1,) * (len(shape) == 1))
    return Tile(current().fresh(shape, dtype, buffer, name))


def each(
    out: Tile,
    mask: Any,
    emit: Callable[[Box | None], Any],
    shape: Sequence[int] | None = None,
) -> Tile:
    """Emit one instruction per box of the result that a mask leaves, and return the result.

    Args:
        out: the new tile.
        mask: of the call.
        emit: emits the instruction for a box, and returns it.
        shape: what the mask is about; by default the result.
    """
    covered = None
    if mask is not None:
        covered = boxes(mask, out.shape if shape is None else shape)
        if len(covered) == 1 and covered[0] == whole(out.shape):
            covered = None
    if covered is None:
        out.base.storage.owner.result = out.base.storage
        i = emit(None)
        if type(i) is Instruction:
            out.made = (i,)
        return out
    made = tuple([emit(box) for box in covered])
    if shape is None or tuple(shape) == out.shape:
        out.made, out.covers = made, covered
        mark(made)
    return out


def mark(made: Iterable[Any]) -> None:
    """Note that a mask leaves elements of what instructions write unset."""
    for i in made:
        if type(i) is Instruction:
            for position in i.form.writes:
                i.args[position].storage.masked = True


def part(operand: Any, box: Box | None, shape: tuple[int, ...]) -> Any:
    """Return the view of an operand that takes part in a box of a result; axes of size 1 are repeated.

    Numbers are returned as they are.
    """
    if not isinstance(operand, Tile):
        return operand
    if box is None:
        return spread(operand.read(), shape)
    cut, sizes = _cut(operand.shape, box)
    return spread(operand.read(cut), sizes)


@lru_cache(maxsize=4096)
def _cut(shape: tuple[int, ...], box: Box) -> tuple[Box, tuple[int, ...]]:
    """Return the box of an operand that takes part in a box of a result, and the shape of that box."""
    cut = [(0, 1) if n == 1 else ab for n, ab in zip(shape, box[-len(shape) :], strict=True)]
    return tuple(cut), tuple([b - a for a, b in box])


def spread(view: NkiTensor, shape: tuple[int, ...]) -> NkiTensor:
    """Return a view with its free axes of size 1 repeated, without copying."""
    if view.shape == shape:
        return view
    sizes, strides = list(view.shape), list(view.strides)
    while len(sizes) < len(shape):
        sizes.insert(1, 1)
        strides.insert(1, 0)
    for d, (have, want) in enumerate(zip(sizes, shape, strict=True)):
        if have != want:
            if have != 1 or d == 0:
                raise WrongOperand(
                    f"{view.describe()} has the shape {list(view.shape)}, and {list(shape)} is needed",
                    help="axes of size 1 are repeated; the partition axis with .broadcast_to(shape)",
                )
            sizes[d], strides[d] = want, 0
    return view._view(sizes, strides, view.offset)


def column(operand: Any, box: Box | None) -> Any:
    """Return one value per partition as [P, 1], or a number as it is."""
    if not isinstance(operand, Tile):
        return operand
    rows = None
    if box is not None and operand.shape[0] > 1:
        rows = (box[0], *[(0, n) for n in operand.shape[1:]])
    view = operand.read(rows)
    if view.ndim == 2:
        return view
    return view._view((view.shape[0], 1), (view.strides[0], 1), view.offset)


def on_chip(operand: Any, function: str, parameter: str = "x") -> Any:
    """Return an operand that engines can read; raise for a tensor of HBM."""
    if isinstance(operand, Tile) and not operand.on_chip:
        raise WrongMemory(
            f"{function}: `{parameter}` must be in SBUF or PSUM; found {operand.describe()}",
            notes=[older("err_unsupported_memory")],
            help="load it first: t = nl.load(x)",
        )
    return operand


def fetched(src: Tile, dtype: DType, mask: Any, **bounds: Any) -> Tile:
    """Return a new SBUF tile with the values of a tensor in HBM; one axis becomes one value per partition.

    Args:
        src, dtype, mask: as nl.load takes them.
        bounds: `oob_mode`, where the author says what indices outside the tensor do.
    """
    out = new(src.shape, dtype)
    one_axis = src.ndim == 1

    def emit(box: Box | None) -> Any:
        source = src.read(box)
        to = box if box is None or not one_axis else (*box, (0, 1))
        source = as_column(source) if one_axis else source
        return dma_copy(dst=out.target(to), src=source, **bounds)

    return each(out, mask, emit, src.shape if one_axis else None)


def as_column(view: NkiTensor) -> NkiTensor:
    """Return a tensor with one axis as one value per partition."""
    return view._view((*view.shape, 1), (*view.strides, 1), view.offset)


def filled(view: NkiTensor, value: Any) -> None:
    """Fill a part of a tensor on the chip with a number."""
    memset(dst=view, value=filler(value, view.dtype))


def filler(value: Any, dtype: DType) -> int | float:
    """Return a number as a tensor of a dtype is filled with it."""
    plain = number(value)
    if dtype.is_float:
        return float(plain)
    if not isfinite(plain):
        raise WrongOperand(
            f"a tile of {dtype} cannot be filled with {plain}", help="choose a dtype of floats"
        )
    return int(plain)


def copied(x: Tile, dtype: DType | None = None, name: str = "") -> Tile:
    """Return a copy of a tile in SBUF."""
    out = new(x.shape, dtype or x.dtype, name=name)
    tensor_copy(dst=out.target(), src=spread(x.read(), out.shape))
    return out


def in_sbuf(x: Tile) -> Tile:
    """Return a tile for instructions that do not read PSUM: itself, or a copy that the old compiler inserted."""
    return copied(x, name=f"{INSERTED}_{x.name}") if x.in_psum else x


def as_dtype(x: Any, dtype: DType) -> Any:
    """Return a tile in a dtype that an instruction needs: itself, or a copy that the old compiler inserted."""
    if isinstance(x, Tile) and x.dtype is not dtype:
        return copied(x, dtype, f"{INSERTED}_{x.name}")
    return x
