"""Data of the IR view: the program after each pass."""

from __future__ import annotations

import re
from collections import Counter, deque
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
        """Per pass: its name, whether it changed the program's text, and the lines it rewrote, wrote and took away.

        This takes the whole text after every pass that may have changed it.
        """
        passes = []
        counted = self.are_counted
        before: ProgramStage | None = None
        for stage in self.data.stages:
            entry: dict[str, Any] = {"name": stage.name, "changed": before is None or stage.changed}
            if before is not None and stage.changed and counted:
                rewritten, written, taken = _changes(_texts(before), _texts(stage))
                counts = {"rewritten": rewritten, "written": written, "taken": taken}
                entry |= {name: len(lines) for name, lines in counts.items()}
                entry["changed"] = bool(rewritten or written or taken)
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
        """Return the list of passes with the number of lines that each rewrote, wrote and took away, packed."""
        return pack({"stages": self.list})

    def stage(self, number: int) -> bytes:
        """Return the program's text after pass `number`, packed.

        Per line its place, instruction, engine and whether the pass wrote it; the lines it rewrote, each with the text
        before; and those it took away, each with the line of the new text below which it stood.
        """
        stage = self.data.stages[number]
        new = _texts(stage)
        rewritten, written, taken = _changes(
            _texts(self.data.stages[number - 1]) if number else new, new
        )
        fresh = np.zeros(len(new), dtype="u1")
        fresh[[*rewritten, *written]] = 1
        places: dict[tuple[str, str], int] = {}
        engines: dict[str, int] = {"": 0}
        place, position, engine = [], [], []
        for line in stage.lines:
            code = 0
            if line.place is not None:
                key = (line.place.heading, line.place.text)
                code = places.setdefault(key, len(places) + 1)
            place.append(code)
            position.append(-1 if line.position is None else line.position)
            engine.append(engines.setdefault(line.engine, len(engines)))
        arrays = {
            "place": smallest(np.array(place, dtype=np.int64)),
            "position": np.array(position, dtype="i4"),
            "fresh": fresh,
            "engine": smallest(np.array(engine, dtype=np.int64)),
        }
        meta = {
            "number": number,
            "name": stage.name,
            "before": self.data.stages[number - 1].name if number else "",
            "text": "\n".join(new),
            "places": [list(key) for key in places],
            "engines": list(engines),
            "taken": taken,
            "rewritten": list(rewritten.items()),
        }
        return pack(meta, arrays)

    @property
    def first_shown(self) -> int:
        """Number of the pass that is shown first: the last one that may have changed something."""
        changed = [n for n, entry in enumerate(self.named) if entry["changed"]]
        return changed[-1] if changed else 0


def _texts(stage: ProgramStage) -> list[str]:
    return [line.text for line in stage.lines]


def _changes(
    old: list[str], new: list[str]
) -> tuple[dict[int, str], list[int], list[tuple[int, str]]]:
    """Return how one text becomes another, line by line; a line that has only moved is not changed.

    Returns:
        The lines of `new` that a line of `old` was rewritten to, each with its text before; the other lines that only
        `new` has; and the lines that only `old` has, each with the line of `new` it stood below (-1 is the top).
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
    written = sorted(number for numbers in at.values() for number in numbers)
    rewritten: dict[int, str] = {}
    for key in (_operands_of, _result_of):
        before: dict[object, deque[tuple[int, str]]] = {}
        for entry in taken:
            before.setdefault(key(entry[1]), deque()).append(entry)
        for number in written:
            if candidates := before.get(key(new[number])):
                rewritten[number] = candidates.popleft()[1]
        written = [number for number in written if number not in rewritten]
        taken = sorted(
            (entry for entries in before.values() for entry in entries), key=lambda entry: entry[0]
        )
    return dict(sorted(rewritten.items())), written, taken


#: What a line of a program is about: its first word behind a label such as "#48", and the tensors it names.
_WORD = re.compile(r"(?:#\d+ )?(\w*)")
_TENSOR = re.compile(r'%(?:"(?:[^"\\]|\\.)*"|[\w.]+)')


def _operands_of(text: str) -> tuple[str, ...]:
    """Return the instruction or declaration of a line with its tensors."""
    word = _WORD.match(text.strip())
    return (word[1] if word else "", *_TENSOR.findall(text))


def _result_of(text: str) -> tuple[str, ...]:
    """Return the instruction or declaration of a line with its first tensor."""
    return _operands_of(text)[:2]
