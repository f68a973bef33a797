"""From which instruction to which is a tensor in use?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nki_lab.ir.instruction import Instruction


class Lifetime(NamedTuple):
    """Positions of the first and last instruction that touch a tensor; never from its creation."""

    first: int
    last: int


def lifetimes(instructions: Sequence[Instruction]) -> dict[int, Lifetime]:
    """Return the lifetime of every storage that is touched, by id, in order of first touch."""
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
    return {key: Lifetime(start, last[key]) for key, start in first.items()}
