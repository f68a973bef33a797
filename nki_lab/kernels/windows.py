"""Runs of windows that one access pattern describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def runs(starts: Sequence[int], sizes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield the first window of each run, how many there are, and the step from one start to the next.

    The windows of a run follow each other, have one size, and start at equal steps.
    """
    first = 0
    while first < len(starts):
        stop, step = first + 1, 1
        while stop < len(starts) and sizes[stop] == sizes[first]:
            distance = starts[stop] - starts[stop - 1]
            if stop == first + 1:
                step = distance
            if distance != step:
                break
            stop += 1
        yield first, stop - first, step if stop - first > 1 else 1
        first = stop
