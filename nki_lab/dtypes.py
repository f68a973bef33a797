"""The element types of NKI, and how they are stored and rounded."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


class DType(str):
    """An element type: its NKI name, with the facts about it as attributes.

    The official API says `DType = str`, and kernels compare, hash and print dtypes as strings, so
    this is one.

    Attributes:
        np: the NumPy dtype whose bytes hold one element.
        host: the NumPy dtype of an array that is an argument of this type: `np`, and for the packed types, which
            NumPy has no dtype for, a record of one such field with the NKI name.
        itemsize: bytes of one element.
        kind: "float", "int", "uint", "bool", "scale" (float8_e8m0fnu), "packed" (four elements
            in one) or "wide" (int64, which only scalars compute with).
        lanes: elements packed in one storage element (4 for the x4 types, else 1).
    """

    __slots__ = ("np", "host", "itemsize", "kind", "lanes", "lane")
    host: np.dtype[Any]
    np: np.dtype[Any]
    itemsize: int
    kind: str
    lanes: int
    lane: DType | None

    @property
    def is_float(self) -> bool:
        """True for a floating-point type that the engines compute with."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers."""
        return self.kind in ("int", "uint")

    def __repr__(self) -> str:
        return f"nl.{self!s}"

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype_of, (str(self),)


DTYPES: dict[str, DType] = {}


def _define(name: str, storage: Any, kind: str, lanes: int = 1, lane: DType | None = None) -> DType:
    dtype = DType(name)
    dtype.np = np.dtype(storage)
    dtype.itemsize = dtype.np.itemsize
    dtype.host = np.dtype([(name, storage)]) if kind == "packed" else dtype.np
    dtype.kind = kind
    dtype.lanes = lanes
    dtype.lane = lane
    DTYPES[name] = dtype
    return dtype


# Names: nki/api/nki/language/__init__.py (NKI 0.6.0).
bool_ = _define("bool_", np.bool_, "bool")
int8 = _define("int8", np.int8, "int")
int16 = _define("int16", np.int16, "int")
int32 = _define("int32", np.int32, "int")
# Of scalars only (NKI 0.7): it can be moved, and loaded into an NkiScalar; no engine computes with it
# (nki/api/generated/nki.isa.scalar_load.html).
int64 = _define("int64", np.int64, "wide")
uint8 = _define("uint8", np.uint8, "uint")
uint16 = _define("uint16", np.uint16, "uint")
uint32 = _define("uint32", np.uint32, "uint")
float16 = _define("float16", np.float16, "float")
float32 = _define("float32", np.float32, "float")
bfloat16 = _define("bfloat16", ml_dtypes.bfloat16, "float")
# tfloat32 occupies four bytes; the machine rounds what it writes to 10 mantissa bits.
tfloat32 = _define("tfloat32", np.float32, "float")
float8_e4m3 = _define("float8_e4m3", ml_dtypes.float8_e4m3, "float")
float8_e4m3fn = _define("float8_e4m3fn", ml_dtypes.float8_e4m3fn, "float")
float8_e5m2 = _define("float8_e5m2", ml_dtypes.float8_e5m2, "float")
float8_e8m0fnu = _define("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu, "scale")
_float4_e2m1fn = DType("float4_e2m1fn")
_float4_e2m1fn.np = _float4_e2m1fn.host = np.dtype(ml_dtypes.float4_e2m1fn)
_float4_e2m1fn.itemsize, _float4_e2m1fn.kind = 1, "float"
_float4_e2m1fn.lanes, _float4_e2m1fn.lane = 1, None
# Packed types for nki.isa.nc_matmul_mx: four lanes in one storage element.
float8_e5m2_x4 = _define("float8_e5m2_x4", np.uint32, "packed", 4, float8_e5m2)
float8_e4m3fn_x4 = _define("float8_e4m3fn_x4", np.uint32, "packed", 4, float8_e4m3fn)
float4_e2m1fn_x4 = _define("float4_e2m1fn_x4", np.uint16, "packed", 4, _float4_e2m1fn)

# NumPy dtypes that a kernel argument may have, and the NKI type each one becomes.
_FROM_NUMPY = {d.host: d for d in DTYPES.values() if d is not tfloat32}


def dtype_of(value: Any) -> DType | None:
    """Return the NKI dtype for a DType, NKI name or NumPy dtype; None if NKI has no such type."""
    if type(value) is DType:
        return value
    if isinstance(value, str):
        return DTYPES.get("bool_" if value == "bool" else value)
    try:
        return _FROM_NUMPY.get(np.dtype(value))
    except (TypeError, ValueError):  # NumPy looks at the attribute `dtype` of what it does not know
        return None
