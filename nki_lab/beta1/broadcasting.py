"""Operands of different shapes: free axes are repeated in place, partitions by a product with ones."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

from nki_lab.beta1.index import common_shape
from nki_lab.beta1.results import copied, in_sbuf, new, on_chip, spread
from nki_lab.beta1.tile import Tile, means
from nki_lab.dtypes import float32
from nki_lab.errors import ViewError
from nki_lab.errors.beta1 import older
from nki_lab.isa.copies import memset, tensor_copy
from nki_lab.isa.gather import nc_stream_shuffle
from nki_lab.isa.matmul import nc_matmul
from nki_lab.targets.spaces import PSUM

# The most elements a partition that one product gives, and the partitions of a shuffle.
_PRODUCT, _SHUFFLED = 512, 32


def aligned(x: Tile, y: Tile) -> tuple[Tile, Tile]:
    """Return two tiles of one rank: the partition axis stays first, axes of size 1 follow it."""
    if x.ndim == y.ndim:
        return x, y
    if x.ndim > y.ndim:
        y, x = aligned(y, x)
        return x, y
    more = y.ndim - x.ndim
    first = prod(x.shape[1:]) == 1 or x.shape[0] in (1, y.shape[0])
    shape = (x.shape[0], *(1,) * more, *x.shape[1:]) if first else ((1,) * more + x.shape)
    return x.reshape(shape), y


def together(x: Tile, y: Tile, partitions: bool = True) -> tuple[Tile, Tile, tuple[int, ...]]:
    """Return two tiles of one rank with as many partitions, and the shape of what they give.

    Args:
        x, y: the tiles.
        partitions: one row is repeated, as in functions of nki.language; operators do not.
    """
    if x.ndim != y.ndim:
        x, y = aligned(x, y)
    shape = x.shape if x.shape == y.shape else _shape_of_both(x.shape, y.shape)
    if not shape:
        partitions_differ = x.shape[0] != y.shape[0] and 1 not in (x.shape[0], y.shape[0])
        raise ViewError(
            f"{x.describe()} and {y.describe()} do not have one shape, and cannot be repeated to have one",
            notes=[older("err_num_partition_mismatch")] if partitions_differ else (),
            help="axes of size 1 are repeated; take parts of one shape, such as t[0:64, 0:32]",
        )
    if x.shape[0] != y.shape[0]:
        if not partitions:
            raise ViewError(
                f"operators repeat no partitions: {x.describe()} and {y.describe()}",
                notes=[older("err_num_partition_mismatch")],
                help="write nl.add(x, y) and so on, or repeat the row: x.broadcast_to(shape)",
            )
        x, y = across(x, shape[0]), across(y, shape[0])
    return x, y, shape


@lru_cache(maxsize=4096)
def _shape_of_both(first: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of two tiles whose axes of size 1 are repeated; () where others differ."""
    fit = all(a == b or 1 in (a, b) for a, b in zip(first, other, strict=True))
    return common_shape(first, other) if fit else ()


def across(x: Tile, partitions: int) -> Tile:
    """Return a tile with its one row on so many partitions: a product with ones, as the old compiler did it.

    Integers of 32 bits, which float32 does not hold, are shuffled to 32 partitions at a time.
    """
    if x.shape[0] == partitions:
        return x
    row = in_sbuf(x)
    wide = not row.dtype.is_float and row.dtype.itemsize == 4
    if not row.dtype.is_float and not wide:
        row = copied(row, float32)
    count = prod(row.shape[1:])
    out = new((partitions, *row.shape[1:]), x.dtype)
    try:
        flat = row.reshape((1, count))
    except ViewError:
        flat = copied(row).reshape((1, count))
    rows = out.reshape((partitions, count))
    if wide:
        for first in range(0, partitions, _SHUFFLED):
            group = (first, min(first + _SHUFFLED, partitions)), (0, count)
            nc_stream_shuffle(dst=rows.target(group), src=flat.read(), shuffle_mask=[0] * _SHUFFLED)
        return out
    ones = new((1, partitions), row.dtype, name="ones")
    memset(dst=ones.read(), value=1.0)
    for first in range(0, count, _PRODUCT):
        last = min(first + _PRODUCT, count)
        product = new((partitions, last - first), float32, PSUM, "repeated")
        nc_matmul(
            dst=product.read(),
            stationary=ones.read(),
            moving=flat.read(((0, 1), (first, last))),
            is_stationary_onezero=True,
        )
        tensor_copy(dst=rows.read(((0, partitions), (first, last))), src=product.read())
    return out


@means("broadcast_to")
def broadcast_to(src: Any, shape: Any) -> Tile:
    """Return a tile in a larger shape."""
    x, shape = on_chip(src, "broadcast_to", "src"), tuple(int(n) for n in shape)
    if x.shape == shape:
        return x
    more = len(shape) - x.ndim
    if more:
        keeps = x.shape[0] == shape[0]
        x = x.reshape((x.shape[0], *(1,) * more, *x.shape[1:]) if keeps else (1,) * more + x.shape)
    if x.shape[0] == 1:
        x = across(x, shape[0])
    return Tile(spread(x.read(), shape))
