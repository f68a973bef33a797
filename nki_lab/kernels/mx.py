"""Block-scaled (MX) numbers on the host: 32 numbers that follow each other along the depth share a scale, 2 ** e.

The data of x [rows, depth] are [depth / 4, rows], four numbers of the depth packed in one element, the first in the
lowest bits; the scales are [depth / 32, rows], e + 127 as uint8.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from nki_lab.dtypes import DType, dtype_of, float4_e2m1fn_x4, float8_e4m3fn_x4, float8_e5m2_x4
from nki_lab.errors import UsageError

#: Numbers with one scale, and numbers in one element.
GROUP, LANES = 32, 4
_BIAS = 127
_NAN = 255  # the scale that is no power of 2
# The exponent that the largest number of a group gets: that of the format for 4 bits, as in OCP's algorithm, and one
# less for 8 bits, as the chip does it, so that nothing is cut (nki/deep-dives/mxfp-matmul.rst).
_EXPONENTS: dict[DType, int] = {float8_e4m3fn_x4: 7, float8_e5m2_x4: 14, float4_e2m1fn_x4: 2}


def packed_dtype(dtype: Any) -> DType:
    """Return the packed dtype for one of its numbers or itself; UsageError where there is none."""
    name = str(dtype_of(dtype) or dtype)
    packed = dtype_of(name if name.endswith("_x4") else f"{name}_x4")
    if packed not in _EXPONENTS:
        raise UsageError(
            f"{name} is no type of block-scaled numbers", help=f"give {', '.join(_EXPONENTS)}"
        )
    return packed


def quantised(x: np.ndarray, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return data and scales of x [rows, depth], the depth a multiple of 32; `dtype` is float8_e4m3fn_x4 or so."""
    packed = packed_dtype(dtype)
    assert packed.lane is not None
    rows, depth = x.shape
    groups = x.astype(np.float64).reshape((rows, depth // GROUP, GROUP))
    largest = np.abs(groups).max(axis=2)
    # Infinity and NaN count as 2 ** 128, as in the exponent of a float.
    highest = np.where(np.isfinite(largest), np.frexp(largest)[1] - 1, _BIAS + 1)
    exponents = np.where(largest == 0, -_BIAS, highest - _EXPONENTS[packed])
    exponents = np.clip(exponents, -_BIAS, _BIAS)
    most = float(ml_dtypes.finfo(packed.lane.np).max)
    codes = np.clip(np.ldexp(groups, -exponents[:, :, None]), -most, most).astype(packed.lane.np)
    lanes = codes.view(np.uint8).reshape((rows, depth // LANES, LANES)).astype(packed.np)
    bits = 8 * packed.itemsize // LANES
    words = sum(lanes[:, :, lane] << packed.np.type(bits * lane) for lane in range(LANES))
    data = np.ascontiguousarray(np.asarray(words, packed.np).T).view(packed.host)
    return data, np.ascontiguousarray((exponents + _BIAS).astype(np.uint8).T)


def numbers(data: np.ndarray, scales: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Return the numbers [rows, depth] that data and scales stand for, in float64; `dtype` is that of plain words."""
    packed = packed_dtype(dtype or dtype_of(data.dtype))
    assert packed.lane is not None
    bits = 8 * packed.itemsize // LANES
    words = np.ascontiguousarray(data).view(packed.np).T
    codes = np.stack([words >> packed.np.type(bits * lane) for lane in range(LANES)], axis=2)
    codes = (codes & packed.np.type((1 << bits) - 1)).astype(np.uint8)
    values = codes.view(packed.lane.np).astype(np.float64).reshape((words.shape[0], -1, GROUP))
    powers = scales.T.astype(np.int64)[:, :, None]
    scaled = np.where(powers == _NAN, np.nan, np.ldexp(values, powers - _BIAS))
    return scaled.reshape((words.shape[0], -1))
