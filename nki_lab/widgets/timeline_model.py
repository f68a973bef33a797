"""What does a timeline show: which tracks, which events, how busy at which moment?

Track     one engine or DMA queue, in the order of Neuron Explorer's trace viewer
overview  how busy each track is in each of some hundreds of equal spans of time; cheap
events    every event as columns, tracks split into lanes on which events do not overlap
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nki_lab.profiler import intervals
from nki_lab.profiler.drawing import ENGINE_TRACKS
from nki_lab.profiler.line_costs import line_rows
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.report import badge
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.profiler.source_lines import issuers, positions
from nki_lab.profiler.view_data import ViewData
from nki_lab.widgets.packing import pack, smallest

#: Spans of time of an overview.
OVERVIEW_COLUMNS = 1024
#: Events in one message to the browser.
CHUNK_EVENTS = 1 << 17
#: Tracks of engines from top to bottom, below the DMA queues (device trace viewer of Neuron Explorer).
_ENGINE_ORDER = ("sync", "tensor", "vector", "scalar", "gpsimd")


@dataclass(frozen=True, eq=False)
class Track:
    """One engine or DMA queue.

    Attributes:
        label: its name.
        engine: its row in the table of colours.
        table: profile table its events are rows of.
        rows: their numbers, by start.
        start, end: their times in ns.
    """

    label: str
    engine: str
    table: str
    rows: np.ndarray
    start: np.ndarray
    end: np.ndarray

    @cached_property
    def busy(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts and ends of the spans in which at least one event is under way."""
        return intervals.merge(self.start, self.end)

    @property
    def busy_ns(self) -> int:
        """Time in which at least one event is under way."""
        first, last = self.busy
        return int((last - first).sum())

    def coverage(self, edges: np.ndarray) -> np.ndarray:
        """Return the share of each span between two neighbouring edges in which the track is busy."""
        first, last = self.busy
        if not len(first):
            return np.zeros(len(edges) - 1)
        before = np.concatenate(([0], np.cumsum(last - first)))
        ended = np.searchsorted(last, edges, "right")
        current = np.minimum(ended, len(first) - 1)
        begun = np.where(ended < len(first), np.clip(edges - first[current], 0, None), 0)
        width = np.diff(edges)
        return np.diff(before[ended] + begun) / np.where(width > 0, width, 1)


class Timeline:
    """The events of a run, ready to be drawn."""

    def __init__(self, data: ViewData) -> None:
        self.data = data
        self.profile: Profile = data.profile
        first, last = self.profile.span_ns
        self.first_ns, self.last_ns = first, max(last, first + 1)

    @property
    def count(self) -> int:
        """Number of events."""
        return self.profile.count("Instruction") + self.profile.count(TRANSFERS)

    @cached_property
    def tracks(self) -> list[Track]:
        """DMA queues, then engines (also those that did nothing), per core."""
        cores = np.union1d(
            *(self.profile.numbers(t, "pcore_idx") for t in (TRANSFERS, "Instruction"))
        )
        found = []
        for core in cores.tolist() or [0]:
            tracks = [*self._queues(core), *self._engines(core)]
            prefix = f"nc{core} " if len(cores) > 1 else ""
            found += [
                self._track(prefix + label, engine, table, chosen)
                for label, engine, table, chosen in tracks
            ]
        return found

    def _track(self, label: str, engine: str, table: str, chosen: np.ndarray) -> Track:
        start = self.profile.numbers(table, "start_ts")
        end = self.profile.numbers(table, "end_ts")
        rows = np.flatnonzero(chosen)
        rows = rows[np.argsort(start[rows], kind="stable")]
        return Track(label, engine, table, rows, start[rows], end[rows])

    def _queues(self, core: int) -> Iterator[tuple[str, str, str, np.ndarray]]:
        queue = self.profile.strings(TRANSFERS, "queue_name")
        here = self.profile.numbers(TRANSFERS, "pcore_idx") == core
        codes = np.unique(queue.codes[here]).tolist()
        for label, code in sorted((queue.values[c] if c >= 0 else "DMA", c) for c in codes):
            yield label, "dma", TRANSFERS, here & (queue.codes == code)

    def _engines(self, core: int) -> Iterator[tuple[str, str, str, np.ndarray]]:
        engine = self.profile.strings("Instruction", "engine")
        track = self.profile.strings("Instruction", "timeline_track")
        here = self.profile.numbers("Instruction", "pcore_idx") == core
        others = [name for name in engine.values if name not in _ENGINE_ORDER]
        for name in (*_ENGINE_ORDER, *others):
            own = here & engine.equal_to(name)
            labels = ENGINE_TRACKS.get(name, (name,))
            named = {label: own & track.equal_to(label) for label in (*labels[1:], *track.values)}
            rest = own & ~np.logical_or.reduce([*named.values(), np.zeros_like(own)])
            if labels[0] in named:
                rest = rest | named.pop(labels[0])
            yield labels[0], name, "Instruction", rest
            for label, rows in named.items():
                if label in labels or rows.any():
                    yield label, name, "Instruction", rows

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
            "columns": OVERVIEW_COLUMNS,
            "tracks": [
                {
                    "label": t.label,
                    "engine": t.engine,
                    "busy": t.busy_ns,
                    "count": len(t.rows),
                    "unit": "transfers" if t.table == TRANSFERS else "instructions",
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
        return lanes, np.concatenate(order) if order else np.zeros(0, dtype=np.int64)

    def events(self) -> Iterator[bytes]:
        """Yield the columns of all events, lane by lane, in chunks a browser can take one at a time."""
        lanes, order = self._lanes
        start = np.concatenate([t.start for t in self.tracks])[order] - self.first_ns
        end = np.concatenate([t.end for t in self.tracks])[order] - self.first_ns
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
            column = self.profile.strings(
                track.table, "variable" if track.table == TRANSFERS else "opcode"
            )
            own = column.codes[track.rows]
            used, inverse = np.unique(own, return_inverse=True)
            names = [column.values[c] if c >= 0 else track.label for c in used.tolist()]
            numbers = np.array([known.setdefault(n, len(known)) for n in names], dtype=np.int64)
            codes.append(numbers[inverse])
        return list(known), _joined(codes)[order]

    def _lines(self, order: np.ndarray) -> tuple[list[dict[str, str]], np.ndarray]:
        """Return the author's lines, and per event a number into them or -1."""
        places, of_instruction = instruction_lines(self.data)
        issuer = self.issuers
        of_transfer = np.full(len(issuer), -1)
        if len(of_instruction):
            of_transfer = np.where(issuer >= 0, of_instruction[issuer], -1)
        by_table = {"Instruction": of_instruction, TRANSFERS: of_transfer}
        return places, _joined([by_table[t.table][t.rows] for t in self.tracks])[order]

    @cached_property
    def issuers(self) -> np.ndarray:
        """Per transfer, the row of the instruction that issued it, or -1."""
        return issuers(self.profile)

    def event(self, number: int) -> tuple[str, int]:
        """Return the table and row of event `number` of `events`."""
        order = self._lanes[1]
        place = int(order[number])
        for track in self.tracks:
            if place < len(track.rows):
                return track.table, int(track.rows[place])
            place -= len(track.rows)
        raise IndexError(number)


def instruction_lines(data: ViewData) -> tuple[list[dict[str, str]], np.ndarray]:
    """Return the author's lines and, per row of Instruction, a number into them or -1."""
    places, rows = line_rows(data)
    return [{"place": place.heading, "text": place.text} for place in places], rows


def event_detail(timeline: Timeline, number: int) -> dict[str, Any]:
    """Return what the profile knows of one event, by column name, and the operation it belongs to."""
    profile, operations = timeline.profile, timeline.data.operations
    table, row = timeline.event(number)
    record = next(profile.records(table, row, row + 1))
    known = {name: value for name, value in record.items() if value is not None}
    detail: dict[str, Any] = {"table": table, "fields": known}
    instruction = row if table == "Instruction" else int(timeline.issuers[row])
    known_positions = positions(profile)
    if known_positions is not None and instruction >= 0:
        position = int(known_positions[instruction])
        if 0 <= position < len(operations):
            detail |= {"position": position, "operation": operations[position].text}
    return detail


def _joined(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
