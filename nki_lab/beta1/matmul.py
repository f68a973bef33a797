"""Products and transposes on the Tensor engine."""

from __future__ import annotations

from math import prod
from typing import Any

from nki_lab.beta1 import enums
from nki_lab.beta1.enums import perf_mode_of
from nki_lab.beta1.masks import Box, boxes, whole
from nki_lab.beta1.promotion import dtype_named
from nki_lab.beta1.results import as_dtype, copied, in_sbuf, new
from nki_lab.beta1.returning import cast, note, refuse_others, tile_of
from nki_lab.beta1.tile import Tile
from nki_lab.dtypes import float32
from nki_lab.errors import NotModelled, WrongOperand
from nki_lab.errors.beta1 import older
from nki_lab.ir.building.builder import current
from nki_lab.isa import matmul as isa_matmul
from nki_lab.isa import transpose as isa_transpose
from nki_lab.isa.enums import matmul_perf_mode
from nki_lab.isa.systolic import TRANSPOSE_MODE
from nki_lab.targets.engines import TENSOR, VECTOR, Engine
from nki_lab.targets.spaces import PSUM

# The largest tile that Vector transposes at once.
_SMALL = 32


def matmul(x: Any, y: Any, *, transpose_x: bool = False, mask: Any = None, **kwargs: Any) -> Tile:
    """Return `x @ y` in PSUM; `transpose_x` says that x is [K, M], as the Tensor engine takes it."""
    if not transpose_x:
        x, left = tile_of(x, "matmul", "x").unmasked()
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
    **kwargs: Any,
) -> Tile:
    """Return `stationary.T @ moving` in PSUM."""
    mode = perf_mode_of(kwargs.pop("perf_mode", None))
    refuse_others("nc_matmul", kwargs)
    stationary = tile_of(stationary, "nc_matmul", "stationary")
    moving = tile_of(moving, "nc_matmul", "moving")
    masked = mask is not None
    first: Box = ()
    second: Box = ()
    if masked or stationary.only is not None or moving.only is not None:
        (stationary, first), (moving, second) = stationary.unmasked(), moving.unmasked()
        masked = masked or first != whole(stationary.shape) or second != whole(moving.shape)
    stationary, moving = in_sbuf(stationary), in_sbuf(moving)
    if (stationary.dtype is float32) != (moving.dtype is float32):
        stationary, moving = as_dtype(stationary, float32), as_dtype(moving, float32)
    free = (
        1 if mode is matmul_perf_mode.none else 2
    )  # two rows at a time stand on an axis of their own
    rows, columns = prod(stationary.shape[free:]), moving.shape[free:]
    # Before NeuronCore-v3 is_transpose only marks an ordinary product (nki/api/nki/isa/__init__.py@539a73c5:1143-1148).
    moves_bits = is_transpose and current().target.supports(TRANSPOSE_MODE)
    out = new((rows, *columns), stationary.dtype if moves_bits else float32, PSUM)
    facts = {
        "is_stationary_onezero": bool(is_stationary_onezero),
        "is_moving_onezero": bool(is_moving_onezero),
        "is_transpose": bool(is_transpose),
        "tile_position": tuple(map(int, tile_position)),
        "tile_size": tuple(map(int, tile_size)),
        "accumulate": False,
        "perf_mode": mode,
    }
    if not masked:
        out.base.storage.owner.result = out.base.storage
        i = isa_matmul.nc_matmul(
            dst=out.target(), stationary=stationary.read(), moving=moving.read(), **facts
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
            stationary=stationary.read((*depth, box[0])),
            moving=moving.read((*depth, *box[1:])),
            **facts,
        )
        for box in covered
    )
    out.covers = covered
    return out


def cut(box: Box, other: Box) -> Box:
    """Return what two boxes share."""
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, other, strict=True))


def transpose(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
    """Return the transpose of a tile with two axes."""
    if isinstance(x, Tile) and x.ndim > 2:
        raise WrongOperand(
            f"nl.transpose: `x` must have two axes; found {x.describe()}",
            notes=[older("err_exceed_max_supported_dimension")],
            help="join the free axes first, x.reshape((partitions, -1)), or use nisa.nc_transpose",
        )
    return nc_transpose(x, dtype=dtype, mask=mask)


def nc_transpose(
    data: Any, *, mask: Any = None, dtype: Any = None, engine: Any = enums.engine.unknown, **kwargs: Any
) -> Tile:  # fmt: skip
    """Return the transpose of a tile: small ones by Vector into SBUF, others by the Tensor engine into PSUM."""
    refuse_others("nc_transpose", kwargs)
    x = tile_of(data, "nc_transpose", "data")
    unit = enums.meant(engine, enums.engine, "nc_transpose", "engine")
    rows, columns = x.shape[0], prod(x.shape[1:])
    if unit is Engine.unknown:
        unit = VECTOR if rows <= _SMALL and columns <= _SMALL else TENSOR
    if unit is VECTOR:
        out = new((columns, rows), x.dtype)
    elif x.dtype.itemsize == 1 and current().target.supports(TRANSPOSE_MODE):
        out = new((columns, rows, 2), x.dtype, PSUM)[:, :, 0]  # written as 16-bit elements
    else:
        out = new((columns, rows), x.dtype, PSUM)
    covered: list[Box | None] = [None] if mask is None else [*boxes(mask, x.shape)]
    made, places = [], []
    for box in covered:
        source = x.read(box)
        to = None
        if box is not None:
            if x.ndim != 2:
                raise NotModelled(
                    f"nisa.nc_transpose of {x.describe()} under a mask",
                    help="transpose a tile with two axes",
                )
            to = box[::-1]
        made.append(isa_transpose.nc_transpose(dst=out.target(to), data=source, engine=unit))
        places.append(to)
    note(out, made, places)
    return out if dtype is None else cast(out, dtype_named(dtype))
