"""How does a profile open in Perfetto or another viewer of Chrome traces?

Times in a Chrome trace are microseconds with fractions. A track shows one slice at a time, so
spans that overlap (transfers of one queue, instructions behind each other in a pipeline) go to
tracks of their own. Every slice shows its row of the profile. Behind the events, where viewers do not
look, stands the profile itself, so that nothing is lost on the way back (`import_perfetto`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.profiler import intervals
from nki_lab.profiler.columns import Strings
from nki_lab.profiler.iterations import loop_values
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.profile_json import FORMAT_VERSION, document_of, dump, shown_number
from nki_lab.profiler.reading import write_whole
from nki_lab.profiler.schema import ENGINES, TABLES, TRANSFERS

#: Names of the timeline tracks of each engine, in the order they are shown.
ENGINE_TRACKS = {
    "tensor": ("Tensor", "TensorMatrix"),
    "vector": ("Vector",),
    "scalar": ("Scalar",),
    "gpsimd": ("GpSimd",),
    "sync": ("Sync",),
}
_SHOWN_IN_SLICE = {"start_ts", "end_ts", "duration_ns"}


#: Name of the first event, which tells that the trace is ours.
MARK = "nki_lab profile"


def to_chrome_trace(profile: Profile) -> str:
    """Return a profile as a Chrome trace (JSON object form) that Perfetto opens."""
    return "".join(_pieces(profile))


def save_chrome_trace(profile: Profile, path: str | Path) -> Path:
    """Write the Chrome trace of a profile to a file, in one step, and return its path."""
    path = Path(path)
    write_whole(path, _pieces(profile))
    return path


def _pieces(profile: Profile) -> Iterator[str]:
    # Perfetto reads nothing behind a key that it does not know, so ours comes last.
    mark = {"ph": "M", "name": MARK, "pid": 0, "args": {"version": FORMAT_VERSION}}
    yield '{"displayTimeUnit":"ns","traceEvents":['
    yield dump(mark)
    for event in _events(profile):
        yield f",\n{dump(event)}"
    yield '],"otherData":'
    yield dump(document_of(profile))
    yield "}"


def track_names(profile: Profile, table: str) -> Strings:
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
            for row, lane in zip(rows, intervals.lanes(start[rows], end[rows]), strict=True):
                lane_name = f"{name} ({lane + 1})" if lane else name
                codes[row] = names.setdefault(lane_name, len(names))
    return Strings(codes, names)


def _engine_tracks(profile: Profile) -> Strings:
    engine = profile.strings("Instruction", "engine")
    track = profile.strings("Instruction", "timeline_track")
    values = [ENGINE_TRACKS[e][0] if e in ENGINE_TRACKS else e for e in engine.values]
    fallback = len(track.values) + engine.codes
    return Strings(np.where(track.codes >= 0, track.codes, fallback), (*track.values, *values))


def _events(profile: Profile) -> Iterator[dict[str, Any]]:
    threads: dict[tuple[int, str], int] = {}
    slices = []
    for table in ("Instruction", TRANSFERS):
        tracks = track_names(profile, table).to_list()
        loops = loop_values(profile).to_list() if table == "Instruction" else [None] * len(tracks)
        for track, loop, record in zip(tracks, loops, profile.records(table), strict=True):
            if loop is not None:
                record["iteration"] = loop
            if record["start_ts"] is None or record["end_ts"] is None:
                continue
            core = record["pcore_idx"] or 0
            thread = threads.setdefault((core, track or "DMA"), len(threads) + 1)
            slices.append(_slice(table, record, core, thread))
    yield from _thread_names(threads)
    yield from slices
    yield from _flows(profile, slices)
    yield from _counters(profile)


def _slice(table: str, record: dict[str, Any], core: int, thread: int) -> dict[str, Any]:
    title = record["opcode"] if table == "Instruction" else record["variable"] or record["op"]
    known = {
        k: shown_number(v) for k, v in record.items() if v is not None and k not in _SHOWN_IN_SLICE
    }
    return {
        "ph": "X",
        "name": title or table,
        "cat": table,
        "ts": _us(record["start_ts"]),
        "dur": _us(record["end_ts"] - record["start_ts"]),
        "pid": core,
        "tid": thread,
        "args": known,
    }


def _us(ns: int) -> float | int:
    return ns // 1000 if ns % 1000 == 0 else ns / 1000


def _thread_names(threads: dict[tuple[int, str], int]) -> Iterator[dict[str, Any]]:
    order = [track for engine in ENGINES for track in ENGINE_TRACKS[engine]]
    for core in sorted({core for core, _ in threads}):
        name = {"name": f"NeuronCore {core}"}
        yield {"ph": "M", "name": "process_name", "pid": core, "args": name}
    for (core, track), thread in threads.items():
        where = {"pid": core, "tid": thread}
        base = track.split(" (")[0]
        rank = order.index(base) if base in order else len(order)
        yield {"ph": "M", "name": "thread_name", **where, "args": {"name": track}}
        sort = {"sort_index": rank * 1000 + thread}
        yield {"ph": "M", "name": "thread_sort_index", **where, "args": sort}


def _flows(profile: Profile, slices: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if not profile.count("Flow"):
        return
    tables = {"instruction": "Instruction", "dma_block": TRANSFERS}
    place = {(event["cat"], event["args"].get("id")): event for event in slices}
    for number, flow in enumerate(profile.records("Flow")):
        giver = place.get((tables.get(flow["in_table"]), flow["in_id"]))
        taker = place.get((tables.get(flow["out_table"]), flow["out_id"]))
        if giver is None or taker is None:
            continue
        kind = {"name": flow["dependency_type"] or "dependency", "cat": "Flow", "id": number}
        end = round(giver["ts"] * 1000) + round(giver["dur"] * 1000)
        yield {"ph": "s", **kind, "ts": _us(end), "pid": giver["pid"], "tid": giver["tid"]}
        arrow = {"ph": "f", "bp": "e", **kind}
        yield {**arrow, "ts": taker["ts"], "pid": taker["pid"], "tid": taker["tid"]}


_COUNTERS = {
    "SbufUsage": ("SBUF usage", "avg_util_percent", 100.0, "%"),
    "PsumUsage": ("PSUM usage", "avg_util_percent", 100.0, "%"),
    "PendingDma": ("Pending DMA", "value", 1.0, "transfers"),
    "HbmUsage": ("HBM throughput", "current_throughput", 1e-9, "GB/s"),
}


def _counters(profile: Profile) -> Iterator[dict[str, Any]]:
    for table, (title, column, scale, unit) in _COUNTERS.items():
        assert column in TABLES[table]
        times = profile.numbers(table, "timestamp").tolist()
        values = profile.numbers(table, column).tolist()
        cores = profile.numbers(table, "pcore_idx").tolist()
        for time, value, core in zip(times, values, cores, strict=True):
            args = {unit: shown_number(round(value * scale, 6))}
            yield {"ph": "C", "name": title, "pid": core, "ts": _us(time), "args": args}
