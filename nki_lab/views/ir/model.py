"""Data of the IR view: the program after each pass."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np

from nki_lab.views.run import ProgramStage, ViewData
from nki_lab.widgets.packing import pack, smallest

#: Programs up to this size have the lines that each pass changed counted.
COUNTED_OPERATIONS = 3_000


class PassListings:
    """The program after each pass, and what each pass changed."""

    def __init__(self, data: ViewData) -> None:
        self.data = data

    @property
    def named(self) -> list[dict[str, Any]]:
        """Per pass: its name, and whether it may have changed the program; nothing is printed for that."""
        return [
            {"name": stage.name, "changed": number == 0 or stage.changed}
            for number, stage in enumerate(self.data.stages)
        ]

    @property
    def are_counted(self) -> bool:
        """Whether the lines that each pass changed are counted: not of a large program."""
        return len(self.data.operations) <= COUNTED_OPERATIONS

    @cached_property
    def list(self) -> list[dict[str, Any]]:
        """Per pass: its name, whether it changed the program's text, and how many lines it wrote and took away.

        This takes the whole text after every pass that may have changed it.
        """
        passes = []
        counted = self.are_counted
        before: ProgramStage | None = None
        for stage in self.data.stages:
            entry: dict[str, Any] = {"name": stage.name, "changed": before is None or stage.changed}
            if before is not None and stage.changed and counted:
                old, new = _texts(before), _texts(stage)
                entry["written"], entry["taken"] = (new - old).total(), (old - new).total()
                entry["changed"] = bool(entry["written"] or entry["taken"])
            passes.append(entry)
            if (
                before is None or stage.changed
            ):  # else it reads like the one before, whose text is known
                before = stage
        return passes

    def overview(self) -> bytes:
        """Return the names of the passes, packed; whoever looks at them asks for `counts`."""
        return pack({"stages": self.named, "counted": self.are_counted})

    def counts(self) -> bytes:
        """Return the list of passes with the lines that each wrote and took away, packed."""
        return pack({"stages": self.list})

    def stage(self, number: int) -> bytes:
        """Return the program's text after pass `number`, packed.

        Per line its place, instruction, engine and whether the pass wrote it; and the lines it took away, each with
        the line of the new text below which it stood.
        """
        stage = self.data.stages[number]
        old = self.data.stages[number - 1].lines if number else ()
        counts = Counter(line.text for line in old)
        places: dict[tuple[str, str], int] = {}
        engines: dict[str, int] = {"": 0}
        place, position, fresh, engine = [], [], [], []
        for line in stage.lines:
            code = 0
            if line.place is not None:
                key = (line.place.heading, line.place.text)
                code = places.setdefault(key, len(places) + 1)
            place.append(code)
            position.append(-1 if line.position is None else line.position)
            engine.append(engines.setdefault(line.engine, len(engines)))
            is_new = bool(number) and counts[line.text] == 0
            fresh.append(is_new)
            if number and not is_new:
                counts[line.text] -= 1
        arrays = {
            "place": smallest(np.array(place, dtype=np.int64)),
            "position": np.array(position, dtype="i4"),
            "fresh": np.array(fresh, dtype="u1"),
            "engine": smallest(np.array(engine, dtype=np.int64)),
        }
        meta = {
            "number": number,
            "name": stage.name,
            "before": self.data.stages[number - 1].name if number else "",
            "text": "\n".join(line.text for line in stage.lines),
            "places": [list(key) for key in places],
            "engines": list(engines),
            "taken": _taken([line.text for line in old], [line.text for line in stage.lines]),
        }
        return pack(meta, arrays)

    @property
    def first_shown(self) -> int:
        """Number of the pass that is shown first: the last one that may have changed something."""
        changed = [n for n, entry in enumerate(self.named) if entry["changed"]]
        return changed[-1] if changed else 0


def _texts(stage: ProgramStage) -> Counter[str]:
    return Counter(line.text for line in stage.lines)


def _taken(old: list[str], new: list[str]) -> list[tuple[int, str]]:
    """Return the lines of `old` that `new` lacks, each with the line of `new` it stood below; -1 is the top.

    A line that has only moved is not taken away.
    """
    remaining = Counter(new)
    at: dict[str, list[int]] = {}
    for number in range(len(new) - 1, -1, -1):
        at.setdefault(new[number], []).append(number)
    taken = []
    above = -1
    for text in old:
        if remaining[text] > 0:
            remaining[text] -= 1
            above = at[text].pop()
        else:
            taken.append((above, text))
    return sorted(taken, key=lambda entry: entry[0])
