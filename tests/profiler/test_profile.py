"""Profiles: what a table may hold, what is filled in, and how rows come out."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.profiler.columns import Strings
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import QUEUE_TYPES, SCHEMA_VERSION, TABLES
from nki_lab.profiler.tables import BadTable, to_ns
from nki_lab.targets import TRN1, TRN2

from .example import DMA, FLOW, INSTRUCTION, profile


# profile-schema-reference.rst: the tables Instruction, Flow and SbufAllocation in full.
def test_schema_has_the_published_columns() -> None:
    assert SCHEMA_VERSION == "7.4.0"
    assert list(TABLES["Flow"]) == [
        "in_id",
        "out_id",
        "in_table",
        "out_table",
        "dependency_type",
        "gap_time",
    ]
    assert len(TABLES["Instruction"]) == 55
    assert len(TABLES["DmaPacketAggregated"]) == 37
    assert len(TABLES["Summary"]) == 101
    assert TABLES["Summary"]["total_time"].unit == "s"
    assert TABLES["Instruction"]["start_ts"].required
    assert not TABLES["Instruction"]["nki_source_location"].required
    assert "hardware_dynamic" in QUEUE_TYPES


def test_durations_and_throughput_are_filled_in() -> None:
    p = profile()
    assert p.numbers("Instruction", "duration_ns").tolist() == [50, 1100, 200, 300, 400, 300]
    # 8000 bytes in 800 ns and 40000 in 2000 ns, in bytes per second.
    assert p.numbers("DmaPacketAggregated", "throughput").tolist() == [1e10, 2e10]


def test_unknown_values_stay_unknown() -> None:
    p = profile()
    assert p.column("Instruction", "crc_in") is None
    rows = list(p.records("Instruction"))
    assert rows[2]["evt_wait_time_ns"] is None
    assert rows[4]["evt_wait_time_ns"] == 100
    assert rows[5]["nki_source_location"] is None
    assert rows[0]["bir_id"] is None
    assert list(rows[0]) == list(TABLES["Instruction"])


def test_records_of_a_range() -> None:
    ids = [row["id"] for row in profile().records("Instruction", 2, 4)]
    assert ids == [3, 4]


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        ("Instructions", {}, "has no table Instructions"),
        ("Instruction", {"start": [1]}, "table Instruction has no column start"),
        ("Instruction", {"id": ["a"]}, "column id must hold int64"),
        ("Instruction", {"id": [1.5]}, "column id must hold int64"),
        ("Instruction", {"opcode": [1]}, "column opcode must hold strings"),
        ("Instruction", {"id": [1, 2], "pc": [1]}, "column pc has 1 rows, its table has 2"),
        ("Instruction", {"start_ts": [5, 9], "end_ts": [6, 8]}, "row 1 ends before it starts"),
    ],
)
def test_tables_that_do_not_fit_are_refused(table, columns, message) -> None:
    with pytest.raises(BadTable, match=message):
        Profile.from_tables(TRN2, {table: columns}, is_simulation=True)


def test_unknown_metric_is_refused() -> None:
    with pytest.raises(BadTable, match="Summary has no column speed"):
        Profile.from_tables(TRN2, {}, is_simulation=True, metrics={"speed": 3})


def test_tables_on_demand_are_made_once() -> None:
    calls = []

    def packets() -> dict[str, list[int]]:
        calls.append(1)
        return {"start_ts": [0, 1], "end_ts": [3, 3]}

    p = profile(DmaPacket=packets)
    assert not calls
    assert "DmaPacket" in p.table_names
    assert p.numbers("DmaPacket", "duration_ns").tolist() == [3, 2]
    assert p.count("DmaPacket") == 2
    assert len(calls) == 1


def test_tables_on_demand_are_stored_all_the_same() -> None:
    assert profile(Flow=lambda: FLOW) == profile()
    assert list(profile(Flow=lambda: FLOW).stored) == list(profile().stored)


def test_equality_looks_at_every_value() -> None:
    assert profile() == profile()
    later = INSTRUCTION | {"end_ts": [51, *INSTRUCTION["end_ts"][1:]]}
    assert profile() != profile(Instruction=later)
    renamed = DMA | {"variable": ["x", "z"]}
    assert profile() != profile(DmaPacketAggregated=renamed)
    same = {"Instruction": INSTRUCTION}
    one = Profile.from_tables(TRN1, same, is_simulation=True)
    assert one != Profile.from_tables(TRN2, same, is_simulation=True)
    assert one != Profile.from_tables(TRN1, same, is_simulation=False)


def test_an_empty_profile_answers() -> None:
    p = Profile.from_tables(TRN2, {}, is_simulation=True)
    assert p.total_ns == 0
    assert p.summary["total_time"] == 0
    assert list(p.records("Instruction")) == []


def test_columns_given_as_one_value_cost_nothing() -> None:
    rows = 1_000_000
    times = np.arange(rows, dtype=np.int64)
    table = {"start_ts": times, "end_ts": times + 1, "engine": "vector", "pcore_idx": 0}
    p = Profile.from_tables(TRN2, {"Instruction": table}, is_simulation=True)
    core, engine = p.column("Instruction", "pcore_idx"), p.column("Instruction", "engine")
    assert isinstance(core, np.ndarray) and core.strides == (0,)
    assert isinstance(engine, Strings) and engine.codes.strides == (0,)
    assert p.count("Instruction") == rows


def test_rounding_to_ns_keeps_spans_apart() -> None:
    ends = np.array([499, 500, 1499, 1500, 2857142])
    assert to_ns(ends).tolist() == [0, 1, 1, 2, 2857]
    assert (np.diff(to_ns(np.sort(ends))) >= 0).all()


def test_repr_says_what_it_is() -> None:
    assert repr(profile()) == "<Profile add_kernel on trn2: modelled, 3.100 us, 6 instructions>"
