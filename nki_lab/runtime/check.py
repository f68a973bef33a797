"""Compares a result with what it should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lab.dtypes import dtype_of
from nki_lab.errors import CheckFailed, UsageError
from nki_lab.runtime.arrays import is_foreign_array, to_numpy
from nki_lab.views.difference import Difference

# Relative tolerance by dtype: a few units in the last place of the narrowest type involved, and room for another
# order of summation in float32. Integers must be equal.
_RELATIVE = {
    "float32": 1e-5, "tfloat32": 2e-3, "bfloat16": 2e-2, "float16": 2e-3,
    "float8_e4m3": 0.13, "float8_e4m3fn": 0.13, "float8_e5m2": 0.26,
}  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """How far a result is from its reference.

    Attributes:
        ok: every element is within the tolerance.
        max_abs_error: largest absolute difference of finite elements.
        max_rel_error: largest difference relative to the reference, where that is not zero.
        worst: index of the element furthest outside its tolerance.
        found, expected: the values there.
        rtol, atol: tolerance: |found - expected| <= atol + rtol * |expected|.
        outside: number of elements outside it, of `size`.
    """

    ok: bool
    max_abs_error: float
    max_rel_error: float
    worst: tuple[int, ...]
    found: float
    expected: float
    rtol: float
    atol: float
    outside: int
    size: int

    def summary(self) -> str:
        """Return the comparison as one line."""
        errors = f"max abs error {self.max_abs_error:.3g}, max rel error {self.max_rel_error:.3g}"
        if not self.ok and not np.isfinite(self.found - self.expected):
            errors = f"NaN or infinite values differ; {errors} where both are finite"
        text = f"{errors} (rtol {self.rtol:g}, atol {self.atol:.3g})"
        if self.ok:
            return "matches: " + text
        return (
            f"differs in {self.outside} of {self.size} elements: {text}; worst at {list(self.worst)}:"
            f" found {self.found:.6g}, expected {self.expected:.6g}"
        )


def compare_arrays(
    found: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None
) -> Comparison:
    """Compare a result with a reference, with a tolerance that follows from the result's dtype.

    NaN and infinities must stand at the same places. Raises CheckFailed when the shapes differ, and UsageError when
    both are the same array, which would compare a result with itself.
    """
    result, reference = _array("result", found), _array("reference", expected)
    if found is expected or (
        reference.dtype == result.dtype and result.size and np.shares_memory(result, reference)
    ):
        raise UsageError(
            "the result is compared with itself",
            help="compute the reference from the inputs with NumPy",
        )
    if result.shape != reference.shape:
        raise CheckFailed(
            f"the result has shape {list(result.shape)}, the reference {list(reference.shape)}",
            help="transpose or reshape the reference, or look at the layout of the result",
        )
    rtol, atol = _tolerance(result, reference, rtol, atol)
    a, b = result.astype(np.float64), reference.astype(np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(a - b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        excess = difference - (atol + rtol * np.abs(b))
        wrong = outside(a, b, rtol, atol)
        finite = np.isfinite(difference)
        relative = np.where((b != 0) & finite & ~same, difference / np.abs(b), 0.0)
        rank = np.where(wrong, np.where(np.isfinite(excess), excess, np.inf), -np.inf)
    where = np.unravel_index(int(np.argmax(rank)), a.shape) if a.size else ()
    worst = tuple(int(n) for n in where)
    return Comparison(
        ok=not wrong.any(),
        max_abs_error=float(np.max(difference[finite], initial=0.0)),
        max_rel_error=float(np.max(relative, initial=0.0)),
        worst=worst,
        found=float(a[worst]) if a.size else 0.0,
        expected=float(b[worst]) if a.size else 0.0,
        rtol=rtol,
        atol=atol,
        outside=int(np.count_nonzero(wrong)),
        size=a.size,
    )


def outside(found: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """Return which elements are further apart than the tolerance; equal NaN and infinities are not."""
    a, b = found.astype(np.float64), expected.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return ~same & ~(np.abs(a - b) <= atol + rtol * np.abs(b))  # type: ignore[no-any-return]


def difference_of(name: str, found: Any, expected: Any, comparison: Comparison) -> Difference:
    """Return where a result differs from its reference, to be shown."""
    a, b = _array("result", found), _array("reference", expected)
    return Difference(name, a, b, outside(a, b, comparison.rtol, comparison.atol))


def relative_tolerance(*dtypes: Any) -> float:
    """Return the relative tolerance of results that numbers of these dtypes went into: that of the narrowest."""
    nki_dtypes = (dtype_of(dtype) for dtype in dtypes)
    return max((_RELATIVE.get(str(d), 0.0) for d in nki_dtypes if d is not None), default=0.0)


def _array(what: str, value: Any) -> np.ndarray:
    try:
        # asarray also of arrays: a masked array or a matrix means other things by the same operators.
        array = np.asarray(to_numpy(what, value) if is_foreign_array(value) else value)
    except ValueError as error:  # rows of different lengths
        raise UsageError(
            f"the {what} is not an array of numbers: {error}", help="give rows of one length"
        ) from None
    if array.dtype.kind == "c":
        raise UsageError(
            f"the {what} is complex, a kernel's results are real",
            help="compare the real part: reference.real",
        )
    if array.dtype.kind in "OUSMm":
        raise UsageError(
            f"the {what} is not an array of numbers but {type(value).__name__}",
            help="a kernel with several results returns them in a tuple or dict: compare each of them",
        )
    return array


def _tolerance(
    result: np.ndarray, reference: np.ndarray, rtol: float | None, atol: float | None
) -> tuple[float, float]:
    if rtol is None:
        rtol = relative_tolerance(result.dtype, reference.dtype)
        dtype = dtype_of(result.dtype)
        if dtype is None or not dtype.is_float:
            rtol = 0.0
    if atol is None:
        # Sums of products cancel: what is small beside the typical magnitude cannot be exact relative to itself.
        finite = np.abs(reference.astype(np.float64))
        finite = finite[np.isfinite(finite)]
        atol = rtol * float(finite.mean()) if finite.size else 0.0
    return rtol, atol
