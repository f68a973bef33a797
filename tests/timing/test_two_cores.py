"""Tests that the two cores of a logical core wait for each other where they meet, and that a profile holds both."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import UsageError
from nki_lab.profiler.analyses.loops import loop_values
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import ENGINES, TRANSFERS
from nki_lab.runtime import jit
from nki_lab.targets import get_target
from nki_lab.targets.engines import GPSIMD
from nki_lab.timing import simulate_time, two_cores
from tests.runtime.test_two_cores import X, divided, exchanged, handed_over

HOP = get_target("trn2").semaphore_hop_ns


def on_two(kernel, *args, **options: Any):
    return nki_lab.run(
        jit(kernel)[2], *args, target="trn2", skip_passes="schedule,remove_dead", **options
    )


def rows(profile: Profile, core: int, opcode: str) -> list[dict[str, Any]]:
    """Return the rows of a core and opcode in the order of time."""
    found = profile.records("Instruction")
    return [r for r in found if (r["pcore_idx"], r["opcode"]) == (core, opcode)]


def worked(work):
    """Return a kernel whose cores run `work[core][k]` instructions on GpSimd before they meet for the k-th time."""

    def kernel(x):
        shared = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        out = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)
        tile = nl.ndarray((4, 512), dtype=nl.float32, buffer=nl.sbuf)
        nl.store(shared, nl.load(x))
        for count in work[nl.program_id()]:
            for _ in range(count):
                nisa.memset(tile, 0.0, engine=GPSIMD)
            nisa.core_barrier(shared, (0, 1), engine=GPSIMD)
        nl.store(out, nl.load(x))
        return out

    return kernel


WORK = [
    [[0], [30]],
    [[30], [0]],
    [[3, 20, 0], [9, 1, 14]],  # now the one, now the other is late
    [[10, 0, 10, 0, 10, 0, 10], [0, 10, 0, 10, 0, 10, 0]],
]


@pytest.mark.parametrize("work", WORK)
def test_a_meeting_waits_for_the_later_core_and_its_signal(work) -> None:
    """Work on GpSimd is in order, so each core comes when what is before the meeting has been started."""
    profile = on_two(worked(work), np.ones((4, 4), np.float32)).profile
    busy = max((0, 1), key=lambda core: work[core][0])
    last = work[busy][0] - 1
    single = rows(profile, busy, "MEMSET")
    each = (single[last]["start_ts"] - single[0]["start_ts"]) / last
    barriers = [rows(profile, core, "CORE_BARRIER") for core in (0, 1)]
    assert [len(b) for b in barriers] == [len(w) for w in work]
    own = barriers[0][0]["end_ts"] - barriers[0][0]["start_ts"]
    free = [0, 0]
    data = [max_end(profile, core) for core in (0, 1)]  # the barrier is about what both have stored
    for k in range(len(work[0])):
        come = [max(free[core] + work[core][k] * each, data[core] * (k == 0)) for core in (0, 1)]
        for core in (0, 1):
            begins = max(come[core], come[1 - core] + HOP)
            assert barriers[core][k]["start_ts"] == pytest.approx(begins, abs=3)
            free[core] = barriers[core][k]["start_ts"] + own
    assert profile.total_ns == max(profile.core(n).total_ns for n in (0, 1))


def test_cores_that_take_turns_are_timed_a_few_times(monkeypatch) -> None:
    """Now the one and now the other is late, eighty times over."""
    turns = []
    real = two_cores.times_of
    monkeypatch.setattr(two_cores, "times_of", lambda *a: turns.append(1) or real(*a))
    profile = on_two(handed_over, X, 40, 2).profile
    assert len(rows(profile, 0, "CORE_BARRIER")) == 80
    assert len(turns) <= 2 * 6
    turns.clear()
    monkeypatch.setattr(two_cores, "_GUESSES", 0)
    slowly = on_two(handed_over, X, 40, 2).profile
    assert len(turns) > 2 * 40
    assert slowly == profile


@pytest.mark.parametrize("work", WORK[:3])
def test_meetings_are_listed_from_when_a_core_came(work) -> None:
    profile = on_two(worked(work), np.ones((4, 4), np.float32)).profile
    for core in (0, 1):
        barriers = rows(profile, core, "CORE_BARRIER")
        found = [r for r in profile.records("CoreBarriers") if r["pcore_idx"] == core]
        assert [r["end_ts"] for r in found] == [r["end_ts"] for r in barriers]
        assert {(r["engine_name"], r["compiler_opcode"]) for r in found} == {
            ("GpSimd", "CORE_BARRIER")
        }
        assert [r["compiler_pc"] for r in found] == [r["compiler_pc"] for r in barriers]
        for meeting, barrier in zip(found, barriers, strict=True):
            assert meeting["start_ts"] <= barrier["start_ts"]
    ids = [r["id"] for r in profile.records("CoreBarriers")]
    assert len(set(ids)) == len(ids) == sum(map(len, work))
    late = max((0, 1), key=lambda core: work[core][0])
    waited = profile.core(1 - late).stalls()
    assert any(stall.reason == "core" for stall in waited)
    assert (
        not any(stall.reason == "core" for stall in profile.core(late).stalls()) or len(work[0]) > 1
    )
    assert "the other core" in str(waited)


def max_end(profile: Profile, core: int) -> int:
    """Return when the first store of a core was known to be complete."""
    stores = [
        r for r in profile.records(TRANSFERS) if r["pcore_idx"] == core and r["op"] == "write"
    ]
    return min(r["end_ts"] for r in stores) + get_target("trn2").dma_completion_ns


def test_a_core_that_sends_to_the_other_one_waits_for_it() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id()
        mine = nl.load(x[core * 64 : (core + 1) * 64])
        got = nl.ndarray(mine.shape, dtype=mine.dtype, buffer=nl.sbuf)
        for _ in range(10 * core):
            nisa.tensor_scalar(mine, mine, nl.add, 1.0)
        nisa.sendrecv(mine, got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
        nl.store(out[core * 64 : (core + 1) * 64], got)
        return out

    profile = on_two(kernel, X).profile
    sent = {
        r["pcore_idx"]: r for r in profile.records(TRANSFERS) if r["source"] == r["dest"] == "[SB]"
    }
    done = max(r["end_ts"] for r in rows(profile, 1, "SCALAR"))
    assert sent[1]["trigger"] == pytest.approx(done + HOP, abs=1)
    assert sent[0]["trigger"] == pytest.approx(done + 2 * HOP, abs=1)  # a signal further


def test_a_core_that_sends_to_itself_and_pipes_of_their_own_wait_for_nobody() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id()
        mine = nl.load(x[core * 64 : (core + 1) * 64])
        got = nl.ndarray(mine.shape, dtype=mine.dtype, buffer=nl.sbuf)
        for _ in range(10 * core):
            nisa.tensor_scalar(mine, mine, nl.add, 1.0)
        nisa.sendrecv(mine, got, send_to_rank=core, recv_from_rank=core, pipe_id=0)
        nl.store(out[core * 64 : (core + 1) * 64], got)
        return out

    profile = on_two(kernel, X).profile
    assert profile.core(0).total_ns < min(r["end_ts"] for r in rows(profile, 1, "SCALAR")) + 4000
    assert profile.core(1).total_ns > profile.core(0).total_ns


def test_cores_that_never_meet_run_as_if_alone() -> None:
    result = on_two(divided, X)
    for core, execution in enumerate((result.execution, *result.others)):
        alone = simulate_time(execution)
        mine = result.profile.core(core)
        for table in ("Instruction", TRANSFERS):
            for column in ("start_ts", "end_ts", "evt_wait_time_ns"):
                if column in alone.table(table):
                    np.testing.assert_array_equal(
                        mine.numbers(table, column), alone.numbers(table, column)
                    )


def test_both_cores_share_the_memory() -> None:
    def kernel(x):
        out = nl.ndarray((4, 4), dtype=x.dtype, buffer=nl.shared_hbm)
        for k in range(8):
            t = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(t, x[k])
        nisa.dma_copy(out, t[0:4, 0:4])
        return out

    x = np.ones((8, 128, 8192), np.float32)
    both = on_two(kernel, x).profile
    skipped = "schedule,remove_dead"
    alone = nki_lab.run(kernel, x, target="trn2", skip_passes=skipped).profile
    moved = both.summary["hbm_read_bytes"]
    assert moved == 2 * alone.summary["hbm_read_bytes"]
    assert both.summary["mbu_estimated_percent"] <= 1
    assert both.total_ns == alone.total_ns  # a core has its part of the stack, alone or not


# -- one profile of both ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["exchanged", "handed_over", "divided"])
def profile(request) -> Profile:
    kernels = {"exchanged": (exchanged,), "handed_over": (handed_over, 3, 2), "divided": (divided,)}
    kernel, *constants = kernels[request.param]
    return on_two(kernel, X, *constants).profile


def test_ids_are_unique_and_lead_to_rows_of_the_same_core(profile) -> None:
    ends = {
        text: {r["id"]: r for r in profile.records(table)}
        for text, table in (("instruction", "Instruction"), ("dma_block", TRANSFERS))
    }
    assert len(ends["instruction"]) == profile.count("Instruction")
    assert len(ends["dma_block"]) == profile.count(TRANSFERS)
    for flow in profile.records("Flow"):
        giver = ends[flow["in_table"]][flow["in_id"]]
        taker = ends[flow["out_table"]][flow["out_id"]]
        assert giver["pcore_idx"] == taker["pcore_idx"]
        assert flow["gap_time"] == taker["start_ts"] - giver["end_ts"]
    for packet in profile.records("DmaPacket"):
        assert (
            packet["pcore_idx"] == ends["dma_block"][packet["packet_aggregation_id"]]["pcore_idx"]
        )
    frames = {r["stack_frame_id"]: r for r in profile.records("KernelStackFrames")}
    for row in profile.records("KernelInstructions"):
        assert frames[row["stack_frame_id"]]["pcore_idx"] == row["pcore_idx"]
    (about,) = profile.records("Metadata")
    assert (about["num_physical_cores"], about["vnc_enabled"]) == (2, True)


def test_a_core_has_its_rows_and_nothing_else(profile) -> None:
    assert profile.cores == (0, 1)
    for table in profile.table_names:
        if table in ("Warning", "Summary", "Metadata", "OpcodeSummary", "DmaPacket"):
            continue
        parts = [list(profile.core(n).records(table)) for n in profile.cores]
        assert sorted(map(str, parts[0] + parts[1])) == sorted(map(str, profile.records(table)))
    counts = Counter(r["pcore_idx"] for r in profile.records("DmaPacket"))
    assert {n: profile.core(n).count("DmaPacket") for n in profile.cores} == counts
    with pytest.raises(UsageError, match="has no core 2"):
        profile.core(2)


def test_totals_are_those_of_both(profile) -> None:
    parts = [profile.core(n).summary for n in profile.cores]
    for name in ("hbm_read_bytes", "vector_engine_instruction_count", "dma_transfer_count"):
        assert profile.summary[name] == sum(p[name] for p in parts)
    busy = [p["sync_engine_active_time"] for p in parts]
    assert profile.summary["sync_engine_active_time"] == pytest.approx(sum(busy) / 2)


def test_questions_are_about_the_core_that_ends_last(profile) -> None:
    assert profile.slowest.total_ns == profile.total_ns
    assert profile.critical_path().total_ns == profile.total_ns
    assert profile.what_if("free-loads").before_ns == profile.total_ns  # type: ignore[union-attr]
    assert profile.what_if().__len__() > 3
    assert str(profile.advice()) == str(profile.slowest.advice())
    assert profile.stalls() == profile.slowest.stalls()


@pytest.mark.parametrize("ending", [".json", ".parquet"])
def test_files_keep_both_cores(profile, ending, tmp_path) -> None:
    again = Profile.load(profile.save(tmp_path / f"run{ending}"))
    assert again == profile
    for core in profile.cores:
        assert again.core(core) == profile.core(core)
        assert again.core(core).total_ns == profile.core(core).total_ns


def test_loop_variables_of_both_cores() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        core = nl.program_id()
        tile = nl.load(x[core * 64 : (core + 1) * 64])
        for i in range(1 + core):
            nisa.tensor_scalar(tile, tile, nl.add, float(i))
        nl.store(out[core * 64 : (core + 1) * 64], tile)
        return out

    profile = on_two(kernel, X).profile
    found = Counter(
        (r["pcore_idx"], text)
        for r, text in zip(profile.records("Instruction"), loop_values(profile), strict=True)
        if r["opcode"] == "SCALAR"
    )
    assert found == {(0, "i=0"): 1, (1, "i=0"): 1, (1, "i=1"): 1}


def test_the_report_names_both_cores(profile) -> None:
    from nki_lab.profiler.analyses.report import report

    text = report(profile)
    assert "2 cores" in text.splitlines()[0]
    assert f"core 1 {profile.core(1).total_ns / 1000:,.3f} us" in text
    waits = {
        name: [profile.core(n).stalls().of(name).wait_ns for n in profile.cores] for name in ENGINES
    }
    for row in text.splitlines():
        name = row.split()[0].lower() if row.split() else ""
        if name in waits:  # as active time, so that it stays below the time of the run
            assert float(row.split()[-1]) == pytest.approx(sum(waits[name]) / 2000, abs=1e-3)
    assert sum(map(sum, waits.values()))
    lines = {r["nki_source_location"] for r in profile.records("Instruction")}
    shown = re.findall(r"^(test_two_cores\.py), line (\d+) ", text, re.MULTILINE)
    assert shown and {":".join(place) for place in shown} <= lines
    assert len(shown) == len(set(shown))  # a line that both cores run is one line
