"""Computes what each line of the author's text costs: time per engine, bytes, waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nki_lab.profiler.analyses.source_lines import lines_of_transfers, positions
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import ENGINES, TRANSFERS
from nki_lab.source import place_text
from nki_lab.views.run import Place, ViewData


@dataclass(frozen=True)
class LineCost:
    """What one line asked for; work of several engines at once is added up.

    Attributes:
        place: the line.
        operations: instructions it has in the program.
        executed: instructions it had executed.
        engine_ns: time of its instructions, by engine, without those that are 0.
        transfer_ns: summed time of the DMA transfers it issued.
        bytes: bytes these moved.
        wait_ns: time its instructions waited for semaphores; None where the profile does not say.
    """

    place: Place
    operations: int
    executed: int
    engine_ns: dict[str, int] = field(default_factory=dict)
    transfer_ns: int = 0
    bytes: int = 0
    wait_ns: int | None = None

    @property
    def total_ns(self) -> int:
        """Time on engines and DMA engines together."""
        return sum(self.engine_ns.values()) + self.transfer_ns


def line_costs(data: ViewData) -> list[LineCost]:
    """Return what every line that has instructions costs, in the order of the text."""
    profile = data.profile
    places, rows = line_rows(data)
    if not places:
        return []
    here = rows >= 0
    count = len(places)

    def summed(weights: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return np.bincount(rows[chosen], weights=weights[chosen], minlength=count).astype(np.int64)

    duration = profile.numbers("Instruction", "duration_ns")
    engine = profile.strings("Instruction", "engine")
    by_engine = {n: summed(duration, here & engine.equal_to(n)) for n in ENGINES}
    waited = None
    if profile.column("Instruction", "evt_wait_time_ns") is not None:
        waited = summed(profile.numbers("Instruction", "evt_wait_time_ns"), here)
    executed = np.bincount(rows[here], minlength=count)
    operations = executed
    if data.lines is not None and places[: len(data.lines[1])] == list(data.lines[1]):
        codes = data.lines[0]
        operations = np.bincount(codes[codes >= 0], minlength=count)
    moved_ns, moved_bytes = _transfers(profile, rows, [place.label for place in places])
    costs = [
        LineCost(
            place=place,
            operations=int(operations[k]),
            executed=int(executed[k]),
            engine_ns={n: int(t[k]) for n, t in by_engine.items() if t[k]},
            transfer_ns=int(moved_ns[k]),
            bytes=int(moved_bytes[k]),
            wait_ns=None if waited is None else int(waited[k]),
        )
        for k, place in enumerate(places)
    ]
    return sorted(costs, key=lambda cost: (cost.place.file, cost.place.line, cost.place.label))


def line_rows(data: ViewData) -> tuple[list[Place], np.ndarray]:
    """Return the lines of the author's text and, per row of Instruction, a number into them or -1."""
    profile = data.profile
    lines, position = data.lines, positions(profile)
    if lines is not None and position is not None and len(lines[0]):
        codes, places = lines
        # The program is that of core 0; of the other core the profile knows the lines.
        line = np.where(position >= 0, codes[position], -1)
        return _with_other_core(profile, list(places), line, position)
    column = profile.strings("Instruction", "nki_source_location")
    told = () if profile.transfer_lines is None else profile.transfer_lines.values
    texts = dict.fromkeys((*column.values, *told))
    return [_place(text) for text in texts], column.codes.astype(np.int64)


def _with_other_core(
    profile: Profile, places: list[Place], codes: np.ndarray, position: np.ndarray
) -> tuple[list[Place], np.ndarray]:
    if (position >= 0).all():
        return places, codes
    column = profile.strings("Instruction", "nki_source_location")
    same: dict[int, int] = {}  # a line of the profile -> one of the program
    for number, code in zip(column.codes.tolist(), codes.tolist(), strict=True):
        if number >= 0 and code >= 0:
            same.setdefault(number, code)
    by_text = {column.values[number]: code for number, code in same.items()}
    table = []
    for text in column.values:
        if text not in by_text:
            by_text[text] = len(places)
            places = [*places, _place(text)]
        table.append(by_text[text])
    others = np.array([*table, -1], dtype=np.int64)[column.codes]
    return places, np.where(position >= 0, codes, others)


def _place(location: str) -> Place:
    line = location.rpartition(":")[2]
    label = place_text(location)
    return Place(label, label, "", int(line) if line.isdigit() else 0)


def _transfers(
    profile: Profile, rows: np.ndarray, labels: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    code = lines_of_transfers(profile, rows, labels)
    has_line = code >= 0
    sums = []
    for column in ("duration_ns", "transfer_bytes"):
        values = profile.numbers(TRANSFERS, column)
        sums.append(np.bincount(code[has_line], weights=values[has_line], minlength=len(labels)))
    return sums[0].astype(np.int64), sums[1].astype(np.int64)
