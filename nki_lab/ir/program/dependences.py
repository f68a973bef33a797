"""Which pairs of instructions must keep their order?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Dependences(NamedTuple):
    """Pairs of positions of a program, in no particular order; a pair may come more than once.

    Attributes:
        before: the earlier instruction of each pair.
        after: the one that must follow it.
        result: it needs a result of the earlier one, and not only the bytes that one uses.
    """

    before: np.ndarray
    after: np.ndarray
    result: np.ndarray

    def moved(self, order: Sequence[int]) -> Dependences:
        """Return the same pairs where `order` gives the former position of each instruction."""
        place = np.empty(len(order), np.int32)
        place[np.array(order, np.int64)] = np.arange(len(order), dtype=np.int32)
        return Dependences(place[self.before], place[self.after], self.result)
