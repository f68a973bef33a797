"""The layout of block-scaled (MX) values in memory: four to an element, with scales spread over quadrants.

A group of 32 values, 8 partitions by the 4 lanes of an element, shares one scale, a power of two. The scales of 32
partitions fill 4 partitions of the same quadrant, so 28 are left for other tensors
(nki/guides/architecture/trainium3_arch.rst:103, nki/deep-dives/mxfp-matmul.rst).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from nki_lab.dtypes import (
    DType,
    float4_e2m1fn_x4,
    float8_e4m3fn_x4,
    float8_e5m2_x4,
    float8_e8m0fnu,
    uint8,
)
from nki_lab.ir.definition.instruction import Instruction, Rule, rule
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.arrays import scratch
from nki_lab.targets.facts import ISA

LANES = 4
GROUP_PARTITIONS = 8
QUADRANT = 32
#: Partitions of one quadrant that hold its scales.
SCALE_PARTITIONS = QUADRANT // GROUP_PARTITIONS
EIGHT_BITS = frozenset((float8_e5m2_x4, float8_e4m3fn_x4))
PACKED = EIGHT_BITS | {float4_e2m1fn_x4}
SCALES = frozenset((float8_e8m0fnu, uint8))
#: The exponent 2**0 as it is stored.
BIAS = 127
_UINT8 = np.dtype(np.uint8)
_GUIDE = "nki/deep-dives/mxfp-matmul.rst"


# -- scales -------------------------------------------------------------------------------------------


def scale_partitions(partitions: int) -> list[int]:
    """Return which partitions of a scale tile belong to the groups of `partitions` of data, in their order."""
    return [q + k for q in range(0, partitions, QUADRANT) for k in range(SCALE_PARTITIONS)]


def used_scales(scale: NkiTensor, partitions: int) -> NkiTensor:
    """Return the part of a scale tile that goes with `partitions` of data, as a view."""
    shape = (partitions // QUADRANT, SCALE_PARTITIONS, *scale.shape[1:])
    step = scale.storage.row_bytes // scale.dtype.itemsize
    strides = (QUADRANT * step, step, *scale.strides[1:])
    return NkiTensor._make(scale.storage, shape, strides, scale.offset, scale.dtype)


@cache
def powers_of_two(kind: np.dtype) -> np.ndarray:
    """Return the value of each of the 256 stored scales; 255 is NaN."""
    table = np.full(256, np.nan, kind)
    table[:255] = np.ldexp(kind.type(1), np.arange(255) - BIAS)
    table.setflags(write=False)
    return table


# -- lanes --------------------------------------------------------------------------------------------


@cache
def _lane_values(lane: DType, kind: np.dtype) -> np.ndarray:
    """Return the values of all patterns of a lane."""
    bits = 4 if lane == "float4_e2m1fn" else 8
    return np.arange(1 << bits, dtype=np.uint8).view(lane.np).astype(kind)


def unpack(words: np.ndarray, dtype: DType, out: np.ndarray) -> None:
    """Write the values of the lanes of `words` [P, F] to `out` [P, 4, F].

    Lane 0 is in the lowest bits (nki/deep-dives/src/mxfp-matmul/mx_cpu_utils.py:318).
    """
    assert dtype.lane is not None
    pattern = scratch(out.shape, _UINT8, "lanes")
    stored = np.ascontiguousarray(words).view(_UINT8).reshape(*words.shape, dtype.itemsize)
    if dtype.itemsize == LANES:
        np.copyto(pattern, stored.transpose(0, 2, 1))
    else:
        for byte in range(dtype.itemsize):
            np.bitwise_and(stored[:, :, byte], 0xF, out=pattern[:, 2 * byte])
            np.right_shift(stored[:, :, byte], 4, out=pattern[:, 2 * byte + 1])
    _lane_values(dtype.lane, out.dtype).take(pattern, out=out, mode="clip")


# -- rules --------------------------------------------------------------------------------------------


def in_whole_quadrants(name: str, line: int) -> Rule:
    """Require 32, 64, 96 or 128 partitions."""
    return rule(
        f"`{name}` must have a multiple of 32 partitions",
        name,
        help="pad the tile with zeros",
        source=f"{ISA}:{line}",
    )(lambda i, hw: getattr(i, name).shape[0] % QUADRANT == 0)


def scales_fit(scale: str, data: str, source: str = "") -> tuple[Rule, ...]:
    """Require that tile `scale` can hold one scale per 8 partitions and element of packed tile `data`.

    Scales lie in the quadrant of `source`, the tile the groups come from; by default that is `data`.
    """
    near = source or data

    def elements(i: Instruction, hw: object) -> bool:
        return getattr(i, scale).free_size == getattr(i, data).free_size

    def partitions(i: Instruction, hw: object) -> bool:
        scale_rows, rows = getattr(i, scale).shape[0], getattr(i, data).shape[0]
        return rows % QUADRANT != 0 or scale_rows > scale_partitions(rows)[-1]

    def adjacent(i: Instruction, hw: object) -> bool:
        t = getattr(i, scale)
        return t.strides[0] * t.dtype.itemsize == t.storage.row_bytes

    def place(i: Instruction, hw: object) -> bool:
        first = _first_partition(getattr(i, scale)) - _first_partition(getattr(i, near))
        return 0 <= first < 4 * SCALE_PARTITIONS and first % SCALE_PARTITIONS == 0

    return (
        rule(
            f"`{scale}` must have as many elements per partition as `{data}`",
            scale,
            data,
            help="4 packed values share a scale",
            source=_GUIDE,
        )(elements),
        rule(
            f"`{scale}` must have 4 partitions for the first 32 of `{data}`, and 32 more for each further 32",
            scale,
            data,
            help=f"give it as many partitions as `{data}`, or 4 if that has 32",
            source=_GUIDE,
        )(partitions),
        rule(
            f"`{scale}` must be on adjacent partitions",
            scale,
            help="slice axis 0 without a step; the instruction skips partitions itself",
            source=_GUIDE,
        )(adjacent),
        rule(
            f"`{scale}` must start 0, 4, 8 or 12 partitions after `{near}`, in the same quadrant",
            scale,
            near,
            help="up to four tensors share a tile of scales: scales[0:], scales[4:], scales[8:], scales[12:]",
            source=_GUIDE,
        )(place),
    )


def _first_partition(t: NkiTensor) -> int:
    address = t.storage.address
    return t.start_partition + (address.partition if address else 0)
