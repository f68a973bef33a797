"""The chain that took the whole time, and what engines stood still for: by hand, and against the model."""

from __future__ import annotations

import pytest

from nki_lab.profiler.analyses.critical_path import Part, PathStep, critical_path
from nki_lab.profiler.analyses.stalls import Stall, stalls
from nki_lab.targets import ALL_TARGETS
from tests.timing import kernels
from tests.timing.timed import timed

from .example import profile

TARGETS = [t.name for t in ALL_TARGETS]


def test_the_path_of_the_example_by_hand() -> None:
    path = profile().critical_path()
    assert path.total_ns == 3100
    trigger = PathStep("sync", "DMA_TRIGGER", "cell:3", "start", 0, 0, 50)
    load = PathStep("qSyncStatic0", "x", "cell:3", "issue", 100, 50, 800)
    first = PathStep("vector", "TENSOR_TENSOR", "cell:4", "dma", 1000, 100, 1100)
    second = PathStep("vector", "COPY", "cell:5", "order", 2100, 0, 200)
    third = PathStep("vector", "COPY", "cell:5", "order", 2300, 0, 300)
    last = PathStep("vector", "COPY", "add.py:12", "unknown", 2700, 100, 400)
    assert path.steps == (trigger, load, first, second, third, last)
    assert path.parts[0] == Part("vector", "TENSOR_TENSOR", "cell:4", 1, 1100, 100)
    assert Part("vector", "COPY", "cell:5", 2, 500, 0) in path.parts
    assert path.reasons == {"dma": 100, "unknown": 100, "issue": 50}
    assert 50 + 800 + 1100 + 200 + 300 + 400 + 50 + 100 + 100 == 3100


def test_stalls_of_the_example_by_hand() -> None:
    found = profile().stalls()
    assert found == (
        Stall("tensor", "", "unknown", "sync", "DMA_TRIGGER", "cell:3", 1, 450),
        Stall("vector", "cell:4", "dma", "qSyncStatic0", "x", "cell:3", 1, 1000),
        Stall("vector", "add.py:12", "unknown", "vector", "COPY", "cell:5", 1, 100),
    )
    assert found.of("vector").wait_ns == 1100
    assert found[1].sentence == "DMA queue qSyncStatic0 x at cell, line 3"


def test_texts_of_the_example(golden) -> None:
    p = profile()
    golden(f"{p.critical_path()}\n\n{p.stalls()}\n", "critical_path.txt")


def test_nothing_ran() -> None:
    empty = profile(Instruction={}, DmaPacketAggregated={}, Flow={})
    assert str(critical_path(empty)) == "critical path: nothing ran"
    assert str(stalls(empty)) == "nothing waited"


@pytest.mark.parametrize("target", TARGETS)
def test_gaps_and_spans_add_up_to_the_total(target) -> None:
    for function, specs in (
        (kernels.chain, [((128, 512), "float32")]),
        (kernels.streamed, [((1024, 512), "bfloat16")]),
        (kernels.tiled_matmul, [((256, 256), "bfloat16"), ((256, 1024), "bfloat16")]),
        (kernels.side_by_side, [((128, 512), "float32")]),
    ):
        p = timed(function, *specs, target=target).profile
        path = p.critical_path()
        assert sum(s.span_ns + s.gap_ns for s in path.steps) == path.total_ns == p.total_ns
        assert all(s.span_ns >= 0 and s.gap_ns >= 0 for s in path.steps)
        starts = [s.start_ns for s in path.steps]
        assert starts == sorted(starts)
        assert len(str(path).splitlines()) < 40 and len(str(p.stalls()).splitlines()) < 40


@pytest.mark.parametrize("target", TARGETS)
def test_a_chain_is_its_own_critical_path(target) -> None:
    """Load, Scalar, Vector, store: every instruction but the load of the table is on it, each as long as it ran."""
    run = timed(kernels.chain, ((128, 512), "float32"), target=target)
    path = run.profile.critical_path()
    assert [(s.lane, s.what) for s in path.steps if s.lane in ("scalar", "vector")] == [
        ("scalar", "ACTIVATE"),
        ("vector", "SCALAR"),
    ]
    assert [s.what for s in path.steps if s.lane.startswith("q")] == ["x", "out"]
    (exp,), (add,) = run.of("activation"), run.of("tensor_scalar")
    spans = {s.what: s.span_ns for s in path.steps}
    assert spans["ACTIVATE"] == pytest.approx(exp.duration, abs=1)
    assert spans["SCALAR"] == pytest.approx(add.duration, abs=1)
    assert spans["x"] == pytest.approx(run.transfers[0].duration, abs=1)


@pytest.mark.parametrize("target", TARGETS)
def test_stalls_add_up_to_the_waiting_times_of_the_engines(target) -> None:
    p = timed(kernels.streamed, ((1024, 512), "bfloat16"), target=target).profile
    found, engine = p.stalls(), p.strings("Instruction", "engine")
    waits = p.numbers("Instruction", "evt_wait_time_ns")
    for name in ("scalar", "vector", "sync"):
        assert found.of(name).wait_ns == waits[engine.equal_to(name)].sum() > 0
    first = p.strings("Instruction", "nki_source_location")[0]
    line = int(first.rpartition(":")[2])
    on_load = [s for s in found.of("scalar") if s.reason == "dma"]
    assert [(s.on_what, s.on_place, s.place) for s in on_load] == [
        ("x", f"kernels.py:{line}", f"kernels.py:{line + 1}")
    ]


def test_an_engine_without_what_holds_it_up_is_off_the_path() -> None:
    """What is not on the path can be made free without any gain; what is on it cannot."""
    run = timed(kernels.tiled_matmul, ((512, 128), "bfloat16"), ((512, 512), "bfloat16"))
    p = run.profile
    assert p.model is None  # `timed` looks at the timeline itself
    on_path = {(s.lane, s.what) for s in p.critical_path().steps}
    assert ("vector", "TENSOR_COPY") in on_path
