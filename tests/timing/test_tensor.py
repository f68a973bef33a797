"""Tests that the Tensor engine loads weights behind products, pipelines accumulation, and warms up."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.profiler.columns import to_list
from nki_lab.targets import TRN2
from nki_lab.timing.tensor_queue import CurrentLimit
from tests.timing.timed import Run, timed

dma_copy, memset, tensor_copy, nc_matmul = (
    registry[name] for name in "dma_copy memset tensor_copy nc_matmul".split()
)
ANY = ((1, 1), "float32")
#: trn1 has no current limit, which keeps arithmetic simple: 2.8 GHz, 142 ns from streaming to visible sums.
GHZ, LATENCY_NS = 2.8, 142


def products(count, columns=512, rows=128, dtype=nl.bfloat16, banks=1, results=1):
    """Multiply `count` times, going round `banks` accumulators."""

    def kernel(x):
        weights = [nl.ndarray((128, rows), dtype=dtype, buffer=nl.sbuf) for _ in range(2)]
        moving = nl.ndarray((128, columns), dtype=dtype, buffer=nl.sbuf)
        for tile in (*weights, moving):
            memset(tile, 1.0)
        sums = [nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum) for _ in range(banks)]
        for k in range(count):
            nc_matmul(sums[k % banks], weights[k % 2], moving)
        outs = []
        for held in sums:
            moved = nl.ndarray(held.shape, dtype=nl.float32, buffer=nl.sbuf)
            tensor_copy(moved, held)
            out = nl.ndarray(held.shape, dtype=nl.float32, buffer=nl.shared_hbm)
            dma_copy(out, moved)
            outs.append(out)
        return tuple(outs)

    return kernel


def spans(run: Run) -> list[np.ndarray]:
    """Return starts of loads, and starts and ends of products, in nanoseconds."""
    return [np.array(times) / 1000 for times in run.timeline.board.products]


@pytest.mark.parametrize("banks", [1, 4])
def test_accumulation_does_not_wait_for_the_sums(banks: int) -> None:
    _, begins, _ = spans(timed(products(8, banks=banks), ANY, target="trn1"))
    # max(64, N) cycles each (trainium_inferentia2_arch.rst:267), with or without a common accumulator.
    assert np.diff(begins) == pytest.approx([512 / GHZ] * 7, abs=0.01)


def test_weights_are_loaded_behind_the_product_before() -> None:
    loads, begins, ends = spans(timed(products(8), ANY, target="trn1"))
    load = 128 / 4 / GHZ  # four columns per cycle (trainium_inferentia2_arch.rst:299)
    assert begins[0] == pytest.approx(loads[0] + load, abs=0.01)
    assert loads[1:] == pytest.approx(
        begins[:-1], abs=0.01
    )  # the one buffer is free when a product begins
    assert begins[1:] == pytest.approx(ends[:-1], abs=0.01)


def test_short_products_wait_for_their_weights() -> None:
    # Streaming one column takes the minimum of 64 cycles; loading 128 columns of float32 takes 128.
    loads, begins, _ = spans(timed(products(6, columns=1, dtype=nl.float32), ANY, target="trn1"))
    passes = 64 * 4 / GHZ
    assert np.diff(begins) == pytest.approx([passes] * 5, abs=0.01)
    assert (begins - loads >= 128 / GHZ - 0.01).all()


def test_the_sums_are_visible_a_latency_after_streaming() -> None:
    run = timed(products(1), ANY, target="trn1")
    (product,) = run.of("nc_matmul")
    _, _, ends = spans(run)
    assert product.end == pytest.approx(ends[0] + LATENCY_NS)
    assert run.of("tensor_copy")[0].start == pytest.approx(product.end + 40)


def test_a_product_that_overwrites_waits_for_the_readers_of_the_bank() -> None:
    def kernel(x):
        weights = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
        moving = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        memset(weights, 1.0)
        memset(moving, 1.0)
        held = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        outs = []
        for _ in range(2):
            nc_matmul(held, weights, moving, accumulate=False)
            moved = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            tensor_copy(moved, held)
            out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
            dma_copy(out, moved)
            outs.append(out)
        return tuple(outs)

    run = timed(kernel, ANY, target="trn1")
    assert run.of("nc_matmul")[1].start == pytest.approx(run.of("tensor_copy")[0].end + 40)


def test_fp32_takes_four_times_as_long() -> None:
    narrow = spans(timed(products(4), ANY, target="trn1"))[1]
    wide = spans(timed(products(4, dtype=nl.float32), ANY, target="trn1"))[1]
    assert np.diff(wide) == pytest.approx(4 * np.diff(narrow), abs=0.01)


# -- the current limit (tools/neuron-explorer/overview-summary-page.rst:131) ---------------------------------------

FULL_NS = 512 / 2.4


@pytest.mark.parametrize("target", ["trn2", "trn3"])
def test_a_cold_engine_starts_at_half_its_rate_and_reaches_all_of_it(target: str) -> None:
    _, begins, ends = spans(timed(products(40), ANY, target=target))
    took = ends - begins
    assert 1.85 * FULL_NS < took[0] < 2 * FULL_NS  # half the rate, rising
    assert (np.diff(took) <= 0.001).all()
    warm = begins - begins[0] >= 3000
    assert took[warm] == pytest.approx([FULL_NS] * int(warm.sum()), abs=0.01)
    assert took[begins - begins[0] < 2000].min() > 1.05 * FULL_NS


def test_trn1_has_no_current_limit() -> None:
    _, begins, ends = spans(timed(products(4), ANY, target="trn1"))
    assert (ends - begins) == pytest.approx([512 / GHZ] * 4, abs=0.01)


def warmed_up() -> CurrentLimit:
    limit = CurrentLimit.of(TRN2)
    assert limit is not None
    assert limit.stretched(0, 0, 3_000_000) > 3_000_000
    assert limit.stretched(0, 0, 100_000) == 100_000
    return limit


def test_the_limit_returns_after_idling() -> None:
    limit = warmed_up()
    assert limit.stretched(3_000_000, 0, 100) == 200  # 3 us idle: back to half the rate
    again = warmed_up()
    assert 100 < again.stretched(1_000_000, 0, 100) < 200  # after less, only part of the way


@pytest.mark.parametrize(("busy", "stays_warm"), [(0.6, True), (0.4, False)])
def test_the_limit_depends_on_utilisation_above_or_below_half(
    busy: float, stays_warm: bool
) -> None:
    limit = warmed_up()
    now = idle_since = 0
    took = 0
    for _ in range(500):
        took = limit.stretched(now, idle_since, 100_000)
        idle_since = now + took
        now = idle_since + round(took * (1 - busy) / busy)
    assert (took < 110_000) == stays_warm


def test_the_rate_rises_in_a_straight_line() -> None:
    """Work done while the rate goes from 1/2 to 1 in 3 us is 3/4 of what the full rate would do."""
    limit = CurrentLimit.of(TRN2)
    assert limit is not None
    assert limit.stretched(0, 0, 2_250_000) == pytest.approx(3_000_000, abs=2)
    longer = CurrentLimit.of(TRN2)
    assert longer is not None
    assert longer.stretched(0, 0, 4_000_000) == pytest.approx(3_000_000 + 1_750_000, abs=2)
    whole = CurrentLimit.of(TRN2)
    parts = CurrentLimit.of(TRN2)
    assert whole is not None
    assert parts is not None
    together = whole.stretched(0, 0, 1_000_000)
    piecewise = sum(parts.stretched(0, 0, 1000) for _ in range(1000))
    assert piecewise == pytest.approx(together, rel=1e-3)


def packed_products(count):
    def kernel(x):
        data = nl.ndarray((128, 512), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
        scale = nl.ndarray((128, 512), dtype=nl.uint8, buffer=nl.sbuf)
        memset(data, 0)
        memset(scale, 127)
        held = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
        for _ in range(count):
            registry["nc_matmul_mx"](held, data[:, 0:128], data, scale[:, 0:128], scale)
        moved = nl.ndarray(held.shape, dtype=nl.float32, buffer=nl.sbuf)
        tensor_copy(moved, held)
        out = nl.ndarray(held.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        dma_copy(out, moved)
        return out

    return kernel


def test_block_scaled_products_contract_four_times_as_much_in_the_same_time() -> None:
    # trainium3_arch.rst:79: K of 512 in the time of bfloat16 with K of 128.
    plain, packed = (
        timed(kernel, ANY, target="trn3") for kernel in (products(4), packed_products(4))
    )
    assert np.diff(spans(packed)[1]) == pytest.approx(np.diff(spans(plain)[1]), abs=0.01)
    totals = [run.profile.table("Instruction") for run in (plain, packed)]
    flops, adjusted = (
        [sum(n or 0 for n in to_list(t[column])) for t in totals]
        for column in ("raw_flops", "adjusted_flops")
    )
    assert flops[1] == 4 * flops[0] == 4 * 4 * 2 * 128 * 128 * 512
    assert adjusted[1] == adjusted[0]


# -- parts of the array --------------------------------------------------------------------------------------------


def half_products(count, places, columns=512):
    """Multiply 64 rows `count` times, on parts of 64 rows of the array that start at these rows in turn."""

    def kernel(x):
        weights = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
        moving = nl.ndarray((128, columns), dtype=nl.bfloat16, buffer=nl.sbuf)
        memset(weights, 1.0)
        memset(moving, 1.0)
        outs = []
        for k in range(count):
            row = places[k % len(places)]
            held = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.psum)
            half = slice(row, row + 64)
            nc_matmul(
                held, weights[half], moving[half], tile_position=(row, 0), tile_size=(64, 128)
            )
            moved = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
            tensor_copy(moved, held)
            out = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.shared_hbm)
            dma_copy(out, moved)
            outs.append(out)
        return tuple(outs)

    return kernel


def test_products_on_separate_parts_of_the_array_run_at_the_same_time() -> None:
    # nki/api/nki/isa/__init__.py:513; they start the minimum interval of 64 cycles apart.
    _, begins, ends = spans(timed(half_products(4, (0, 64)), ANY, target="trn1"))
    assert ends - begins == pytest.approx([512 / GHZ] * 4, abs=0.01)
    assert begins[1] - begins[0] == pytest.approx(64 / GHZ, abs=0.01)
    assert begins[2] == pytest.approx(ends[0])
    assert begins[3] == pytest.approx(ends[1])


def test_products_on_one_part_of_the_array_follow_each_other() -> None:
    run = timed(half_products(3, (64,)), ANY, target="trn1")
    _, begins, ends = spans(run)
    assert begins[1:] == pytest.approx(ends[:-1])
    assert any("parts of the array" in w["message"] for w in run.profile.records("Warning"))
    whole = timed(products(2), ANY, target="trn1")
    assert not any("parts of the array" in w["message"] for w in whole.profile.records("Warning"))


def test_a_product_on_the_whole_array_waits_for_its_parts() -> None:
    def kernel(x):
        weights = nl.ndarray((128, 128), dtype=nl.bfloat16, buffer=nl.sbuf)
        moving = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
        memset(weights, 1.0)
        memset(moving, 1.0)
        first, second = (nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum) for _ in range(2))
        nc_matmul(
            first, weights[64:128], moving[64:128], tile_position=(64, 0), tile_size=(64, 128)
        )
        nc_matmul(second, weights, moving)
        outs = []
        for held in (first, second):
            moved = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
            tensor_copy(moved, held)
            out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
            dma_copy(out, moved)
            outs.append(out)
        return tuple(outs)

    _, begins, ends = spans(timed(kernel, ANY, target="trn1"))
    assert begins[1] == pytest.approx(ends[0])
