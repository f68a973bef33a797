"""Spans of time: merges them, adds up what they cover, and counts how many overlap.

All functions take arrays of start and end times in nanoseconds, rows in any order; a span covers
`start <= t < end`.
"""

from __future__ import annotations

import heapq

import numpy as np


def merge(start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return starts and ends of the union: sorted spans that neither overlap nor touch."""
    keep = end > start
    order = np.argsort(start[keep], kind="stable")
    first, last = start[keep][order], end[keep][order]
    if not len(first):
        return first, last
    reach = np.maximum.accumulate(last)
    opens = np.concatenate(([True], first[1:] > reach[:-1]))
    closes = np.concatenate((opens[1:], [True]))
    return first[opens], reach[closes]


def covered_ns(start: np.ndarray, end: np.ndarray) -> int:
    """Return the time in which at least one span is open."""
    first, last = merge(start, end)
    return int((last - first).sum())


def amount_within(
    amount: np.ndarray, start: np.ndarray, end: np.ndarray, first: int, last: int
) -> np.ndarray:
    """Return how much of whole amounts that are spread evenly over their spans falls in first <= t < last.

    Each part is the difference of two amounts rounded down, so that the parts of neighbouring times add up to the
    whole exactly; what takes no time lies where it begins. Bytes times nanoseconds may exceed 64 bits.
    """
    length = np.maximum(end - start, 1)
    most = np.clip(last - start, 0, length).astype(object)
    least = np.clip(first - start, 0, length).astype(object)
    whole, length = amount.astype(object), length.astype(object)
    return np.asarray(whole * most // length - whole * least // length, dtype=np.int64)


def lanes(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Assign a lane to every span, so that spans of one lane do not overlap.

    Spans take the lowest free lane in the order of their start. An empty span (start == end)
    needs a lane in which nothing is open at that moment.
    """
    result = np.zeros(len(start), dtype=np.int64)
    order = np.lexsort((end, start))
    first, last = start[order], end[order]
    if len(order) < 2 or bool((first[1:] >= np.maximum.accumulate(last)[:-1]).all()):
        return result
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    used = 0
    for row, begin, finish in zip(order.tolist(), first.tolist(), last.tolist(), strict=True):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane = used
            used += 1
        result[row] = lane
        heapq.heappush(busy, (finish, lane))
    return result


def steps(
    start: np.ndarray, end: np.ndarray, weight: np.ndarray | int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Return when the sum of the weights of all open spans changes, and the sum from then on."""
    weights = np.broadcast_to(np.asarray(weight), (len(start),))
    times = np.concatenate((start, end))
    changes = np.concatenate((weights, -weights))
    moments, index = np.unique(times, return_inverse=True)
    deltas = np.zeros(len(moments), dtype=changes.dtype)
    np.add.at(deltas, index, changes)
    return moments, np.cumsum(deltas)
