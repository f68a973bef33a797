"""Tests the columns of a modelled profile against counts by hand or from other columns."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.targets.engines import SCALAR, TENSOR, VECTOR
from tests.runtime.test_ranks import PAIRS, X, reduced
from tests.timing import kernels
from tests.timing.timed import timed

dma_copy, dma_transpose, nc_transpose, tensor_copy, tensor_scalar, tensor_tensor = (
    registry[name]
    for name in "dma_copy dma_transpose nc_transpose tensor_copy tensor_scalar tensor_tensor".split()
)


def rows(profile: Profile, table: str, **wanted: Any) -> list[dict[str, Any]]:
    """Return the rows of a table in which some columns have these values."""
    found = profile.records(table)
    return [row for row in found if all(row[name] == value for name, value in wanted.items())]


# -- Instruction -----------------------------------------------------------------------------------------------------


def narrow_and_wide(x):
    """Run what has a performance mode, and what has none, on bfloat16 and float32."""
    out = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.shared_hbm)
    a = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
    b = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.sbuf)
    wide = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    bank = nl.ndarray((128, 512), dtype=nl.bfloat16, buffer=nl.psum)
    dma_copy(a, x)
    tensor_copy(b, a, engine=VECTOR)  # 4x: narrow, contiguous, in SBUF
    tensor_copy(b[:, ::2], a[:, ::2], engine=VECTOR)  # 2x: not contiguous
    tensor_copy(bank, a, engine=VECTOR)  # 2x: one side in PSUM
    tensor_copy(wide, a, engine=VECTOR)  # not narrow
    tensor_copy(b, a, engine=SCALAR)
    tensor_scalar(b, a, op0=nl.add, operand0=1.0, engine=VECTOR)  # 4x
    tensor_tensor(b, a, b, op=nl.add, engine=VECTOR)  # 2x
    tensor_tensor(wide, wide, wide, op=nl.add, engine=VECTOR)
    dma_copy(out, b)
    return out


# trainium2_arch.rst:222-237 and trainium3_arch.rst:218 list them; NeuronCore-v2 has no performance mode.
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("trn2", ["4x", "2x", "2x", None, None, "4x", "2x", None]),
        ("trn3", ["4x", "2x", "2x", None, "2x", "4x", "2x", None]),
    ],
)
def test_performance_modes(target, expected) -> None:
    x = np.zeros((128, 512), nl.bfloat16.np)
    run = nki_lab.run(narrow_and_wide, x, target=target, skip_passes="schedule,remove_dead")
    profile = run.profile
    names = {r["kernel_instruction_name"]: r for r in profile.records("Instruction")}
    ordered = sorted(names.values(), key=lambda r: int(r["kernel_instruction_name"][5:-2]))
    found = [r["performance_mode"] for r in ordered if r["opcode"] != "PSEUDO_DMA_TRIGGER"]
    assert found == expected


def test_neuroncore_v2_has_no_performance_mode() -> None:
    specs = ((256, 64), "bfloat16")
    modes = {
        target: set(timed(kernels.streamed, specs, target=target).profile.strings(
            "Instruction", "performance_mode").to_list())
        for target in ("trn1", "trn2")
    }  # fmt: skip
    assert modes == {"trn1": {None}, "trn2": {None, "4x"}}


def transposed(x):
    out = nl.ndarray((64, 96), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((96, 64), dtype=x.dtype, buffer=nl.sbuf)
    held = nl.ndarray((64, 96), dtype=x.dtype, buffer=nl.psum)
    back = nl.ndarray((64, 96), dtype=x.dtype, buffer=nl.sbuf)
    dma_copy(t, x)
    nc_transpose(held, t, engine=TENSOR)
    tensor_copy(back, held)
    dma_copy(out, back)
    return out


@pytest.mark.parametrize(("dtype", "factor"), [("bfloat16", 1), ("float32", 4)])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_transposes_count_as_hardware_flops_and_not_as_useful_ones(dtype, factor, target) -> None:
    profile = timed(transposed, ((96, 64), dtype), target=target).profile
    products = rows(profile, "Instruction", tensor_instruction_type="TRANSPOSE")
    flops = 2 * 96 * 96 * 64  # 96 rows, against an identity matrix of 96 columns
    for name in ("raw_flops", "flops_transpose"):
        assert sum(r[name] for r in products) == flops
    for name in ("adjusted_flops", "adjusted_flops_transpose"):
        assert sum(r[name] for r in products) == factor * flops
    summary = profile.summary
    assert summary["hardware_flops"] == summary["transpose_flops"] == flops
    assert summary["hfu_estimated_percent"] > 0 == summary["mfu_estimated_percent"]
    assert profile.roofline().total_ns == profile.total_ns


def test_products_are_no_transposes() -> None:
    profile = timed(
        kernels.tiled_matmul, ((128, 128), "bfloat16"), ((128, 512), "bfloat16")
    ).profile
    assert profile.summary["hardware_flops"] == 2 * 128 * 128 * 512
    assert profile.summary["transpose_flops"] == 0


def test_an_instruction_has_one_place_in_the_program_however_often_it_runs() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        t = nl.load(x)

        def body(i):
            tensor_scalar(t, t, op0=nl.add, operand0=1.0, engine=VECTOR)
            tensor_scalar(t, t, op0=nl.multiply, operand0=2.0, engine=VECTOR)

        nl.fori_loop(0, 3, body)
        nl.store(out, t)
        return out

    profile = nki_lab.run(kernel, np.ones((4, 8), np.float32)).profile
    vector = rows(profile, "Instruction", engine="vector")
    assert [r["compiler_pc"] for r in vector] == [0, 1] * 3
    assert [r["pc"] for r in vector] == [*range(6)]
    issuer = rows(profile, "Instruction", engine="sync")
    assert [r["compiler_pc"] for r in issuer] == [0, 1]
    assert [r["compiler_opcode"] for r in issuer] == ["PSEUDO_DMA_TRIGGER"] * 2
    assert all(r["compiler_operands"] == r["operands"] for r in vector)


@pytest.mark.parametrize(("target", "static"), [("trn1", True), ("trn2", False)])
def test_bytes_of_queues_are_those_of_static_ones(target, static) -> None:
    profile = timed(kernels.chain, ((128, 512), "float32"), target=target).profile
    moved = 128 * 512 * 4 if static else 0
    for column in ("input_queue_bytes", "output_queue_bytes"):
        assert profile.numbers("Instruction", column).sum() == moved
        assert profile.summary[column] == moved
    for column in ("weight_queue_bytes", "spill_save_bytes", "spill_reload_bytes"):
        assert profile.numbers("Instruction", column).tolist() == [0] * profile.count("Instruction")
        assert profile.summary[column] == 0


def test_bytes_of_each_instruction(streamed) -> None:
    """Each tile has 128 x 64 floats; Scalar and Vector read one and write one in SBUF, transfers cross to HBM."""
    tile = 128 * 64 * 4
    expected = {
        "ACTIVATE": (tile, tile, 0, 0),
        "SCALAR": (tile, tile, 0, 0),
        "ACT_TABLE_LOAD": (0, 0, 0, 0),
    }
    names = ("sbuf_read_bytes", "sbuf_write_bytes", "hbm_read_bytes", "hbm_write_bytes")
    seen = Counter(r["opcode"] for r in streamed.records("Instruction"))
    assert seen == {"PSEUDO_DMA_TRIGGER": 8, "ACTIVATE": 4, "SCALAR": 4, "ACT_TABLE_LOAD": 1}
    for row in streamed.records("Instruction"):
        found = tuple(row[name] for name in names)
        if row["opcode"] == "PSEUDO_DMA_TRIGGER":
            assert found in ((0, tile, tile, 0), (tile, 0, 0, tile))
        else:
            assert found == expected[row["opcode"]]
        assert row["psum_read_bytes"] == row["psum_write_bytes"] == row["raw_flops"] == 0


def test_bytes_and_operations_of_products_and_what_leaves_psum() -> None:
    specs = ((128, 128), "bfloat16"), ((128, 512), "bfloat16")
    profile = timed(kernels.tiled_matmul, *specs).profile
    (load,) = rows(profile, "Instruction", opcode="LDWEIGHTS")
    (product,) = rows(profile, "Instruction", opcode="MATMUL")
    (copy,) = rows(profile, "Instruction", opcode="TENSOR_COPY")
    assert (load["sbuf_read_bytes"], load["psum_write_bytes"]) == (128 * 128 * 2, 0)
    assert (product["sbuf_read_bytes"], product["psum_write_bytes"]) == (
        128 * 512 * 2,
        128 * 512 * 4,
    )
    assert (load["raw_flops"], product["raw_flops"]) == (0, 2 * 128 * 128 * 512)
    assert (copy["psum_read_bytes"], copy["sbuf_write_bytes"]) == (128 * 512 * 4, 128 * 512 * 2)
    assert copy["psum_read_sbuf_write_bytes"] == 128 * 512 * 4


def test_a_trigger_tells_when_its_transfer_ran() -> None:
    profile = timed(kernels.streamed, ((256, 64), "float32")).profile
    transfers = {r["trigger"]: r for r in profile.records(TRANSFERS)}
    triggers = rows(profile, "Instruction", opcode="PSEUDO_DMA_TRIGGER")
    assert len(triggers) == len(transfers) == 4
    for row in triggers:
        transfer = transfers[row["start_ts"]]
        assert transfer["completion"] == row["end_ts"]
        assert (row["dma_trigger_start_ts"], row["dma_trigger_end_ts"]) == (
            transfer["start_ts"],
            transfer["end_ts"],
        )
        assert row["dma_wait_time_ns"] == transfer["start_ts"] - row["end_ts"]


# -- transfers -------------------------------------------------------------------------------------------------------


def slices(x):
    out = nl.ndarray((64, 20), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((64, 20), dtype=x.dtype, buffer=nl.sbuf, address=(32, 4096))
    dma_copy(t[8:24, 4:20], x[16:32, 8:24])
    dma_copy(t[40:41, 0:10], x[3:4, 0:20:2])
    dma_copy(out, t)
    return out


def test_places_of_transfers() -> None:
    profile = timed(slices, ((64, 40), "float32")).profile
    first, second, last = sorted(
        profile.records(TRANSFERS), key=lambda r: (r["op"], r["write_bytes"] < 100)
    )
    assert first["read_shape"] == "[16, 16]"
    assert first["read_offset"] == hex_of((16 * 40 + 8) * 4)
    assert first["read_steps"] == "[40, 1]"
    assert first["read_sbuf_partitions"] is None
    assert first["read_num_sbuf_partitions"] == 0
    assert first["write_sbuf_partitions"] == "40-55"  # the tile begins at partition 32
    assert first["write_num_sbuf_partitions"] == 16
    assert first["write_offset"] == hex_of(4096 + 4 * 4)
    assert first["write_steps"] == "[20, 1]"
    assert second["read_steps"] == "[40, 2]"
    assert second["read_offset"] == hex_of(3 * 40 * 4)
    assert second["write_sbuf_partitions"] == "72"
    assert last["read_sbuf_partitions"] == "32-95"
    assert last["write_offset"] == "[0x0]"
    assert not first["is_transpose_mode"] and first["transpose_from_shape"] is None


def hex_of(number: int) -> str:
    return f"[0x{number:x}]"


def test_places_that_only_the_device_knows_are_left_out() -> None:
    def kernel(x):
        out = nl.ndarray((32, 8), dtype=x.dtype, buffer=nl.shared_hbm)

        def body(i):
            t = nl.ndarray((8, 8), dtype=x.dtype, buffer=nl.sbuf)
            dma_copy(t, x[i, :, :])
            dma_copy(out[0:8, :], t)

        nl.fori_loop(0, 2, body)
        return out

    profile = nki_lab.run(kernel, np.ones((4, 8, 8), np.float32)).profile
    for row in rows(profile, TRANSFERS, op="read"):
        assert row["read_offset"] is row["read_steps"] is None
        assert row["write_sbuf_partitions"] == "0-7"
    for row in rows(profile, TRANSFERS, op="write"):
        assert row["write_offset"] == "[0x0]"


def turned(x):
    """Transpose on the way into SBUF."""
    out = nl.ndarray((64, 48), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((64, 48), dtype=x.dtype, buffer=nl.sbuf)
    dma_transpose(t, x)
    dma_copy(out, t)
    return out


def test_transposing_transfers() -> None:
    profile = timed(turned, ((48, 64), "bfloat16")).profile
    (row,) = rows(profile, TRANSFERS, is_transpose_mode=True)
    assert row["transpose_element_size"] == "[2]"
    assert (row["transpose_from_shape"], row["transpose_to_shape"]) == ("[48, 64]", "[64, 48]")
    assert len(rows(profile, TRANSFERS, is_transpose_mode=False)) == 1


def test_packets_have_what_their_transfer_has() -> None:
    profile = timed(kernels.streamed, ((256, 37), "float32")).profile
    transfers = {r["id"]: r for r in profile.records(TRANSFERS)}
    sums: Counter[tuple[int, str]] = Counter()
    for packet in profile.records("DmaPacket"):
        whole = transfers[packet["packet_aggregation_id"]]
        for name in ("variable", "queue_name", "queue_type", "queue_idx", "pcore_idx"):
            assert packet[name] == whole[name]
        for name in ("read_bytes", "write_bytes"):
            sums[whole["id"], name] += packet[name]
    for (number, name), total in sums.items():
        assert total == transfers[number][name]
    assert len(sums) == 2 * len(transfers)


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_totals_of_packets(target) -> None:
    profile = timed(kernels.streamed, ((256, 37), "float32"), target=target).profile
    summary = profile.summary
    packets = list(profile.records("DmaPacket"))
    kinds = Counter(r["queue_type"] for r in packets)
    static = kinds["input"] + kinds["output"]
    assert summary["static_dma_packet_count"] == static
    assert summary["hardware_dynamic_dma_packet_count"] == kinds["hardware_dynamic"]
    assert summary["software_dynamic_dma_packet_count"] == 0
    assert summary["static_dma_packet_percent"] == static / len(packets)
    assert summary["dynamic_dma_packet_percent"] == 1 - static / len(packets)
    spent = sum(r["duration_ns"] for r in packets)
    assert summary["dma_packet_time"] == pytest.approx(spent * 1e-9, rel=0.02)
    assert summary["dma_queue_count"] == profile.count("DmaQueuesInfo")


# -- samples over time, against a grid of nanoseconds ----------------------------------------------------------------


@pytest.fixture(scope="module")
def streamed() -> Profile:
    return timed(kernels.streamed, ((512, 64), "float32")).profile


def grid(profile: Profile, start: np.ndarray, end: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Add up the weights of all spans that are open in each nanosecond."""
    total = np.zeros(profile.total_ns + 1)
    for begin, finish, value in zip(start, end, weight, strict=True):
        total[begin:finish] += value
    return total


def sampled(profile: Profile, table: str, column: str) -> np.ndarray:
    """Return what a table of samples says of each nanosecond; a sample holds until the next one."""
    times = profile.numbers(table, "timestamp")
    place = np.searchsorted(times, np.arange(profile.total_ns + 1), side="right") - 1
    return np.where(place >= 0, profile.numbers(table, column)[place], 0)


def test_pending_transfers(streamed) -> None:
    begin = streamed.numbers(TRANSFERS, "completion")  # issued
    end = streamed.numbers(TRANSFERS, "end_ts")
    expected = grid(streamed, begin, end, np.ones(len(end)))
    assert expected.max() > 1
    np.testing.assert_array_equal(sampled(streamed, "PendingDma", "value"), expected)


@pytest.mark.parametrize(("table", "part"), [("HbmUsage", "hbm"), ("DmaUsage", "transfer")])
def test_throughput(streamed, table, part) -> None:
    start, end = (streamed.numbers(TRANSFERS, c) for c in ("start_ts", "end_ts"))
    moved = streamed.numbers(TRANSFERS, "transfer_bytes")  # all of it, to or from HBM
    expected = grid(streamed, start, end, moved / (end - start))
    found = sampled(streamed, table, "current_throughput")
    np.testing.assert_allclose(found, expected * 1e9, rtol=1e-9, atol=1)
    total = streamed.numbers(table, "total_transfer_bytes")
    assert total[-1] == moved.sum() == 2 * 512 * 64 * 4
    assert (np.diff(total) >= 0).all()
    middle = len(total) // 2
    so_far = expected[: streamed.numbers(table, "timestamp")[middle]].sum()
    assert total[middle] == pytest.approx(so_far, abs=1)


def test_memory_in_use(streamed) -> None:
    found = rows(streamed, "SbufAllocation", partition=96)
    size = [r["end_address"] - r["start_address"] + 1 for r in found]
    assert set(size) == {64 * 4}
    starts, ends = ([r[name] for r in found] for name in ("start_ts", "end_ts"))
    used = grid(streamed, starts, ends, np.array(size) / (224 * 1024))
    assert used.max() > 64 * 4 / (224 * 1024)
    np.testing.assert_allclose(
        sampled(streamed, "SbufUsage", "partition_96_util_percent"), used, atol=1e-12
    )
    np.testing.assert_allclose(sampled(streamed, "SbufUsage", "avg_util_percent"), used, atol=1e-12)


def test_banks_in_use() -> None:
    """The product fills one bank from the load of its weights to the end of the copy out of it."""
    specs = ((128, 128), "bfloat16"), ((128, 512), "bfloat16")
    profile = timed(kernels.tiled_matmul, *specs).profile
    begin = min(r["start_ts"] for r in profile.records("Instruction") if r["engine"] == "tensor")
    (copy,) = rows(profile, "Instruction", opcode="TENSOR_COPY")
    full = grid(profile, [begin], [copy["end_ts"]], np.ones(1))
    banks = [sampled(profile, "PsumUsage", f"bank_{n}_util_percent") for n in range(8)]
    np.testing.assert_allclose(sum(banks), full)
    assert max(bank.max() for bank in banks) == 1.0
    np.testing.assert_allclose(sampled(profile, "PsumUsage", "avg_util_percent"), full / 8)


def test_what_wrote_a_tile_first(streamed) -> None:
    found = rows(streamed, "SbufAllocation", partition=0)
    assert Counter(r["op_source_type"] for r in found) == {"dma": 4, "instruction": 8}
    blocks = {r["block_id"]: r for r in streamed.records(TRANSFERS)}
    for row in found:
        if row["op_source_type"] == "dma":
            transfer = blocks[row["block_id"]]
            assert row["queue_name"] == transfer["queue_name"] == "qSyncHwDgeIn"
            assert row["start_ts"] == transfer["start_ts"]
            assert row["opcode"] is row["operands"] is None
        else:
            assert row["opcode"] == ("ACTIVATE" if row["tensor_name"].startswith("u") else "SCALAR")
            assert f"dst=%{row['tensor_name']}" in row["operands"]
            assert row["block_id"] is row["queue_name"] is None


def test_active_time(streamed) -> None:
    for engine in ("vector", "scalar", "sync"):
        found = rows(streamed, "Instruction", engine=engine)
        starts, ends = ([r[name] for r in found] for name in ("start_ts", "end_ts"))
        busy = grid(streamed, starts, ends, np.ones(len(found))) > 0
        spans = rows(streamed, "ActiveTime", engine=engine)
        told = grid(
            streamed, [r["start_ts"] for r in spans], [r["end_ts"] for r in spans], np.ones(len(spans))
        )  # fmt: skip
        np.testing.assert_array_equal(told, busy)
        assert sum(r["duration_ns"] for r in spans) == busy.sum()


def test_opcodes(streamed) -> None:
    times: dict[tuple[str, str], list[int]] = {}
    for row in streamed.records("Instruction"):
        times.setdefault((row["engine"], row["opcode"]), []).append(row["duration_ns"])
    table = {(r["engine"], r["opcode"]): r for r in streamed.records("OpcodeSummary")}
    assert table.keys() == times.keys()
    for key, spent in times.items():
        assert table[key]["instruction_count"] == len(spent)
        assert table[key]["instruction_time_ns"] == sum(spent)
        assert 0 < table[key]["active_time_ns"] <= sum(spent)
        share = table[key]["active_time_ns"] / streamed.total_ns
        assert table[key]["active_time_percent"] == pytest.approx(share)


def test_collectives() -> None:
    results = nki_lab.launch(reduced, 4, [(x, PAIRS, nl.add) for x in X])
    profile = results[0].profile
    (row,) = profile.records("CcOp")
    assert (row["operation"], row["dtype"]) == ("AllReduce", "float32")
    assert row["num_elements"] == X[0].size
    assert row["input_size"] == row["output_size"] == X[0].nbytes
    assert row["replica_group"] == "[[0, 2], [1, 3]]"
    assert row["algorithm_bandwidth"] == pytest.approx(X[0].nbytes / row["duration_ns"] * 1e9)
    assert row["cc_trigger_start_delay"] == row["start_ts"] - row["trigger_start_ts"] > 0
    assert profile.summary["cc_op_count"] == 1
    assert profile.summary["cc_op_time"] == pytest.approx(row["duration_ns"] * 1e-9)
    assert timed(kernels.chain, ((128, 8), "float32")).profile.summary["cc_op_count"] == 0


# -- tensors and sizes -----------------------------------------------------------------------------------------------


def test_tensors_of_the_program_and_what_they_weigh() -> None:
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        table = nl.shared_constant(np.ones((16, 24), np.float32))
        t, u = nl.load(x), nl.load(table)
        nl.store(out, nl.add(nl.add(t, u), nl.load(table)))
        return out

    profile = nki_lab.run(kernel, np.ones((16, 24), np.float32), skip_passes="find_reloads").profile
    tensors = {r["type"]: r for r in profile.records("TensorInfo")}
    assert tensors.keys() == {"IN", "OUT", "WEIGHT"}
    assert {r["shape"] for r in tensors.values()} == {"16 24"}
    assert tensors["WEIGHT"]["load_to_sbuf_dma_count"] == 2
    assert tensors["WEIGHT"]["load_to_sbuf_repeat_factor"] == 2.0
    size = 16 * 24 * 4
    summary = profile.summary
    assert summary["weight_size_bytes"] == size
    assert summary["inputs_and_weights_size_bytes"] == 2 * size
    assert summary["inputs_outputs_weights_size_bytes"] == 3 * size
    least = 2 * size / (profile.total_ns * profile.target.hbm_stack_bytes_per_ns)
    assert summary["mbu_min_read_util_percent"] == pytest.approx(least)


def test_the_chip(streamed) -> None:
    (about,) = streamed.records("Metadata")
    # trainium2_arch.rst:56-64: clocks; tools/neuron-explorer: one core is no logical core of several.
    assert (about["num_physical_cores"], about["vnc_enabled"]) == (1, False)
    assert (about["tensor_engine_num_rows"], about["tensor_engine_num_cols"]) == (128, 128)
    assert about["vector_engine_clock_freq"] == 0.96
    assert about["is_simulation"] is True
    assert about["profile_name"] == "streamed"
    assert (about["first_hw_timestamp"], about["last_hw_timestamp"]) == (0, streamed.total_ns)
    assert about["runtime_version"] is about["first_ts"] is None
