"""The timeline of a run: engines, DMA queues, and what changes over time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.profiler.analyses.curves import Curve
from nki_lab.profiler.analyses.loops import loop_values
from nki_lab.profiler.analyses.report import TOTALS_ALONE, badge
from nki_lab.profiler.analyses.source_lines import issuers
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.profiler.text_table import text_table
from nki_lab.source import place_text
from nki_lab.views.registry import STORED_OPERATIONS, Needs, Number, Parts, View, of_parts
from nki_lab.views.run import ViewData
from nki_lab.views.timeline.curves import known_curves, timeline_curves
from nki_lab.views.timeline.model import timeline_of
from nki_lab.views.timeline.picture import timeline_view_picture
from nki_lab.views.timeline.relations import TimelineRelations, programs_of
from nki_lab.widgets.packing import UnknownPart, pack

#: Profiles of at most this many events are prepared in advance.
STORED_EVENTS = 20_000
_EVENTS_SHOWN = 40


def timeline_text(data: ViewData, limit: int | None) -> list[str]:
    """Return the first events as a table; with the programs of a launch grid that one core runs."""
    profile = data.profile
    programs = programs_of(loop_values(profile), issuers(profile)) if data.grid else []
    issued = _first_rows(
        profile, "Instruction", programs, "engine", "opcode", "nki_source_location"
    )
    moved = _first_rows(
        profile,
        TRANSFERS,
        programs[profile.count("Instruction") :],
        "queue_name",
        "transfer_bytes",
        "variable",
    )
    moved = [(*event[:3], f"{event[3]:,} bytes", *event[4:]) for event in moved]
    events = sorted(issued + moved, key=lambda event: event[:3])
    rows = [
        (f"{start:,}", f"{end:,}", lane, what, place_text(where), *program)
        for start, end, lane, what, where, *program in events[:_EVENTS_SHOWN]
    ]
    heads = (
        "start ns",
        "end ns",
        "engine or queue",
        "what",
        "line or tensor",
        *["program"] * bool(data.grid),
    )
    count = profile.count("Instruction") + profile.count(TRANSFERS)
    if profile.is_of_totals:
        return [badge(profile), TOTALS_ALONE]
    return [badge(profile), *text_table(heads, rows, None if limit is None else limit - 1, count)]


def _first_rows(
    profile: Profile, table: str, programs: list[str | None], *columns: str
) -> list[tuple]:
    """Return start, end, some columns and, where they are known, the program of the rows that start first."""
    start, end = (profile.numbers(table, name) for name in ("start_ts", "end_ts"))
    chosen = np.lexsort((end, start))[:_EVENTS_SHOWN]
    rows = []
    for row in chosen.tolist():
        values = []
        for name in columns:
            column = profile.column(table, name)
            values.append("" if column is None or column[row] is None else column[row])
        program = [programs[row] or ""] if programs else []
        rows.append((int(start[row]), int(end[row]), *values, *program))
    return rows


def _relations(parts: Parts) -> TimelineRelations:
    return TimelineRelations(parts.kept(timeline_of))


def _curves(parts: Parts) -> list[tuple[int, Curve]]:
    return known_curves(parts.kept(timeline_of))


def _span_ns(parts: Parts) -> int:
    timeline = parts.kept(timeline_of)
    return timeline.last_ns - timeline.first_ns


@of_parts
def _overview(parts: Parts) -> bytes:
    return parts.kept(timeline_of).overview()


@of_parts
def _events(parts: Parts) -> Iterator[bytes]:
    return parts.kept(timeline_of).events()


@of_parts
def _event(parts: Parts, number: int) -> bytes:
    return pack(parts.kept(_relations).event_detail(number))


@of_parts
def _event_relations(parts: Parts, number: int) -> bytes:
    return pack(parts.kept(_relations).event_relations(number))


@of_parts
def _all_curves(parts: Parts) -> bytes:
    return timeline_curves(parts.kept(timeline_of), parts.kept(_curves), 0, _span_ns(parts))


@of_parts
def _some_curves(parts: Parts, first: int, last: int) -> bytes:
    if first >= last:
        raise UnknownPart(f"there is no time from {first} to {last}")
    return timeline_curves(parts.kept(timeline_of), parts.kept(_curves), first, last)


@of_parts
def _path(parts: Parts) -> bytes:
    return parts.kept(_relations).critical_events()


@of_parts
def _stalls(parts: Parts) -> bytes:
    return parts.kept(_relations).stalls()


@of_parts
def _programs(parts: Parts) -> bytes:
    return parts.kept(_relations).programs()


@of_parts
def _tensors(parts: Parts) -> bytes:
    return parts.kept(_relations).tensors()


@of_parts
def _first(parts: Parts) -> list[str]:
    few = parts.kept(timeline_of).count <= STORED_EVENTS
    return ["timeline", *(("timeline/events", "timeline/curves") if few else ())]


@of_parts
def _each_event(parts: Parts) -> Iterator[str]:
    count = parts.kept(timeline_of).count
    for n in range(count if count <= STORED_OPERATIONS else 0):
        yield from (f"timeline/event/{n}", f"timeline/relations/{n}")


VIEW = View(
    name="timeline",
    title="Timeline",
    needs=Needs.TIMES,
    text=timeline_text,
    words="Timeline of the engines and DMA queues",
    parts={
        "timeline": _overview,
        "timeline/events": _events,
        "timeline/event/{event}": _event,
        "timeline/relations/{event}": _event_relations,
        "timeline/curves": _all_curves,
        "timeline/curves/{first_ns}/{last_ns}": _some_curves,
        "timeline/path": _path,
        "timeline/stalls": _stalls,
        "timeline/tensors": _tensors,
        "timeline/programs": _programs,
    },
    numbers={
        "event": Number(lambda parts: parts.kept(timeline_of).count),
        "first_ns": Number(lambda parts: _span_ns(parts) + 1),
        "last_ns": Number(lambda parts: _span_ns(parts) + 1),
    },
    first=(_first,),
    saved=(
        "timeline/events",
        "timeline/curves",
        "timeline/stalls",
        "timeline/tensors",
        "timeline/programs",
        "timeline/path",
        _each_event,
    ),
    live=("timeline/curves/{first_ns}/{last_ns}",),
    picture=timeline_view_picture,
    compares=True,
)
