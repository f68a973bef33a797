"""Spans of time: merging, stacking and summing, against a count of every nanosecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.profiler import intervals

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def arrays(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(spans, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 0] + table[:, 1]


def occupancy(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Count the open spans in each nanosecond, one by one."""
    count = np.zeros(60, dtype=int)
    for first, last in zip(start, end, strict=True):
        count[first:last] += 1
    return count


@given(SPANS)
def test_merge_covers_exactly_the_same_time(spans) -> None:
    start, end = arrays(spans)
    first, last = intervals.merge(start, end)
    assert (occupancy(first, last) == (occupancy(start, end) > 0)).all()
    assert (first[1:] > last[:-1]).all()
    assert intervals.covered_ns(start, end) == (occupancy(start, end) > 0).sum()


@given(SPANS)
def test_lanes_never_overlap_and_are_as_few_as_possible(spans) -> None:
    start, end = arrays(spans)
    lane = intervals.lanes(start, end)
    for number in np.unique(lane):
        rows = lane == number
        assert occupancy(start[rows], end[rows]).max(initial=0) <= 1
    real = end > start
    if real.all() and len(start):
        assert lane.max() + 1 == occupancy(start, end).max()


@given(SPANS)
def test_steps_give_the_sum_of_open_weights(spans) -> None:
    start, end = arrays(spans)
    weight = np.arange(1, len(start) + 1)
    times, value = intervals.steps(start, end, weight)
    curve = np.zeros(60, dtype=int)
    for time, level in zip(times, value, strict=True):
        curve[time:] = level
    expected = np.zeros(60, dtype=int)
    for first, last, size in zip(start, end, weight, strict=True):
        expected[first:last] += size
    assert (curve == expected).all()


def test_touching_spans_become_one() -> None:
    first, last = intervals.merge(np.array([5, 0, 3]), np.array([9, 3, 5]))
    assert (first.tolist(), last.tolist()) == ([0], [9])
