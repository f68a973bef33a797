"""Tests what a timeline says events have to do with each other, on one core, on two, and for two runs."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.runtime import Result
from nki_lab.views.display import display
from nki_lab.views.registry import Parts
from nki_lab.views.run import ViewData
from nki_lab.views.timeline.model import TimelineModel
from nki_lab.views.timeline.relations import TimelineRelations
from nki_lab.widgets.packing import UnknownPart, unpack
from tests.profiler import example
from tests.views.runs import added, by_hand


def in_halves(x):
    """Take the exponential of half of the rows on each core."""
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = x.shape[0] // 2
    core = nl.program_id(0)
    for k in nl.affine_range(2):
        rows = slice(core * half, (core + 1) * half)
        columns = slice(k * 40, (k + 1) * 40)
        nl.store(result[rows, columns], nl.exp(nl.load(x[rows, columns])))
    return result


@cache
def on_two_cores() -> Result:
    x = np.linspace(-3, 2, 128 * 80, dtype=np.float32).reshape(128, 80)
    return nki_lab.jit(in_halves)[2].launch(x, target="trn2")


def relations(data: ViewData, other: ViewData | None = None) -> TimelineRelations:
    return TimelineRelations(TimelineModel(data, other))


def test_lanes_of_both_cores_stand_in_the_order_of_the_trace_viewer() -> None:
    labels = [t.label for t in TimelineModel(on_two_cores().view_data).tracks]
    engines = ["Sync", "Tensor", "TensorMatrix", "Vector", "Scalar", "GpSimd"]
    for core in (0, 1):
        own = [label.removeprefix(f"nc{core} ") for label in labels if label.startswith(f"nc{core}")]  # fmt: skip
        assert own[-6:] == engines and all(label.startswith("q") for label in own[:-6])
    assert [label[:3] for label in labels] == sorted(label[:3] for label in labels)


def test_every_event_leads_to_its_row_whatever_the_core() -> None:
    run = on_two_cores()
    timeline = TimelineModel(run.view_data)
    assert sorted(timeline.row_of_event.tolist()) == list(range(timeline.count))
    for number in range(timeline.count):
        _, table, row = timeline.event(number)
        record = next(run.profile.records(table, row, row + 1))
        detail = TimelineRelations(timeline).event_detail(number)
        assert detail["fields"]["start_ts"] == record["start_ts"]
        assert detail["fields"]["pcore_idx"] == record["pcore_idx"]


@pytest.mark.parametrize("run", [added, on_two_cores])
def test_dependences_are_those_of_the_profile_both_ways(run) -> None:
    data = run().view_data
    found = relations(data)
    details = [found.event_relations(n) for n in range(found.timeline.count)]
    needs = {(giver, n) for n, d in enumerate(details) for giver, _ in d["needs"]}
    feeds = {(n, taker) for n, d in enumerate(details) for taker, _ in d["feeds"]}
    assert needs == feeds and needs
    ids = {(t, i): n for n in range(found.timeline.count) for _, t, r in [found.timeline.event(n)]
           for i in [int(data.profile.numbers(t, "id")[r])]}  # fmt: skip
    tables = {"instruction": "Instruction", "dma_block": TRANSFERS}
    flow = {
        tuple(ids[tables[row[f"{way}_table"]], row[f"{way}_id"]] for way in ("in", "out"))
        for row in data.profile.records("Flow")
    }
    assert needs == flow
    starts = [found.event_detail(n)["fields"]["start_ts"] for n in range(found.timeline.count)]
    for giver, taker in flow:  # nothing begins before what it needs has begun
        assert starts[giver] <= starts[taker]


def test_a_dependence_is_named_by_what_both_do_with_the_tensor() -> None:
    found = relations(added().view_data)
    kinds = {
        (table, kind)
        for n in range(found.timeline.count)
        for table in [found.timeline.event(n)[1]]
        for _, kind in found.event_relations(n)["needs"]
    }
    assert ("Instruction", "flow") in kinds  # the sum of what was loaded
    assert (TRANSFERS, "trigger") in kinds
    assert {kind for _, kind in kinds} <= {"flow", "anti", "output", "trigger", "place used again"}


def test_loops_and_stalls_are_told() -> None:
    found = relations(added().view_data)
    details = [found.event_relations(n) for n in range(found.timeline.count)]
    assert {d["loop"] for d in details if "loop" in d} == {"k=0", "k=1"}
    stalls = added().profile.stalls()
    told = sum(d["waited"]["ns"] for d in details if "waited" in d)
    assert told == stalls.wait_ns
    assert any(d["waited"]["reason"] == "arrival of a transfer" for d in details if "waited" in d)


def test_each_core_waits_for_its_own() -> None:
    found = relations(on_two_cores().view_data)
    cores = [t.core for t in found.timeline.tracks for _ in t.rows]
    core_of = dict(enumerate(np.array(cores)[found.timeline._lanes[1]].tolist()))
    seen = set()
    for n in range(found.timeline.count):
        waited = found.event_relations(n).get("waited")
        if waited and waited["event"] >= 0 and waited["reason"] != "the other core":
            assert core_of[waited["event"]] == core_of[n]
            seen.add(core_of[n])
    assert seen == {0, 1}


def test_stalls_are_coloured_where_something_waited() -> None:
    found = relations(added().view_data)
    meta, arrays = unpack(found.stalls())
    details = [found.event_relations(n) for n in range(found.timeline.count)]
    waiting = ["waited" in d and d["waited"]["ns"] > 0 for d in details]
    assert (arrays["code"] > 0).tolist() == waiting
    assert set(arrays["code"].tolist()) <= set(range(len(meta["names"])))


def test_events_know_the_tensor_they_write_or_move() -> None:
    found = relations(added().view_data)
    meta, arrays = unpack(found.tensors())
    by_title = {}
    for n, code in enumerate(arrays["code"].tolist()):
        fields = found.event_detail(n)["fields"]
        by_title.setdefault(fields.get("opcode") or fields["variable"], set()).add(meta["names"][code])  # fmt: skip
    assert by_title["TENSOR_TENSOR"] == {"total"}
    assert by_title["x"] == {"x"} and by_title["y"] == {"y"}


@pytest.mark.parametrize("run", [added, on_two_cores])
def test_the_critical_path_is_the_profiles_own(run) -> None:
    found = relations(run().view_data)
    meta, arrays = unpack(found.critical_events())
    steps = run().profile.critical_path().steps
    shown = [found.event_detail(int(n))["fields"] for n in arrays["event"]]
    assert [f["start_ts"] for f in shown] == [step.start_ns for step in steps]
    assert [f.get("opcode") or f["variable"] for f in shown] == [step.what for step in steps]
    assert meta["sizes"] == [len(steps)] and meta["texts"][0].startswith("critical path: ")


def test_without_a_program_the_profile_still_answers() -> None:
    found = relations(ViewData("stored", example.profile()))
    details = [found.event_relations(n) for n in range(found.timeline.count)]
    assert any(d["needs"] for d in details) and any("waited" in d for d in details)
    meta, arrays = unpack(found.tensors())
    assert set(meta["names"]) == {"no tensor known", "x", "y"} and len(arrays["code"]) == 8


# -- two runs -------------------------------------------------------------------------------------------------------


def test_two_runs_begin_at_once_and_keep_their_events() -> None:
    late = example.profile(
        Metadata={"first_hw_timestamp": [0], "last_hw_timestamp": [9000]},
    )
    found = relations(added().view_data, ViewData("before", late))
    timeline = found.timeline
    assert (timeline.first_ns, timeline.last_ns) == (0, max(9000, added().profile.total_ns))
    assert [len(run.operations) for run in timeline.runs] == [0, len(added().view_data.operations)]
    assert [t.run for t in timeline.tracks] == sorted(t.run for t in timeline.tracks)
    events = [timeline.event(n) for n in range(timeline.count)]
    assert len(set(events)) == timeline.count == 8 + TimelineModel(added().view_data).count
    for n, (run, table, row) in enumerate(events):
        profile = timeline.runs[run].profile
        fields = found.event_detail(n)["fields"]
        assert fields["start_ts"] == int(profile.numbers(table, "start_ts")[row])
        needs = found.event_relations(n)["needs"]
        assert all(events[other][0] == run for other, _ in needs)
    meta, arrays = unpack(found.critical_events())
    assert sum(meta["sizes"]) == len(arrays["event"]) and len(meta["texts"]) == 2


def test_times_of_two_runs_count_from_their_own_start() -> None:
    shifted = example.profile(Metadata={"first_hw_timestamp": [100], "last_hw_timestamp": [3100]})
    timeline = TimelineModel(by_hand(), ViewData("shifted", shifted))
    starts = [int(t.start.min()) for t in timeline.tracks if t.label == "qSyncStatic0"]
    assert starts == [0, 100]


def test_a_comparison_says_in_text_where_runs_differ() -> None:
    before = nki_lab.run(in_halves_on_one, np.ones((64, 80), np.float32), target="trn1")
    after = nki_lab.run(in_halves_on_one, np.ones((64, 80), np.float32), target="trn2")
    shown = after.show(compare=before)
    text = repr(shown)
    assert text.split("\n")[0].endswith("on trn1, modelled") and len(text.split("\n")) <= 40
    assert shown.tabs[0] == "timeline"
    assert repr(display(after, ("timeline",), before, tells=False)) == repr(after.show("timeline"))
    assert shown.to_image("svg").count(b">A ") > 3


def in_halves_on_one(x):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(result, nl.exp(nl.load(x)))
    return result


def test_parts_with_wrong_numbers_are_refused() -> None:
    parts = Parts(added().view_data)
    for name in ("timeline/curves/5/5", "timeline/curves/9/2", "timeline/curves/0/99999999999", "timeline/curves/1",
                 "timeline/event/x", "timeline/event", "timeline/nothing", "timeline/event/1/2"):  # fmt: skip
        with pytest.raises(UnknownPart):
            list(parts.make(name))


def test_the_numbers_of_an_event_have_units() -> None:
    relations = TimelineRelations(TimelineModel(added().view_data))
    for number in range(relations.timeline.count):
        detail = relations.event_detail(number)
        units = detail["units"]
        assert units["start_ts"] == units["duration_ns"] == "ns"
        of_bytes = [name for name in detail["fields"] if name.endswith("_bytes")]
        assert of_bytes and {units[name] for name in of_bytes} == {"bytes"}
