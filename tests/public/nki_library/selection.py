"""Chooses the configurations of a test function that are worth running first."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence
from typing import Protocol, TypeVar


class _Named(Protocol):
    name: str


_Item = TypeVar("_Item", bound=_Named)


def spread(items: Sequence[_Item], count: int) -> list[_Item]:
    """Return `count` of the smaller half of some configurations, evenly, or all if there are not more."""
    ordered = sorted(items, key=lambda item: (size(item.name), item.name))
    if len(ordered) <= count:
        return ordered
    half = max(count, len(ordered) // 2)
    return [ordered[i * half // count] for i in range(count)]


def drawn(items: Sequence[_Item], count: int, seed: int) -> list[_Item]:
    """Return `count` configurations of any size by chance, the same ones for the same seed, the smallest first."""
    ordered = sorted(items, key=lambda item: (size(item.name), item.name))
    chosen = random.Random(seed).sample(range(len(ordered)), min(count, len(ordered)))
    return [ordered[position] for position in sorted(chosen)]


def size(name: str) -> float:
    """Return how large a configuration is, by the numbers in its name."""
    return sum(math.log2(1 + int(number)) for number in re.findall(r"\d+", name))
