"""Summarises many values in a few numbers: their range, and how many are NaN or infinite."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class ValueSummary(NamedTuple):
    """Facts about the values of an array.

    Attributes:
        size: how many there are.
        least, most: of the finite ones; None where there is none.
        nan, infinite: how many are NaN, and how many infinite.
    """

    size: int
    least: float | None
    most: float | None
    nan: int
    infinite: int

    @property
    def is_finite(self) -> bool:
        """True where every value is a finite number."""
        return not self.nan and not self.infinite


#: Values that are turned into float64 together: a tensor in HBM may have very many.
TOGETHER = 1 << 20


def as_numbers(values: np.ndarray) -> np.ndarray:
    """Return values as float64; those of integers up to 53 bits are exact."""
    with np.errstate(all="ignore"):
        return values.astype(np.float64)


def summarize(values: np.ndarray) -> ValueSummary:
    """Return the facts about an array of any dtype of the chip; of a large one part by part."""
    if values.size <= TOGETHER:
        return _summary(as_numbers(values))
    flat = values.reshape(-1)
    parts = [_summary(as_numbers(flat[k : k + TOGETHER])) for k in range(0, flat.size, TOGETHER)]
    ends = [(p.least, p.most) for p in parts if p.least is not None and p.most is not None]
    return ValueSummary(
        flat.size,
        min((least for least, _ in ends), default=None),
        max((most for _, most in ends), default=None),
        sum(p.nan for p in parts),
        sum(p.infinite for p in parts),
    )


def _summary(numbers: np.ndarray) -> ValueSummary:
    nan, infinite = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
    finite = numbers if not nan and not infinite else numbers[np.isfinite(numbers)]
    if not finite.size:
        return ValueSummary(numbers.size, None, None, nan, infinite)
    return ValueSummary(numbers.size, float(finite.min()), float(finite.max()), nan, infinite)


def number_text(value: float | None) -> str:
    """Return a value as a person reads it; the same on every machine."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e6:
        return f"{int(value):,}"
    return f"{value:.4g}"
