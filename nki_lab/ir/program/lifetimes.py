"""Live ranges: from which instruction to which a tensor is in use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from nki_lab.ir.program.touches import Touches


class Lifetime(NamedTuple):
    """Positions of the first and last instruction that touch a tensor; never from its creation."""

    first: int
    last: int


Use = tuple[int, int, int]  # bytes per partition, from the first to the last instruction


def peak_of(uses: Iterable[Use]) -> tuple[int, int]:
    """Return the most bytes per partition in use at one time, and the instruction's position where they are first."""
    changes: dict[int, int] = {}
    for size, first, last in uses:
        changes[first] = changes.get(first, 0) + size
        changes[last + 1] = changes.get(last + 1, 0) - size
    now = peak = moment = 0
    for at in sorted(changes):
        now += changes[at]
        if now > peak:
            peak, moment = now, at
    return peak, moment


def lifetimes(
    touches: Touches,
    loops: Sequence[tuple[Any, int, int]] = (),
    anew: Mapping[int, int] | None = None,
) -> dict[int, Lifetime]:
    """Return the lifetime of every storage that is touched, by id, in order of first touch.

    Args:
        touches: of the flat program.
        loops: (loop, first, end) positions of the bodies of device loops, outer loops first.
        anew: storages that start unwritten in each pass of a loop, with the number of that loop.
    """
    keys = dict.fromkeys(touches.storage.tolist())  # in order of first touch
    first, last = touches.first().tolist(), touches.last().tolist()
    made_in = anew or {}
    for loop, start, end in reversed(loops):  # inner loops first: an outer one stretches further
        for key in keys:
            if first[key] < end and last[key] >= start and made_in.get(key) not in loop.numbers:
                first[key] = min(first[key], start)
                last[key] = max(last[key], end - 1)
    order = sorted(keys, key=first.__getitem__) if loops else keys
    return {key: Lifetime(first[key], last[key]) for key in order}
