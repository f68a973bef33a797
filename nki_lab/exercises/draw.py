"""Draws the numbers that a kernel is tried with.

Numbers of both signs, of no symmetric pattern, large and small: what is right for positive numbers alone shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nki_lab.dtypes import DTYPES


class Draw:
    """Draws arrays: `draw(128, 512)` has standard normal numbers in float32.

    Args:
        seed: None draws others each time.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.numbers = np.random.default_rng(seed)

    def __call__(
        self, *shape: int, dtype: str = "float32", scale: float = 1.0, shift: float = 0.0
    ) -> np.ndarray:
        """Return normal numbers times `scale` plus `shift`, both signs where the shift is small."""
        values = self.numbers.standard_normal(shape) * scale + shift
        return values.astype(DTYPES[dtype].np)

    def wide(self, *shape: int, dtype: str = "float32", decades: float = 3.0) -> np.ndarray:
        """Return numbers of both signs whose magnitudes spread over 10 ** +-decades."""
        sign = self.numbers.choice([-1.0, 1.0], shape)
        values = sign * 10.0 ** self.numbers.uniform(-decades, decades, shape)
        return values.astype(DTYPES[dtype].np)

    def integers(self, *shape: int, low: int, high: int, dtype: str = "int32") -> np.ndarray:
        """Return integers from `low` up to, not including, `high`."""
        return self.numbers.integers(low, high, shape).astype(DTYPES[dtype].np)

    def permutation(self, count: int, dtype: str = "int32") -> np.ndarray:
        """Return 0 to count - 1 in another order."""
        return self.numbers.permutation(count).astype(DTYPES[dtype].np)

    def sizes(
        self, ranges: Mapping[str, tuple[int, int]], base: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the sizes of `base` with those in `ranges` drawn anew, both ends included."""
        drawn = {name: int(self.numbers.integers(a, b + 1)) for name, (a, b) in ranges.items()}
        return {**base, **drawn}
