"""Relates the events of a timeline: what each waited for, and what needs it.

event_detail       facts of one event: its row, operation, loops, stall, and dependences
critical_events    the events that took the whole time
stalls             per event, what it waited for
tensors            per event, the tensor it moves or writes
programs           per event, the program of the launch grid that it belongs to
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

import numpy as np

from nki_lab.profiler.analyses.drawing import Drawing
from nki_lab.profiler.analyses.loops import loop_values, program_in
from nki_lab.profiler.analyses.source_lines import issuers, positions
from nki_lab.profiler.analyses.waits import REASONS
from nki_lab.profiler.columns import Strings
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TABLES, TRANSFERS
from nki_lab.views.run import ViewData
from nki_lab.views.timeline.model import TimelineModel, joined
from nki_lab.widgets.packing import pack, smallest

#: Dependences of one event that are listed each way.
LISTED = 12
#: How each reason to wait is named beside its colour.
REASON_NAMES = {
    "start": "start of the run",
    "order": "instruction before",
    "semaphore": "result of an instruction",
    "dma": "arrival of a transfer",
    "issue": "trigger",
    "ring": "DMA engines busy",
    "port": "memory port held",
    "issuer": "descriptors of others",
    "loop": "pass of a loop before",
    "core": "the other core",
    "unknown": "unknown",
}
assert tuple(REASON_NAMES) == REASONS
#: What the profile calls a dependence whose kind nobody has told apart.
_ANY_KIND = ("FLOW_DEPENDENCE", "dependency")


#: What tells the tensors of one name apart.
_COPY = re.compile(r"\.\d+$")


class Relations:
    """What the events of one run have to do with each other; rows are those of Instruction, then of transfers."""

    def __init__(self, data: ViewData) -> None:
        self.data = data
        self.profile: Profile = data.profile
        self._instructions = self.profile.count("Instruction")

    def _rows(self, core: int) -> np.ndarray:
        """Return the rows of a core, in the order its own profile has them."""
        parts = [np.flatnonzero(self.profile.numbers("Instruction", "pcore_idx") == core)]
        moved = np.flatnonzero(self.profile.numbers(TRANSFERS, "pcore_idx") == core)
        return np.concatenate([*parts, moved + self._instructions])

    @cached_property
    def waited(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Per row, how long it stood at the head of its queue, for which reason, and after which row (-1: none)."""
        count = self._instructions + self.profile.count(TRANSFERS)
        long = np.zeros(count, dtype=np.int64)
        reason = np.zeros(count, dtype=np.int64)
        before = np.full(count, -1)
        for core in self.profile.cores:
            rows = self._rows(core)
            waits = self.profile.core(core).waits
            long[rows], reason[rows] = waits.waited, waits.reason
            before[rows] = np.where(waits.before >= 0, rows[waits.before], -1)
        return long, reason, before

    @cached_property
    def critical(self) -> tuple[np.ndarray, str]:
        """Rows on the critical path by time, and what it says."""
        core = self.profile.slowest.cores[0]
        path = self.profile.critical_path()
        rows = self._rows(core)
        steps = np.array([step.event for step in path.steps], dtype=np.int64)
        return rows[steps], str(path)

    @cached_property
    def _arrows(self) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray, np.ndarray, list[str]]:  # fmt: skip
        giver, taker, kinds = Drawing(self.profile).arrows
        arrows = []
        for end in (taker, giver):
            order = np.argsort(end, kind="stable")
            arrows.append((end[order], order))
        return arrows, giver, taker, kinds

    def dependences(self, row: int) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """Return what a row depends on and what depends on it: rows, each with the kind of dependence."""
        sides, giver, taker, kinds = self._arrows
        result = []
        for (ends, order), other in zip(sides, (giver, taker), strict=True):
            first, last = np.searchsorted(ends, [row, row + 1])
            edges = order[first:last].tolist()
            result.append(
                [(int(other[e]), self._kind(int(giver[e]), int(taker[e]), kinds[e])) for e in edges]
            )
        return result[0], result[1]

    def _kind(self, giver: int, taker: int, told: str) -> str:
        """Return the kind of a dependence: "flow", "anti", "output", or a description where that is unknown."""
        if told not in _ANY_KIND:
            return told
        if giver < self._instructions <= taker:
            return "trigger"
        before, after = (self._touched(self.position(row)) for row in (giver, taker))
        if before is None or after is None:
            return "wait"
        (read, written), (reads, writes) = before, after
        if written & reads:
            return "flow"
        if read & writes:
            return "anti"
        return "output" if written & writes else "place used again"

    def _touched(self, position: int) -> tuple[set[int], set[int]] | None:
        """Return the tensors an instruction reads and writes; None where that is not known."""
        accesses = self.data.accesses(position) if position >= 0 else ()
        if not accesses:
            return None
        return (
            {a.tensor for a in accesses if a.way != "writes"},
            {a.tensor for a in accesses if a.way != "reads"},
        )

    @cached_property
    def _positions(self) -> np.ndarray:
        rows = positions(self.profile)
        return np.full(self._instructions, -1) if rows is None else rows

    @cached_property
    def _issuers(self) -> np.ndarray:
        return issuers(self.profile)

    @cached_property
    def row_positions(self) -> np.ndarray:
        """Per row, the position in the program of its instruction, or of the one that issued the transfer; or -1."""
        issuer = self._issuers
        of_transfer = np.full(len(issuer), -1)
        if self._instructions:
            of_transfer = np.where(issuer >= 0, self._positions[issuer], -1)
        return np.concatenate([self._positions, of_transfer])

    def position(self, row: int) -> int:
        """Return the position in the program of a row's instruction, -1 for none."""
        position = int(self.row_positions[row])
        return position if position < len(self.data.operations) else -1

    @cached_property
    def loops(self) -> Any:
        """Per row of Instruction, the values of the loop variables around it."""
        return loop_values(self.profile)

    def loop(self, row: int) -> str | None:
        """Return the values of the loop variables around an event."""
        if row >= self._instructions:
            row = int(self._issuers[row - self._instructions])
        return self.loops[row] if row >= 0 else None

    def programs(self) -> list[str | None]:
        """Return per row the program of the launch grid that it belongs to, None where one core runs one program."""
        return programs_of(self.loops, self._issuers)

    def tensors(self) -> list[str | None]:
        """Return per row the tensor that it moves or writes, None where unknown.

        The tensors that one line makes, pass by pass of a loop, count as one.
        """
        moved = self.profile.strings(TRANSFERS, "variable").to_list()
        written: dict[int, str | None] = {-1: None}
        for position in np.unique(self._positions).tolist():
            if position >= 0:
                written[position] = self._written(position)
        return [written[p] for p in self._positions.tolist()] + moved

    def _written(self, position: int) -> str | None:
        accesses = self.data.accesses(position)
        tensor = next((a.tensor for a in accesses if a.way != "reads"), None)
        if tensor is None and accesses:
            tensor = accesses[0].tensor
        if tensor is None or not 0 <= tensor < len(self.data.tensors):
            return None
        return _COPY.sub("", self.data.tensors[tensor].name)


def _unit(table: str, column: str) -> str:
    """Return the unit of a column; the schema has none for bytes and operations that an instruction counts."""
    field = TABLES[table].get(column)
    unit = "" if field is None or field.unit == "-" else field.unit
    counted = "bytes" if column.endswith("_bytes") else "flop" if "flops" in column else ""
    return counted or unit


def programs_of(loops: Strings, issuer: np.ndarray) -> list[str | None]:
    """Return per instruction, then per transfer, the program of the launch grid that it belongs to."""
    of_code = [program_in(text) for text in loops.values]
    own = [of_code[code] if code >= 0 else None for code in loops.codes.tolist()]
    return own + [own[k] if k >= 0 else None for k in issuer.tolist()]


class TimelineRelations:
    """The relations of all runs of a timeline, by the numbers of its events."""

    def __init__(self, timeline: TimelineModel) -> None:
        self.timeline = timeline
        self.runs = [Relations(run) for run in timeline.runs]

    def _row(self, number: int) -> tuple[int, int]:
        """Return the run of an event, and its row there."""
        run, table, row = self.timeline.event(number)
        return run, row + (
            0 if table == "Instruction" else self.runs[run].profile.count("Instruction")
        )

    def _event(self, run: int, row: int) -> int:
        return int(self.timeline.event_of_row[row + self.timeline.first_row(run, "Instruction")])

    def event_detail(self, number: int) -> dict[str, Any]:
        """Return the facts of one event by column name with their units, and its instruction."""
        run, table, row = self.timeline.event(number)
        relations = self.runs[run]
        record = next(relations.profile.records(table, row, row + 1))
        filled = {name: value for name, value in record.items() if value is not None}
        units = {name: unit for name in filled if (unit := _unit(table, name))}
        detail: dict[str, Any] = {"table": table, "fields": filled, "units": units}
        position = relations.position(self._row(number)[1])
        if position >= 0:
            detail |= {"position": position, "operation": relations.data.operations[position].text}
        return detail

    def event_relations(self, number: int) -> dict[str, Any]:
        """Return what one event has to do with others; the first question looks at all events of the run."""
        run, row = self._row(number)
        relations = self.runs[run]
        detail: dict[str, Any] = {}
        if loop := relations.loop(row):
            detail["loop"] = loop
        long, reason, before = relations.waited
        if long[row] > 0 or before[row] >= 0:
            detail["waited"] = {
                "ns": int(long[row]),
                "reason": REASON_NAMES[REASONS[int(reason[row])]],
                "event": self._event(run, int(before[row])) if before[row] >= 0 else -1,
            }
        for name, edges in zip(("needs", "feeds"), relations.dependences(row), strict=True):
            detail[name] = [[self._event(run, other), kind] for other, kind in edges[:LISTED]]
            detail[f"{name}_count"] = len(edges)
        return detail

    def critical_events(self) -> bytes:
        """Return the events on the critical path of each run by time, packed."""
        critical = [run.critical for run in self.runs]
        events = joined(
            [
                self.timeline.event_of_row[rows + self.timeline.first_row(k, "Instruction")]
                for k, (rows, _) in enumerate(critical)
            ]
        )
        sizes = [len(rows) for rows, _ in critical]
        meta = {"texts": [text for _, text in critical], "sizes": sizes}
        return pack(meta, {"event": smallest(events)})

    def stalls(self) -> bytes:
        """Return per event the reason for which it waited, 0 where it did not, packed."""
        codes = joined([np.where(r.waited[0] > 0, r.waited[1] + 1, 0) for r in self.runs])
        used = [k for k in np.unique(codes).tolist() if k]
        place = np.zeros(len(REASONS) + 1, dtype=np.int64)
        place[used] = np.arange(len(used)) + 1
        names = ["did not wait", *(REASON_NAMES[REASONS[k - 1]] for k in used)]
        return self._column(names, place[codes])

    def tensors(self) -> bytes:
        """Return per event the tensor it moves or writes, packed."""
        return self._named("no tensor known", [name for run in self.runs for name in run.tensors()])

    def programs(self) -> bytes:
        """Return per event the program of the launch grid that it belongs to, packed."""
        return self._named("no launch grid", [name for run in self.runs for name in run.programs()])

    def _named(self, none: str, rows: list[str | None]) -> bytes:
        """Pack a name per row, `none` where there is none."""
        names: dict[str | None, int] = {None: 0}
        codes = [names.setdefault(name, len(names)) for name in rows]
        texts = [none, *(str(name) for name in names if name is not None)]
        return self._column(texts, np.array(codes, dtype=np.int64))

    def _column(self, names: list[str], codes: np.ndarray) -> bytes:
        """Pack a code per row, in the order of events."""
        return pack({"names": names}, {"code": smallest(codes[self.timeline.row_of_event])})
