"""Makes the array that `--input a=randn:128x512:bf16` stands for.

    NAME=KIND:SHAPE[:DTYPE]     a=randn:128x512:bf16     i=randint(0,9):64:int32     b=ones:8x8

Numbers are drawn by one seeded generator in the order the inputs are given, always within what the
dtype can hold, so that no cast changes them into something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import ml_dtypes
import numpy as np

from nki_lab.dtypes import DTYPES, DType, tfloat32
from nki_lab.errors import UnknownOption, close_matches

#: Short names beside those of nki.language.
SHORT_NAMES = {
    "bool": "bool_", "bf16": "bfloat16",
    "f16": "float16", "f32": "float32", "fp16": "float16", "fp32": "float32",
    "f8e4m3": "float8_e4m3", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
    "f8e8m0": "float8_e8m0fnu",
    "i8": "int8", "i16": "int16", "i32": "int32", "u8": "uint8", "u16": "uint16", "u32": "uint32",
}  # fmt: skip

# Arrays of these cannot be told from arrays of their storage type.
_NOT_ARRAYS = {name for name, d in DTYPES.items() if d.kind == "packed" or d is tfloat32}

#: Names of dtypes an input can have.
INPUT_DTYPES = tuple(name for name in DTYPES if name not in _NOT_ARRAYS)

_FORM = "NAME=KIND:SHAPE[:DTYPE], for example a=randn:128x512:bf16"
_ELEMENTS_MAX = 1 << 31
_AXES_MAX = 32  # NumPy makes arrays of at most 64
# Integers drawn without a range are at most this large, so that sums of a few stay exact in float32.
_LARGEST_DRAWN = 1000
_DEVIATION = 10.0


@dataclass(frozen=True)
class Numbers:
    """What the values of an input are drawn from: `kind`, with a range for randint."""

    kind: str
    low: int | None = None
    high: int | None = None


def read_input(text: str, rng: np.random.Generator) -> tuple[str, np.ndarray]:
    """Return the parameter and the array one --input stands for; UnknownOption if it cannot be read."""
    name, equals, spec = text.partition("=")
    parts = spec.split(":")
    if not equals or not name.isidentifier() or len(parts) not in (2, 3):
        raise UnknownOption(
            f"--input {text}: expected {_FORM}", help="for example --input a=randn:128x512:bf16"
        )
    numbers = _numbers(text, parts[0])
    shape = _shape(text, parts[1])
    dtype = _dtype(text, parts[2] if len(parts) == 3 else "float32")
    return name, make_array(numbers, shape, dtype, rng)


def make_array(
    numbers: Numbers, shape: tuple[int, ...], dtype: DType, rng: np.random.Generator
) -> np.ndarray:
    """Return an array of `dtype` with values that it holds exactly or rounds once."""
    low, high = _range(dtype)
    if numbers.low is not None and numbers.high is not None:
        if not low <= numbers.low <= numbers.high <= high:
            raise UnknownOption(
                f"--input: {dtype!s} holds integers from {low} to {high} exactly, not"
                f" {numbers.low} to {numbers.high}",
                help="draw from a smaller range, or take a larger dtype",
            )
        low, high = numbers.low, numbers.high
    elif numbers.kind in ("rand", "randint"):
        low, high = max(low, -_LARGEST_DRAWN), min(high, _LARGEST_DRAWN)
    values = _KINDS[numbers.kind](rng, shape, low, high, dtype)
    if dtype.kind == "scale":  # only powers of two exist
        values = 2.0 ** np.clip(np.rint(np.asarray(values, dtype=np.float64)), -8, 8)
    return values.astype(dtype.np)


def _range(dtype: DType) -> tuple[int, int]:
    """Return the integers from lowest to highest that the dtype holds without rounding."""
    if dtype.kind == "bool":
        return 0, 1
    if dtype.kind == "scale":
        return -8, 8
    if dtype.is_integer or dtype.kind == "wide":
        info = np.iinfo(dtype.np)
        return int(info.min), int(info.max)
    largest = 2 ** (ml_dtypes.finfo(dtype.np).nmant + 1)
    return -largest, largest


Kind = Callable[[np.random.Generator, tuple[int, ...], int, int, DType], np.ndarray]


def _randn(
    rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int, dtype: DType
) -> np.ndarray:
    values = rng.standard_normal(shape)
    if dtype.is_float:
        return values
    rounded = np.rint(values * _DEVIATION)
    return np.clip(rounded if low < 0 else np.abs(rounded), low, high)


def _rand(
    rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int, dtype: DType
) -> np.ndarray:
    return rng.random(shape) if dtype.is_float else _randint(rng, shape, low, high, dtype)


def _randint(
    rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int, dtype: DType
) -> np.ndarray:
    return rng.integers(low, high, shape, endpoint=True)


def _arange(
    rng: np.random.Generator, shape: tuple[int, ...], low: int, high: int, dtype: DType
) -> np.ndarray:
    numbers = np.arange(prod(shape))
    return (numbers % (high + 1) if high < numbers.size else numbers).reshape(shape)


_KINDS: dict[str, Kind] = {
    "randn": _randn,
    "rand": _rand,
    "randint": _randint,
    "arange": _arange,
    "ones": lambda rng, shape, low, high, dtype: np.ones(shape),
    "zeros": lambda rng, shape, low, high, dtype: np.zeros(shape),
}


def _numbers(text: str, kind: str) -> Numbers:
    drawn = re.fullmatch(r"randint\((-?\d+),\s*(-?\d+)\)", kind)
    if drawn:
        low, high = int(drawn[1]), int(drawn[2])
        if low > high:
            raise UnknownOption(
                f"--input {text}: {low} to {high} holds no integer; the smaller one comes first",
                help=f"write randint({high},{low})",
            )
        return Numbers("randint", low, high)
    if kind not in _KINDS:
        raise UnknownOption(
            f"--input {text}: `{kind}` is not one of {', '.join(_KINDS)}",
            notes=("randint(0,9) draws integers from 0 to 9",),
            help=close_matches(kind, _KINDS),
        )
    return Numbers(kind)


def _shape(text: str, shape: str) -> tuple[int, ...]:
    sizes = shape.split("x")
    if not all(re.fullmatch(r"[1-9]\d*", size) for size in sizes):
        raise UnknownOption(
            f"--input {text}: `{shape}` is not a shape", help="write sizes with x between: 128x512"
        )
    if len(sizes) > _AXES_MAX:
        raise UnknownOption(
            f"--input {text}: {len(sizes)} axes, at most {_AXES_MAX} are possible",
            help="join axes: multiply their sizes",
        )
    made = tuple(map(int, sizes))
    if prod(made) > _ELEMENTS_MAX:
        raise UnknownOption(
            f"--input {text}: more than {_ELEMENTS_MAX:,} elements", help="make the array smaller"
        )
    return made


def _dtype(text: str, name: str) -> DType:
    full = SHORT_NAMES.get(name, name)
    if full in _NOT_ARRAYS:
        raise UnknownOption(
            f"--input {text}: a NumPy array cannot carry the dtype {full}",
            help="give an array of its storage type, and view it as the dtype inside the kernel",
        )
    if full not in INPUT_DTYPES:
        raise UnknownOption(
            f"--input {text}: `{name}` is not a dtype; expected one of {', '.join(INPUT_DTYPES)}",
            help=close_matches(name, (*INPUT_DTYPES, *SHORT_NAMES)),
        )
    return DTYPES[full]
