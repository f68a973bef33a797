"""Casts values to the type that an instruction computes in, and back.

Engines compute arithmetic in float32 and round once on the write; bitvec operators see bit patterns; a few forms keep
integers exact (nki/api/nki.api.shared.rst, nki-aluop; nki/api/nki/isa/__init__.py). A definition says which with
`numerics=`; the machine asks `load_cast` and `store_cast` for the conversions. Callers hold
`np.errstate(all="ignore")`: an overflow to infinity is a result here, not an accident.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from nki_lab.dtypes import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    float16,
    float32,
    tfloat32,
)
from nki_lab.errors import NotModelled
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.arrays import scratch
from nki_lab.targets.engines import GPSIMD, Engine
from nki_lab.targets.spaces import PSUM

FLOAT32 = np.dtype(np.float32)
_BOOL = np.dtype(bool)
_UINT8, _UINT32 = np.dtype(np.uint8), np.dtype(np.uint32)
_INT64, _FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)


class _Bits:
    """The compute type of bitvec operators: the stored bytes as unsigned integers of the same width."""

    def __repr__(self) -> str:
        return "BITS"


BITS = _Bits()

Compute = Any  # a NumPy dtype, None (the array as stored) or BITS
Cast = Callable[[np.ndarray, np.ndarray], None]


def bits_of(dtype: DType) -> np.dtype:
    """Return the unsigned NumPy integer type with the width of `dtype`."""
    return np.dtype(f"u{dtype.itemsize}")


# -- which type: values for `numerics=` ---------------------------------------------------------------------------


def stored(*names: str) -> Callable[[Instruction], Mapping[str, Compute]]:
    """Compute `names` as they are stored, without any cast."""
    mapping = dict.fromkeys(names)
    return lambda i: mapping


# Pairs that np.copyto converts itself as the way through float32 would: floats of 16 and 32 bits, and anything to
# float32 but the 8-bit floats, for which a table is faster.
_WIDE_FLOATS = frozenset((float32, bfloat16, float16))


def _converts_directly(source: DType, dtype: DType) -> bool:
    if source in _WIDE_FLOATS or source is tfloat32:
        return dtype in _WIDE_FLOATS
    return dtype is float32 and source.kind in ("int", "uint", "bool")


def copy_exact(dst: str, src: str) -> Callable[[Instruction], Mapping[str, Compute]]:
    """Keep bits when both tensors have one dtype; convert values as through float32 otherwise.

    nki/api/nki/isa/__init__.py:395 (Vector, GpSimd), nki/guides/architecture/trainium2_arch.rst:245 (Scalar). The
    definition copies with `casting="unsafe"`.
    """
    as_stored: dict[str, Compute] = {dst: None, src: None}
    converted: dict[str, Compute] = {}

    def numerics(i: Instruction) -> Mapping[str, Compute]:
        source, target = getattr(i, src).dtype, getattr(i, dst).dtype
        same = source is target or _converts_directly(source, target)
        return as_stored if same else converted

    return numerics


def by_operator(op: str, *names: str) -> Callable[[Instruction], Mapping[str, Compute]]:
    """See bit patterns in `names` when parameter `op` is a bitvec operator; compute in float32 otherwise."""
    patterns: dict[str, Compute] = dict.fromkeys(names, BITS)
    values: dict[str, Compute] = {}
    return lambda i: patterns if getattr(i, op).is_bitvec else values


def exact_integers(i: Instruction, names: tuple[str, ...]) -> np.dtype | None:
    """Return the integer type GpSimd computes an all int32/uint32 element-wise form in, or None.

    nki/api/nki/isa/__init__.py:1034: int32 and uint32 tiles run on GpSimd with native integer arithmetic, unless
    an operand is in PSUM or `engine` names another one. Mixed signs are computed in 64 bits and keep the low 32.
    """
    tensors = _tensors(i, names)
    if any(t.dtype not in ("int32", "uint32") or t.buffer is PSUM for t in tensors):
        return None
    if i.engine not in (GPSIMD, Engine.unknown):
        return None
    kinds = {t.dtype.np for t in tensors}
    return kinds.pop() if len(kinds) == 1 else _INT64


def _tensors(i: Instruction, names: tuple[str, ...]) -> list[NkiTensor]:
    values = (getattr(i, n) for n in names)
    return [v for v in values if type(v) is NkiTensor]


# -- loading ---------------------------------------------------------------------------


def load_cast(dtype: DType, compute: Compute) -> Cast | None:
    """Return `cast(source, out)` that turns stored values of `dtype` into `compute`; None: use the array.

    With BITS the machine passes the bytes as `bits_of(dtype)`, so nothing is left to cast.
    """
    if compute is None or compute is BITS or np.dtype(compute) == dtype.np:
        return None
    _refuse_packed(dtype)
    if dtype.itemsize == 1 and dtype.kind in ("float", "scale") and compute == FLOAT32:
        return _table_load(dtype)
    return _copy


def _copy(source: np.ndarray, out: np.ndarray) -> None:
    np.copyto(out, source, casting="unsafe")


@cache
def _table_load(dtype: DType) -> Cast:
    # A table of 256 values: seven times faster than the conversion of ml_dtypes.
    table = np.arange(256, dtype=np.uint8).view(dtype.np).astype(np.float32)

    def load(source: np.ndarray, out: np.ndarray) -> None:
        table.take(source.view(_UINT8), out=out, mode="clip")

    return load


# -- storing ---------------------------------------------------------------------------


def store_cast(compute: Compute, dtype: DType) -> Cast | None:
    """Return `cast(result, destination)` that rounds `compute` to stored `dtype`; None: write it directly.

    From float32, each in one rounding to nearest, ties to even:
      integers saturate to their range (release-notes/components/nki.rst:71); NaN, of which no page speaks, is 0;
      bfloat16, float16, float8_e4m3 and float8_e5m2 overflow to infinity and float8_e4m3fn, which has none, to NaN:
        the rule of ml_dtypes, in which the official simulator stores them (nki/guides/nki_simulator.rst:124); the
        pages state no saturation, and public kernels clip to the largest value before they cast;
      tfloat32 keeps 10 mantissa bits; bool_ is whether the value is not zero.
    From integers, a narrower integer type saturates; 64 bits hold the wrapped result of 32-bit arithmetic.
    """
    if compute is None or compute is BITS:
        return None
    compute = np.dtype(compute)
    if dtype is tfloat32:
        return _store_tfloat32 if compute == FLOAT32 else _copy
    if compute == dtype.np:
        return None
    _refuse_packed(dtype)
    if compute.kind == "f":
        return _float_store(dtype)
    if compute != _INT64 and dtype.is_integer:
        return _integer_store(compute, dtype)
    return _copy


def _refuse_packed(dtype: DType) -> None:
    if dtype.kind == "packed":
        raise NotModelled(
            f"{dtype} packs four values in one element and has no conversion to a number",
            help="use a dtype of one value, or view the tile as one",
        )


@cache
def _float_store(dtype: DType) -> Cast:
    if dtype.is_integer:
        return _saturating_store(dtype)
    if dtype.itemsize == 1 and dtype is not float8_e8m0fnu and dtype is not bool_:
        return _table_store(dtype)
    return _copy


def _saturating_store(dtype: DType) -> Cast:
    info = np.iinfo(dtype.np)
    # float32 holds the limits of 8 and 16 bits exactly; 2**31 - 1 needs float64.
    work = FLOAT32 if dtype.itemsize < 4 else _FLOAT64
    low, high = work.type(info.min), work.type(info.max)

    def store(source: np.ndarray, out: np.ndarray) -> None:
        rounded = scratch(source.shape, work, "store")
        np.rint(source, out=rounded)
        lost = np.isnan(rounded, out=scratch(source.shape, _BOOL, "store"))
        np.clip(rounded, low, high, out=rounded)
        np.copyto(rounded, 0, where=lost)
        np.copyto(out, rounded, casting="unsafe")

    return store


@cache
def _integer_store(compute: np.dtype, dtype: DType) -> Cast:
    source_info, info = np.iinfo(compute), np.iinfo(dtype.np)
    low, high = max(source_info.min, info.min), min(source_info.max, info.max)

    def store(source: np.ndarray, out: np.ndarray) -> None:
        limited = np.clip(source, low, high, out=scratch(source.shape, compute, "store"))
        np.copyto(out, limited, casting="unsafe")

    return store


@cache
def _table_store(dtype: DType) -> Cast:
    # The upper half of a float32 with its last bit set when anything below is lost ("sticky") rounds to 8 bits as
    # the whole float32 does: at least two bits more than any kept mantissa remain. So a table of 65,536 entries is
    # exact, and several times faster than the conversion of ml_dtypes.
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    with np.errstate(all="ignore"):
        table = upper.view(np.float32).astype(dtype.np).view(np.uint8)

    def store(source: np.ndarray, out: np.ndarray) -> None:
        pattern = source.view(_UINT32)
        index = scratch(source.shape, _UINT32, "store1")
        lost = scratch(source.shape, _UINT32, "store2")
        np.bitwise_and(pattern, 0xFFFF, out=lost)
        np.minimum(lost, 1, out=lost)
        np.right_shift(pattern, 16, out=index)
        np.bitwise_or(index, lost, out=index)
        table.take(index, out=out.view(_UINT8), mode="clip")

    return store


#: The patterns of 8-bit floats without their sign from which on a value is infinite or NaN.
_NOT_FINITE = {float8_e4m3: 0x78, float8_e4m3fn: 0x7F, float8_e5m2: 0x7C}


def overflows(dtype: DType) -> Callable[[np.ndarray, np.ndarray], int] | None:
    """Return `count(result, stored)` of the finite float32 values that an 8-bit float cannot hold; None for others."""
    first = _NOT_FINITE.get(dtype)
    if first is None:
        return None

    def count(result: np.ndarray, stored: np.ndarray) -> int:
        pattern = scratch(result.shape, _UINT8, "overflows")
        np.bitwise_and(stored.view(_UINT8), 0x7F, out=pattern)
        if int(pattern.max()) < first:
            return 0
        return int(np.count_nonzero((pattern >= first) & np.isfinite(result)))

    return count


def _store_tfloat32(source: np.ndarray, out: np.ndarray) -> None:
    # Round to nearest even at bit 13 by adding half minus one plus the last kept bit. NaN and infinity, whose
    # exponent is all ones, are copied: the carry would turn a NaN into something else.
    pattern = source.view(_UINT32)
    rounded = scratch(source.shape, _UINT32, "store1")
    np.right_shift(pattern, 13, out=rounded)
    np.bitwise_and(rounded, 1, out=rounded)
    np.add(rounded, 0xFFF, out=rounded)
    np.add(rounded, pattern, out=rounded)
    np.bitwise_and(rounded, 0xFFFFE000, out=rounded)
    special = scratch(source.shape, _UINT32, "store2")
    np.bitwise_and(pattern, 0x7F800000, out=special)
    finite = np.not_equal(special, 0x7F800000, out=scratch(source.shape, _BOOL, "store"))
    np.copyto(out, source)
    np.copyto(out.view(_UINT32), rounded, where=finite)
