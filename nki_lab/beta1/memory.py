"""Moves values between device memory and tiles."""

from __future__ import annotations

from math import prod
from typing import Any

from nki_lab.beta1.enums import meant, oob_mode
from nki_lab.beta1.masks import boxes
from nki_lab.beta1.operators import operator_of
from nki_lab.beta1.promotion import dtype_named
from nki_lab.beta1.results import (
    as_column,
    copied,
    each,
    fetched,
    filled,
    in_sbuf,
    new,
    on_chip,
    part,
)
from nki_lab.beta1.tile import Tile, means
from nki_lab.errors import ViewError, WrongOperand
from nki_lab.errors.beta1 import IndirectIndex, WrongMemory, older
from nki_lab.ir.building.builder import current
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.isa.dma_compute import dma_compute


def load(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """Return a new SBUF tile with the values of a tensor in HBM."""
    if not isinstance(src, Tile):
        raise WrongOperand(
            f"nl.load: `src` must be a tensor, found {type(src).__name__}",
            help="load a tensor in HBM, such as an argument of the kernel",
        )
    if src.on_chip:
        raise WrongMemory(
            f"nl.load: `src` must be in HBM; found {src.describe()}",
            notes=[older("err_unsupported_memory")],
            help="it is in SBUF or PSUM already: work on it, or copy it with nl.copy",
        )
    element = src.dtype if dtype is None else dtype_named(dtype)
    return fetched(src, element, mask, **(_bounds("load", kwargs) if kwargs else {}))


def _bounds(function: str, keywords: dict[str, Any]) -> dict[str, Any]:
    """Return what an undocumented `mode=`, which public kernels give, says of indices outside a tensor."""
    if keywords.get("mode") is None:
        return {}
    return {"oob_mode": meant(keywords["mode"], oob_mode, f"nl.{function}", "mode")}


def store(dst: Tile, value: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Write a tile, or a number, to a tensor in HBM, cast to its dtype."""
    if not isinstance(dst, Tile) or dst.on_chip:
        found = dst.describe() if isinstance(dst, Tile) else type(dst).__name__
        raise WrongMemory(
            f"nl.store: `dst` must be a tensor in HBM; found {found}",
            notes=[older("err_unsupported_memory")],
            help="assign to a tile on the chip: t[...] = value",
        )
    if not isinstance(value, Tile):
        _store_number(dst, value, mask)
        return
    value, bounds = in_sbuf(on_chip(value, "nl.store", "value")), _bounds("store", kwargs)
    if dst.ndim == 1:
        _store_line(dst, value, mask)
        return
    value = _in_shape(value, dst.shape)
    for box in [None] if mask is None else boxes(mask, dst.shape):
        dma_copy(dst=dst.target(box), src=part(value, box, dst.shape), **bounds)


def _in_shape(value: Tile, shape: tuple[int, ...]) -> Tile:
    if value.shape == shape:
        return value
    if value.size == prod(shape):
        try:
            return value.reshaped(shape)
        except ViewError:
            return copied(value).reshaped(shape)
    return value.broadcast_to(shape)


def _store_line(dst: Tile, value: Tile, mask: Any) -> None:
    """Store one value per partition, or one row, into a tensor with one axis."""
    (n,) = dst.shape
    by_rows = value.shape[0] == n and not _in_a_partition(value)
    value = _in_shape(value, (n, 1) if by_rows else (1, n))
    for box in boxes(mask, dst.shape):
        target = dst.target(box)
        if by_rows:
            dma_copy(dst=as_column(target), src=value.read((*box, (0, 1))))
        else:
            row = target._view((1, *target.shape), (1, *target.strides), target.offset)
            dma_copy(dst=row, src=value.read(((0, 1), *box)))


def _in_a_partition(value: Tile) -> bool:
    """Tell whether a tile with one axis, such as t.reshape((n,)), is a row: all of it is in one partition."""
    view = value.read()
    return (
        view.ndim == 1
        and view.shape[0] * view.strides[0] * view.dtype.itemsize <= view.storage.row_bytes
    )


def _store_number(dst: Tile, value: Any, mask: Any) -> None:
    most = current().target.partitions
    for box in boxes(mask, dst.shape):
        (first, last), *rest = box
        for start in range(first, last, most):
            rows = (start, min(start + most, last))
            target = dst.target((rows, *rest))
            if target.ndim == 1:
                target = as_column(target)
            source = new(target.shape, dst.dtype, name="filler")
            filled(source.read(), value)
            dma_copy(dst=target, src=source.read())


def atomic_rmw(dst: Tile, value: Any, op: Any, *, mask: Any = None, **kwargs: Any) -> None:
    """Add a tile, or a number, to rows of a tensor in HBM that a tile of indices names."""
    if not isinstance(dst, Tile) or dst.by is None or dst.by.kind != "vector":
        raise IndirectIndex(
            "nl.atomic_rmw: `dst` must be rows of a tensor in HBM that a tile of indices names",
            help="write dst[idx_tile, i_f], with one index for each partition; other places with nl.load and nl.store",
        )
    reduce_op = operator_of(op, "nl.atomic_rmw")
    if reduce_op.name != "add":
        raise WrongOperand(
            f"nl.atomic_rmw: `op` can only be np.add, found {op!r}", help="write op=np.add"
        )
    if isinstance(value, Tile):
        value = _in_shape(in_sbuf(on_chip(value, "nl.atomic_rmw", "value")), dst.shape)
    for box in boxes(mask, dst.shape):
        rows = dst.target(box)
        if isinstance(value, Tile):
            added = part(value, box, dst.shape)
        else:
            added = new(rows.shape, dst.dtype, name="filler").read()
            filled(added, value)
        dma_compute(dst=rows, srcs=[rows, added], reduce_op=reduce_op, unique_indices=True)


def copy(src: Any, *, mask: Any = None, dtype: Any = None, **kwargs: Any) -> Tile:
    """Return a copy of a tile in SBUF."""
    if not isinstance(src, Tile):
        raise WrongOperand(
            f"nl.copy: `src` must be a tile, found {type(src).__name__}",
            help="load arrays first with nl.load; fill a tile with a number by nl.full",
        )
    on_chip(src, "nl.copy", "src")
    out = new(src.shape, src.dtype if dtype is None else dtype_named(dtype))
    return each(
        out, mask, lambda box: tensor_copy(dst=out.target(box), src=part(src, box, out.shape))
    )


@means("astype")
def astype(x: Tile, dtype: Any) -> Tile:
    """Return a copy in another dtype."""
    return copy(x, dtype=dtype)
