"""Data of the timeline: its tracks, its events, and how busy each track is.

overview  how busy each track is in each of some hundreds of equal spans of time; cheap
events    every event as columns, tracks split into lanes on which events do not overlap

Two runs may be shown on one axis of time: both begin at 0, and the tracks of the second follow those of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from nki_lab.profiler import intervals
from nki_lab.profiler.analyses.report import TOTALS_ALONE, badge
from nki_lab.profiler.analyses.source_lines import issuers, positions
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.views.registry import Parts
from nki_lab.views.run import ViewData
from nki_lab.views.source.costs import line_rows
from nki_lab.views.timeline.tracks import Track, shared_tracks, tracks_of
from nki_lab.widgets.packing import pack, smallest

#: Spans of time of an overview.
OVERVIEW_COLUMNS = 1024
#: Events in one message to the browser.
CHUNK_EVENTS = 1 << 17


class TimelineModel:
    """The events of a run, ready to be drawn.

    Args:
        data: the run.
        other: a run to compare with; it comes first, as what there was before.
    """

    def __init__(self, data: ViewData, other: ViewData | None = None) -> None:
        self.data = data
        self.runs = (data,) if other is None else (other, data)
        self.profile: Profile = data.profile
        spans = [run.profile.span_ns for run in self.runs]
        self.first_ns = spans[0][0] if other is None else 0
        self.last_ns = self.first_ns + max(1, *(last - first for first, last in spans))
        #: What is added to the times of each run.
        self.shifts = [self.first_ns - first for first, _ in spans]

    @property
    def count(self) -> int:
        """Number of events."""
        return sum(
            run.profile.count("Instruction") + run.profile.count(TRANSFERS) for run in self.runs
        )

    @property
    def missing(self) -> str:
        """Why there are no events although the run had some; "" where there are, or where it had none."""
        return TOTALS_ALONE if all(run.profile.is_of_totals for run in self.runs) else ""

    @cached_property
    def tracks(self) -> list[Track]:
        """The tracks from top to bottom."""
        return [
            track
            for number, run in enumerate(self.runs)
            for track in tracks_of(run.profile, number, self.shifts[number])
        ]

    def coverage(self, columns: int) -> np.ndarray:
        """Return how busy each track is in each of `columns` equal spans of the run."""
        edges = np.linspace(self.first_ns, self.last_ns, columns + 1)
        return np.array([track.coverage(edges) for track in self.tracks])

    def overview(self) -> bytes:
        """Return tracks, totals and the coverage, packed; it is small whatever the number of events."""
        shares = self.coverage(OVERVIEW_COLUMNS)
        # A track that is busy at all in a span shows it.
        busy = np.where(shares > 0, np.maximum(np.rint(shares * 255), 1), 0).astype("u1")
        meta = {
            "badge": badge(self.profile),
            "modelled": self.profile.is_simulation,
            "span": [self.first_ns, self.last_ns],
            "events": self.count,
            "missing": self.missing,
            "grid": any(run.grid for run in self.runs),
            "columns": OVERVIEW_COLUMNS,
            "shared": shared_tracks(self.tracks),
            "runs": [
                {
                    "name": run.name,
                    "target": run.profile.target.name,
                    "modelled": run.profile.is_simulation,
                    "total": run.profile.total_ns,
                }
                for run in self.runs
            ],
            "tracks": [
                {
                    "label": t.label,
                    "engine": t.engine,
                    "busy": t.busy_ns,
                    "count": len(t.rows),
                    "unit": "transfers" if t.table == TRANSFERS else "instructions",
                    "core": t.core,
                    "run": t.run,
                }
                for t in self.tracks
            ],
        }
        return pack(meta, {"busy": busy.reshape(-1)})

    @cached_property
    def _lanes(self) -> tuple[list[tuple[int, int, int]], np.ndarray]:
        """Lanes as (track, first event, end) and, per event, its row numbered over all tracks."""
        lanes = []
        order = []
        count = base = 0
        for number, track in enumerate(self.tracks):
            lane = intervals.lanes(track.start, track.end)
            by_lane = np.argsort(lane, kind="stable")
            sizes = np.bincount(lane, minlength=1)
            for size in sizes.tolist():
                lanes.append((number, count, count + size))
                count += size
            order.append(base + by_lane)
            base += len(track.rows)
        return lanes, joined(order)

    def events(self) -> Iterator[bytes]:
        """Yield the columns of all events, lane by lane, in chunks a browser can take one at a time."""
        lanes, order = self._lanes
        start = joined([t.start for t in self.tracks])[order] - self.first_ns
        end = joined([t.end for t in self.tracks])[order] - self.first_ns
        titles, title = self._titles(order)
        places, line = self._lines(order)
        columns = {
            "start": smallest(start),
            "duration": smallest(end - start),
            "title": smallest(title),
            "line": smallest(line + 1),  # 0 stands for no line
        }
        meta = {"lanes": lanes, "titles": titles, "lines": places, "total": len(order)}
        for first in range(0, max(len(order), 1), CHUNK_EVENTS):
            part = slice(first, first + CHUNK_EVENTS)
            chunk = {name: column[part] for name, column in columns.items()}
            yield pack({"first": first} | (meta if first == 0 else {}), chunk)

    def _titles(self, order: np.ndarray) -> tuple[list[str], np.ndarray]:
        codes = []
        known: dict[str, int] = {}
        for track in self.tracks:
            column = self.runs[track.run].profile.strings(
                track.table, "variable" if track.table == TRANSFERS else "opcode"
            )
            named = None if track.table == TRANSFERS else self._instruction_names[track.run]
            own = np.stack((column.codes, named[1] if named else column.codes))[:, track.rows]
            used, inverse = np.unique(own, axis=1, return_inverse=True)
            names = [
                _event_title(column.values[code] if code >= 0 else track.label, named, name)
                for code, name in used.T.tolist()
            ]
            numbers = np.array([known.setdefault(n, len(known)) for n in names], dtype=np.int64)
            codes.append(numbers[inverse])
        return list(known), joined(codes)[order]

    @cached_property
    def _instruction_names(self) -> list[tuple[list[str], np.ndarray] | None]:
        """Of each run, the names of instructions in NKI, and per row of Instruction a number into them or -1."""
        named: list[tuple[list[str], np.ndarray] | None] = []
        for run in self.runs:
            position, names = positions(run.profile), run.names
            if position is None or not names:
                named.append(None)
                continue
            texts = list(dict.fromkeys(names))
            number = {name: k for k, name in enumerate(texts)}
            of_operation = np.array([*(number[name] for name in names), -1])
            named.append((texts, of_operation[position]))
        return named

    def _lines(self, order: np.ndarray) -> tuple[list[dict[str, str]], np.ndarray]:
        """Return the author's lines, and per event a number into them or -1."""
        places: list[dict[str, str]] = []
        codes: list[dict[str, np.ndarray]] = []
        for run, data in enumerate(self.runs):
            lines, of_instruction = instruction_lines(data)
            of_instruction = np.where(of_instruction >= 0, of_instruction + len(places), -1)
            issuer = self.issuers[run]
            of_transfer = np.full(len(issuer), -1)
            if len(of_instruction):
                of_transfer = np.where(issuer >= 0, of_instruction[issuer], -1)
            codes.append({"Instruction": of_instruction, TRANSFERS: of_transfer})
            places += lines
        return places, joined([codes[t.run][t.table][t.rows] for t in self.tracks])[order]

    @cached_property
    def issuers(self) -> list[np.ndarray]:
        """Of each run, per transfer, the row of the instruction that issued it, or -1."""
        return [issuers(run.profile) for run in self.runs]

    @cached_property
    def _firsts(self) -> list[int]:
        """The number of each run's first row."""
        counts = [r.profile.count("Instruction") + r.profile.count(TRANSFERS) for r in self.runs]
        return [sum(counts[:k]) for k in range(len(counts))]

    def first_row(self, run: int, table: str) -> int:
        """Return the number of the first row of a table, over all runs: of Instruction, then of transfers."""
        behind = self.runs[run].profile.count("Instruction") if table == TRANSFERS else 0
        return self._firsts[run] + behind

    @cached_property
    def row_of_event(self) -> np.ndarray:
        """Per event of `events`, the number of its row over all runs: rows of Instruction, then transfers."""
        rows = [t.rows + self.first_row(t.run, t.table) for t in self.tracks]
        return joined(rows)[self._lanes[1]]

    @cached_property
    def event_of_row(self) -> np.ndarray:
        """The other way round."""
        events = np.full(self.count, -1)
        events[self.row_of_event] = np.arange(len(self.row_of_event))
        return events

    def event(self, number: int) -> tuple[int, str, int]:
        """Return run, table and row of event `number` of `events`."""
        row = int(self.row_of_event[number])
        run = max(r for r, first in enumerate(self._firsts) if first <= row)
        for table in (TRANSFERS, "Instruction"):
            first = self.first_row(run, table)
            if row >= first:
                return run, table, row - first
        raise IndexError(number)


def _event_title(opcode: str, named: tuple[list[str], np.ndarray] | None, name: int) -> str:
    """Return the name that a kernel writes, with the opcode where that says more."""
    if named is None or name < 0 or named[0][name].upper() == opcode:
        return opcode if named is None or name < 0 else named[0][name]
    return f"{named[0][name]} ({opcode})"


def instruction_lines(data: ViewData) -> tuple[list[dict[str, str]], np.ndarray]:
    """Return the author's lines and, per row of Instruction, a number into them or -1."""
    places, rows = line_rows(data)
    return [{"place": place.heading, "text": place.text} for place in places], rows


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """Return arrays one behind the other."""
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def timeline_of(parts: Parts) -> TimelineModel:
    """Return the events of a run, beside those of the run it is compared with."""
    return TimelineModel(parts.data, parts.other)
