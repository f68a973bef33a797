"""Tests that the timeline shows every event, exactly where and as long as it was."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from nki_lab.profiler.schema import TRANSFERS
from nki_lab.views.run import ViewData
from nki_lab.views.timeline import model as timeline_model
from nki_lab.views.timeline.model import TimelineModel
from nki_lab.views.timeline.relations import TimelineRelations
from nki_lab.views.timeline.tracks import shared_tracks
from nki_lab.widgets.packing import unpack
from tests.profiler import example
from tests.views.runs import added, by_hand, many_events


def columns(timeline: TimelineModel) -> tuple[dict, dict[str, np.ndarray]]:
    """Return all events as the browser puts them together."""
    blocks = [unpack(block) for block in timeline.events()]
    return blocks[0][0], {
        name: np.concatenate([arrays[name] for _, arrays in blocks]) for name in blocks[0][1]
    }


def test_tracks_stand_in_the_order_of_the_trace_viewer() -> None:
    labels = [track.label for track in TimelineModel(added().view_data).tracks]
    assert labels == [
        "qSyncHwDgeIn", "qSyncHwDgeOut", "Sync", "Tensor", "TensorMatrix", "Vector", "Scalar", "GpSimd",
    ]  # fmt: skip


def test_every_event_of_the_profile_is_there() -> None:
    data = by_hand()
    timeline = TimelineModel(data)
    meta, events = columns(timeline)
    shown = []
    for track, lo, hi in meta["lanes"]:
        label = timeline.tracks[track].label
        for k in range(lo, hi):
            start = int(events["start"][k])
            shown.append(
                (
                    label,
                    start,
                    start + int(events["duration"][k]),
                    meta["titles"][events["title"][k]],
                )
            )
    # The program of this profile has copies alone: an opcode that says more follows the name.
    expected = [
        ("Sync", 0, 50, "copy (DMA_TRIGGER)"), ("Vector", 1000, 2100, "copy (TENSOR_TENSOR)"),
        ("Vector", 2100, 2300, "copy"), ("Vector", 2300, 2600, "copy"), ("Vector", 2700, 3100, "copy"),
        ("TensorMatrix", 500, 800, "copy (MATMUL)"), ("qSyncStatic0", 100, 900, "x"), ("qSyncStatic0", 400, 2400, "y"),
    ]  # fmt: skip
    assert sorted(shown) == sorted(expected)
    assert meta["total"] == len(expected)


def test_events_of_a_lane_do_not_overlap() -> None:
    meta, events = columns(TimelineModel(ViewData("many", many_events(6_000))))
    start = events["start"].astype(np.int64)
    end = start + events["duration"]
    assert len(meta["lanes"]) > 8  # queues need several lanes each
    for _, lo, hi in meta["lanes"]:
        assert (start[lo + 1 : hi] >= end[lo : hi - 1]).all()


def test_busy_time_of_a_track_counts_every_nanosecond_once() -> None:
    timeline = TimelineModel(by_hand())
    for track in timeline.tracks:
        busy = np.zeros(4_000, dtype=bool)
        for start, end in zip(track.start, track.end, strict=True):
            busy[start:end] = True
        assert track.busy_ns == busy.sum(), track.label
        edges = np.array([0, 450, 460, 1000, 2999, 4000])
        expected = [busy[a:b].mean() for a, b in pairwise(edges)]
        assert track.coverage(edges) == pytest.approx(expected, abs=1e-12), track.label


def test_overview_adds_up_to_the_busy_time() -> None:
    timeline = TimelineModel(ViewData("many", many_events(5_000)))
    shares = timeline.coverage(timeline_model.OVERVIEW_COLUMNS)
    total = timeline.last_ns - timeline.first_ns
    for track, row in zip(timeline.tracks, shares, strict=True):
        assert row.mean() * total == pytest.approx(track.busy_ns, rel=1e-9, abs=1e-6)


def test_large_profiles_come_in_chunks_that_fit_together(monkeypatch) -> None:
    data = ViewData("many", many_events(3_000))
    whole = columns(TimelineModel(data))
    monkeypatch.setattr(timeline_model, "CHUNK_EVENTS", 700)
    blocks = [unpack(block) for block in TimelineModel(data).events()]
    assert len(blocks) == 5
    assert [meta["first"] for meta, _ in blocks] == [0, 700, 1400, 2100, 2800]
    pieces = columns(TimelineModel(data))
    assert pieces[0]["lanes"] == whole[0]["lanes"]
    for name, column in whole[1].items():
        assert (column == pieces[1][name]).all()
        assert len({arrays[name].dtype for _, arrays in blocks}) == 1


def test_ten_bytes_an_event_are_enough() -> None:
    blocks = list(TimelineModel(ViewData("many", many_events(60_000))).events())
    assert sum(map(len, blocks)) < 10 * 60_000


def test_an_event_leads_to_its_row_and_its_instruction() -> None:
    timeline = TimelineModel(by_hand())
    meta, events = columns(timeline)
    for number in range(meta["total"]):
        _, table, row = timeline.event(number)
        start = int(timeline.profile.numbers(table, "start_ts")[row])
        assert start == events["start"][number] + timeline.first_ns
        detail = TimelineRelations(timeline).event_detail(number)
        assert detail["fields"]["start_ts"] == start
    transfers = [n for n in range(meta["total"]) if timeline.event(n)[1] == TRANSFERS]
    # Transfer x was issued by the first instruction, at position 0; nobody issued y.
    assert [TimelineRelations(timeline).event_detail(n).get("position") for n in transfers] == [
        0,
        None,
    ]
    with pytest.raises(IndexError):
        timeline.event(meta["total"])


def test_lines_of_one_number_in_two_cells_stay_apart() -> None:
    (one,) = by_hand().lines[1]
    other = replace(one, heading="cell [9], line 4", text="z = helper(y)")
    codes = np.array([0, 1, 0, 1, 0, 1])
    timeline = TimelineModel(by_hand(make_lines=lambda: (codes, [one, other])))
    meta, events = columns(timeline)
    assert [line["place"] for line in meta["lines"]] == ["cell [3], line 4", "cell [9], line 4"]
    by_start = {
        (timeline.event(k)[1], int(events["start"][k])): int(events["line"][k]) - 1
        for k in range(meta["total"])
    }
    pc = dict(zip(example.INSTRUCTION["start_ts"], (0, 2, 3, 4, 5, 1), strict=True))
    for (table, start), line in by_start.items():
        if table == "Instruction":
            assert line == codes[pc[start]]


def test_without_a_program_lines_are_those_of_the_profile() -> None:
    meta, events = columns(TimelineModel(by_hand(make_lines=None)))
    assert [line["place"] for line in meta["lines"]] == [
        "cell, line 3",
        "cell, line 4",
        "cell, line 5",
        "add.py, line 12",
    ]
    assert 0 in events["line"]  # the matmul has no line


def test_an_empty_profile_has_idle_engines() -> None:
    empty = example.profile(
        Instruction={name: [] for name in ("start_ts", "end_ts", "engine", "opcode")},
        DmaPacketAggregated={name: [] for name in ("start_ts", "end_ts", "queue_name")},
        Flow={}, SbufUsage={}, PsumUsage={}, SbufAllocation={},
    )  # fmt: skip
    timeline = TimelineModel(ViewData("empty", empty))
    meta, _ = unpack(timeline.overview())
    assert [(t["count"], t["busy"]) for t in meta["tracks"]] == [(0, 0)] * 6
    assert columns(timeline)[0]["total"] == 0


def test_tracks_of_one_engine_say_what_its_share_is_of() -> None:
    both = TimelineModel(by_hand())
    rows = {track.label: len(track.rows) for track in both.tracks}
    meta, _ = unpack(both.overview())
    assert rows["TensorMatrix"] and not rows["Tensor"]
    assert meta["shared"] == {}  # one track alone is the engine
    tracks = [
        replace(track, rows=np.arange(1)) if track.label == "Tensor" else track
        for track in both.tracks
    ]
    (text,) = shared_tracks(tracks).values()
    assert "Tensor or TensorMatrix" in text


def test_events_have_the_name_that_a_kernel_writes_before_the_opcode() -> None:
    """`tensor_scalar` has the opcode of the Scalar engine's operation, though it runs on Vector."""
    data = added().view_data
    (block,) = TimelineModel(data).events()
    titles = unpack(block)[0]["titles"]
    names = {operation.name for operation in data.operations}
    opcodes = {row["opcode"] for row in data.profile.records("Instruction")}
    assert not opcodes & set(titles)
    assert names <= {title.partition(" ")[0] for title in titles}
    alone = replace(data, operations=(), make_names=None)  # as a profile from a file
    assert opcodes <= set(unpack(next(iter(TimelineModel(alone).events())))[0]["titles"])
