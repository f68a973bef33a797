"""Decodes the bits of block-scaled values, by the OCP tables and without ml_dtypes."""

from __future__ import annotations

import math

import numpy as np

from tests.isa.case import Tile, View, tile


def _float(code: int, exponent_bits: int, mantissa_bits: int, bias: int) -> float:
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return sign * math.ldexp(mantissa, 1 - bias - mantissa_bits)
    return sign * math.ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)


E4M3FN = np.array([math.nan if c & 0x7F == 0x7F else _float(c, 4, 3, 7) for c in range(256)])
E5M2 = np.array(
    [
        _float(c, 5, 2, 15)
        if c & 0x7C != 0x7C
        else math.copysign(math.inf, 128 - c)
        if c & 3 == 0
        else math.nan
        for c in range(256)
    ]
)
E2M1FN = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
VALUES = {"float8_e4m3fn_x4": E4M3FN, "float8_e5m2_x4": E5M2, "float4_e2m1fn_x4": E2M1FN}


def codes(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return the code of the nearest value of each element, of an even code where two are as near."""
    table = VALUES[dtype]
    count = len(table) // 2
    magnitudes = table[:count]
    finite = int(np.isfinite(magnitudes).sum())
    flat = np.abs(values.astype(np.float64)).reshape(-1)
    upper = np.clip(np.searchsorted(magnitudes[:finite], flat), 1, finite - 1)
    below, above = flat - magnitudes[upper - 1], magnitudes[upper] - flat
    code = np.where((below < above) | ((below == above) & (upper % 2 == 1)), upper - 1, upper)
    return (code + count * np.signbit(values).reshape(-1)).reshape(values.shape)


def words(lanes: np.ndarray) -> np.ndarray:
    """Pack codes [P, F, 4], of 8 or 4 bits, into words [P, F], the first in the lowest bits."""
    bits = 8 if lanes.max() > 15 or lanes.dtype == np.uint8 else 4
    shifted = lanes.astype(np.uint64) << (np.arange(4, dtype=np.uint64) * np.uint64(bits))
    return shifted.sum(axis=-1).astype(np.uint32 if bits == 8 else np.uint16)


def packed(lanes: np.ndarray, dtype: str, view: View | None = None) -> Tile:
    """Make a tile of packed elements from codes [P, F, 4]."""
    wide = dtype != "float4_e2m1fn_x4"
    data = words(lanes.astype(np.uint8 if wide else np.uint16))
    return tile(data, view=lambda t: (view or (lambda v: v))(t.view(dtype)))


def spread(
    scales: np.ndarray, partitions: int, start: int = 0, before: np.ndarray | None = None
) -> np.ndarray:
    """Lay scales [P / 8, F] out over the quadrants of a tile of so many partitions, over what it held."""
    laid = np.zeros((partitions, scales.shape[1]), np.uint8) if before is None else before.copy()
    for g, row in enumerate(scales):
        laid[g // 4 * 32 + g % 4 + start, : len(row)] = row
    return laid
