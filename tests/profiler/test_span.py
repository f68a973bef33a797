"""Is a part of a profile exactly what overlaps its span, wherever it is read, and is too large a one refused?"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.errors import BadFile, NotModelled, UnknownOption
from nki_lab.profiler import span
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.tables_folder import INDEX
from nki_lab.widgets import display

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
        assert list(part.records(name)) == expected
    if ending != "explorer":
        assert part == in_memory
    assert "7.000 to 12.500 us" in part.name
    first, last = part.span_ns
    assert (first, last) == (
        min(r["start_ts"] for n in span.EVENTS for r in part.records(n)),
        max(r["end_ts"] for n in span.EVENTS for r in part.records(n)),
    )
    assert first <= FROM and last >= TO
    assert part.summary["total_time"] == pytest.approx((last - first) / 1e9)


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
    assert part == [before, *(row for row in rows if FROM <= row["timestamp"] < TO)]


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
