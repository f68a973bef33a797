"""Tests that `nki_lab.benchmark` is repeatable, and keeps to what the machine can do."""

from __future__ import annotations

import time

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.choices import Choices
from nki_lab.compiler.passes.insert_waits import insert_waits
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.repeat import repeated
from nki_lab.isa import registry
from nki_lab.targets import ALL_TARGETS
from tests.timing import kernels
from tests.timing.timed import compiled

TARGETS = [t.name for t in ALL_TARGETS]
X = np.random.default_rng(3).standard_normal((1024, 512), dtype=np.float32)


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_to_the_nanosecond(target, monkeypatch) -> None:
    first = nki_lab.benchmark(kernels.streamed, X, target=target)
    for clock in ("time", "perf_counter", "perf_counter_ns", "monotonic", "process_time"):
        monkeypatch.setattr(time, clock, lambda: pytest.fail("the clock was asked"))
    assert nki_lab.benchmark(kernels.streamed, X, target=target) == first
    assert first.latency_ns == nki_lab.run(kernels.streamed, X, target=target).profile.total_ns
    assert first.latency_ns == first.profile.total_ns
    text = repr(first)
    assert f"{first.latency_ns / 1000:,.3f} us for one call" in text and "modelled" in text


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("name", ["chain", "streamed", "tiled_matmul"])
def test_a_further_call_takes_what_its_busiest_resource_takes_at_least(target, name) -> None:
    arrays = {"chain": (X[:128],), "streamed": (X,), "tiled_matmul": (X, X)}[name]
    found = nki_lab.benchmark(getattr(kernels, name), *arrays, target=target.name)
    moved = found.profile.summary["dma_transfer_total_bytes"]
    engines = [found.profile.what_if(f"free-{e}") for e in ("tensor", "vector", "scalar")]
    assert found.steady_ns >= moved / target.dma_peak_bytes_per_ns / target.dma_engines
    assert found.steady_ns >= max(e.gain_ns for e in engines) / 2
    # It overlaps with the one before, and waits at most until that one has stored.
    assert found.steady_ns < found.latency_ns


def test_what_is_bound_by_dma_streams_at_its_rate() -> None:
    found = nki_lab.benchmark(kernels.streamed, X, target="trn1")
    least = 2 * X.nbytes / 272  # loaded and stored, B/ns of 16 engines
    assert least <= found.steady_ns * 1.001 < 1.15 * least * 1.001
    assert found.latency_ns > found.steady_ns


def test_calls_whose_tiles_are_taken_do_not_overlap() -> None:
    """All of SBUF is one tile: the next load waits until the store has read it."""

    def whole(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        registry["dma_copy"](t, x)
        registry["dma_copy"](out, t)
        return out

    x = np.ones((128, 8192), np.float32)
    found = nki_lab.benchmark(whole, x, target="trn2")
    tail = nki_lab.get_target("trn2").dma_completion_ns
    assert found.steady_ns == pytest.approx(found.latency_ns + tail, abs=2)


def test_the_overhead_of_a_program_is_counted_where_it_is_asked_for() -> None:
    plain = nki_lab.benchmark(kernels.chain, X[:128], target="trn2")
    with_it = nki_lab.benchmark(kernels.chain, X[:128], target="trn2", program_overhead=True)
    t = nki_lab.get_target("trn2")
    between = (t.program_overhead_min_ns + t.program_overhead_max_ns) / 2
    assert with_it.latency_ns == plain.latency_ns + between
    assert with_it.steady_ns == plain.steady_ns


def looped(x, passes):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    registry["dma_copy"](t, x)

    def double(_):
        registry["tensor_scalar"](t, t, op0=nl.multiply, operand0=2.0)

    nl.fori_loop(0, passes, double)
    registry["dma_copy"](out, t)
    return out


def test_loops_of_the_device_are_counted_as_often_as_they_run() -> None:
    few, many = (nki_lab.benchmark(looped, X[:128], n, target="trn2") for n in (2, 12))
    assert many.instructions == few.instructions + 10
    assert many.latency_ns > few.latency_ns and many.steady_ns > few.steady_ns


@pytest.mark.parametrize("target", TARGETS)
def test_a_repeated_program_waits_as_before_and_between_calls(target) -> None:
    specs = ((256, 256), "bfloat16"), ((256, 1024), "bfloat16")
    kernel = compiled(kernels.tiled_matmul, *specs, target=target)
    count = len(kernel.instructions)
    twice = insert_waits(repeated(kernel, 2), Choices())
    assert len(twice.instructions) == 2 * count
    assert twice.waits[:count] == kernel.waits
    assert all(twice.storages[s.id] is s for s in twice.storages)
    # Every wait within the first call is in the second one, too, or follows from one for the first.
    first_users = {}
    for n, i in enumerate(kernel.instructions):
        for t in (*i.read(), *i.written()):
            if t.storage.id in kernel.addresses:
                first_users.setdefault(kernel.addresses[t.storage.id], []).append(n)
    place = kernel.addresses[kernel.instructions[0].written()[0].storage.id]
    assert any(w < count for w in twice.waits[count]), "the first load must wait for its tile"
    assert {w for w in twice.waits[count] if w < count} <= set(first_users[place])
    assert repeated(kernel, 1).instructions == kernel.instructions
    assert len(Execution.in_program_order(twice).order) == 2 * count


def test_two_cores_are_timed_together() -> None:
    """Each core copies its half, and both meet; a call ends when the later one does."""

    def halves(x):
        core = nl.program_id(0)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x[core * 128 : core * 128 + 128])
        for _ in range(1 + 3 * core):  # the second core has more to do
            registry["activation"](t, nl.tanh, t)
        registry["core_barrier"](out, (0, 1))
        nl.store(out[core * 128 : core * 128 + 128], t)
        return out

    both = nki_lab.benchmark(nki_lab.jit(halves)[2], X[:256], target="trn2")
    run = nki_lab.jit(halves)[2].launch(X[:256], target="trn2")
    assert both.latency_ns == run.profile.total_ns
    assert both.instructions == len(run.execution.order) + len(run.others[0].order)
    tail = nki_lab.get_target("trn2").dma_completion_ns
    assert both.steady_ns <= both.latency_ns + tail
    activations = 4 * 512 / 1.2  # ns of the second core's engine alone: 512 columns at 1.2 GHz
    assert both.steady_ns >= activations
