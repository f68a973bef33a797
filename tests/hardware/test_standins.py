"""The stand-ins do what a test asks of them, and only in their own processes."""

import subprocess
import sys

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from tests.hardware.standin import device, machine
from tests.hardware.standins import FAULTS, Machine, contract

MESSAGES = contract()["messages"]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Make a machine without packages."""
    return Machine(
        tmp_path_factory.mktemp("bare"), generation="", runner="", tools=("neuron-explorer",)
    )


@pytest.mark.parametrize("name", MESSAGES)
def test_each_message_can_be_made_to_occur(bare, capsys, name):
    message = MESSAGES[name]
    bare.plant(name, times=1)
    planted = machine.Machine(bare.root)
    tool = message.get("tool", "neuron-explorer" if message["stage"] in ("capture", "view") else "")
    flags = [message["with_flag"]] if "with_flag" in message else []
    for stage in {"import", "compile", "init", "load", "execute", "capture", "view"} - {
        message["stage"]
    }:
        planted.stage(stage, tool, flags)
    if flags:
        planted.stage(message["stage"], tool, [])
    if tool:
        if "tool" in message:
            planted.stage(message["stage"], "neuron-bench", flags)
        with pytest.raises(SystemExit, match="1"):
            planted.stage(message["stage"], tool, flags)
    else:
        with pytest.raises((RuntimeError, OSError, ModuleNotFoundError, TypeError)) as raised:
            planted.stage(message["stage"])
        assert type(raised.value).__name__ == message.get("raises", "RuntimeError")
        assert str(raised.value) == message.get("error", (message["lines"] or [""])[-1])
    printed = capsys.readouterr().err
    if tool or message.get("raises", "RuntimeError") in ("RuntimeError", "NrtError"):
        assert [line for line in message["lines"] if line not in printed] == []
    planted.stage(message["stage"], tool, flags)  # once was all
    bare.plant("")


def test_a_message_that_names_no_page_is_not_in_the_contract():
    for name, message in MESSAGES.items():
        assert message["source"], name
        assert message["lines"] or message["error"], name
        assert message["source"].startswith(("SDK:", "NKILIB:", "errno")) or message["guess"], name
    assert not FAULTS.keys() & MESSAGES.keys()


def scaled_sum(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for row in range(0, 256, 128):
        left = nl.multiply(nl.load(a[row : row + 128]), 3.0)
        nl.store(out[row : row + 128], nl.add(left, nl.load(b[row : row + 128])))
    return out


def by_flow_end(profile):
    """Return the events by what Flow calls them."""
    tables = {"instruction": "Instruction", "dma_block": "DmaPacketAggregated"}
    return {
        (end, row["id"]): row for end, table in tables.items() for row in profile.records(table)
    }


def test_times_differ_by_the_ratio_of_their_engine_and_the_order_stays(rng):
    a, b = (rng.standard_normal((256, 40)).astype(np.float32) for _ in range(2))
    model = nki_lab.run(scaled_sum, a, b, target="trn2").profile
    other = device.measured(model, {"vector": 2.0, "dma": 1.5}, "trn2.3xlarge")
    assert (other.is_simulation, other.target) == (False, model.target)
    ends = {}
    for table, lane, ratios in (
        ("Instruction", "engine", {"vector": 2.0}),
        ("DmaPacketAggregated", "queue_name", {}),
    ):
        before = {row["id"]: row for row in model.records(table)}
        for row in sorted(other.records(table), key=lambda row: row["start_ts"]):
            old = before[row["id"]]
            ratio = ratios.get(row[lane], 1.5 if table != "Instruction" else 1.0)
            length = row["end_ts"] - row["start_ts"]
            assert length == max(1, round((old["end_ts"] - old["start_ts"]) * ratio))
            assert row["start_ts"] >= ends.get((table, row[lane]), 0) or table != "Instruction"
            ends[table, row[lane]] = row["end_ts"]
    assert model.count("Flow")
    was, now = map(by_flow_end, (model, other))
    for flow in model.records("Flow"):
        first, second = (flow["in_table"], flow["in_id"]), (flow["out_table"], flow["out_id"])
        if was[first]["end_ts"] <= was[second]["start_ts"]:
            assert now[first]["end_ts"] <= now[second]["start_ts"]
    assert other.total_ns > model.total_ns
    assert device.measured(model, {}, "trn2.3xlarge").total_ns == model.total_ns


def test_without_notifications_transfers_are_missing(rng):
    a, b = (rng.standard_normal((256, 40)).astype(np.float32) for _ in range(2))
    model = device.measured(
        nki_lab.run(scaled_sum, a, b, target="trn2").profile, {}, "trn2.3xlarge"
    )
    less = device.without_notifications(model, ["hardware_dynamic", "software_dynamic"])
    assert model.count("DmaPacketAggregated") and not less.count("DmaPacketAggregated")
    assert less.count("Instruction") == model.count("Instruction")
    assert {row["in_table"] for row in less.records("Flow")} <= {"instruction"}


def test_this_process_has_no_official_package():
    code = "import importlib.util as u; print(u.find_spec('nki'))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "None\n"


@pytest.mark.thorough
@pytest.mark.parametrize("variant", contract()["neuron-ls"]["variants"])
def test_neuron_ls_starts_at_once(tmp_path, variant):
    import time

    stand_in = Machine(tmp_path, ls=variant, generation="", runner="")
    start = time.perf_counter()
    subprocess.run(["neuron-ls", "-j"], env=stand_in.environ, capture_output=True, check=True)
    assert time.perf_counter() - start < 0.5
