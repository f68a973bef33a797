"""nc_matmul: what it computes, and how long it takes."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import float32
from nki_lab.errors import SimulationError
from nki_lab.ir.definition.instruction import (
    UPDATE,
    WRITE,
    Order,
    Shape,
    instruction,
    reads,
    writes,
)
from nki_lab.isa.enums import matmul_perf_mode
from nki_lab.isa.matmul_rules import MATMUL_RULES, array_part, columns, double_row, moves_bits
from nki_lab.isa.products import product
from nki_lab.isa.systolic import INPUTS, TRANSPOSE_MODE, array_passes, identity, put_product
from nki_lab.targets.engines import TENSOR
from nki_lab.targets.spaces import PSUM, SBUF

_AS_STORED: dict[str, Any] = {"dst": None, "stationary": None, "moving": None}


@instruction(
    engine=(TENSOR,),
    dst=writes(
        PSUM,
        role=lambda i: WRITE if i.accumulate is False else UPDATE,
        shape=Shape.FLAT,
        indirect=True,
        axes=("M", "N"),
    ),
    stationary=reads(SBUF, shape=Shape.FLAT, dtypes=INPUTS, indirect=True, axes=("K", "M")),
    moving=reads(SBUF, shape=Shape.FLAT, dtypes=INPUTS, indirect=True, axes=("K", "N")),
    rules=MATMUL_RULES,
    numerics=lambda i: _AS_STORED if i.is_transpose else {},
    in_place_safe=True,  # the inputs are in SBUF, and `dst` is read by the addition that writes `out`
    order=Order.NONE,
)
def nc_matmul(
    dst,
    stationary,
    moving,
    is_stationary_onezero=False,
    is_moving_onezero=False,
    is_transpose=False,
    accumulate=None,
    tile_position=(),
    tile_size=(),
    perf_mode=matmul_perf_mode.none,
    name=None,
) -> None:
    """Multiply `stationary.T @ moving` into a PSUM tile.

    The partition axis of both inputs is the contracted one: `stationary` [K, M] and `moving` [K, N] give `dst`
    [M, N]. Further free axes are flattened. Products are summed in float32, in the order of
    the contracted axis, 128 at a time: an element depends on its two vectors only, not on where it stands.

    Accumulation: False overwrites `dst`, True adds to it, None overwrites each element the first time it is written
    and adds from then on. A bfloat16 `dst` (NeuronCore-v4) is rounded at every addition.

    Transpose: with `is_transpose=True` and an identity matrix as `moving`, NeuronCore-v3 and later move the bits of
    `stationary`, NaN and infinity included, into a `dst` of its dtype, or of float32. NeuronCore-v2 multiplies as
    always, so one NaN or infinity spoils its row of `dst`.

    Speed: float32 takes four times as long as narrower types, and half of that when a float32 operand is said to
    hold only ones and zeros (`is_stationary_onezero`, `is_moving_onezero`). `perf_mode=double_row` contracts
    2 x 128 rows of 8-bit floats at once, from tiles [K, 2, M] and [K, 2, N]. `tile_size` (rows, columns) and
    `tile_position` use a part of the array.

    Source: nki/api/nki/isa/__init__.py:489; nki/guides/architecture/trainium2_arch.rst:73 (double_row), :194
    (transpose); nki/guides/architecture/trainium3_arch.rst:131 (bfloat16).
    """


@nc_matmul.semantics
def _(out, dst, stationary, moving, accumulate, written, perf_mode, is_transpose, target):
    def multiply(into):
        if is_transpose:
            _transpose(into, stationary, moving, target)
            return
        k = len(stationary)
        if perf_mode is matmul_perf_mode.double_row:  # [K, 2, M] as [2K, M]: more rows to contract
            k *= 2
        product(stationary.reshape(k, -1), moving.reshape(k, -1), into)

    put_product(out, dst, accumulate, written, multiply)


def _transpose(out, stationary, moving, target):
    if not target.supports(TRANSPOSE_MODE):
        product(stationary.astype(np.float32), moving.astype(np.float32), out)
        return
    if not np.array_equal(moving, identity(len(moving), moving.dtype)):
        raise SimulationError(
            "nc_matmul: `is_transpose` is True, but `moving` does not hold an identity matrix",
            help="pass nl.shared_identity_matrix(K, dtype=...) as `moving`, or leave `is_transpose` out",
        )
    np.copyto(out, stationary.T, casting="unsafe")


@nc_matmul.backward
def _(i, step):
    gradient = step.gradient()
    if i.perf_mode is not matmul_perf_mode.none:
        step.refuse(f"multiplies with {i.perf_mode!r}, which has no rule for its gradient")
    if i.is_transpose:
        step.add("stationary", gradient.transposed())
        return
    step.add("stationary", lambda: step.value("moving").times_transposed(gradient))
    step.add("moving", lambda: step.value("stationary").transposed().times(gradient))


@nc_matmul.cost
def _(i, hw):
    double = double_row(i)
    wide = (i.stationary.dtype is float32, i.moving.dtype is float32)
    hinted = (wide[0] and i.is_stationary_onezero) or (wide[1] and i.is_moving_onezero)
    yield from array_passes(
        hw,
        i.stationary,
        i.dst,
        columns=columns(i.stationary, double),
        stream=columns(i.moving, double),
        depth=0 if i.is_transpose else i.stationary.partitions * (2 if double else 1),
        moving_bytes=i.moving.size * i.moving.dtype.itemsize,
        full_float32=any(wide),
        half_float32=hinted or moves_bits(i, hw),
        part=array_part(i, hw),
    )
