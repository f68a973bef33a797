"""Tests why each event began when it did: by hand for a small profile, and against the model's own times."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.profiler.analyses.waits import REASONS, waits
from nki_lab.profiler.formats.profile_json import from_json, to_json
from nki_lab.targets import ALL_TARGETS, TRN2
from nki_lab.timing.rows import instruction_rows
from tests.timing import kernels
from tests.timing.timed import timed

from .example import FLOW, INSTRUCTION, profile

MATMUL = ((256, 256), "bfloat16"), ((256, 1024), "bfloat16")
TIMED = {
    "chain": (kernels.chain, (((128, 512), "float32"),)),
    "streamed": (kernels.streamed, (((512, 512), "float32"),)),
    "matmul": (kernels.tiled_matmul, MATMUL),
    "through scalar": (kernels.through_scalar, (((128, 2048), "bfloat16"),)),
    "side by side": (kernels.side_by_side, (((128, 512), "float32"),)),
}


def reasons_of(found) -> list[str]:
    return [REASONS[code] for code in found.reason.tolist()]


def test_the_example_by_hand() -> None:
    """Trigger on Sync, matmul, four on Vector; transfer 1 was triggered by the first and gave Vector its data."""
    p = profile()
    # The second instruction waits for transfer 1, which ended at 900; it starts 100 ns later.
    found = waits(p)
    assert found.instructions == 6
    assert reasons_of(found) == [
        "start", "dma", "order", "order", "unknown", "unknown", "issue", "start",
    ]  # fmt: skip
    # -1; transfer 1 is event 6; in order; what ended last before 2700 and 500; the trigger.
    assert found.before.tolist() == [-1, 6, 1, 2, 3, 0, 0, -1]
    assert found.waited.tolist() == [0, 1000, 0, 0, 100, 450, 0, 0]
    assert [found.lane(e) for e in (0, 1, 6)] == ["sync", "vector", "qSyncStatic0"]
    assert [found.what(e) for e in (1, 6)] == ["TENSOR_TENSOR", "x"]
    assert [found.place(e) for e in (1, 5, 6, 7)] == ["cell:4", "", "cell:3", ""]


def test_a_wait_of_a_measured_profile_is_put_down_to_what_it_had_to_wait_for() -> None:
    late = INSTRUCTION | {"start_ts": [0, 1800, 2100, 2300, 2700, 500]}
    late |= {"evt_wait_time_ns": [0, 1700, 0, 0, 0, 450]}
    late |= {"engine": ["sync", "vector", "scalar", "vector", "vector", "tensor"]}
    modelled, measured = profile(Instruction=late), profile(Instruction=late)
    measured.is_simulation = False
    # 900 ns after the transfer: in a model something else held it up, but no other engine had begun.
    assert reasons_of(waits(modelled))[1] == "unknown"
    found = waits(measured)
    assert (reasons_of(found)[1], found.before[1]) == ("dma", 6)


def test_what_was_heard_of_last_counts_not_what_ended_last() -> None:
    """The product ends after the transfer, but signals travel faster than the completion of a transfer."""
    begin = 900 + TRN2.dma_completion_ns
    rows = INSTRUCTION | {
        "start_ts": [0, begin, 2100, 2300, 2700, 500],
        "end_ts": [50, 2100, 2300, 2600, 3100, begin - TRN2.semaphore_hop_ns - 50],
        "evt_wait_time_ns": [0, begin, 0, 0, 100, 450],
    }
    flow = {
        name: [*values, values[-1]] for name, values in FLOW.items() if name != "dependency_type"
    }
    flow |= {"in_id": [1, 1, 6], "out_id": [1, 2, 2]}
    flow |= {"in_table": ["instruction", "dma_block", "instruction"]}
    found = waits(profile(Instruction=rows, Flow=flow))
    assert (reasons_of(found)[1], found.before[1]) == ("dma", 6)


def test_waiting_is_computed_where_it_was_not_recorded() -> None:
    unknown = {k: v for k, v in INSTRUCTION.items() if k != "evt_wait_time_ns"}
    found = waits(profile(Instruction=unknown))
    # Vector: from the start of the run to 1000, nothing, nothing, 2600 to 2700; Tensor: its first begins at 500.
    assert found.waited[:6].tolist() == [0, 1000, 0, 0, 100, 500]


def test_nothing_is_known_of_an_empty_profile() -> None:
    found = waits(profile(Instruction={}, DmaPacketAggregated={}, Flow={}))
    assert not len(found.before)


@pytest.mark.parametrize("target", [t.name for t in ALL_TARGETS])
@pytest.mark.parametrize("name", TIMED)
def test_reasons_agree_with_the_times_of_the_model(name, target) -> None:
    """The model knows when what an instruction needs is done, to the picosecond; the tables only say who waited."""
    function, specs = TIMED[name]
    run = timed(function, *specs, target=target)
    board, rows = run.timeline.board, instruction_rows(run.timeline)
    found = waits(run.profile)
    records = board.records
    for row in range(found.instructions):
        entry = int(rows.entry[row])
        is_first = int(rows.first[entry]) == row
        begin = board.trigger[entry] if records[entry].moves else board.start[entry]
        needed = {
            w: board.done[w] - (board.hop if records[w].queue is records[entry].queue else 0)
            for w in run.timeline.program.waits[entry]
        }
        bound = [w for w, time in needed.items() if time == begin]
        reason = REASONS[found.reason[row]]
        if reason in ("semaphore", "dma"):
            assert is_first and bound, (row, reason)
            before = int(found.before[row])
            if before < found.instructions:
                assert any(rows.last[w] == before for w in bound)
            else:
                transfer = run.timeline.transfers[before - found.instructions]
                assert transfer in bound
        elif reason in ("port", "issuer", "unknown"):
            assert all(time < begin for time in needed.values()), (row, reason)
        else:
            assert found.waited[row] == 0 or reason == "start"


@pytest.mark.parametrize("target", [t.name for t in ALL_TARGETS])
def test_transfers_wait_for_their_trigger_or_for_the_dma_engines(target) -> None:
    run = timed(kernels.tiled_matmul, *MATMUL, target=target)
    board, found = run.timeline.board, waits(run.profile)
    for number, entry in enumerate(run.timeline.transfers.tolist()):
        event = found.instructions + number
        record = board.records[entry]
        arrives = board.trigger[entry] + record.issue + record.lead
        assert board.start[entry] >= arrives
        reason = REASONS[found.reason[event]]
        late = (board.start[entry] - arrives) / 1000
        assert reason == ("issue" if late <= 1 else "ring") or 0 < late < 3, (number, late)
        if reason == "ring":
            other = int(found.before[event])
            assert found.end[other] <= found.start[event] + 1
            assert 0 < found.waited[event] <= late + 1


def test_a_port_that_another_engine_holds_is_named() -> None:
    """NeuronCore-v2: Vector and GpSimd exclude each other on SBUF."""
    run = timed(kernels.side_by_side, ((128, 512), "float32"), target="trn1")
    found = waits(run.profile)
    held = [e for e, r in enumerate(reasons_of(found)) if r == "port"]
    assert held
    for event in held:
        assert {found.lane(event), found.lane(int(found.before[event]))} == {"vector", "gpsimd"}
    free = timed(kernels.side_by_side, ((128, 512), "float32"), target="trn2")
    assert "port" not in reasons_of(
        waits(free.profile)
    )  # float32: no performance mode, no shared bus


@pytest.mark.parametrize("name", TIMED)
def test_events_follow_earlier_ones_only(name) -> None:
    function, specs = TIMED[name]
    for target in ALL_TARGETS:
        found = waits(timed(function, *specs, target=target.name).profile)
        has = np.flatnonzero(found.before >= 0)
        assert (found.start[found.before[has]] <= found.start[has]).all()
        for event in has.tolist():  # no circle
            seen = set()
            while event >= 0:
                assert event not in seen
                seen.add(event)
                event = int(found.before[event])


def test_a_profile_that_was_saved_says_the_same() -> None:
    p = timed(kernels.streamed, ((512, 512), "float32"), target="trn2").profile
    again = from_json(to_json(p))
    one, other = waits(p), waits(again)
    assert (one.before == other.before).all() and (one.reason == other.reason).all()
