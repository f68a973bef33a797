"""Tests that engines run in order, overlap what may overlap, and wait for what they must."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.targets import get_target
from nki_lab.targets.engines import GPSIMD, VECTOR
from tests.timing.timed import timed

memset, tensor_tensor, tensor_copy, activation, dma_copy = (
    registry[name] for name in "memset tensor_tensor tensor_copy activation dma_copy".split()
)


def tile(columns, dtype=nl.float32, buffer=nl.sbuf):
    return nl.ndarray((128, columns), dtype=dtype, buffer=buffer)


def store(held):
    out = nl.ndarray(held.shape, dtype=held.dtype, buffer=nl.shared_hbm)
    dma_copy(out, held)
    return out


def independent_adds(x):
    a = tile(512)
    memset(a, 1.0, engine=GPSIMD)
    results = [tile(512) for _ in range(8)]
    for r in results:
        tensor_tensor(r, a, a, nl.add, engine=VECTOR)
    return tuple(store(r) for r in results)


def dependent_adds(x):
    a = tile(512)
    memset(a, 1.0, engine=GPSIMD)
    for _ in range(8):
        b = tile(512)
        tensor_tensor(b, a, a, nl.add, engine=VECTOR)
        a = b
    return store(a)


ANY = ((128, 4), "float32")
# trn1, float32, SBUF: 2 cycles per element at 1.12 GHz; 229 ns until the result is visible
# (asst4-trainium, profiler_GUI.gif).
INTERVAL_NS = 2 * 512 / 1.12
LATENCY_NS = 229


def test_independent_instructions_follow_at_their_interval() -> None:
    starts = [r.start for r in timed(independent_adds, ANY, target="trn1").of("tensor_tensor")]
    assert np.diff(starts) == pytest.approx([INTERVAL_NS] * 7, abs=0.01)


def test_a_dependent_instruction_waits_for_the_latency_too() -> None:
    starts = [r.start for r in timed(dependent_adds, ANY, target="trn1").of("tensor_tensor")]
    assert np.diff(starts) == pytest.approx([INTERVAL_NS + LATENCY_NS] * 7, abs=0.01)


def test_overwriting_what_the_same_engine_read_costs_no_latency() -> None:
    def kernel(x):
        a, b = tile(512), tile(512)
        memset(a, 1.0, engine=GPSIMD)
        memset(b, 2.0, engine=GPSIMD)
        c = tile(512)
        tensor_tensor(c, b, b, nl.add, engine=VECTOR)  # reads b
        tensor_tensor(b, a, a, nl.add, engine=VECTOR)  # overwrites b
        return store(b), store(c)

    first, second = timed(kernel, ANY, target="trn1").of("tensor_tensor")
    assert second.start - first.start == pytest.approx(INTERVAL_NS, abs=0.01)


def test_a_result_takes_a_semaphore_to_another_engine() -> None:
    def kernel(x):
        a, b = tile(512), tile(512)
        memset(a, 1.0, engine=VECTOR)
        activation(b, nl.copy, a)
        return store(b)

    run = timed(kernel, ANY, target="trn2")
    (given,), (taken,) = run.of("memset"), run.of("activation")
    assert taken.start - given.end == pytest.approx(40)  # nki-dma-intro-3.png: 31 +- 20 ns


def test_engines_run_side_by_side() -> None:
    def kernel(x):
        a, b = tile(4096), tile(4096)
        memset(a, 1.0, engine=VECTOR)
        memset(b, 1.0, engine=GPSIMD)
        return store(a), store(b)

    first, second = timed(kernel, ANY, target="trn2").of("memset")
    assert first.start == second.start == 0


def test_an_activation_table_is_loaded_once_and_ahead_of_the_data() -> None:
    def kernel(x):
        a, b, c = tile(4), tile(4), tile(4)
        dma_copy(a, x)
        activation(b, nl.exp, a)
        activation(c, nl.exp, b)
        return store(c)

    run = timed(kernel, ANY, target="trn2")
    loads = run.timeline.board.table_loads
    assert len(loads) == 1
    assert loads[0][1] == 0  # before the transfer has even begun
    load = run.transfers[0]
    assert run.of("activation")[0].start == pytest.approx(
        load.end + 310
    )  # not delayed by the table


@pytest.mark.parametrize(("target", "table_ns"), [("trn1", 368), ("trn2", 1280)])
def test_switching_tables_costs_a_load(target: str, table_ns: int) -> None:
    def kernel(x):
        a, b, c = tile(4), tile(4), tile(4)
        memset(a, 1.0, engine=GPSIMD)
        activation(b, nl.exp, a)
        activation(c, nl.sin, a)
        return store(b), store(c)

    def same(x):
        a, b, c = tile(4), tile(4), tile(4)
        memset(a, 1.0, engine=GPSIMD)
        activation(b, nl.exp, a)
        activation(c, nl.exp, a)
        return store(b), store(c)

    switched = timed(kernel, ANY, target=target).of("activation")
    kept = timed(same, ANY, target=target).of("activation")
    extra = (switched[1].start - switched[0].start) - (kept[1].start - kept[0].start)
    assert extra == pytest.approx(table_ns)


# -- shared ports --------------------------------------------------------------------------------------------------


def vector_and_gpsimd(x):
    a, b = tile(4096), tile(4096)
    memset(a, 1.0, engine=VECTOR)
    memset(b, 1.0, engine=GPSIMD)
    c, d = tile(4096), tile(4096)
    tensor_copy(c, a, engine=VECTOR)
    tensor_copy(d, b, engine=GPSIMD)
    return store(c), store(d)


def test_vector_and_gpsimd_exclude_each_other_on_trn1() -> None:
    # Said on page trainium_inferentia2_arch.rst:596.
    run = timed(vector_and_gpsimd, ANY, target="trn1")
    ran = sorted((*run.of("memset"), *run.of("tensor_copy")))
    busy = 2 * 4096 / 1.12 + 2 * (4096 + 150) / 1.4
    assert ran[-1].end - ran[0].start >= busy - 0.01
    side_by_side = timed(vector_and_gpsimd, ANY, target="trn2")
    assert {r.start for r in side_by_side.of("memset")} == {0}


def test_the_performance_mode_of_vector_takes_the_bus_of_gpsimd_on_trn2() -> None:
    # Said on page trainium2_arch.rst:270.
    def kernel(x):
        a, b = tile(8192, nl.bfloat16), tile(8192, nl.bfloat16)
        memset(a, 1.0, engine=VECTOR)
        memset(b, 1.0, engine=VECTOR)
        c, d = tile(8192, nl.bfloat16), tile(8192)
        tensor_copy(c, a, engine=VECTOR)
        memset(d, 1.0, engine=GPSIMD)
        return store(b), store(c), store(d)

    run = timed(kernel, ANY, target="trn2")
    (copied,) = run.of("tensor_copy")
    held = run.of("memset")[2]
    interval = (8192 / 4 + 80) / 0.96  # four elements per cycle
    assert copied.start >= held.end or held.start >= copied.start + interval - 0.01


def test_vector_and_scalar_exclude_each_other_on_psum_on_trn1() -> None:
    def kernel(x):
        a = tile(512)
        memset(a, 1.0, engine=GPSIMD)
        p, q = tile(512, buffer=nl.psum), tile(512, buffer=nl.psum)
        tensor_copy(p, a, engine=VECTOR)
        activation(q, nl.copy, a)
        b, c = tile(512), tile(512)
        tensor_copy(b, p, engine=VECTOR)
        activation(c, nl.copy, q)
        return store(b), store(c)

    for target, overlap in (("trn1", False), ("trn2", True)):
        hw = get_target(target)
        run = timed(kernel, ANY, target=target)
        copy, act = run.of("tensor_copy")[0], run.of("activation")[0]
        first, second = sorted((copy, act))
        interval = (
            (512 + hw.vector_issue_overhead_cycles) / hw.vector_ghz
            if first is copy
            else 512 / hw.scalar_ghz
        )
        assert (second.start < first.start + interval - 0.01) == overlap
