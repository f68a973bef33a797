"""Reads a trace in Perfetto's format that neuron-profile or neuron-explorer wrote.

No page says what their traces hold, so tracks, slices, counters and flows are read as any program may write them:

    a slice on the track of an engine         a row of Instruction
    a slice on the track of a DMA queue       a row of DmaPacketAggregated
    an annotation with the name of a column   that column, as in the JSON of the same tools
    a counter that we have a curve for        a row of SbufUsage, PsumUsage, PendingDma, DmaUsage or HbmUsage
    a flow between two slices                 a row of Flow

Every other track is counted, and the table Warning names it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nki_lab.errors import BadFile
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.explorer_json import COLUMNS, instance_in, name_engine
from nki_lab.profiler.formats.imported import (
    Chip,
    Rows,
    checked,
    chip_of,
    engine_of,
    numbered,
    told_names,
    warnings,
    with_metadata,
)
from nki_lab.profiler.formats.perfetto_events import Counted, Slice, TraceEvents, Track
from nki_lab.profiler.formats.reading import beginning_of, read_bytes, reading
from nki_lab.profiler.schema import FLOW_ENDS, TRANSFERS
from nki_lab.profiler.span import BEGINS, ENDS, MOST_EVENTS

_ENDINGS = (".pftrace", ".perfetto-trace", ".perfetto", ".pb")
#: A trace begins with a packet.
_HEAD = re.compile(rb"\n")
_QUEUE = re.compile(r"q[A-Z]\w*|.*\b(?:dma|queue)\b.*", re.IGNORECASE)
_CORE = re.compile(r"(?:neuron ?core|physical core|core|nc)[ _:#-]*(\d{1,3})\b", re.IGNORECASE)
#: What a counter is called, in small letters -> the table and column of its curve.
_CURVES = {
    "sbuf usage": ("SbufUsage", "avg_util_percent"),
    "psum usage": ("PsumUsage", "avg_util_percent"),
    "pending dma": ("PendingDma", "value"),
    "dma throughput": ("DmaUsage", "current_throughput"),
    "hbm throughput": ("HbmUsage", "current_throughput"),
}
#: Unit of a counter -> factor to the unit of its column.
_FACTORS = {"%": 0.01, "percent": 0.01, "gb/s": 1e9, "mb/s": 1e6, "kb/s": 1e3}
_ENDS = {table: name for name, table in FLOW_ENDS.items()}
_HELP = "export it again: neuron-explorer view -n FILE.neff -s FILE.ntff --output-format parquet"


def is_foreign_trace(path: Path) -> bool:
    """Tell whether a file is called as a trace of Perfetto and begins like one."""
    return path.suffix.lower() in _ENDINGS and _HEAD.match(beginning_of(path)) is not None


def load_foreign_trace(path: Path, target: Chip = None) -> ProfileData:
    """Read the profile of a trace in Perfetto's format.

    Args:
        path: the file.
        target: the chip, where the trace does not name an instance.

    Raises BadFile with one sentence where it cannot be read, or no track of it is that of an engine or a queue.
    """
    data = read_bytes(path, _HEAD)
    with reading(f"{path.name} is not a readable trace", _HELP):
        taken = _Taken(path.name)
        events = TraceEvents()
        for event in events.read(data):
            if isinstance(event, Slice):
                taken.slice(event)
            else:
                taken.value(event)
        return checked(taken.profile(target, events))


class _Taken:
    """What has been taken of a trace."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: dict[str, Rows] = {}
        self._others: Counter[str] = Counter()
        self._instance: str | None = None
        #: Flow -> the events it leads through, with their time.
        self._flows: dict[int, list[tuple[int, str, int]]] = {}

    def slice(self, event: Slice) -> None:
        """Take a slice."""
        args = dict(event.annotations)
        self._instance = self._instance or instance_in(args)
        table = _table_of(event, args)
        if table is None:
            self._others[event.track.path or "a track without a name"] += 1
            return
        rows = self._rows.setdefault(table, Rows(table))
        if rows.count >= MOST_EVENTS:
            raise BadFile(
                f"{self._name} has more than {MOST_EVENTS:,} events, the most that are read from a trace",
                help=_HELP,
            )
        renamed = COLUMNS[table]
        row = {renamed.get(name, name): value for name, value in args.items()}
        row |= {BEGINS: event.start, ENDS: event.end}
        row.setdefault("pcore_idx", _core(event.track))
        if table == "Instruction":
            row.setdefault("opcode", event.name)
            row.setdefault("label", event.track.name)
            name_engine(row)
        else:
            row.setdefault("queue_name", event.track.name)
            row.setdefault("variable", event.name)
        rows.add(row)
        ident = row.get("id", rows.count)
        for flow in event.flows:
            self._flows.setdefault(flow, []).append((event.start, table, ident))

    def value(self, event: Counted) -> None:
        """Take a value of a counter."""
        curve = _CURVES.get(event.track.name.lower())
        if curve is None:
            self._others[event.track.path or "a counter without a name"] += 1
            return
        table, column = curve
        value = event.value * _FACTORS.get(event.track.unit.lower(), 1.0)
        rows = self._rows.setdefault(table, Rows(table))
        rows.add({"timestamp": event.time, column: value, "pcore_idx": _core(event.track)})

    def profile(self, target: Chip, events: TraceEvents) -> ProfileData:
        """Return the profile of all that was taken."""
        if not self._rows.get("Instruction") and not self._rows.get(TRANSFERS):
            tracks = "; ".join(told_names("its tracks", self._others)) or "it has no slices"
            raise BadFile(
                f"{self._name} shows no engine and no DMA queue: {tracks}",
                help="a trace of a device profile is called device_profile_model_N.pftrace or ntff.pftrace",
            )
        chip = chip_of(self._name, self._instance, target)
        unknown: Counter[str] = Counter()
        tables: dict[str, Any] = {}
        for table, rows in self._rows.items():
            tables[table] = (
                numbered(rows.columns(), rows.count) if table in COLUMNS else rows.columns()
            )
            unknown.update({f"{table}.{name}": count for name, count in rows.unknown.items()})
        if flows := self._flow_rows():
            tables["Flow"] = flows
        about = {"instance_type": self._instance} if self._instance else {}
        tables["Metadata"] = with_metadata(about, tables, chip)
        messages = [
            *events.doubts,
            *told_names(
                "tracks that are neither an engine nor a queue, with their slices or values",
                self._others,
            ),
            *told_names(
                "annotations that the schema has no column for, with their number", unknown
            ),
        ]
        if messages:
            tables["Warning"] = warnings(messages)
        return ProfileData.from_tables(
            chip, tables, is_simulation=False, name=Path(self._name).stem
        )

    def _flow_rows(self) -> dict[str, list[Any]]:
        rows: dict[str, list[Any]] = {"in_id": [], "out_id": [], "in_table": [], "out_table": []}
        for ends in self._flows.values():
            ends.sort()
            for (_, table, one), (_, after, other) in itertools.pairwise(ends):
                rows["in_id"].append(one)
                rows["out_id"].append(other)
                rows["in_table"].append(_ENDS[table])
                rows["out_table"].append(_ENDS[after])
        return rows if rows["in_id"] else {}


def _table_of(event: Slice, args: Mapping[str, Any]) -> str | None:
    """Return the table whose row a slice is; None where it is a row of neither."""
    if event.category in COLUMNS:
        return event.category
    names = list(event.track.names())
    if engine_of(names[0]) is not None:
        return "Instruction"
    if "transfer_bytes" in args or "queue_name" in args or any(map(_QUEUE.fullmatch, names)):
        return TRANSFERS
    return "Instruction" if any(engine_of(name) is not None for name in names[1:]) else None


def _core(track: Track) -> int:
    """Return the core that a track or one above it names; 0 where none does."""
    found: Iterator[re.Match[str]] = filter(None, map(_CORE.search, track.names()))
    match = next(found, None)
    return int(match[1]) if match else 0
