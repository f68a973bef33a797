"""Dtypes: what authors may write for one, and the dtype of a result (nki.api.shared.rst, type promotion)."""

from __future__ import annotations

import operator
from numbers import Integral, Real
from typing import Any

import numpy as np

from nki_lab.dtypes import DTYPES, DType, dtype_of, float32, int32, int64, uint8
from nki_lab.errors import WrongOperand

_ALIASES = {"bf16": "bfloat16", "bfp16": "bfloat16", "float8e4": "float8_e4m3", "float8e5": "float8_e5m2"}  # fmt: skip
_WIDE = {np.dtype(np.float64): float32, np.dtype(np.int64): int32}
#: The pairs that neither of the two holds.
_TOGETHER = {
    frozenset(pair): DTYPES[result]
    for pair, result in (
        (("float16", "bfloat16"), "float32"),
        (("float8_e4m3", "float8_e5m2"), "bfloat16"),
        (("float32", "tfloat32"), "float32"),
        (("int8", "uint8"), "int16"),
        (("int8", "uint16"), "int32"),
        (("int16", "uint16"), "int32"),
        (("int32", "uint32"), "float32"),
    )
}


def dtype_named(value: Any) -> DType:
    """Return the NKI dtype for what an author wrote: a dtype, its name, or one of NumPy or ml_dtypes."""
    dtype = dtype_of(value)
    if dtype is None and isinstance(value, str):
        dtype = DTYPES.get(_ALIASES.get(value, value))
    if dtype is None and not isinstance(value, str):
        try:
            dtype = _WIDE.get(np.dtype(value))
        except (TypeError, ValueError):
            dtype = None
    if dtype is None:
        raise WrongOperand(
            f"{value!r} is no dtype of nki.language", help="write nl.float32, or nl.bfloat16"
        )
    return dtype


def promoted(a: DType, b: DType) -> DType:
    """Return the dtype of a result of two operands."""
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    together = _TOGETHER.get(frozenset((a, b)))
    if together is not None:
        return together
    if a.itemsize != b.itemsize:
        wide, narrow = (a, b) if a.itemsize > b.itemsize else (b, a)
        if wide.kind != "uint" or narrow.kind != "int":
            return wide
        return int32 if wide.itemsize < 4 else float32
    return a if b.kind == "bool" else b


def number_dtype(value: Any) -> DType:
    """Return the dtype that a number counts as: that of a NumPy scalar, and the widest one for a number of Python."""
    if type(value) is float:
        return float32
    if isinstance(value, (bool, np.bool_)):
        return uint8
    given = dtype_of(value.dtype) if isinstance(value, np.generic) else None
    if given is not None and given is not int64:
        return given
    return int32 if isinstance(value, Integral) else float32


def number(value: Any) -> int | float:
    """Return a number of Python or NumPy as Python's."""
    if type(value) is float:
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, (bool, np.bool_, Integral)):
        if abs(int(value)) >> 64:
            raise WrongOperand(
                f"the number {value} has more than 64 bits", help="write a float, such as 1e30"
            )
        return int(value)
    if isinstance(value, Real):
        return float(value)
    help = "load tensors of HBM with nl.load"
    if hasattr(value, "coef"):
        help = "make a tile of the index tensor: nisa.iota(index, dtype=nl.int32)"
    elif isinstance(value, np.ndarray):
        help = "pass the array to the kernel and load it with nl.load, or write nl.shared_constant"
    raise WrongOperand(f"expected a tile or a number, found {found(value)}", help=help)


def found(value: Any) -> str:
    """Return what an error says about a value that is no tile and no number."""
    if hasattr(value, "coef"):
        return f"an index tensor of shape {list(value.shape)}"
    if hasattr(value, "on_chip"):
        return f"{value.describe()}, whose values are only known at run time"
    if isinstance(value, np.ndarray):
        return f"an array of shape {list(value.shape)}"
    return f"{type(value).__name__} {value!r}"


def integer(value: Any, what: str, help: str = "write an integer") -> int:
    """Return a value as an integer; an error that says `what` it is where it is none."""
    try:
        return operator.index(value)
    except TypeError:
        pass
    if isinstance(value, Real) and float(value).is_integer():
        return int(float(value))
    raise WrongOperand(f"{what} must be an integer, found {found(value)}", help=help)


def integers(value: Any, what: str, help: str = "write integers") -> tuple[int, ...]:
    """Return an integer, or a tuple or list of integers, as a tuple."""
    values = value if isinstance(value, (tuple, list)) else (value,)
    return tuple([integer(n, what, help) for n in values])


def free_axes(axis: Any, rank: int, function: str) -> list[int]:
    """Return the axes of a tile that a function names, in order; an error where the tile has none such."""
    axes = integers(
        axis, f"{function}: `axis`", "write the free axes, such as axis=1 or axis=[1, 2]"
    )
    for n in axes:
        if not -rank <= n < rank:
            raise WrongOperand(
                f"{function}: axis {n} of a tile with {rank} axes",
                help=f"free axes are 1 to {rank - 1}",
            )
    return sorted({n % rank for n in axes})
