"""Folders of Neuron Explorer's tables. No real one was at hand: these have the published names and types."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nki_lab.errors import BadFile, UnknownTarget
from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.analyses.report import report
from nki_lab.profiler.formats.tables_folder import INDEX
from nki_lab.profiler.profile import Profile
from nki_lab.targets import TRN1, TRN2

from .example import profile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the example as Explorer would have written it."""
    made = profile().save(tmp_path / "run.parquet")
    (made / INDEX).unlink()
    shutil.move(made, tmp_path / "explorer")
    about(
        tmp_path / "explorer",
        is_simulation=False,
        instance_type="trn2.48xlarge",
        profile_name="add",
    )
    return tmp_path / "explorer"


def about(folder: Path, **values: Any) -> None:
    """Change the table Metadata."""
    change(folder, "Metadata", {name: [value] for name, value in values.items()})


def change(folder: Path, table: str, columns: dict[str, Any]) -> None:
    """Put columns in place of others, or beside them."""
    file = folder / f"{table}.parquet"
    found = pq.ParquetFile(file).read()
    for name, values in columns.items():
        array = values if isinstance(values, pa.Array) else pa.array(values)
        if name in found.column_names:
            found = found.set_column(found.column_names.index(name), name, array)
        else:
            found = found.append_column(name, array)
    pq.write_table(found, file)


def test_the_tables_are_those_of_the_files(folder: Path) -> None:
    p, expected = Profile.load(folder), profile()
    assert (p.name, p.target, p.is_simulation) == ("add", TRN2, False)
    for table in ("Instruction", "DmaPacketAggregated", "Flow", "SbufUsage", "Warning", "Summary"):
        assert list(p.records(table)) == list(expected.records(table))
    assert "measured on trn2.48xlarge" in report(p)
    assert Profile.load(p.save(folder.parent / "again.json")) == p


def test_other_types_columns_and_tables(folder: Path) -> None:
    change(
        folder,
        "Instruction",
        {
            "nki_source_location": [["a.py:3"], ["a.py:3", "b.py:4"], [], None, ["c.py:1"], ["c.py:1"]],
            "engine": pa.array(["sync", "vector", "vector", "vector", "vector", "tensor"]).dictionary_encode(),
            "raw_flops": pa.array([None, None, None, None, None, 5.0], pa.float64()),
            "id": pa.array(range(6), pa.uint16()),
            "of_a_later_version": list("abcdef"),
        },
    )  # fmt: skip
    pq.write_table(pa.table({"x": [1]}), folder / "OfALaterVersion.parquet")
    rows = list(Profile.load(folder).records("Instruction"))
    places = [row["nki_source_location"] for row in rows]
    assert places == ["a.py:3", "a.py:3, b.py:4", None, None, "c.py:1", "c.py:1"]
    assert [row["raw_flops"] for row in rows] == [None] * 5 + [5]
    assert [row["id"] for row in rows] == [*range(6)]
    assert rows[5]["engine"] == "tensor"


@pytest.mark.parametrize(
    ("instance", "target"),
    [
        ("trn1.2xlarge", TRN1),
        ("trn1n.32xlarge", TRN1),
        ("inf2.xlarge", TRN1),
        ("trn2.48xlarge", TRN2),
    ],
)
def test_the_instance_tells_the_chip(folder: Path, instance: str, target) -> None:
    about(folder, instance_type=instance)
    assert Profile.load(folder).target is target


def test_what_measured_a_run_is_told_with_it(folder: Path) -> None:
    about(folder, neuroncore_idx=3, explorer_version="2.21")
    p = Profile.load(folder)
    assert p.origin == "measured on trn2.48xlarge, core 3, tool version 2.21"
    assert Profile.load(p.save(folder.parent / "again.json")).origin == p.origin
    assert profile().origin == "modelled"
    about(folder, instance_type=None)
    unnamed = Profile.load(folder, "trn2")
    assert unnamed.origin == "measured on trn2, core 3, tool version 2.21"


def test_a_chip_that_is_not_told_is_asked_for(folder: Path) -> None:
    about(folder, instance_type=None)
    with pytest.raises(BadFile, match=r"does not say which chip(.|\n)*--target trn2"):
        Profile.load(folder)
    assert Profile.load(folder, "trn1").target is TRN1
    about(folder, instance_type="m7.large")
    with pytest.raises((BadFile, UnknownTarget), match="no target `m7`"):
        Profile.load(folder)


@pytest.mark.parametrize(
    "damage",
    [
        {"start_ts": ["a"] * 6},
        {"id": [0.5] * 6},
        {"end_ts": [-5] * 6},
        {"engine": pa.array([b"\xff"] * 6)},
    ],
)
def test_what_does_not_fit_the_schema_is_told_in_one_sentence(folder: Path, damage) -> None:
    change(folder, "Instruction", damage)
    with pytest.raises(BadFile, match="is not a readable profile") as error:
        list(Profile.load(folder).records("Instruction"))
    assert "\n" not in error.value.message
    (folder / "Instruction.parquet").write_bytes(b"PAR1")
    with pytest.raises(BadFile, match=r"Instruction\.parquet is damaged"):
        Profile.load(folder)


def test_an_engine_that_we_do_not_know_comes_last(folder: Path) -> None:
    known = Profile.load(folder).stalls()
    engine = pq.ParquetFile(folder / "Instruction.parquet").read()["engine"].to_pylist()
    other = [name if name != "vector" else "cc-core" for name in engine]
    change(folder, "Instruction", {"engine": other})
    p = Profile.load(folder)
    found = p.stalls()
    lanes = list(dict.fromkeys(stall.lane for stall in found))
    assert "cc-core" in lanes and lanes[-1] == "cc-core"
    assert found.of("cc-core").wait_ns == known.of("vector").wait_ns > 0
    assert "cc-core" in str(p.critical_path())


@pytest.mark.parametrize("name", ["first_hw_timestamp", "last_hw_timestamp"])
def test_a_run_lasts_as_its_events_where_its_metadata_does_not_tell(
    folder: Path, name: str, tmp_path: Path
) -> None:
    change(folder, "Metadata", {name: pa.array([None], pa.int64())})
    p = Profile.load(folder)
    ends = [p.numbers(t, "end_ts").max() for t in ("Instruction", "DmaPacketAggregated")]
    assert p.total_ns == max(ends) > 0
    assert Profile.load(p.save(tmp_path / "again.json")).total_ns == p.total_ns


def test_a_metadata_table_may_have_no_row(folder: Path) -> None:
    file = folder / "Metadata.parquet"
    pq.write_table(pq.ParquetFile(file).read().slice(0, 0), file)
    assert Profile.load(folder, target="trn1").total_ns > 0


def test_unknown_opcodes_and_times_are_compared(folder: Path) -> None:
    rows = pq.ParquetFile(folder / "OpcodeSummary.parquet").read().num_rows
    unknown = pa.nulls(rows, pa.int64())
    times = {"instruction_time_ns": unknown, "instruction_count": unknown}
    change(folder, "OpcodeSummary", times | {"opcode": pa.nulls(rows, pa.string())})
    p = Profile.load(folder)
    assert not any(row.first_ns or row.delta_ns for row in compare_profiles(p, p).opcodes)
    assert [row.name for row in compare_profiles(p, p).opcodes] == [""]
