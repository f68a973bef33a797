"""What did each pass make of the program?"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

import numpy as np

from nki_lab.profiler.view_data import Stage, ViewData
from nki_lab.widgets.packing import pack, smallest


class Passes:
    """The program after each pass, and what each pass changed."""

    def __init__(self, data: ViewData) -> None:
        self.data = data

    @cached_property
    def list(self) -> list[dict[str, Any]]:
        """Per pass: its name, the lines it wrote anew and the lines it took away.

        A pass that neither writes nor takes away a line left the program as it was.
        """
        found = []
        before: Stage | None = None
        for stage in self.data.stages:
            written = taken = 0
            if before is not None:
                old, new = _texts(before), _texts(stage)
                written, taken = (new - old).total(), (old - new).total()
            found.append(
                {
                    "name": stage.name,
                    "lines": len(stage.lines),
                    "written": written,
                    "taken": taken,
                    "changed": before is None or bool(written or taken),
                }
            )
            before = stage
        return found

    def overview(self) -> bytes:
        """Return the list of passes, packed."""
        return pack({"stages": self.list})

    def stage(self, number: int) -> bytes:
        """Return the program's text after pass `number`, packed: per line its place, instruction and news."""
        stage = self.data.stages[number]
        known = _texts(self.data.stages[number - 1]) if number else Counter()
        places: dict[tuple[str, str], int] = {}
        place, position, fresh = [], [], []
        for line in stage.lines:
            code = 0
            if line.place is not None:
                key = (line.place.heading, line.place.text)
                code = places.setdefault(key, len(places) + 1)
            place.append(code)
            position.append(-1 if line.position is None else line.position)
            is_new = bool(number) and known[line.text] == 0
            fresh.append(is_new)
            if number and not is_new:
                known[line.text] -= 1
        arrays = {
            "place": smallest(np.array(place, dtype=np.int64)),
            "position": np.array(position, dtype="i4"),
            "fresh": np.array(fresh, dtype="u1"),
        }
        meta = {
            "number": number,
            "name": stage.name,
            "text": "\n".join(line.text for line in stage.lines),
            "places": [list(key) for key in places],
        }
        return pack(meta, arrays)

    @property
    def first_shown(self) -> int:
        """Number of the pass that is shown first: the last one that changed something."""
        changed = [n for n, entry in enumerate(self.list) if entry["changed"]]
        return changed[-1] if changed else 0


def _texts(stage: Stage) -> Counter[str]:
    return Counter(line.text for line in stage.lines)
