"""Files: round trips, and one clear sentence for a file that is not a profile."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest

from nki_lab.compiler.program import CompiledKernel, is_artifact
from nki_lab.errors import BadFile
from nki_lab.profiler.analyses.report import report, summary_text
from nki_lab.profiler.formats.csv_tables import table_csv, table_json
from nki_lab.profiler.formats.files import is_profile
from nki_lab.profiler.formats.profile_json import FORMAT_VERSION, from_json, load, save, to_json
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TABLES
from nki_lab.views.display import display
from nki_lab.views.registry import Needs, shown_with
from tests.thorough import first

from .example import profile


def test_round_trip_gives_an_equal_profile(tmp_path) -> None:
    p = profile()
    again = load(save(p, tmp_path / "run.json"))
    assert again == p
    assert again.summary == p.summary
    assert to_json(again) == to_json(p)


def test_document_is_plain_json_with_its_version() -> None:
    document = json.loads(to_json(profile()))
    assert document["format"] == "nki_lab profile"
    assert document["version"] == FORMAT_VERSION
    assert document["tables"]["Instruction"]["evt_wait_time_ns"] == [0, 1000, None, None, 100, 450]
    assert "Summary" not in document["tables"]


def test_newer_version_is_refused() -> None:
    newer = to_json(profile()).replace(f'"version":{FORMAT_VERSION}', '"version":99', 1)
    with pytest.raises(BadFile, match="is a profile of format version 99; this nki_lab reads") as e:
        from_json(newer)
    assert e.value.help == "update nki_lab to read it"


def broken(text: str) -> dict[str, str]:
    document = json.loads(text)
    return {
        "cut off": text[:-200],
        "nested": '{"format":"nki_lab profile","version":2,"x":' + "[" * 200_000,
        "no tables": json.dumps({k: v for k, v in document.items() if k != "tables"}),
        "unknown target": text.replace('"target":"trn2"', '"target":"trn0"'),
        "unknown table": text.replace('"Flow"', '"Flaw"'),
        "wrong length": text.replace('"gap_time":[50,100]', '"gap_time":[50]'),
        "wrong type": text.replace('"gap_time":[50,100]', '"gap_time":["a","b"]'),
        "code out of range": text.replace(
            '"codes":[0,1],"values":["x","y"]', '"codes":[0,7],"values":["x"]'
        ),
        "column is a number": text.replace('"gap_time":[50,100]', '"gap_time":50'),
        "too large": text.replace('"gap_time":[50,100]', '"gap_time":[50,1' + "0" * 30 + "]"),
        "NaN": text.replace('"gap_time":[50,100]', '"gap_time":[NaN,1]'),
    }


@pytest.mark.parametrize("kind", broken(to_json(profile())))
def test_damaged_documents_say_so_in_one_line(kind) -> None:
    text = broken(to_json(profile()))[kind]
    assert text != to_json(profile())
    with pytest.raises(BadFile, match="is not a readable profile") as error:
        from_json(text, "run.json")
    assert "\n" not in error.value.message
    assert error.value.message.startswith("run.json")


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04\x95pickle", b'{"format":"other"}', b"\xff" * 9]
)
def test_other_files_are_refused_unread(tmp_path, content) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(BadFile, match=r"^error\[NKI604\]: run.json is not a profile"):
        load(path)


def test_missing_file(tmp_path) -> None:
    with pytest.raises(BadFile, match=r"none.json cannot be read: No such file"):
        load(tmp_path / "none.json")


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"], ids=["too long", "no name"])
def test_a_name_that_no_file_can_have(name) -> None:
    for load_it in (Profile.load, CompiledKernel.load):
        with pytest.raises(BadFile, match=r"cannot be read: "):
            load_it(name)
    assert not is_profile(name) and not is_artifact(Path(name))


def test_a_pipe_is_not_waited_for(tmp_path) -> None:
    pipe = tmp_path / "run.json"
    os.mkfifo(pipe)
    for load_it in (Profile.load, CompiledKernel.load):
        with pytest.raises(BadFile, match=r"run.json cannot be read: it is a pipe"):
            load_it(pipe)
    assert not is_profile(pipe) and not is_artifact(pipe)


def test_a_name_too_long_to_write(tmp_path) -> None:
    for ending in (".json", ".csv", ".pftrace"):
        with pytest.raises(BadFile, match="cannot be written: File name too long"):
            profile().save(tmp_path / ("x" * 300 + ending))


def test_csv_and_json_of_a_table() -> None:
    p = profile()
    rows = list(csv.DictReader(io.StringIO(table_csv(p, "Instruction"))))
    assert list(rows[0]) == list(TABLES["Instruction"])
    assert [row["duration_ns"] for row in rows] == ["50", "1100", "200", "300", "400", "300"]
    assert rows[2]["evt_wait_time_ns"] == ""
    assert json.loads(table_json(p, "Flow"))[1]["gap_time"] == 100


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("metrics", {"total_time": "soon"}),
        ("metrics", {"inputs_and_weights_size_bytes": [1]}),
        ("metrics", {"inputs_and_weights_size_bytes": 10**30}),
        ("is_simulation", "no"),
        ("name", ["a"]),
    ],
)
def test_a_value_of_the_wrong_type_is_told_when_the_file_is_read(key, value) -> None:
    document = json.loads(to_json(profile())) | {key: value}
    with pytest.raises(BadFile, match="is not a readable profile"):
        from_json(json.dumps(document), "changed.json")


def changed(table: str, name: str, value: object) -> str:
    """Return the example as a document in which the last row of a column holds another value."""
    document = json.loads(to_json(profile()))
    columns = document["tables"].setdefault(table, {})
    rows = len(next(iter(columns.values()), [0]))
    kept = columns.get(name) or [0] * rows
    columns[name] = [*kept[:-1], value]
    return json.dumps(document)


OUTSIDE = [
    ("Instruction", "start_ts", -1),
    ("Instruction", "end_ts", 2**63 - 1),
    ("DmaPacketAggregated", "start_ts", -5),
    ("DmaPacketAggregated", "pcore_idx", 10**9),
    ("Instruction", "pcore_idx", -1),
    ("Instruction", "duration_ns", -3),
    ("Instruction", "evt_wait_time_ns", -3),
    ("Instruction", "raw_flops", 2**60),
    ("DmaPacketAggregated", "read_bytes", -1),
    ("DmaPacketAggregated", "transfer_bytes", 2**43),
    ("DmaPacketAggregated", "throughput", "NaN"),
    ("DmaPacketAggregated", "throughput", "-Infinity"),
    ("SbufUsage", "timestamp", -1),
    ("SbufUsage", "avg_util_percent", "Infinity"),
    ("SbufUsage", "avg_util_percent", -0.5),
    ("SbufAllocation", "start_address", -1),
    ("SbufAllocation", "partition", 2**40),
    ("Instruction", "id", True),
    ("Instruction", "id", 1.5),
    ("Instruction", "id", 2**70),
    ("Metadata", "num_physical_cores", 10**9),
    ("Metadata", "first_hw_timestamp", -1),
    ("Summary", "total_time", "NaN"),
    ("Summary", "dma_transfer_count", -1),
]


@pytest.mark.parametrize(("table", "name", "value"), OUTSIDE)
def test_a_number_that_nothing_can_have_is_refused_in_one_line(table, name, value) -> None:
    with pytest.raises(
        BadFile, match=r"^error\[NKI604\]: run.json is not a readable profile"
    ) as error:
        from_json(changed(table, name, value), "run.json")
    assert "\n" not in error.value.message
    assert len(error.value.message) < 200


@pytest.mark.parametrize("table", first(TABLES, 8))
def test_whatever_number_a_file_holds_it_is_refused_or_shown(table: str) -> None:
    """Every column of numbers, at and beyond its ends: one line, or a report and a summary; of the last one a page."""
    told: list[str] = []
    for name, field in TABLES[table].items():
        if field.type in ("string", "bool"):
            continue
        ends = (-(2**31), 2**31 - 1) if field.least is None else (field.least, field.most)
        beyond = (-1.0, "NaN") if field.type == "float" else (-1, 0, 2**63 - 1, -(2**63))
        read = None
        for value in dict.fromkeys(v for v in (*beyond, *ends) if v is not None):
            exact = value if field.type == "float" or isinstance(value, str) else int(value)
            try:
                read = Profile.of(from_json(changed(table, name, exact), "run.json"))
            except BadFile as error:
                told.append(error.message)
                continue
            assert "bound by" in report(read)
            assert summary_text(read)
        if read is None:
            continue
        assert len(display(read, shown_with(Needs.TIMES)).page()) < 3_000_000
        part = read.between(500, 900)
        assert report(part) and summary_text(part)
    assert not any("\n" in message for message in told)


def test_texts_of_files_are_bounded() -> None:
    document = json.loads(to_json(profile()))
    with pytest.raises(BadFile, match=r"(?m)its name has 50,000,000 characters, more than 10,000$"):
        from_json(json.dumps(document | {"name": "n" * 50_000_000}), "run.json")
    for table, name in (
        ("Instruction", "opcode"),
        ("Warning", "message"),
        ("TensorInfo", "variable_name"),
    ):
        long = json.loads(to_json(profile()))
        rows = len(next(iter(long["tables"].get(table, {"x": [0]}).values())))
        rows = profile().count(table) or rows
        long["tables"].setdefault(table, {})[name] = {
            "codes": [0] * rows,
            "values": ["x" * 200_000],
        }
        with pytest.raises(BadFile, match=f"a text of column {name} has 200,000 characters"):
            from_json(json.dumps(long), "run.json")
