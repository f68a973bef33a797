"""The NumPy types of NKI's dtypes on the host, and casts of arrays between them.

Stands in for the unpublished package `neuron_dtypes`. The packed x4 types are records of one unsigned field with the
NKI name, as kernels of nki_lab take them; NumPy has no type of its own for them.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from nki_lab.dtypes import DTYPES, dtype_of

float16, float32 = np.float16, np.float32
bfloat16 = ml_dtypes.bfloat16
float8_e4m3, float8_e4m3fn = ml_dtypes.float8_e4m3, ml_dtypes.float8_e4m3fn
float8_e5m2 = ml_dtypes.float8_e5m2

float8_e4m3fn_x4 = DTYPES["float8_e4m3fn_x4"].host
float8_e5m2_x4 = DTYPES["float8_e5m2_x4"].host
float4_e2m1fn_x4 = DTYPES["float4_e2m1fn_x4"].host
# As ml_dtypes does for its types: `np.dtype("float8_e4m3fn_x4")` and `astype` find them by name.
np.sctypeDict.update({str(d): d.host for d in DTYPES.values() if d.kind == "packed"})


def static_cast(x: Any, dtype: Any = None) -> np.ndarray:
    """Return `x` in another type, NumPy's or NKI's; four numbers of the last axis are one x4 element."""
    x = np.asarray(x)
    wanted = dtype_of(dtype)
    if x.dtype.names:
        if wanted is dtype_of(x.dtype):
            return x
        x = unpack(x)
    if wanted is not None and wanted.kind == "packed":
        return pack(x, wanted)
    return x.astype(wanted.np if wanted is not None else dtype)


def pack(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Round numbers to the lanes of a packed type, lowest bits first."""
    lanes = x.astype(np.float32).astype(dtype.lane.np).view(np.uint8).astype(dtype.np)
    lanes = lanes.reshape(*x.shape[:-1], -1, dtype.lanes)
    bits = 8 * dtype.itemsize // dtype.lanes
    packed = np.zeros(lanes.shape[:-1], dtype.np)
    for lane in range(dtype.lanes):
        packed |= lanes[..., lane] << dtype.np.type(bits * lane)
    return packed.view(dtype.host)


def unpack(x: np.ndarray) -> np.ndarray:
    """Return the numbers in a packed array as float32, four times as long in the last axis."""
    dtype = DTYPES[x.dtype.names[0]]
    bits = 8 * dtype.itemsize // dtype.lanes
    words = np.ascontiguousarray(x).view(dtype.np)
    lanes = [(words >> (bits * lane)) & (2**bits - 1) for lane in range(dtype.lanes)]
    codes = np.stack(lanes, axis=-1).astype(np.uint8).view(dtype.lane.np)
    return codes.astype(np.float32).reshape(*x.shape[:-1], -1)


def sizeinbytes(dtype: Any) -> int:
    """Return the bytes of one element."""
    return np.dtype(dtype).itemsize


def finfo(dtype: Any) -> ml_dtypes.finfo:
    """Return the limits of a floating-point type."""
    return ml_dtypes.finfo(dtype)


def is_float_type(dtype: Any) -> bool:
    """Tell whether a type is one of floating-point numbers."""
    found = dtype_of(dtype)
    return np.dtype(dtype).kind == "f" if found is None else found.is_float
