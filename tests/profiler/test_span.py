"""Tests that a part of a profile is exactly what lies in its span, wherever it is read, and that too large a one is
refused."""

from __future__ import annotations

import re
import shutil
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import floor
from pathlib import Path

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.errors import BadFile, NotModelled, UnknownOption
from nki_lab.profiler import span
from nki_lab.profiler.analyses.source_lines import by_line
from nki_lab.profiler.formats.tables_folder import INDEX
from nki_lab.profiler.metrics import Kind, kind_of
from nki_lab.profiler.packets import Deals
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import ENGINES
from nki_lab.profiler.schema import TABLES as TABLES_OF_SCHEMA
from nki_lab.source import place_text
from nki_lab.targets import TRN2
from nki_lab.views.display import display
from nki_lab.views.run import ViewData
from nki_lab.views.source.costs import line_costs

FROM, TO = 7_000, 12_500
TABLES = ("Instruction", "DmaPacketAggregated", "Flow", "SbufUsage", "PsumUsage", "SbufAllocation")


def rows_of(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for k in range(a.shape[0] // 128):
        rows = nl.ds(k * 128, 128)
        nl.store(out[rows], nl.add(nl.exp(nl.load(a[rows])), nl.load(b[rows])))
    return out


@cache
def whole() -> Profile:
    a = np.linspace(-1, 1, 128 * 12 * 256, dtype=np.float32).reshape(128 * 12, 256)
    return nki_lab.run(rows_of, a, a[::-1].copy(), target="trn2").profile


@pytest.mark.parametrize("ending", ["json", "parquet", "csv", "pftrace", "explorer"])
def test_a_part_is_what_overlaps_the_span(tmp_path: Path, ending: str):
    path = tmp_path / f"run.{ending}"
    if ending == "explorer":
        made = whole().save(tmp_path / "run.parquet")
        shutil.move(made, path)
        (path / INDEX).unlink()
        part = Profile.load(path, "trn2", FROM, TO)
    else:
        whole().save(path)
        part = Profile.load(path, start_ns=FROM, end_ns=TO)
    in_memory = whole().between(FROM, TO)
    for name in TABLES:
        assert list(part.records(name)) == list(in_memory.records(name)), name
    for name in ("Instruction", "DmaPacketAggregated"):
        rows = list(whole().records(name))
        expected = [r for r in rows if r["start_ts"] < TO and r["end_ts"] > FROM]
        assert 3 < len(expected) < len(rows) - 3
        assert list(part.records(name)) == [within(row, FROM, TO) for row in expected]
        assert [within(row, FROM, TO) for row in expected] != expected
    if ending != "explorer":
        assert part == in_memory
    assert "7.000 to 12.500 us" in part.name
    assert part.span_ns == (FROM, TO)
    assert part.summary["total_time"] == 5.5e-6
    common = part.summary.keys() & in_memory.summary.keys()
    assert len(common) > 80
    assert {name: part.summary[name] for name in common} == pytest.approx(
        {name: in_memory.summary[name] for name in common}
    )
    again = part.save(tmp_path / "part.json")
    assert Profile.load(again) == part
    if ending != "explorer":
        shorter = Profile.load(again).between(8_000, 9_000)
        assert shorter.summary == whole().between(8_000, 9_000).summary


def within(row: dict, first: int, last: int) -> dict:
    """Return a row as a span has it: its times in it, and the amounts that fall into them."""
    start, end = row["start_ts"], row["end_ts"]
    row = row | {"start_ts": max(start, first), "end_ts": min(end, last)}
    row["duration_ns"] = row["end_ts"] - row["start_ts"]
    if row.get("evt_wait_time_ns") is not None:
        row["evt_wait_time_ns"] = min(row["evt_wait_time_ns"], row["start_ts"] - first)
    for name, amount in row.items():
        is_amount = name.endswith("_bytes") or "flops" in name or "elements" in name
        if is_amount and isinstance(amount, int) and end > start:
            upto = Fraction(amount * (row["end_ts"] - start), end - start)
            before = Fraction(amount * (row["start_ts"] - start), end - start)
            row[name] = floor(upto) - floor(before)
    return row


def test_every_amount_of_a_row_with_times_is_said_to_be_one():
    """A new column of bytes or operations is cut with its row, or stands here."""
    of_whole = {
        "SbufAllocation": {"start_address", "end_address"},
        "CcOp": {"input_size", "output_size", "num_elements"},
    }
    for table, fields in TABLES_OF_SCHEMA.items():
        if not {"start_ts", "end_ts"} <= set(fields):
            continue
        amounts = {
            f.name
            for f in fields.values()
            if f.unit == "B" or re.search("_bytes|flops|_size|elements", f.name)
            if f.type != "string"
        }
        assert set(span.AMOUNTS.get(table, ())) == amounts - of_whole.get(table, set()), table


def test_every_metric_has_a_kind():
    for name, field in TABLES_OF_SCHEMA["Summary"].items():
        assert (kind_of(name) is Kind.FRACTION) == (field.unit == "fraction") == ("percent" in name)
        assert (kind_of(name) is Kind.COUNT) == name.endswith("_count") or name in (
            "dma_queue_count",
            "neuroncore_cycle_count",
        )


def random_profile(rng: np.random.Generator, cores: int) -> Profile:
    """Return a profile of arbitrary numbers: rows that overlap, take no time, or go on to the end."""
    total = int(rng.integers(5, 3000))

    def rows(count: int) -> dict:
        start = rng.integers(0, total, count)
        end = np.minimum(total, start + rng.integers(0, 1 + total // 2, count))
        return {
            "start_ts": start,
            "end_ts": end,
            "pcore_idx": rng.integers(0, cores, count),
            "id": np.arange(count),
        }

    def amounts(names: tuple[str, ...], count: int) -> dict:
        return {name: rng.integers(0, 10 ** int(rng.integers(1, 12)), count) for name in names}

    many, moves = int(rng.integers(1, 25)), int(rng.integers(1, 15))
    instructions = rows(many) | amounts(span.AMOUNTS["Instruction"], many)
    instructions["end_ts"][0] = total
    instructions["flops_transpose"] = instructions["raw_flops"] // 3
    instructions["engine"] = rng.choice(ENGINES, many).tolist()
    instructions["opcode"] = rng.choice(["MATMUL", "ACTIVATE", "NOP", "COPY"], many).tolist()
    instructions["nki_source_location"] = rng.choice(["cell:1", "cell:2"], many).tolist()
    instructions["evt_wait_time_ns"] = rng.integers(0, 100, many)
    transfers = rows(moves) | amounts(span.AMOUNTS["DmaPacketAggregated"], moves)
    transfers["source"] = rng.choice(["[SB]", "x"], moves).tolist()
    transfers["dest"] = rng.choice(["[SB]", "y"], moves).tolist()
    transfers["queue_type"] = rng.choice(
        ["input", "output", "hardware_dynamic", "software_dynamic"], moves
    ).tolist()
    collectives = {name: column for name, column in rows(3).items() if name.endswith("_ts")}
    forms = [[(2, 7, 1001, 90), (1, 3, 5, 5)], [(1, 1, 64, 0)], [(16, 16, 999, 1000)]]
    flows = {"in_id": rng.integers(0, many, moves), "out_id": np.arange(moves)}
    flows |= {"in_table": "instruction", "out_table": "dma_block"}
    return Profile.from_tables(
        TRN2,
        {"Instruction": instructions, "DmaPacketAggregated": transfers, "CcOp": collectives, "Flow": flows},
        is_simulation=True,
        name="random",
        metrics={
            "inputs_and_weights_size_bytes": int(rng.integers(0, 10**9)),
            "inputs_outputs_weights_size_bytes": int(rng.integers(0, 10**9)),
            "weight_size_bytes": int(rng.integers(0, 10**6)),
        },
        deals=Deals(rng.integers(0, 3, moves), forms),
    )  # fmt: skip


def whole_number(name: str, value: float) -> int:
    """Return an additive metric as the whole number that it is: ns, bytes, flops or cycles; of two cores, twice it."""
    return round(value * 2e9) if TABLES_OF_SCHEMA["Summary"][name].unit == "s" else int(value)


@pytest.mark.parametrize("seed", range(40))
def test_spans_that_divide_a_run_add_up_to_it(seed: int):
    rng = np.random.default_rng(seed)
    cores = 1 + seed % 2
    run = random_profile(rng, cores)
    total = run.total_ns
    inner = rng.choice(np.arange(1, max(total, 2)), int(rng.integers(1, 7))).tolist()
    ends = [0, *sorted({*inner} - {total}), total]
    parts = [run.between(a, b) for a, b in pairwise(ends)]
    for (a, b), part in zip(pairwise(ends), parts, strict=True):
        assert part.span_ns == (a, b)
        assert len(part.cores) == len(run.cores)
    for name, value in run.summary.items():
        values = [part.summary.get(name, 0) for part in parts]
        kind = kind_of(name)
        if kind is Kind.FRACTION:
            assert all(0 <= v <= 1 for v in (value, *values)), name
        elif name == "dma_packet_time":  # of a mean over packets, so no whole number of ns
            assert sum(values) == pytest.approx(value, rel=1e-9), name
        elif kind is Kind.ADDITIVE:
            slack = len(parts) if name == "dma_active_cycles" else 0
            difference = sum(whole_number(name, v) for v in values) - whole_number(name, value)
            assert abs(difference) <= slack, (name, value, values)
        elif kind is Kind.COUNT:
            assert max(values) <= value <= sum(values), name
        elif kind is Kind.CONSTANT:
            assert {*values} == {value}, name
    for table, names in span.AMOUNTS.items():
        for name in names:
            sums = [int(part.numbers(table, name).sum()) for part in parts]
            assert sum(sums) == int(run.numbers(table, name).sum()), (table, name)
    for measure in ("engine_ns", "transfer_ns", "moved_bytes"):
        of_run = {line.place: getattr(line, measure) for line in by_line(run)}
        summed: dict[str, int] = dict.fromkeys(of_run, 0)
        for part in map(by_line, parts):
            for line in part:
                summed[line.place] += getattr(line, measure)
        assert summed == of_run
    for part in parts:
        costs = {cost.place.label: cost for cost in line_costs(ViewData("part", part))}
        for line in by_line(part):
            cost = costs[place_text(line.place)]
            assert (cost.transfer_ns, cost.bytes) == (line.transfer_ns, line.moved_bytes)
    # A span of a span is the same as the span.
    first, last = ends[0], ends[-2]
    if last > first + 1:
        inside = run.between(first, last).between(first + 1, last)
        direct = run.between(first + 1, last)
        assert inside.summary == direct.summary
        assert inside.table("DmaPacket").keys() == direct.table("DmaPacket").keys()
        assert list(inside.records("DmaPacket")) == list(direct.records("DmaPacket"))


def test_the_total_of_a_span_is_the_span_and_no_least_is_read_where_nothing_is():
    def summed(a, b):
        out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.add(nl.load(a), nl.load(b)))
        return out

    a = np.linspace(-1, 1, 128 * 512, dtype=np.float32).reshape(128, 512)
    run = nki_lab.run(summed, a, a[::-1].copy(), target="trn2").profile
    reads = run.strings("DmaPacketAggregated", "dest").equal_to("[SB]")
    last_read = int(run.numbers("DmaPacketAggregated", "end_ts")[reads].max())
    for first, last in ((0, 500), (0, 1), (1_500, 2_500), (last_read, run.total_ns)):
        part = run.between(first, last)
        assert part.summary["total_time"] == (last - first) / 1e9
        read = part.summary["hbm_read_bytes"]
        assert (
            part.summary["mbu_min_read_util_percent"] <= part.summary["mbu_estimated_percent"] <= 1
        )
        assert (part.summary["mbu_min_read_util_percent"] > 0) == (read > 0)
        assert not [row for row in part.records("Warning") if row["category"] == "advice"]
    assert run.between(last_read, run.total_ns).summary["hbm_read_bytes"] == 0
    assert run.between(0, 10 * run.total_ns).summary["total_time"] == run.summary["total_time"]
    beyond = run.between(10 * run.total_ns).summary
    assert (beyond["total_time"], beyond["dma_active_time_percent"]) == (0, 0)


def test_questions_about_a_span_are_about_the_span():
    part = whole().between(FROM, TO)
    assert part.critical_path().total_ns == TO - FROM
    stalls = part.stalls()
    assert str(stalls)
    assert part.roofline().total_ns == TO - FROM
    assert part.roofline().attained <= 1
    for row in part.records("PendingDma"):
        assert FROM <= row["timestamp"] <= TO


def test_dependences_within_the_span_stay():
    part = whole().between(FROM, TO)
    ids = {
        "instruction": set(part.numbers("Instruction", "id").tolist()),
        "dma_block": set(part.numbers("DmaPacketAggregated", "id").tolist()),
    }
    expected = [
        row
        for row in whole().records("Flow")
        if row["in_id"] in ids[row["in_table"]] and row["out_id"] in ids[row["out_table"]]
    ]
    assert expected
    assert list(part.records("Flow")) == expected


def test_curves_begin_with_their_last_value_before():
    part = list(whole().between(FROM, TO).records("SbufUsage"))
    rows = list(whole().records("SbufUsage"))
    before = [row for row in rows if row["timestamp"] < FROM][-1]
    inside = [row for row in rows if FROM <= row["timestamp"] < TO]
    assert part == [before | {"timestamp": FROM}, *inside]


def test_a_part_can_be_looked_at():
    part = whole().between(FROM, TO)
    assert "bound by" in repr(display(part, ("report",)))
    assert display(part, ("timeline",))._repr_mimebundle_()[0]["image/png"]
    assert whole().between() is whole()
    assert whole().between(0).count("Instruction") == whole().count("Instruction")


@pytest.mark.parametrize(("start", "end"), [(5, 5), (9, 3), (-4, 2)])
def test_a_span_holds_some_time(start: float, end: float):
    with pytest.raises(UnknownOption, match="there is no time between"):
        whole().between(start, end)


@pytest.mark.parametrize("ending", ["json", "parquet", "csv", "pftrace", "explorer"])
def test_too_many_events_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
):
    path = tmp_path / f"run.{ending}"
    if ending == "explorer":
        shutil.move(whole().save(tmp_path / "run.parquet"), path)
        (path / INDEX).unlink()
    else:
        whole().save(path)
    count = sum(whole().count(name) for name in span.EVENTS)
    loaded = Profile.load(path, "trn2")
    monkeypatch.setattr(span, "MOST_EVENTS", 60)
    assert count > 60
    with pytest.raises(BadFile, match=f"has {count:,} events, more than the 60 that") as refused:
        Profile.load(path, "trn2")
    assert "--from 0 --to 1000000" in refused.value.help
    assert "\n" not in refused.value.message
    part = Profile.load(path, "trn2", FROM, TO)
    assert 0 < sum(part.count(name) for name in span.EVENTS) <= 60
    monkeypatch.setattr(span, "MOST_EVENTS", 5)
    with pytest.raises(BadFile, match=r"events in the span 7\.000 to 12\.500 us, more than the 5"):
        Profile.load(path, "trn2", FROM, TO)
    with pytest.raises(BadFile, match="more than the 5"):
        display(loaded, ("timeline",))


def test_a_run_of_too_many_instructions_is_not_put_on_a_timeline(monkeypatch: pytest.MonkeyPatch):
    a = np.ones((256, 8), np.float32)
    result = nki_lab.run(rows_of, a, a)
    monkeypatch.setattr("nki_lab.timing.MOST_EVENTS", 5)
    with pytest.raises(NotModelled, match=r"rows_of: \d+ instructions ran, more than the 5") as e:
        _ = result.profile
    assert "total_ns(result.execution)" in e.value.help
    assert np.allclose(result.value, np.exp(a) + a)
