"""From which instruction to which is a tensor in use?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from nki_lab.ir.instruction import Instruction
from nki_lab.ir.tensor import NkiTensor


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
    instructions: Sequence[Instruction], loops: Sequence[tuple[Any, int, int]] = ()
) -> dict[int, Lifetime]:
    """Return the lifetime of every storage that is touched, by id, in order of first touch.

    Args:
        instructions: the flat program.
        loops: (loop, first, end) positions of the bodies of device loops, outer loops first.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    positions: dict[object, tuple[int, ...]] = {}
    for n, i in enumerate(instructions):
        form = i.form
        touched = positions.get(form)
        if touched is None:
            touched = positions[form] = tuple({*form.reads, *form.writes})
        args = i.args
        for position in touched:
            value = args[position]
            if type(value) is tuple:
                for view in value:
                    key = view.storage.id
                    if key not in last:
                        first[key] = n
                    last[key] = n
            else:
                key = value.storage.id
                if key not in last:
                    first[key] = n
                last[key] = n
        if form.dynamic:
            for dynamic in i.dynamic():
                if type(dynamic.index) is NkiTensor:
                    key = dynamic.index.storage.id
                    first.setdefault(key, n)
                    last[key] = n
    for _, start, end in reversed(loops):  # inner loops first: an outer one stretches further
        for key in first:
            if first[key] < end and last[key] >= start:
                first[key] = min(first[key], start)
                last[key] = max(last[key], end - 1)
    order = sorted(first, key=first.__getitem__) if loops else first
    return {key: Lifetime(first[key], last[key]) for key in order}
