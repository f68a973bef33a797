"""Parts of a kernel's work, given to engines that work at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Turns:
    """Hands each part of the work to the engine that is done with it first.

    Attributes:
        rates: by engine, the time of an element of work; only their ratio counts.
    """

    def __init__(self, rates: Mapping[Any, float]) -> None:
        self.rates = rates
        self._busy = dict.fromkeys(rates, 0.0)

    def next(self, work: float) -> Any:
        """Return the engine that does the next part."""
        engine = min(self._busy, key=lambda e: self._busy[e] + work * self.rates[e])
        self._busy[engine] += work * self.rates[engine]
        return engine
