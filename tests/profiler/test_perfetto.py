"""Chrome traces: microseconds, no overlap on a track, and the same nanoseconds on the way back."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from nki_lab.errors import BadFile
from nki_lab.profiler.analyses.drawing import track_names
from nki_lab.profiler.formats.chrome import save_chrome_trace, to_chrome_trace
from nki_lab.profiler.formats.traces import from_chrome_trace
from nki_lab.profiler.profile import Profile
from nki_lab.targets import TRN2

from .example import DMA, INSTRUCTION, profile


def events(kind: str) -> list[dict[str, Any]]:
    return [e for e in json.loads(to_chrome_trace(profile()))["traceEvents"] if e["ph"] == kind]


def track_of(event: dict[str, Any]) -> str:
    names = {
        (e["pid"], e["tid"]): e["args"]["name"] for e in events("M") if e["name"] == "thread_name"
    }
    return names[event["pid"], event["tid"]]


def test_times_are_microseconds_with_fractions() -> None:
    vector = [e for e in events("X") if track_of(e) == "Vector"]
    assert [e["dur"] for e in vector] == [1.1, 0.2, 0.3, 0.4]
    assert [e["ts"] for e in vector] == [1, 2.1, 2.3, 2.7]


def test_no_track_holds_two_slices_at_once() -> None:
    tracks = defaultdict(list)
    for event in events("X"):
        start = round(event["ts"] * 1000)
        span = (start, start + round(event["dur"] * 1000))
        tracks[event["pid"], event["tid"]].append(span)
    for spans in tracks.values():
        spans.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    transfers = [e for e in events("X") if e["cat"] == "DmaPacketAggregated"]
    assert [track_of(e) for e in transfers] == ["qSyncStatic0", "qSyncStatic0 (2)"]


def test_every_slice_names_its_line() -> None:
    places = {e["name"]: e["args"].get("nki_source_location") for e in events("X")}
    assert places["TENSOR_TENSOR"] == "cell:4"
    assert places["DMA_TRIGGER"] == "cell:3"


def test_matmuls_have_their_own_track() -> None:
    assert [track_of(e) for e in events("X") if e["name"] == "MATMUL"] == ["TensorMatrix"]


def test_the_same_whole_nanoseconds_come_back() -> None:
    p = profile()
    again = from_chrome_trace(to_chrome_trace(p))
    assert again.is_simulation and again.target is TRN2 and again.name == p.name
    assert again == p
    for table in ("Instruction", "DmaPacketAggregated"):
        assert list(again.records(table)) == list(p.records(table))
        drawn = [e for e in events("X") if e["cat"] == table]
        assert [round(e["ts"] * 1000) for e in drawn] == p.numbers(table, "start_ts").tolist()
        assert [round(e["dur"] * 1000) for e in drawn] == p.numbers(table, "duration_ns").tolist()


def test_rows_without_times_are_kept_though_not_drawn() -> None:
    table = {"start_ts": [None, 3], "end_ts": [4, 5], "id": [1, 2], "engine": "vector"}
    p = Profile.from_tables(TRN2, {"Instruction": table}, is_simulation=True)
    text = to_chrome_trace(p)
    drawn = [e["ts"] for e in json.loads(text)["traceEvents"] if e["ph"] == "X"]
    assert drawn == [0.003]
    again = from_chrome_trace(text)
    assert [r["duration_ns"] for r in again.records("Instruction")] == [None, 2]
    assert again == p


def test_times_of_days_survive() -> None:
    day = 86_400 * 10**9 + 1
    table = {"start_ts": [0, day], "end_ts": [1, day + 7], "id": [1, 2], "engine": "vector"}
    p = Profile.from_tables(TRN2, {"Instruction": table}, is_simulation=True)
    text = to_chrome_trace(p)
    drawn = [e for e in json.loads(text)["traceEvents"] if e["ph"] == "X"]
    assert [round(e["ts"] * 1000) for e in drawn] == [0, day]
    assert [round(e["dur"] * 1000) for e in drawn] == [1, 7]
    again = from_chrome_trace(text)
    assert again.numbers("Instruction", "start_ts").tolist() == [0, day]
    assert again.numbers("Instruction", "end_ts").tolist() == [1, day + 7]


def test_arrows_and_counters() -> None:
    starts, ends = events("s"), events("f")
    assert [e["ts"] for e in starts] == [0.05, 0.9]
    assert [e["ts"] for e in ends] == [0.1, 1]
    names = {e["name"] for e in events("C")}
    assert names == {
        "SBUF usage", "PSUM usage", "Pending DMA", "DMA throughput", "HBM throughput", "MFU",
    }  # fmt: skip


def test_tracks_without_names_or_queues() -> None:
    bare = {"start_ts": [0, 5], "end_ts": [9, 8], "engine": ["vector", "sync"]}
    p = Profile.from_tables(TRN2, {"Instruction": bare}, is_simulation=True)
    assert track_names(p, "Instruction").to_list() == ["Vector", "Sync"]
    transfers = {k: v for k, v in DMA.items() if k != "queue_name"}
    p = profile(DmaPacketAggregated=transfers)
    assert track_names(p, "DmaPacketAggregated").to_list() == ["DMA", "DMA (2)"]


def test_pipelined_instructions_go_to_a_second_lane() -> None:
    overlapping = INSTRUCTION | {"end_ts": [50, 2200, 2300, 2600, 3100, 800]}
    p = profile(Instruction=overlapping)
    tracks = track_names(p, "Instruction").to_list()
    assert tracks == ["Sync", "Vector", "Vector (2)", "Vector", "Vector", "TensorMatrix"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"traceEvents": []}', '{"otherData": 3}'])
def test_other_text_is_refused(text) -> None:
    with pytest.raises(BadFile, match="is not a trace written by nki_lab"):
        from_chrome_trace(text)


def test_saved_file_is_the_document(tmp_path) -> None:
    path = save_chrome_trace(profile(), tmp_path / "run.json")
    assert path.read_text() == to_chrome_trace(profile())
    assert Profile.load(path) == profile()  # whatever the name
