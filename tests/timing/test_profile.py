"""Tests that the tables of a timed kernel say what it did, and leave empty what a model cannot know."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.errors import BrokenProgram, UnknownOption
from nki_lab.ir.program.execution import Execution
from nki_lab.isa import registry
from nki_lab.profiler.analyses.report import report
from nki_lab.profiler.formats.profile_json import from_json, to_json
from nki_lab.profiler.metrics import bound_by
from nki_lab.profiler.schema import TABLES, TRANSFERS
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.engines import VECTOR
from nki_lab.timing import TimingOptions, simulate_time, total_ns
from nki_lab.timing.limits import LIMITS
from tests.timing.timed import compiled, timed

dma_copy, tensor_copy, activation, nc_matmul = (
    registry[name] for name in "dma_copy tensor_copy activation nc_matmul".split()
)


def product(lhs, rhs):
    weights = nl.ndarray((128, 64), dtype=lhs.dtype, buffer=nl.sbuf)
    moving = nl.ndarray((128, 512), dtype=lhs.dtype, buffer=nl.sbuf)
    out = nl.ndarray((64, 512), dtype=lhs.dtype, buffer=nl.shared_hbm)
    held = nl.ndarray((64, 512), dtype=nl.float32, buffer=nl.psum)
    for k in range(3):
        dma_copy(weights, lhs[128 * k : 128 * k + 128, :])
        dma_copy(moving, rhs[128 * k : 128 * k + 128, :])
        nc_matmul(held, weights, moving)
    result = nl.ndarray((64, 512), dtype=lhs.dtype, buffer=nl.sbuf)
    activation(result, nl.exp, held)
    dma_copy(out, result)
    return out


NOT_OF_THIS_KERNEL = ("KernelIterationVariables", "CcOp", "CoreBarriers")
SPECS = ((384, 64), "bfloat16"), ((384, 512), "bfloat16")


@pytest.fixture(scope="module", params=[t.name for t in ALL_TARGETS])
def profile(request):
    return timed(product, *SPECS, target=request.param).profile


@pytest.fixture(scope="module")
def trn2():
    return timed(product, *SPECS, target="trn2").profile


def test_every_table_that_is_offered_can_be_made(profile) -> None:
    for name in profile.table_names:
        assert profile.count(name) > 0 or name in NOT_OF_THIS_KERNEL, name
    assert profile.is_simulation
    assert profile.name == "product"


def test_the_same_execution_gives_the_same_profile() -> None:
    kernel = compiled(product, *SPECS, target="trn2")
    execution = Execution.in_program_order(kernel)
    first, second = simulate_time(execution), simulate_time(execution)
    assert first == second
    again = Execution.in_program_order(compiled(product, *SPECS, target="trn2"))
    assert simulate_time(again) == first
    assert total_ns(execution) == first.total_ns


def test_one_row_per_micro_operation_load_of_a_table_and_trigger(trn2) -> None:
    codes = trn2.strings("Instruction", "opcode").to_list()
    assert {c: codes.count(c) for c in codes} == {
        "PSEUDO_DMA_TRIGGER": 7,
        "LDWEIGHTS": 3,
        "MATMUL": 3,
        "ACT_TABLE_LOAD": 1,
        "ACTIVATE": 1,
    }
    assert trn2.count(TRANSFERS) == 7
    assert (np.diff(trn2.numbers("Instruction", "start_ts")) >= 0).all()
    assert len(set(trn2.numbers("Instruction", "id").tolist())) == len(codes)


def test_places_in_the_text_and_in_the_program(trn2) -> None:
    rows = list(trn2.records("Instruction"))
    first = product.__code__.co_firstlineno
    by_opcode = {r["opcode"]: r for r in rows}
    assert by_opcode["MATMUL"]["nki_source_location"] == f"test_profile.py:{first + 8}"
    assert by_opcode["ACTIVATE"]["nki_source_location"] == f"test_profile.py:{first + 10}"
    assert by_opcode["MATMUL"]["operands"].startswith(
        "dst=%held stationary=%weights moving=%moving"
    )
    assert by_opcode["MATMUL"]["timeline_track"] == "TensorMatrix"
    assert by_opcode["MATMUL"]["engine"] == "tensor"
    assert by_opcode["PSEUDO_DMA_TRIGGER"]["engine"] == "sync"
    assert trn2.count("KernelInstructions") == 3 * 3 + 2
    assert {r["line_number"] for r in trn2.records("KernelInstructions")} == {
        first + 6, first + 7, first + 8, first + 10, first + 11,
    }  # fmt: skip


def test_functions_and_products_are_named(trn2) -> None:
    by_opcode = {r["opcode"]: r for r in trn2.records("Instruction")}
    assert by_opcode["ACTIVATE"]["scalar_activation_fn"] == "exp"
    assert by_opcode["MATMUL"]["tensor_instruction_type"] == "REGULAR"
    assert by_opcode["LDWEIGHTS"]["tensor_instruction_type"] is None
    assert by_opcode["PSEUDO_DMA_TRIGGER"]["scalar_activation_fn"] is None


def test_queues_are_listed_for_every_engine(trn2) -> None:
    rows = list(trn2.records("DmaQueuesInfo"))
    assert {r["name"] for r in rows} == {"qSyncHwDgeIn", "qSyncHwDgeOut"}
    assert len(rows) == 2 * 16


def test_bytes_and_operations(trn2) -> None:
    summary = trn2.summary
    loaded = 3 * 128 * (64 + 512) * 2
    assert summary["hbm_read_bytes"] == loaded
    assert summary["hbm_write_bytes"] == 64 * 512 * 2
    assert summary["hardware_flops"] == 3 * 2 * 128 * 64 * 512
    assert summary["adjusted_hardware_flops"] == summary["hardware_flops"]  # bfloat16
    assert summary["psum_write_bytes"] == 3 * 64 * 512 * 4
    assert summary["psum_read_bytes"] == 64 * 512 * 4
    assert summary["psum_read_sbuf_write_bytes"] == 64 * 512 * 4
    assert summary["inputs_and_weights_size_bytes"] == loaded
    assert summary["matmul_instruction_count"] == 3


def test_float32_operations_are_counted_once_and_adjusted_by_four() -> None:
    specs = ((384, 64), "float32"), ((384, 512), "float32")
    summary = timed(product, *specs, target="trn2").profile.summary
    assert summary["hardware_flops"] == 3 * 2 * 128 * 64 * 512
    assert summary["adjusted_hardware_flops"] == 4 * summary["hardware_flops"]
    assert summary["matmul_instruction_count"] == 6


def test_transfers_name_their_tensor_ring_and_places(trn2) -> None:
    rows = list(trn2.records(TRANSFERS))
    assert [r["variable"] for r in rows] == ["lhs", "rhs"] * 3 + ["out"]
    assert {(r["source"], r["dest"]) for r in rows[:6]} == {("[INPUT]", "[SB]")}
    assert (rows[6]["source"], rows[6]["dest"]) == ("[SB]", "[OUTPUT]")
    assert [r["queue_name"] for r in rows] == ["qSyncHwDgeIn"] * 6 + ["qSyncHwDgeOut"]
    assert rows[0]["queue_type"] == "hardware_dynamic"
    assert rows[0]["write_num_sbuf_partitions"] == 128
    assert rows[6]["read_shape"] == "[64, 512]"
    static = timed(product, *SPECS, target="trn1").profile
    assert {r["queue_type"] for r in static.records(TRANSFERS)} == {"input", "output"}


def test_packets_add_up_to_their_transfers(profile) -> None:
    transfers = {r["id"]: r for r in profile.records(TRANSFERS)}
    packets: dict[int, list] = {}
    for row in profile.records("DmaPacket"):
        packets.setdefault(row["packet_aggregation_id"], []).append(row)
    assert packets.keys() == transfers.keys()
    for number, rows in packets.items():
        whole = transfers[number]
        assert sum(r["transfer_bytes"] for r in rows) == whole["transfer_bytes"]
        assert min(r["start_ts"] for r in rows) == whole["start_ts"]
        assert max(r["end_ts"] for r in rows) == whole["end_ts"]
    assert {r["engine_idx"] for r in packets[1]} == set(range(16))
    assert {r["engine_idx"] for r in packets[7]} == set(range(8))  # 64 partitions


def test_flows_point_forward_and_to_rows_that_exist(profile) -> None:
    ends = {
        "instruction": {r["id"]: r for r in profile.records("Instruction")},
        "dma_block": {r["id"]: r for r in profile.records(TRANSFERS)},
    }
    issued = set()
    for flow in profile.records("Flow"):
        giver, taker = (
            ends[flow["in_table"]][flow["in_id"]],
            ends[flow["out_table"]][flow["out_id"]],
        )
        assert flow["gap_time"] == taker["start_ts"] - giver["end_ts"]
        if flow["out_table"] == "dma_block":
            assert giver["opcode"] == "PSEUDO_DMA_TRIGGER"
            issued.add(flow["out_id"])
        if flow["in_table"] == "dma_block":
            assert flow["gap_time"] >= 309  # completion, in whole nanoseconds
    assert issued == set(ends["dma_block"])


def test_what_waits_for_what_is_in_the_flow(trn2) -> None:
    """A store waits for the activation, which waits for the last product, which waits for its two loads."""
    rows = {r["id"]: r for r in trn2.records("Instruction")}
    flows = list(trn2.records("Flow"))
    activate = next(r["id"] for r in rows.values() if r["opcode"] == "ACTIVATE")
    product_id = max(r["id"] for r in rows.values() if r["opcode"] == "MATMUL")
    assert [
        f["in_id"] for f in flows if f["out_id"] == activate and f["out_table"] == "instruction"
    ] == [product_id]
    stores = [f for f in flows if f["in_id"] == activate and f["in_table"] == "instruction"]
    assert [rows[f["out_id"]]["opcode"] for f in stores] == ["PSEUDO_DMA_TRIGGER"]


def test_waiting_time_is_what_lies_between_two_instructions_of_an_engine(trn2) -> None:
    rows = [r for r in trn2.records("Instruction") if r["engine"] == "scalar"]
    table, activate = sorted(rows, key=lambda r: r["start_ts"])
    assert table["evt_wait_time_ns"] == 0
    assert activate["evt_wait_time_ns"] == activate["start_ts"] - table["end_ts"] > 0


def test_an_engine_waits_only_while_it_does_nothing(profile) -> None:
    engine = profile.strings("Instruction", "engine")
    waits = profile.numbers("Instruction", "evt_wait_time_ns")
    assert (waits >= 0).all()
    for name in ("sync", "tensor", "scalar"):
        rows = engine.equal_to(name)
        busy = profile.summary[f"{name}_engine_active_time"] * 1e9
        assert 0 < waits[rows].sum() <= profile.total_ns
        if name == "sync":
            assert waits[rows].sum() + busy <= profile.total_ns + rows.sum()


def test_memory_in_use_follows_the_accesses(trn2) -> None:
    kernel_bytes = 64 * 2 + 512 * 2  # weights and moving, per partition
    peak = trn2.numbers("SbufUsage", "partition_0_util_percent").max() * 224 * 1024
    assert kernel_bytes <= round(peak) <= kernel_bytes + 512 * 2
    assert trn2.numbers("SbufUsage", "avg_util_percent")[-1] == 0
    rows = list(trn2.records("SbufAllocation"))
    assert {r["tensor_name"] for r in rows} == {"weights", "moving", "result"}
    assert trn2.numbers("PsumUsage", "bank_0_util_percent").max() == 0.5  # 64 of 128 partitions


def test_tensors_say_how_often_they_were_loaded(trn2) -> None:
    rows = {r["variable_name"]: r for r in trn2.records("TensorInfo")}
    assert (rows["lhs"]["type"], rows["out"]["type"]) == ("IN", "OUT")
    assert rows["lhs"]["load_to_sbuf_dma_count"] == 3
    assert rows["rhs"]["load_to_sbuf_repeat_factor"] == 1.0
    assert rows["out"]["load_to_sbuf_dma_count"] == 0


def test_what_is_not_modelled_is_said(profile) -> None:
    messages = profile.strings("Warning", "message").to_list()
    assert len(messages) == len(set(messages)) >= 2
    known = {limit.message: limit.category for limit in LIMITS}
    for row in profile.records("Warning"):
        assert row["category"] == known[row["message"]]
    assert any("no latency of this chip" in m for m in messages) == (profile.target.generation == 4)
    assert any("current limit" in m for m in messages) == (profile.target.generation > 2)
    assert not any("GpSimd instructions" in m for m in messages)


@pytest.mark.parametrize("target", ALL_TARGETS, ids=lambda target: target.name)
def test_a_transpose_without_a_published_rate_is_said(target) -> None:
    def turned(x):
        out = nl.ndarray((48, 40), dtype=nl.bfloat16, buffer=nl.shared_hbm)
        tile = nl.ndarray((48, 40), dtype=nl.bfloat16, buffer=nl.sbuf)
        registry["dma_transpose"](tile, x)
        dma_copy(out, tile)
        return out

    said = timed(turned, ((40, 48), "bfloat16"), target=target.name).profile
    messages = said.strings("Warning", "message").to_list()
    assert any("issuing a transposing transfer" in m for m in messages)
    # trainium2_arch.rst:321 gives NeuronCore-v3 90 % of the copy rate; no page gives NeuronCore-v2 any.
    assert any("moves single elements" in m for m in messages) == (target.generation == 2)


def test_the_report_and_the_file_of_a_timed_kernel(trn2) -> None:
    assert "product" in report(trn2)
    assert bound_by(trn2).share > 0

    assert from_json(to_json(trn2)) == trn2


def test_program_overhead_comes_first_when_asked_for() -> None:
    kernel = compiled(product, *SPECS, target="trn2")
    execution = Execution.in_program_order(kernel)
    bare = simulate_time(execution)
    whole = simulate_time(execution, options=TimingOptions(program_overhead=True))
    assert whole.total_ns - bare.total_ns == 20_000  # the middle of 13 to 27 us
    assert whole.numbers("Instruction", "start_ts").min() == 20_000
    assert whole.numbers(TRANSFERS, "start_ts").min() == 20_000 + 1345


@pytest.mark.parametrize("share", [0, -0.5, 1.5])
def test_a_share_of_hbm_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(UnknownOption, match="hbm_share"):
        TimingOptions(hbm_share=share)


def test_a_kernel_without_waits_is_refused() -> None:
    kernel = compiled(product, *SPECS, target="trn2").with_(waits=None)
    with pytest.raises(BrokenProgram, match="run every compiler pass"):
        total_ns(Execution.in_program_order(kernel))


def test_waits_that_go_round_are_refused() -> None:
    kernel = compiled(product, *SPECS, target="trn2")
    waits = list(kernel.waits or ())
    waits[0] = (len(waits) - 1,)  # the first load waits for the last store
    with pytest.raises(BrokenProgram, match="wait for each other"):
        total_ns(Execution.in_program_order(kernel.with_(waits=tuple(waits))))


def test_an_empty_program_takes_no_time() -> None:
    kernel = compiled(product, *SPECS, target="trn2").with_(body=(), waits=())
    profile = simulate_time(Execution.in_program_order(kernel))
    assert profile.total_ns == 0
    for name in ("Instruction", TRANSFERS, "Flow", "SbufUsage", "DmaPacket"):
        assert profile.count(name) == 0
        assert name in TABLES


def test_a_loop_that_does_not_run_hides_no_wait() -> None:
    """What follows it needs the load that only the body, earlier in the text, was to wait for."""

    def kernel(x, trips):
        out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
        t = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
        u = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)

        def add(_=None):
            registry["tensor_tensor"](dst=u, data1=u, data2=t, op=nl.add, engine=VECTOR)

        registry["memset"](dst=u, value=0.0, engine=VECTOR)
        dma_copy(dst=t, src=x)
        nl.fori_loop(0, trips, add)
        add()
        dma_copy(dst=out, src=u)
        return out

    for trips in (0, 1):
        profile = nki_lab.run(kernel, np.ones((128, 512), np.float32), trips, target="trn2").profile
        codes = profile.strings("Instruction", "opcode").to_list()
        add = codes.index("TENSOR_TENSOR")
        arrived = profile.numbers(TRANSFERS, "end_ts")[0]
        assert profile.numbers("Instruction", "start_ts")[add] >= arrived


def test_trips_of_a_loop_run_one_after_the_other() -> None:
    kernel = compiled(product, *SPECS, target="trn2")
    once = Execution.in_program_order(kernel)
    body = list(range(len(kernel.instructions)))
    thrice = Execution(kernel, body * 3, trips=(3,))
    single, triple = simulate_time(once), simulate_time(thrice)
    assert (
        triple.count("Instruction") == 3 * single.count("Instruction") - 2
    )  # one load of the table
    assert 2.5 * single.total_ns < triple.total_ns < 3.5 * single.total_ns
    starts = triple.numbers(TRANSFERS, "start_ts")
    ends = triple.numbers(TRANSFERS, "end_ts")
    assert starts[7] >= ends[:7].max()
    # Completion of the store, branch, semaphore, issue and start of the next load.
    assert starts[7] - ends[:7].max() == pytest.approx(310 + 50 + 40 + 600 + 745, abs=1)
    assert triple.count("Flow") == 3 * single.count("Flow")
