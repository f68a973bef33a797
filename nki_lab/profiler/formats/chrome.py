"""Writes a profile as a Chrome trace, which Perfetto and other viewers open.

Times in a Chrome trace are microseconds with fractions. Behind the events, where viewers do not look, stands the
profile itself, so that nothing is lost on the way back (`traces`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nki_lab.profiler.analyses.curves import curves
from nki_lab.profiler.analyses.drawing import Drawing, DrawnSlice
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.profile_json import FORMAT_VERSION, document_of, dump, shown_number
from nki_lab.profiler.formats.reading import write_whole

#: Name of the first event, which tells that the trace is ours.
MARK = "nki_lab profile"


def to_chrome_trace(profile: ProfileData) -> str:
    """Return a profile as a Chrome trace (JSON object form) that Perfetto opens."""
    return "".join(_pieces(profile))


def save_chrome_trace(profile: ProfileData, path: str | Path) -> Path:
    """Write the Chrome trace of a profile to a file, in one step, and return its path."""
    path = Path(path)
    write_whole(path, _pieces(profile))
    return path


def _pieces(profile: ProfileData) -> Iterator[str]:
    # Perfetto reads nothing behind a key that it does not know, so ours comes last.
    mark = {"ph": "M", "name": MARK, "pid": 0, "args": {"version": FORMAT_VERSION}}
    yield '{"displayTimeUnit":"ns","traceEvents":['
    yield dump(mark)
    for event in _events(Drawing(profile)):
        yield f",\n{dump(event)}"
    yield '],"otherData":'
    yield dump(document_of(profile))
    yield "}"


def _events(drawing: Drawing) -> Iterator[dict[str, Any]]:
    yield from _names(drawing)
    yield from map(_slice, drawing.slices())
    yield from _arrows(drawing)
    for curve in curves(drawing.profile):
        for time, value in zip(curve.times.tolist(), curve.values.tolist(), strict=True):
            args = {curve.unit: shown_number(round(value, 6))}
            yield {"ph": "C", "name": curve.title, "pid": curve.core, "ts": _us(time), "args": args}


def _names(drawing: Drawing) -> Iterator[dict[str, Any]]:
    for core in sorted({track.core for track in drawing.tracks}):
        name = {"name": f"NeuronCore {core}"}
        yield {"ph": "M", "name": "process_name", "pid": core, "args": name}
    for track in drawing.tracks:
        where = {"pid": track.core, "tid": track.number}
        yield {"ph": "M", "name": "thread_name", **where, "args": {"name": track.name}}
        sort = {"sort_index": track.rank}
        yield {"ph": "M", "name": "thread_sort_index", **where, "args": sort}


def _slice(shown: DrawnSlice) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": shown.title,
        "cat": shown.table,
        "ts": _us(shown.start),
        "dur": _us(shown.end - shown.start),
        "pid": shown.track.core,
        "tid": shown.track.number,
        "args": {name: shown_number(value) for name, value in shown.args.items()},
    }


def _us(ns: int) -> float | int:
    return ns // 1000 if ns % 1000 == 0 else ns / 1000


def _arrows(drawing: Drawing) -> Iterator[dict[str, Any]]:
    giver, taker, kinds = drawing.arrows
    ends, begins = drawing.end[giver].tolist(), drawing.start[taker].tolist()
    for number, (a, b) in enumerate(zip(giver.tolist(), taker.tolist(), strict=True)):
        kind = {"name": kinds[number], "cat": "Flow", "id": number}
        begin, end = drawing.track(a), drawing.track(b)
        yield {
            "ph": "s", **kind, "ts": _us(ends[number]), "pid": begin.core, "tid": begin.number,
        }  # fmt: skip
        yield {
            "ph": "f", "bp": "e", **kind, "ts": _us(begins[number]), "pid": end.core, "tid": end.number,
        }  # fmt: skip
