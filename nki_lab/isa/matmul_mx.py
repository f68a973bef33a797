"""nc_matmul_mx: the product of block-scaled (MX) tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import bfloat16, float32
from nki_lab.ir.definition.instruction import (
    UPDATE,
    WRITE,
    Instruction,
    Order,
    Rule,
    Shape,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.ir.tensor.fields import identity
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.arrays import scratch
from nki_lab.isa.indirection import is_indirect
from nki_lab.isa.matmul_rules import (
    ACCUMULATE_RULE,
    ROWS_RULE,
    TILING_RULES,
    indirect_whole_array,
    matmul_indirection,
)
from nki_lab.isa.microscaling import (
    GROUP_PARTITIONS,
    LANES,
    PACKED,
    SCALES,
    in_whole_quadrants,
    powers_of_two,
    scale_partitions,
    scales_fit,
    unpack,
    used_scales,
)
from nki_lab.isa.products import product
from nki_lab.isa.rules import same_partitions
from nki_lab.isa.systolic import array_passes, put_product
from nki_lab.targets.engines import TENSOR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF
from nki_lab.targets.spec import Target

_AS_STORED: dict[str, Any] = dict.fromkeys(
    ("stationary", "moving", "stationary_scale", "moving_scale")
)
# From this stored scale on, 57344 (the largest float8_e5m2) times the scale does not fit float32.
_HUGE = 239


@rule(
    "`tile_size` must have all 128 columns: nc_matmul_mx uses a part of the rows only",
    "tile_size",
    "tile_position",
    help="e.g. tile_position=(64, 0), tile_size=(64, 128)",
    source=f"{ISA}:737",
)
def _all_columns(i, hw):
    return not i.tile_size or i.tile_size[1] == hw.pe_columns


@rule(
    "the free size of `stationary` must be even and not exceed 128",
    "stationary",
    help="split `stationary` along its free axis, or pad it: each part gives other partitions of `dst`",
    source=f"{ISA}:781",
)
def _stationary_columns(i, hw):
    columns = i.stationary.free_size
    return columns % 2 == 0 and columns <= hw.matmul_stationary_free_max


@rule(
    "the free size of `moving` must not exceed 4096 into float32, 8192 into bfloat16",
    "moving",
    "dst",
    help="split `moving` along its free axis",
    source=f"{ISA}:782",
)
def _moving_columns(i, hw):
    into_wide = i.dst.dtype is float32
    most = hw.matmul_moving_free_max_fp32 if into_wide else hw.matmul_moving_free_max_bf16
    return i.moving.free_size <= most


@rule(
    "`dst` must have a partition for each element of `stationary` and an element for each of `moving`",
    "dst",
    "stationary",
    "moving",
    help="[K, M] and [K, N] give [M, N]; an element packs 4 values of the contracted axis",
    source=f"{ISA}:774",
)
def _result_shape(i, hw):
    return (i.dst.partitions, i.dst.free_size) == (i.stationary.free_size, i.moving.free_size)


def _used(i: Instruction, scale: NkiTensor) -> NkiTensor:
    return used_scales(scale, i.stationary.shape[0])


def _one_index(name: str) -> Rule:
    """Require that data and scales are gathered by one tile of offsets, or neither is."""

    def holds(i: Instruction, hw: Target) -> bool:
        pair = (getattr(i, name), getattr(i, f"{name}_scale"))
        if not any(map(is_indirect, pair)):
            return True
        return all(map(is_indirect, pair)) and (
            identity(pair[0].dynamic.index) == identity(pair[1].dynamic.index)
        )

    return rule(
        f"`{name}` and `{name}_scale` must both be indirect, by the same offsets, or neither",
        name,
        f"{name}_scale",
        help=f"write {name}.indirect(index) and {name}_scale.indirect(index) with one tile",
        source=f"{ISA}:796",
    )(holds)


@instruction(
    engine=(TENSOR,),
    dst=writes(
        PSUM,
        role=lambda i: WRITE if i.accumulate is False else UPDATE,
        shape=Shape.FLAT,
        dtypes=frozenset((float32, bfloat16)),
        indirect=True,
        axes=("M", "N"),
    ),
    stationary=reads(SBUF, shape=Shape.FLAT, dtypes=PACKED, indirect=True, axes=("K", "M")),
    moving=reads(SBUF, shape=Shape.FLAT, dtypes=PACKED, indirect=True, axes=("K", "N")),
    stationary_scale=reads(SBUF, shape=Shape.FLAT, dtypes=SCALES, part=_used, indirect=True),
    moving_scale=reads(SBUF, shape=Shape.FLAT, dtypes=SCALES, part=_used, indirect=True),
    rules=(
        ACCUMULATE_RULE,
        *TILING_RULES,
        _all_columns,
        same_partitions("stationary", "moving"),
        in_whole_quadrants("stationary", 779),
        ROWS_RULE,
        _stationary_columns,
        _moving_columns,
        _result_shape,
        *scales_fit("stationary_scale", "stationary"),
        *scales_fit("moving_scale", "moving"),
        indirect_whole_array(800),
        _one_index("stationary"),
        _one_index("moving"),
        *matmul_indirection(806),
    ),
    numerics=lambda i: _AS_STORED,
    requires=("matmul_mx",),
    in_place_safe=True,  # the inputs are in SBUF, and `dst` is read by the addition that writes `out`
    any_start=("stationary_scale", "moving_scale"),
    identities=True,
    order=Order.NONE,
)
def nc_matmul_mx(
    dst,
    stationary,
    moving,
    stationary_scale,
    moving_scale,
    tile_position=None,
    tile_size=None,
    accumulate=None,
    name=None,
) -> None:
    """Multiply block-scaled (MX) tiles, `stationary.T @ moving`, into PSUM.

    An element of `stationary` [K, M] and `moving` [K, N] packs 4 values of the contracted axis, so K partitions
    contract 4 K values: dst[m, n] is the sum over k and lanes of stationary[k, m] * moving[k, n], each times its
    scale. 8 partitions and 4 lanes share a scale, 2**(stored - 127), stored 255 being NaN. Scales lie as quantize_mx
    writes them: those of every 32 partitions in 4 partitions of the same 32, starting at partition 0, 4, 8 or 12.
    The two operands may have different dtypes. Products are summed as nc_matmul
    sums them.

    `accumulate` works as in nc_matmul. `tile_size` and `tile_position` use 32 or 64 of the rows, always with all 128
    columns. It takes the time of nc_matmul with bfloat16 tiles of the same shapes.

    NeuronCore-v4.

    Source: nki/api/nki/isa/__init__.py:714; nki/deep-dives/mxfp-matmul.rst;
    nki/guides/architecture/trainium3_arch.rst:72.
    """


@nc_matmul_mx.semantics
def _(
    out, dst, stationary, moving, stationary_scale, moving_scale, accumulate, written, dtypes
):  # fmt: skip
    scales = [_scales(stationary_scale, stationary), _scales(moving_scale, moving)]
    # Only scales no quantization gives need more range than float32 has before the product is made.
    compute = np.dtype(np.float64 if max(s.max() for s in scales) >= _HUGE else np.float32)
    left = _values(stationary, dtypes["stationary"], scales[0], compute, "stationary")
    right = _values(moving, dtypes["moving"], scales[1], compute, "moving")

    def multiply(into):
        product(left, right, into)

    put_product(out, dst, accumulate, written, multiply)


def _scales(scale: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return the stored scale of each group row and element of `words`."""
    return scale.view(np.uint8)[scale_partitions(len(words))]


def _values(
    words: np.ndarray, dtype: Any, scales: np.ndarray, compute: np.dtype, use: str
) -> np.ndarray:
    """Return the scaled values of packed `words` [K, F] as [4 K, F]."""
    k, f = words.shape
    values = scratch((k, LANES, f), compute, use)
    unpack(words, dtype, values)
    factors = powers_of_two(compute)[scales][:, None, None, :]
    groups = values.reshape(k // GROUP_PARTITIONS, GROUP_PARTITIONS, LANES, f)
    np.multiply(groups, factors, out=groups)
    return values.reshape(k * LANES, f)


@nc_matmul_mx.cost
def _(i, hw):
    scale_bytes = i.moving.partitions // GROUP_PARTITIONS * i.moving.free_size
    yield from array_passes(
        hw,
        i.stationary,
        i.dst,
        columns=i.stationary.free_size,
        stream=i.moving.free_size,
        depth=LANES * i.stationary.partitions,
        moving_bytes=i.moving.size * i.moving.dtype.itemsize + scale_bytes,
        full_float32=False,
    )
