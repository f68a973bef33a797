"""Lays out the timeline of a profile: slices on tracks, and the arrows between them.

A track shows one slice at a time, so spans that overlap (transfers of one queue, instructions behind each other in a
pipeline) go to their own tracks. Every slice shows its row of the profile, except amounts that are 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nki_lab.profiler import intervals
from nki_lab.profiler.analyses.loops import loop_values
from nki_lab.profiler.analyses.source_lines import dependences
from nki_lab.profiler.columns import Strings
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import ENGINES, TABLES, TRANSFERS

#: Names of the timeline tracks of each engine, in the order they are shown.
ENGINE_TRACKS = {
    "tensor": ("Tensor", "TensorMatrix"),
    "vector": ("Vector",),
    "scalar": ("Scalar",),
    "gpsimd": ("GpSimd",),
    "sync": ("Sync",),
}
#: What to say where tracks of one engine stand below its share of the time, by engine.
SHARED_TRACKS = {
    engine: f"{names[0]}, the engine, is busy while {' or '.join(names)} is: its share is of their union"
    for engine, names in ENGINE_TRACKS.items()
    if len(names) > 1
}
_TABLES = ("Instruction", TRANSFERS)
_SHOWN_IN_SLICE = {"start_ts", "end_ts", "duration_ns"}
_AMOUNTS = {
    name
    for table in _TABLES
    for name in TABLES[table]
    if name.endswith("_bytes") or "flops" in name
}
_ROWS_AT_ONCE = 1 << 14


class DrawnTrack(NamedTuple):
    """A line of the timeline: its number from 1 on, core, name, and where it stands among those of its core."""

    number: int
    core: int
    name: str
    rank: int


class DrawnSlice(NamedTuple):
    """A span on a track.

    Attributes:
        event: its number: rows of Instruction, then those of DmaPacketAggregated.
        table: the table of its row.
        title: what is written on it.
        track: the track.
        start, end: times in ns.
        args: further facts of the row.
    """

    event: int
    table: str
    title: str
    track: DrawnTrack
    start: int
    end: int
    args: dict[str, Any]


class Drawing:
    """The timeline of a profile; slices are made on demand, some at a time."""

    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        columns = [[_column(profile, t, c) for t in _TABLES] for c in ("start_ts", "end_ts", "pcore_idx")]  # fmt: skip
        self.start, self.end, self.core = (np.concatenate(parts) for parts in columns)
        self.drawn = (self.start >= 0) & (self.end >= self.start)
        self._count = profile.count("Instruction")

    @cached_property
    def _named(self) -> tuple[list[DrawnTrack], np.ndarray]:
        """The tracks, and the place of each event's track among them."""
        order = [track for engine in ENGINES for track in ENGINE_TRACKS[engine]]
        names: dict[str, int] = {}
        codes = []
        for table in _TABLES:
            column = track_names(self.profile, table)
            numbers = [names.setdefault(name, len(names)) for name in column.values]
            codes.append(np.array([*numbers, -1], dtype=np.int64)[column.codes])
        code = np.concatenate(codes)
        in_order = list(names)
        keys = np.stack([self.core, code], axis=1)[self.drawn]
        if not len(keys):
            return [], np.full(len(code), -1)
        pairs, first, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        by_first = np.argsort(first, kind="stable")
        tracks = []
        for number, pair in enumerate(pairs[by_first].tolist(), 1):
            name = in_order[pair[1]]
            base = name.split(" (")[0]
            rank = order.index(base) if base in order else len(order)
            tracks.append(DrawnTrack(number, pair[0], name, rank * 1000 + number))
        places = np.full(len(code), -1)
        places[self.drawn] = np.argsort(by_first)[place.reshape(-1)]
        return tracks, places

    @property
    def tracks(self) -> list[DrawnTrack]:
        """Every track that has slices, in the order of their first ones."""
        return self._named[0]

    def track(self, event: int) -> DrawnTrack:
        """Return the track of an event that is drawn."""
        return self._named[0][self._named[1][event]]

    def slices(self, in_time: bool = False) -> Iterator[DrawnSlice]:
        """Yield the slices table by table, in the order of rows or of time."""
        for table, first in zip(_TABLES, (0, self._count), strict=True):
            rows = np.arange(self.profile.count(table))
            if in_time:
                events = slice(first, first + len(rows))
                rows = np.lexsort((self.end[events], self.start[events]))
            yield from self._of_rows(table, first, rows)

    def _of_rows(self, table: str, first: int, rows: np.ndarray) -> Iterator[DrawnSlice]:
        profile = self.profile
        loops = loop_values(profile) if table == "Instruction" else None
        for at in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[at : at + _ROWS_AT_ONCE]
            for row, record in zip(part.tolist(), profile.rows(table, part), strict=True):
                event = first + row
                if not self.drawn[event]:
                    continue
                title = (
                    record["opcode"] if loops is not None else record["variable"] or record["op"]
                )
                args = {
                    k: v
                    for k, v in record.items()
                    if v is not None and k not in _SHOWN_IN_SLICE and (v or k not in _AMOUNTS)
                }
                if loops is not None and loops[row] is not None:
                    args["iteration"] = loops[row]
                yield DrawnSlice(
                    event, table, title or table, self.track(event), record["start_ts"], record["end_ts"], args
                )  # fmt: skip

    @cached_property
    def arrows(self) -> tuple[np.ndarray, np.ndarray, list[str]]:
        """Per dependence between two slices, the events it leads from and to, and its kind."""
        giver, taker = dependences(self.profile)
        use = (giver >= 0) & (taker >= 0)
        use[use] = self.drawn[giver[use]] & self.drawn[taker[use]]
        kinds = self.profile.strings("Flow", "dependency_type").take(np.flatnonzero(use)).to_list()
        return giver[use], taker[use], [kind or "dependency" for kind in kinds]


def _column(profile: ProfileData, table: str, name: str) -> np.ndarray:
    """Return a column of times, -1 where unknown; of cores, 0."""
    column = profile.column(table, name)
    unknown = 0 if name == "pcore_idx" else -1
    if column is None:
        return np.full(profile.count(table), unknown)
    return np.asarray(np.ma.filled(column, unknown))  # type: ignore[arg-type]


def track_names(profile: ProfileData, table: str) -> Strings:
    """Return the track each row of Instruction or DmaPacketAggregated is shown on.

    Rows of one track do not overlap: a second lane of `Vector` is `Vector (2)`.
    """
    if table == TRANSFERS:
        base = profile.strings(table, "queue_name")
        base = Strings(base.codes, base.values or ("DMA",))
    else:
        base = _engine_tracks(profile)
    core = profile.numbers(table, "pcore_idx")
    start, end = profile.numbers(table, "start_ts"), profile.numbers(table, "end_ts")
    names: dict[str, int] = {}
    codes = np.zeros(len(start), dtype=np.int32)
    for number in np.unique(core):
        for code in np.unique(base.codes):
            rows = np.flatnonzero((base.codes == code) & (core == number))
            name = base.values[code] if code >= 0 else "DMA"
            lanes = intervals.lanes(start[rows], end[rows])
            for lane in np.unique(lanes).tolist():
                lane_name = f"{name} ({lane + 1})" if lane else name
                codes[rows[lanes == lane]] = names.setdefault(lane_name, len(names))
    return Strings(codes, names)


def _engine_tracks(profile: ProfileData) -> Strings:
    engine = profile.strings("Instruction", "engine")
    track = profile.strings("Instruction", "timeline_track")
    values = [ENGINE_TRACKS[e][0] if e in ENGINE_TRACKS else e for e in engine.values]
    fallback = len(track.values) + engine.codes
    return Strings(np.where(track.codes >= 0, track.codes, fallback), (*track.values, *values))
