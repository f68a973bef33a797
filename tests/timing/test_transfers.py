"""Tests that transfers take the time their descriptors, engines, rings and memories say."""

from __future__ import annotations

import dataclasses
import itertools
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab.language as nl
from nki_lab.ir.definition.cost import Transfer
from nki_lab.ir.definition.form_times import busiest_engine, engines_used, service_ns
from nki_lab.isa import registry
from nki_lab.isa.enums import dge_mode
from nki_lab.targets import get_target
from nki_lab.targets.engines import GPSIMD, SCALAR, SYNC
from tests.timing.timed import timed

dma_copy, memset, tensor_copy, tensor_tensor = (
    registry[name] for name in "dma_copy memset tensor_copy tensor_tensor".split()
)


def copy_through(x, **how):
    """Load all of `x` and store it again."""
    held = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    dma_copy(held, x, **how)
    dma_copy(out, held, **how)
    return out


def static(x):
    return copy_through(x, dge_mode=dge_mode.none)


def hardware(x):
    return copy_through(x, dge_mode=dge_mode.hwdge)


def software(x):
    return copy_through(x, dge_mode=dge_mode.swdge)


# -- stages of one transfer ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "target", "issue_ns", "start_ns"),
    [
        (static, "trn1", 46, 284),
        (static, "trn2", 46, 745),
        (hardware, "trn2", 600, 745),  # deep-dives/nki-dge.rst:124
        (software, "trn2", 604, 745),
        (hardware, "trn3", 600, 745),
    ],
)
def test_the_first_byte_moves_after_issue_and_start(kernel, target, issue_ns, start_ns) -> None:
    load, store = timed(kernel, ((128, 512), "float32"), target=target).transfers
    assert load.trigger == 0
    assert load.start == issue_ns + start_ns
    assert store.trigger == pytest.approx(load.end + 310)  # completion, one semaphore wait
    assert store.start == pytest.approx(store.trigger + issue_ns + start_ns)


@pytest.mark.parametrize(
    ("target", "bytes_per_ns", "overhead_ns"), [("trn1", 17, 12), ("trn2", 23, 6), ("trn3", 33, 6)]
)
@pytest.mark.parametrize(("partitions", "columns"), [(1, 8192), (4, 2048), (40, 16), (128, 64)])
def test_the_busiest_engine_serves_eight_partitions(
    target, bytes_per_ns, overhead_ns, partitions, columns
) -> None:
    size = 4 * columns
    one = size / bytes_per_ns + overhead_ns
    expected = min(partitions, 8) * one
    # Columns of a wider tensor, so that rows do not follow each other in HBM either.
    load, _ = timed(static, ((partitions, columns), "float32"), target=target).transfers
    assert load.duration == pytest.approx(expected, abs=0.01)


def test_hbm_limits_what_sixteen_engines_ask_for() -> None:
    # trn2: 16 x 23 = 368 B/ns of the engines meet 362.5 B/ns of HBM.
    load, store = timed(static, ((128, 32768), "float32"), target="trn2").transfers
    moved = 128 * 32768 * 4
    assert load.duration == store.duration == pytest.approx(moved / 362.5, rel=1e-6)
    half, _ = timed(static, ((128, 32768), "float32"), target="trn2", hbm_share=0.5).transfers
    assert half.duration == pytest.approx(2 * load.duration, rel=1e-6)


def test_a_transfer_within_sbuf_does_not_use_hbm() -> None:
    def kernel(x):
        a, b = (nl.ndarray((128, 16384), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
        memset(a, 1.0)
        dma_copy(b, a, dge_mode=dge_mode.none)
        out = nl.ndarray((128, 16384), dtype=nl.float32, buffer=nl.shared_hbm)
        dma_copy(out, b, dge_mode=dge_mode.none)
        return out

    within, out = timed(kernel, ((1, 1), "float32"), hbm_share=0.25).transfers
    assert within.duration == pytest.approx(8 * (65536 / 23 + 6), abs=0.01)
    assert out.duration == pytest.approx(4 * 128 * 65536 / 362.5, rel=1e-6)


def test_copies_within_hbm_read_and_write_it_and_use_every_engine() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        dma_copy(out, x, dge_mode=dge_mode.none)
        return out

    moved = 1 << 24
    (copy,) = timed(kernel, ((moved // 4,), "float32"), target="trn2").transfers
    assert copy.duration == pytest.approx(2 * moved / 362.5, rel=1e-6)


# -- what transfers share ------------------------------------------------------------------------------------------


def summed(tiles):
    """Add tiles up and store the sum: every tile is used, and no store begins before the last load has ended."""
    total = tiles[-1]
    for held in tiles[:-1]:
        tensor_tensor(total, total, held, nl.add)
    out = nl.ndarray(total.shape, dtype=total.dtype, buffer=nl.shared_hbm)
    dma_copy(out, total)
    return out


def loads(count, columns, **how):
    def kernel(x):
        shape = (128, columns)
        tiles = [nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(count)]
        for held in tiles:
            dma_copy(held, x[:, 0:columns], **how)
        return summed(tiles)

    return kernel


@pytest.mark.parametrize(("mode", "issue_ns"), [("hwdge", 600), ("swdge", 604)])
def test_descriptors_are_made_one_transfer_at_a_time(mode: str, issue_ns: int) -> None:
    run = timed(loads(8, 16, dge_mode=dge_mode[mode]), ((128, 64), "float32"))
    triggers = [t.trigger for t in run.transfers[:8]]
    assert np.diff(triggers) == pytest.approx([issue_ns] * 7)


def test_two_issuers_make_descriptors_side_by_side() -> None:
    # Page trainium2_arch.rst:347: two hardware blocks, reached from Sync and from Scalar.
    def kernel(x):
        a, b = (nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
        dma_copy(a, x, dge_mode=dge_mode.hwdge, engine=SYNC)
        dma_copy(b, x, dge_mode=dge_mode.hwdge, engine=SCALAR)
        out = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
        tensor_copy(a, b)
        dma_copy(out, a)
        return out

    first, second, _ = timed(kernel, ((128, 16), "float32")).transfers
    assert first.trigger == second.trigger == 0


def test_transfers_of_one_ring_follow_each_other_without_a_gap() -> None:
    columns = 4096
    run = timed(loads(6, columns, dge_mode=dge_mode.none), ((128, columns), "float32"))
    ran = run.transfers[:6]
    work = 128 * 4 * columns / 362.5
    assert [t.duration for t in ran] == pytest.approx([work] * 6, rel=1e-6)
    assert [b.start - a.end for a, b in itertools.pairwise(ran)] == pytest.approx([0] * 5)


def test_rings_share_the_engines_equally() -> None:
    # Rings are served round-robin (get-started/about/nki-dma-overview.rst:29): while both have work each gets half.
    columns = 8192

    def kernel(x):
        held = [nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3)]
        out = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.shared_hbm)
        memset(held[0], 1.0)
        dma_copy(out, held[0], dge_mode=dge_mode.none)
        dma_copy(held[1], x, dge_mode=dge_mode.none)
        dma_copy(held[2], x, dge_mode=dge_mode.none)
        return out, summed(held[1:])

    run = timed(kernel, ((128, columns), "float32"))
    alone = 128 * 4 * columns / 362.5
    store, first, second = run.transfers[:3]
    assert first.start < store.start < first.end  # they overlap
    alone_for = store.start - first.start
    assert first.end == pytest.approx(store.start + 2 * (alone - alone_for), abs=1)
    assert second.start == pytest.approx(first.end)
    # All three are done when their work is: nothing idles and nothing is served twice.
    assert max(store.end, second.end) == pytest.approx(first.start + 3 * alone, abs=1)


def two_loads(a, b):
    left, right = (nl.ndarray(t.shape, dtype=t.dtype, buffer=nl.sbuf) for t in (a, b))
    dma_copy(left, a, dge_mode=dge_mode.none)
    dma_copy(right, b, dge_mode=dge_mode.none)
    return summed([left, right])


def test_static_transfers_of_two_tensors_run_at_once() -> None:
    # Traces of trn1 and trn2 show two loads at once, each longer than alone (asst4-trainium handout/profiler_GUI.gif).
    spec = ((128, 2000), "float32")
    run = timed(two_loads, spec, spec, target="trn1")
    first, second, _ = run.transfers
    alone = 8 * (8000 / 17 + 12)
    assert second.start - first.start == pytest.approx(46)  # one issuer
    assert second.end - first.start == pytest.approx(2 * alone, abs=0.01)
    assert first.duration == pytest.approx(2 * alone - 46, abs=0.01)
    names = [r["queue_name"] for r in run.profile.records("DmaPacketAggregated")]
    assert names[:2] == ["qSyncStaticIn", "qSyncStaticIn1"]


def test_static_transfers_of_one_tensor_follow_each_other() -> None:
    run = timed(loads(2, 2000, dge_mode=dge_mode.none), ((128, 2000), "float32"), target="trn1")
    first, second, _ = run.transfers
    assert second.start == pytest.approx(first.end)


def test_a_store_that_waits_does_not_hold_up_the_next_load() -> None:
    def kernel(x):
        out = nl.ndarray((256, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        for k in range(2):
            a, b = (nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
            dma_copy(a, x[128 * k : 128 * k + 128, :])
            tensor_copy(b, a)
            dma_copy(out[128 * k : 128 * k + 128, :], b)
        return out

    _load, store, next_load, _ = timed(kernel, ((256, 512), "float32")).transfers
    assert next_load.trigger < store.trigger


def test_software_descriptors_take_the_time_of_gpsimd() -> None:
    def kernel(x):
        tiles = [nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf) for _ in range(6)]
        for k, tile in enumerate(tiles):
            if k % 2:
                memset(tile, 1.0, engine=GPSIMD)
            else:
                dma_copy(tile, x, dge_mode=dge_mode.swdge)
        return summed(tiles)

    run = timed(kernel, ((128, 512), "float32"))
    filled = [(t.start, (512 + 150) / 1.2) for t in run.of("memset")]
    busy = sorted([*filled, *((t.trigger, 604) for t in run.transfers[:3])])
    assert busy[-1][0] < 6 * 700  # nothing waits for the transfers themselves
    for (start, spent), (next_start, _) in itertools.pairwise(busy):
        assert next_start >= start + spent - 0.01


# -- arithmetic ----------------------------------------------------------------------------------------------------


def transfer(partitions: int, row_bytes: int, **facts) -> Transfer:
    whole = partitions * row_bytes
    return Transfer(
        "COPY", row_bytes, partitions, partitions, whole, whole, "hbm", "sbuf", "none", SYNC, **facts
    )  # fmt: skip


def test_partitions_are_dealt_in_blocks_of_eight() -> None:
    target = get_target("trn2")
    for partitions in range(1, 129):
        move = transfer(partitions, 512)
        assert engines_used(move, target) == ceil(partitions / 8)
        assert busiest_engine(move, target) == (min(8, partitions), 512)


@settings(max_examples=60, deadline=None)
@given(
    partitions=st.integers(1, 128),
    columns=st.integers(1, 2000),
    more_partitions=st.integers(0, 40),
    more_columns=st.integers(0, 500),
    target=st.sampled_from(("trn1", "trn2", "trn3")),
)
def test_more_bytes_are_never_faster(
    partitions, columns, more_partitions, more_columns, target
) -> None:
    small = (partitions, columns)
    large = (min(128, partitions + more_partitions), columns + more_columns)
    first = timed(static, (small, "float32"), target=target)
    second = timed(static, (large, "float32"), target=target)
    assert second.total >= first.total


def test_a_lower_rate_stretches_the_descriptors() -> None:
    move = transfer(128, 4096)
    slow = dataclasses.replace(move, rate=0.5)
    target = get_target("trn1")  # its engines, not HBM, are the limit
    assert service_ns(slow, target, 1.0) == pytest.approx(2 * service_ns(move, target, 1.0))


def test_adding_onto_hbm_reads_what_it_adds_to() -> None:
    store = dataclasses.replace(transfer(128, 65536), source="sbuf", destination="hbm")
    adding = dataclasses.replace(store, accumulate=True)
    target = get_target("trn2")  # HBM is the limit
    assert service_ns(adding, target, 1.0) == pytest.approx(2 * 128 * 65536 / 362.5)
    assert service_ns(store, target, 1.0) == pytest.approx(128 * 65536 / 362.5)
