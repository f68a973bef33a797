"""Summary metrics: recomputed by hand for a small profile, and checked against printed numbers."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.profiler.analyses.source_lines import LineTime, by_line, issuers
from nki_lab.profiler.metrics import Bound, bound_by
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TABLES
from nki_lab.targets import TRN1, TRN2

from .example import DMA, FLOW, INSTRUCTION, profile


def test_summary_of_the_example() -> None:
    s = profile().summary
    assert set(s) <= set(TABLES["Summary"])
    expected = {
        "total_time": 3.1e-6,
        "neuroncore_cycle_count": 3720,  # 3100 ns at 1.2 GHz
        "vector_engine_active_time": 2.0e-6,  # 1100 + 200 + 300 + 400
        "vector_engine_active_time_percent": 2000 / 3100,
        "vector_engine_instruction_count": 4,
        "tensor_engine_active_time": 0.3e-6,
        "matmul_instruction_count": 1,
        "gpsimd_engine_active_time": 0.0,
        "dma_active_time": 2.3e-6,  # 100 to 2400
        "dma_active_time_percent": 2300 / 3100,
        "dma_transfer_time": 2.8e-6,  # 800 + 2000, overlap counted twice
        "dma_transfer_count": 2,
        "dma_transfer_total_bytes": 48000,
        "dma_transfer_average_bytes": 24000,
        "hbm_read_bytes": 8000,
        "hbm_write_bytes": 40000,
        "input_queue_bytes": 8000,
        "static_dma_size": 8000,
        "hardware_dynamic_dma_size": 40000,
        "hardware_dynamic_dma_size_percent": 40000 / 48000,
        "hardware_dynamic_dma_active_time": 2.0e-6,
        "hardware_flops": 2 * 128 * 128 * 512,
        "mm_arithmetic_intensity": 2 * 128 * 128 * 512 / 48000,
        # 2.4 GHz x 128 x 128 x 2 operations a cycle over 3100 ns
        "mfu_estimated_percent": 2 * 128 * 128 * 512 / (2.4 * 128 * 128 * 2 * 3100),
        # 2900 GB/s over four stacks
        "mbu_estimated_percent": 48000 / (725 * 3100),
        "psum_read_sbuf_write_count": 1,
        "psum_read_sbuf_write_bytes": 4096,
        "total_exec_time": 3.1e-6,
        "total_active_time": 3.05e-6,  # all but 2600 to 2700, of which 2400 to 2600 is Vector
        "event_count": 0,
    }
    expected["total_active_time"] = (50 + (2600 - 100) + 400) * 1e-9
    for name, value in expected.items():
        assert s[name] == pytest.approx(value, rel=1e-12), name


# nki_perf_guide.rst, figure 27 (trn1): "130.46 GB/s" is shown as 31.82 % of the memory bandwidth;
# AccelOpt's published trn1 profiles print a FLOP to byte ratio of 223.78.
def test_seconds_are_the_numbers_nearest_to_the_nanoseconds() -> None:
    s = profile().summary
    assert [s["total_time"], s["vector_engine_active_time"], s["dma_transfer_time"]] == [
        3.1e-6, 2.0e-6, 2.8e-6,
    ]  # fmt: skip


def test_trn1_bases_agree_with_published_profiles() -> None:
    moved = DMA | {"end_ts": [900, 100_000], "read_bytes": [0, 0], "transfer_bytes": [0, 0]}
    moved |= {"write_bytes": [0, round(130.46 * 100_000)]}
    p = Profile.from_tables(TRN1, {"DmaPacketAggregated": moved}, is_simulation=True)
    assert p.summary["mbu_estimated_percent"] == pytest.approx(0.3182, abs=5e-5)
    assert p.summary["peak_flops_bandwidth_ratio"] == pytest.approx(223.78, abs=5e-3)


def test_fractions_stay_between_0_and_1() -> None:
    for name, value in profile().summary.items():
        if "percent" in name:
            assert 0 <= value <= 1, name


def test_setup_opcodes_do_not_count_as_execution() -> None:
    idle = INSTRUCTION | {"opcode": ["NOP", *INSTRUCTION["opcode"][1:]]}
    p = Profile.from_tables(TRN2, {"Instruction": idle}, is_simulation=True)
    assert p.summary["total_exec_time"] == pytest.approx((3100 - 500) * 1e-9)


def test_metrics_only_the_maker_knows_are_kept() -> None:
    p = Profile.from_tables(
        TRN2, {}, is_simulation=True, metrics={"inputs_and_weights_size_bytes": 77}
    )
    assert p.summary["inputs_and_weights_size_bytes"] == 77
    assert "weight_size_bytes" not in p.summary


def test_busiest_resource() -> None:
    assert bound_by(profile()) == Bound("dma", 2300 / 3100, True)
    without = Profile.from_tables(TRN2, {"Instruction": INSTRUCTION}, is_simulation=True)
    assert bound_by(without) == Bound("vector", 2000 / 3100, True)
    short = DMA | {"start_ts": [0, 9000], "end_ts": [100, 9900]}
    assert not bound_by(profile(DmaPacketAggregated=short)).is_bound


def test_a_measured_summary_is_not_recomputed() -> None:
    measured = {"total_time": [0.5], "hfu_estimated_percent": [0.25]}
    p = profile(Summary=measured)
    assert p.summary == {"total_time": 0.5, "hfu_estimated_percent": 0.25}


def test_tables_that_follow_from_the_events() -> None:
    p = profile()
    active = [(r["engine"], r["start_ts"], r["end_ts"]) for r in p.records("ActiveTime")]
    assert active == [
        ("tensor", 500, 800),
        ("vector", 1000, 2600),
        ("vector", 2700, 3100),
        ("sync", 0, 50),
    ]
    opcodes = {(r["engine"], r["opcode"]): r for r in p.records("OpcodeSummary")}
    copies = opcodes["vector", "COPY"]
    assert (copies["instruction_count"], copies["active_time_ns"]) == (3, 900)
    pending = [(r["timestamp"], r["value"]) for r in p.records("PendingDma")]
    assert pending == [(100, 1), (400, 2), (900, 1), (2400, 0)]
    hbm = [(r["timestamp"], r["current_throughput"]) for r in p.records("HbmUsage")]
    assert [t for t, _ in hbm] == [100, 400, 900, 2400]
    # While both are under way each has half of what it moves alone: 8,000 B in 300 + 500 / 2 ns of
    # the engines, and 40,000 B in 500 / 2 + 1,500 ns.
    first, second = 8000 / 550, 40000 / 1750
    rates = [first, (first + second) / 2, second, 0]
    assert [v for _, v in hbm] == pytest.approx([rate * 1e9 for rate in rates])
    arrived = [r["total_transfer_bytes"] for r in p.records("HbmUsage")]
    assert arrived == [0, round(300 * first), 8000 + round(250 * second), 48000]
    about = next(p.records("Metadata"))
    assert about["is_simulation"] is True
    assert about["last_hw_timestamp"] == 3100
    assert about["dma_ddr_bandwidth"] == 368e9


def test_time_per_source_line() -> None:
    assert by_line(profile()) == [
        LineTime("cell:4", 1, 1100, 0, 1000, 0),
        LineTime("cell:3", 1, 50, 800, 0, 8000),
        LineTime("cell:5", 2, 500, 0, 0, 0),
        LineTime("add.py:12", 1, 400, 0, 100, 0),
    ]
    text = str(by_line(profile())).splitlines()
    assert text[2].split() == ["cell,", "line", "3", "0.050", "0.800", "0.000", "8,000", "1"]
    assert len(text) == 5


def test_issuers_follow_the_edges_to_transfers() -> None:
    assert issuers(profile()).tolist() == [0, -1]
    lost = FLOW | {"in_id": [9, 1]}
    assert issuers(profile(Flow=lost)).tolist() == [-1, -1]
    assert issuers(profile(Flow={})).tolist() == [-1, -1]


def test_transfers_under_way_together_never_move_more_than_the_engines_can() -> None:
    """Rates of transfers that share engines, one nanosecond after the other."""
    rng = np.random.default_rng(7)
    left = rng.integers(20, 400, 12).astype(float)  # ns that each needs alone, at 368 B/ns
    start = np.sort(rng.integers(0, 900, 12))
    moved = np.rint(left * 368).astype(int)
    end, now = np.full(12, -1), 0
    while (end < 0).any():
        open_now = (start <= now) & (end < 0)
        left[open_now] -= 1 / max(open_now.sum(), 1)
        now += 1
        end[open_now & (left <= 1e-9)] = now
    transfers = {
        "start_ts": start,
        "end_ts": end,
        "read_bytes": moved,
        "write_bytes": moved,
        "transfer_bytes": moved,
    }
    found = Profile.from_tables(TRN2, {"DmaPacketAggregated": transfers}, is_simulation=True)
    rate = found.numbers("DmaUsage", "current_throughput")
    assert (moved / (end - start))[(start <= 800) & (end > 800)].sum() > 400  # the means exceed it
    assert 360e9 < rate.max() < 372e9
    assert found.numbers("DmaUsage", "total_transfer_bytes")[-1] == moved.sum()


def test_transposes_told_alone_give_no_negative_share() -> None:
    columns = {"start_ts": [0], "end_ts": [1], "engine": ["tensor"], "flops_transpose": [1]}
    summary = Profile.from_tables(TRN2, {"Instruction": columns}, is_simulation=False).summary
    assert summary["transpose_flops"] == 1 and summary["mfu_estimated_percent"] == 0.0
