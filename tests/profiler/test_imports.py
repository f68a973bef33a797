"""Files of neuron-profile and neuron-explorer: all exports of one capture give the same profile."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from nki_lab.errors import BadFile
from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.analyses.report import report
from nki_lab.profiler.formats import explorer_json
from nki_lab.profiler.formats.files import is_profile
from nki_lab.profiler.formats.perfetto import block, double, number, text
from nki_lab.profiler.metrics import bound_by
from nki_lab.profiler.profile import Profile
from nki_lab.views.display import display
from tests.views.runs import added

from . import captures
from .example import profile

EVENTS = ("Instruction", "DmaPacketAggregated")
#: What another program's trace cannot hold: Explorer's table of dependences tells more.
_NOT_IN_TRACES = {"dependency_type", "gap_time"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return one capture in every form."""
    return captures.written(_measured(), tmp_path_factory.mktemp("capture"))


def _measured() -> Profile:
    """Return a run of the simulator that begins at some time of a device's clock, and is called measured."""
    modelled = added().profile
    tables = {name: dict(modelled.table(name)) for name in (*EVENTS, "Flow")}
    for table in EVENTS:
        for column in ("start_ts", "end_ts", "trigger", "completion"):
            if column in tables[table]:
                tables[table][column] = tables[table][column] + 10_261_883
    return Profile.from_tables(
        modelled.target,
        tables
        | {"Metadata": {"first_hw_timestamp": 10_261_883, "last_hw_timestamp": 10_261_883 + modelled.total_ns}},
        is_simulation=False,
        name="ntff",
    )  # fmt: skip


def _rows(p: Profile, table: str) -> list[dict]:
    """Return rows in the order of their ids, an amount of nothing as unknown."""
    rows = [{k: v or None for k, v in row.items()} for row in p.records(table)]
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("form", ["parquet", "ns", "ps", "trace"])
def test_every_export_of_a_capture_has_its_events(files: dict[str, Path], form: str) -> None:
    wanted = _measured()
    p = Profile.load(files[form], "trn2" if form == "trace" else None)
    for table in EVENTS:
        assert _rows(p, table) == _rows(wanted, table)
    without = _NOT_IN_TRACES if form == "trace" else set()
    flows = [
        sorted(str({k: v for k, v in row.items() if k not in without}) for row in q.records("Flow"))
        for q in (p, wanted)
    ]
    assert flows[0] == flows[1] and flows[0]
    assert (p.total_ns, p.is_simulation) == (wanted.total_ns, False)
    if form != "trace":
        assert p.origin == "measured on trn2.48xlarge, core 3, tool version 2.21"
        assert p.summary == pytest.approx(wanted.summary)


@pytest.mark.parametrize("form", ["ns", "trace"])
def test_what_the_views_know_works_on_an_import(files: dict[str, Path], form: str) -> None:
    p = Profile.load(files[form], "trn2")
    assert "measured on trn2" in report(p)
    assert str(p.critical_path()) == str(_measured().critical_path())
    assert [line.place for line in p.lines()] == [line.place for line in _measured().lines()]
    assert compare_profiles(added().profile, p).second_ns == p.total_ns
    first, _ = p.span_ns
    part = Profile.load(files[form], "trn2", first + 1000, first + 3000)
    assert part.total_ns == 2000 and 0 < part.count("Instruction") < p.count("Instruction")
    assert display(p, ("timeline",)).page()


def test_a_summary_has_totals_and_says_what_it_does_not_have(files: dict[str, Path]) -> None:
    p, wanted = Profile.load(files["summary"]), _measured()
    assert p.summary == pytest.approx(wanted.summary)
    assert p.total_ns == wanted.total_ns and p.count("Instruction") == 0
    assert bound_by(p) == bound_by(wanted)
    assert "only totals of the run are known" in report(p) and "core 3" in p.origin
    shown = display(p, ("timeline",))
    assert "only totals of the run are known" in repr(shown) and "only totals" in shown.page()


def test_what_only_the_user_guide_shows_is_enough(tmp_path: Path) -> None:
    wanted = profile()
    shown = captures.document(wanted, 1, every=False)
    file = tmp_path / "profile.json"
    file.write_text(json.dumps({k: shown[k] for k in ("summary", "instruction")}))
    p = Profile.load(file, "trn2")
    names = ("start_ts", "end_ts", "engine", "opcode", "nki_source_location")
    assert all(
        p.column("Instruction", n).tolist() == wanted.column("Instruction", n).tolist()
        for n in names[:2]
    )
    assert all(p.strings("Instruction", n) == wanted.strings("Instruction", n) for n in names[2:])
    assert p.numbers("Instruction", "id").tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(BadFile, match="does not say which chip"):
        Profile.load(file)


@pytest.mark.parametrize(
    ("unit", "total_s", "told"),
    [
        (1000, 3.1e-6, ""),
        (1, 3.1e-6, ""),
        (1, None, "no total time"),
        (1, 1.0, "the summary says"),
    ],
)
def test_the_unit_of_times_is_that_of_the_summary(tmp_path: Path, unit, total_s, told) -> None:
    found = captures.document(profile(), unit)
    found["summary"] = [{"total_time": total_s}] if total_s else []
    (tmp_path / "p.json").write_text(json.dumps(found))
    p = Profile.load(tmp_path / "p.json")
    assert p.total_ns == 3100
    messages = " ".join(row["message"] for row in p.records("Warning"))
    assert (told in messages) if told else "time" not in messages


def _changed(**changes: object) -> str:
    found = captures.document(profile())
    found["instruction"][2] |= changes
    return json.dumps(found)


BAD = {
    "cut off": _changed()[:-40],
    "more behind it": _changed() + "{}",
    "deeply nested": '{"instruction": [' + '{"a":' * 100_000,
    "NaN": _changed(timestamp=0).replace('"timestamp": 0', '"timestamp": NaN', 1),
    "too large": _changed(timestamp=1 << 80),
    "infinite": _changed(duration=0).replace('"duration": 0', '"duration": 1e999', 1),
    "negative duration": _changed(duration=-5),
    "a text for a time": _changed(timestamp="soon"),
    "no duration": _changed(duration=None),
    "a list for a count": _changed(raw_flops=[1]),
    "a long text": _changed(operands="x" * 200_000),
    "negative bytes": _changed(sbuf_read_bytes=-1),
    "no summary": '{"instruction": [], "dma": []}',
    "a total that is no time": '{"n_1": {"total_time": "x"}}',
    "no text": '{"instruction": [{"opcode": "\\ud800',
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_damaged_and_hostile_json_ends_in_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(BadFile, match=r"^NKI604|p\.json") as error:
        Profile.load(tmp_path / "p.json", "trn2")
    assert "\n" not in error.value.message and "p.json" in error.value.message
    assert len(error.value.message) < 300 and error.value.help


def test_more_events_than_fit_name_the_other_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer_json, "MOST_EVENTS", 4)
    (tmp_path / "p.json").write_text(_changed())
    with pytest.raises(BadFile, match=r"more than 4 events(.|\n)*--output-format parquet"):
        Profile.load(tmp_path / "p.json")


def test_many_rows_are_kept_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nki_lab.profiler.formats.imported._ROWS_AT_ONCE", 2)
    monkeypatch.setattr("nki_lab.profiler.formats.json_stream._PIECE", 7)
    (tmp_path / "p.json").write_text(json.dumps(captures.document(profile()), indent=1))
    assert _rows(Profile.load(tmp_path / "p.json"), "Instruction") == _rows(
        profile(), "Instruction"
    )


# -- traces of other programs ----------------------------------------------------------------------------------------


def _descriptor(uuid: int, name: str, parent: int = 0) -> bytes:
    return block(1, block(60, number(1, uuid) + text(2, name) + number(5, parent)))


def _event(time: int, kind: int, uuid: int, rest: bytes = b"") -> bytes:
    return block(
        1, number(8, time) + number(10, 1) + block(11, number(9, kind) + number(11, uuid) + rest)
    )


def _annotation(name: str, value: int) -> bytes:
    return block(4, text(10, name) + number(3, value))


def test_a_trace_written_in_another_way_is_read(tmp_path: Path) -> None:
    data = (
        _event(100, 1, 7, text(23, "MATMUL") + _annotation("raw_flops", 64) + _annotation("colour", 5))
        + _event(130, 1, 7, text(23, "inner")) + _event(140, 2, 7)
        + _event(180, 2, 7)
        + _descriptor(1, "NeuronCore 1") + _descriptor(7, "TensorMatrix", 1)  # after its first event
        + _descriptor(8, "DMA queues", 1) + _descriptor(9, "qSyIo0", 8) + _descriptor(10, "Host thread")
        + _event(90, 1, 9, text(23, "a_vec") + _annotation("transfer_size", 4096)) + _event(120, 2, 9)
        + _event(1, 1, 10, text(23, "nrt_execute")) + _event(2, 2, 10)
        + _event(5, 2, 10) + _event(6, 1, 10)
        + _descriptor(11, "Power") + _event(9, 4, 11, double(44, 2.5))
    )  # fmt: skip
    (tmp_path / "t.pftrace").write_bytes(data)
    p = Profile.load(tmp_path / "t.pftrace", "trn1")
    rows = sorted(p.records("Instruction"), key=lambda row: row["start_ts"])
    names = ("start_ts", "end_ts", "engine", "timeline_track", "opcode", "raw_flops", "pcore_idx")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (100, 180, "tensor", "TensorMatrix", "MATMUL", 64, 1),
        (130, 140, "tensor", "TensorMatrix", "inner", None, 1),
    ]
    (moved,) = p.records("DmaPacketAggregated")
    names = ("start_ts", "end_ts", "queue_name", "variable", "transfer_bytes")
    assert [moved[name] for name in names] == [90, 120, "qSyIo0", "a_vec", 4096]
    assert p.span_ns == (90, 180)
    told = " ".join(row["message"] for row in p.records("Warning"))
    for words in (
        "Host thread (1)",
        "Power (1)",
        "Instruction.colour (1)",
        "1 slices that do not end",
        "1 ends of slices",
    ):
        assert words in told


def test_a_trace_without_engines_and_a_damaged_one_end_in_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "t.pftrace"
    whole = captures.trace(profile())
    huge = block(1, block(50, zlib.compress(bytes(1 << 20))))
    contents = {
        "shows no engine": _descriptor(1, "Host") + _event(1, 1, 1) + _event(2, 2, 1),
        "not a readable trace": whole[:-3],
        "part of it is missing": huge + b"\n\xff\xff\xff\xff\xff\x0f",
        "ends before it starts": _descriptor(1, "Vector") + _event(9, 1, 1) + _event(5, 2, 1),
        "nested|missing": _descriptor(1, "Vector") + _event(9, 1, 1) * 2000,
    }
    for words, content in contents.items():
        file.write_bytes(content)
        with pytest.raises(BadFile, match=words) as error:
            Profile.load(file, "trn2")
        assert "\n" not in error.value.message
    file.write_bytes(whole)
    with pytest.raises(BadFile, match="does not say which chip"):
        Profile.load(file)


def test_random_damage_never_ends_in_another_error(files: dict[str, Path], tmp_path: Path) -> None:
    random = np.random.default_rng(21)
    for name, ending in (("ns", "json"), ("trace", "pftrace")):
        data = np.frombuffer(files[name].read_bytes(), np.uint8)
        for _ in range(12):
            damaged = data.copy()
            places = random.integers(0, len(data), 20)
            damaged[places] = random.integers(0, 256, 20)
            file = tmp_path / f"x.{ending}"
            file.write_bytes(damaged.tobytes())
            with suppress(BadFile):
                Profile.load(file, "trn2")


def test_what_is_a_profile_is_told_by_its_beginning(files: dict[str, Path], tmp_path: Path) -> None:
    assert all(map(is_profile, files.values()))
    (tmp_path / "a.json").write_text('{"cells": []}')
    (tmp_path / "a.pftrace").write_bytes(b"MZ")
    assert not is_profile(tmp_path / "a.json") and not is_profile(tmp_path / "a.pftrace")
