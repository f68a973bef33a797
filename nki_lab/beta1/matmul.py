"""Products and transposes on the Tensor engine."""

from __future__ import annotations

from math import prod
from typing import Any

from nki_lab.beta1.masks import Box, boxes, whole
from nki_lab.beta1.promotion import dtype_named
from nki_lab.beta1.results import as_dtype, copied, in_sbuf, loaded, new
from nki_lab.beta1.tile import Tile
from nki_lab.dtypes import float32
from nki_lab.errors import NotModelled
from nki_lab.isa import matmul as isa_matmul
from nki_lab.isa import transpose as isa_transpose
from nki_lab.targets.engines import TENSOR, VECTOR
from nki_lab.targets.spaces import PSUM

# The largest tile that Vector transposes at once.
_SMALL = 32


def matmul(x: Any, y: Any, *, transpose_x: bool = False, mask: Any = None, **keywords: Any) -> Tile:
    """Return `x @ y` in PSUM; `transpose_x` says that x is [K, M], as the Tensor engine takes it."""
    if not transpose_x:
        x, left = loaded(x).unmasked()
        x = copied(transpose(x))
        x.only = left[::-1]
    return nc_matmul(x, y, mask=mask)


def nc_matmul(
    stationary: Any,
    moving: Any,
    *,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    tile_position: Any = (),
    tile_size: Any = (),
    mask: Any = None,
    **keywords: Any,
) -> Tile:
    """Return `stationary.T @ moving` in PSUM."""
    stationary, first = loaded(stationary).unmasked()
    moving, second = loaded(moving).unmasked()
    masked = mask is not None or first != whole(stationary.shape) or second != whole(moving.shape)
    stationary, moving = in_sbuf(stationary), in_sbuf(moving)
    if (stationary.dtype is float32) != (moving.dtype is float32):
        stationary, moving = as_dtype(stationary, float32), as_dtype(moving, float32)
    rows, columns = prod(stationary.shape[1:]), moving.shape[1:]
    out = new((rows, *columns), stationary.dtype if is_transpose else float32, PSUM)
    facts = {
        "is_stationary_onezero": bool(is_stationary_onezero),
        "is_moving_onezero": bool(is_moving_onezero),
        "is_transpose": bool(is_transpose),
        "tile_position": tile_position,
        "tile_size": tile_size,
        "accumulate": False,
    }
    if not masked:
        i = isa_matmul.nc_matmul(
            dst=out.target(), stationary=stationary.view(), moving=moving.view(), **facts
        )
        out.made = (i,)
        return out
    # A mask of an operand cuts its axes of the result, and the axis that both share.
    depth = cut(first[:1], second[:1])
    if stationary.ndim != 2 and first[1:] != whole(stationary.shape)[1:]:
        raise NotModelled(
            f"a mask of the free axes of {stationary.describe()}, which has {stationary.ndim} axes",
            help="mask a tile with two axes",
        )
    kept = (*(first[1:] if stationary.ndim == 2 else whole((rows,))), *second[1:])
    covered = [cut(box, kept) for box in boxes(mask, out.shape)]
    covered = [box for box in covered if all(a < b for a, b in (*box, *depth))]
    out.made = tuple(
        isa_matmul.nc_matmul(
            dst=out.target(box),
            stationary=stationary.view((*depth, box[0])),
            moving=moving.view((*depth, *box[1:])),
            **facts,
        )
        for box in covered
    )
    out.covers = covered
    return out


def cut(box: Box, other: Box) -> Box:
    """Return what two boxes share."""
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, other, strict=True))


def transpose(x: Any, *, dtype: Any = None, mask: Any = None, **keywords: Any) -> Tile:
    """Return the transpose of a tile with two axes."""
    return nc_transpose(x, dtype=dtype, mask=mask)


def nc_transpose(
    data: Any, *, mask: Any = None, dtype: Any = None, engine: Any = None, **keywords: Any
) -> Tile:
    """Return the transpose of a tile: small ones by Vector into SBUF, others by the Tensor engine into PSUM."""
    x = loaded(data)
    rows, columns = x.shape[0], prod(x.shape[1:])
    box = None if mask is None else boxes(mask, x.shape)[0]
    on_vector = engine is VECTOR or (engine is not TENSOR and rows <= _SMALL and columns <= _SMALL)
    if not on_vector:
        x = in_sbuf(x)
    kind = x.dtype if dtype is None else dtype_named(dtype)
    if on_vector:
        out = new((columns, rows), kind)
    else:
        out = new((columns, rows), x.dtype, PSUM)
    source = x.view(box)
    to = None if box is None else ((0, source.free_size), (0, source.shape[0]))
    i = isa_transpose.nc_transpose(
        dst=out.target(to), data=source, engine=VECTOR if on_vector else TENSOR
    )
    if box is None:
        out.made = (i,)
    elif to is not None:
        out.made, out.covers = (i,), [to]
    return out if out.dtype is kind else copied(out, kind)
