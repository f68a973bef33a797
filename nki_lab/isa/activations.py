"""Which activation functions does the Scalar engine have, what do they mean, and where are they valid?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class Activation:
    """One row of the table of activation functions.

    Attributes:
        apply: `apply(x, out)`; `out` may be `x` itself.
        low, high: valid input range; of the magnitude when `by_magnitude`.
        by_magnitude: the range holds for the absolute value.
        table: the activation table it needs, for the timing model; None when any will do.
    """

    apply: Callable[..., Any]
    low: float = -float("inf")
    high: float = float("inf")
    by_magnitude: bool = False
    table: str | None = None
