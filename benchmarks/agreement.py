"""Measures how well two lists of numbers agree: in order, and in size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np


def ranks(values: Sequence[float]) -> np.ndarray:
    """Return the rank of each value from 0 on; equal values share the mean of their ranks."""
    array = np.asarray(values, dtype=float)
    _, inverse, counts = np.unique(array, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts) + (ends - 1))[inverse] / 2


def spearman(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return the correlation of ranks; None below three pairs, or where one list is constant."""
    if len(a) < 3 or len(set(a)) < 2 or len(set(b)) < 2:
        return None
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def pair_orders(published: Sequence[float], modelled: Sequence[float]) -> list[tuple[float, int]]:
    """Return, for every two rows, how far the published values are apart and whether the order is right.

    The distance is a part of the smaller value. The order is 1 where the model has it right, -1 where it has it the
    other way round, and 0 where it has equal values or the published ones are equal.
    """
    found = []
    for (p, m), (q, n) in itertools.combinations(zip(published, modelled, strict=True), 2):
        apart = abs(p - q) / min(p, q)
        found.append((apart, int(np.sign(p - q) * np.sign(m - n))))
    return found


def kendall(orders: Sequence[int]) -> float | None:
    """Return tau of pairs: those in the right order less those in the wrong one, over all; None for no pair."""
    return sum(orders) / len(orders) if orders else None


def relative_errors(published: Sequence[float], modelled: Sequence[float]) -> np.ndarray:
    """Return how much too large each modelled value is, as a part of the published one."""
    return np.asarray(modelled, dtype=float) / np.asarray(published, dtype=float) - 1
