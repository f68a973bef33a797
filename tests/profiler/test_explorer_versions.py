"""Folders of every published version of Explorer's schema, and of versions that nobody has published."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from docs.schema_page import schema_page
from nki_lab.errors import BadFile
from nki_lab.profiler.analyses.report import report
from nki_lab.profiler.formats.explorer_files import CATEGORY, DIFFERENCES, KEYS, UNITS
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import SCHEMA_VERSION, TABLES, VERSIONS

from .example import profile
from .test_import_explorer import about, change, folder

__all__ = ["folder"]

#: A version of another major number of which nothing is published.
UNPUBLISHED = "9.3.0"


def write_fields(folder: Path, **units: str) -> None:
    """Write SchemaFields as Explorer does, with other units for some columns, named Table__column."""
    rows = [
        {
            "table_name": table,
            "field_name": field.name,
            "field_unit": units.get(f"{table}__{field.name}", UNITS.get(field.unit)),
        }
        for table, fields in TABLES.items()
        for field in fields.values()
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "SchemaFields.parquet")


def edit(folder: Path, table: str, edited: Callable[[pa.Table], pa.Table]) -> None:
    """Change a table as a whole."""
    file = folder / f"{table}.parquet"
    pq.write_table(edited(pq.ParquetFile(file).read()), file)


def told(p: Profile) -> list[str]:
    """Return what the profile says of its schema."""
    return [row["message"] for row in p.records("Warning") if row["category"] == CATEGORY]


def same(p: Profile, *tables: str) -> None:
    """Compare tables with those that were written."""
    for table in tables:
        assert list(p.records(table)) == list(profile().records(table))


@pytest.mark.parametrize("version", [v.version for v in VERSIONS])
def test_every_published_version_is_read(folder: Path, version: str) -> None:
    about(folder, profile_schema_version=version)
    write_fields(folder)
    (folder / "SchemaFields.parquet").rename(folder / "SchemaFields_0.parquet")
    p = Profile.load(folder)
    same(p, "Instruction", "DmaPacketAggregated", "Flow", "SbufUsage", "Summary")
    messages = told(p)
    assert ("not compatible with 7.4.0" in " ".join(messages)) == (version != SCHEMA_VERSION)
    assert any("tables that nki_lab does not have: SchemaFields" in m for m in messages)
    assert all(message in report(p) for message in messages)
    assert len(list(p.records("Warning"))) == len(list(profile().records("Warning"))) + len(
        messages
    )


def test_what_is_written_has_the_newest_version_whose_columns_are_known(tmp_path: Path) -> None:
    profile().save(tmp_path / "run.parquet")
    metadata = pq.ParquetFile(tmp_path / "run.parquet" / "Metadata.parquet").read()
    assert metadata["profile_schema_version"].to_pylist() == [SCHEMA_VERSION]
    known = [v.version for v in VERSIONS if v.columns == "all published"]
    assert known[-1] == SCHEMA_VERSION


def test_names_that_are_new_or_gone_are_told(folder: Path) -> None:
    about(folder, profile_schema_version=UNPUBLISHED)

    def renamed(table: pa.Table) -> pa.Table:
        new = {"timeline_track": "track", "operands": "arguments"}
        return table.rename_columns([new.get(name, name) for name in table.column_names])

    edit(folder, "Instruction", renamed)
    pq.write_table(pa.table({"x": [1]}), folder / "EnergyUsage.parquet")
    p = Profile.load(folder)
    rows = list(p.records("Instruction"))
    assert {row["operands"] for row in rows} == {None}
    assert [row["opcode"] for row in rows] == [
        r["opcode"] for r in profile().records("Instruction")
    ]
    assert told(p)[1:] == [
        f"not read, from schema {UNPUBLISHED}: {DIFFERENCES['table']}: EnergyUsage",
        f"not read, from schema {UNPUBLISHED}: {DIFFERENCES['column']}: Instruction.track, Instruction.arguments",
        f"not read, from schema {UNPUBLISHED}: {DIFFERENCES['missing']}: Instruction.operands",
    ]


def test_a_column_in_another_unit_is_not_read(folder: Path) -> None:
    write_fields(folder, Instruction__evt_wait_time_ns="microseconds", SbufUsage__timestamp="ns")
    p = Profile.load(folder)
    assert {row["evt_wait_time_ns"] for row in p.records("Instruction")} == {None}
    same(p, "SbufUsage")
    unit = next(m for m in told(p) if DIFFERENCES["unit"] in m)
    assert unit.endswith(": Instruction.evt_wait_time_ns (in microseconds, and not in nanoseconds)")


def test_a_column_of_another_type_is_not_read(folder: Path) -> None:
    moments = pa.array(range(6), pa.timestamp("us"))  # as integers they would be taken for ns
    change(folder, "Instruction", {"evt_wait_time_ns": moments, "raw_flops": ["many"] * 6})
    p = Profile.load(folder)
    rows = list(p.records("Instruction"))
    assert {row["evt_wait_time_ns"] for row in rows} == {row["raw_flops"] for row in rows} == {None}
    [message] = told(p)
    assert "Instruction.evt_wait_time_ns (of type timestamp[us], and not int64)" in message
    assert "Instruction.raw_flops (of type string, and not int64)" in message


def test_a_table_of_edges_without_its_ends_is_left_out(folder: Path) -> None:
    edit(folder, "Flow", lambda table: table.drop_columns(["out_table"]))
    p = Profile.load(folder)
    assert not list(p.records("Flow"))
    assert told(p) == [
        f"not read, from schema {SCHEMA_VERSION}: {DIFFERENCES['missing']}: Flow.out_table"
    ]


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (
            lambda f: edit(f, "Instruction", lambda t: t.drop_columns(["end_ts"])),
            "table Instruction of schema 9.3.0 has no column end_ts, which schema 7.4.0 requires",
        ),
        (
            lambda f: write_fields(f, DmaPacketAggregated__start_ts="ticks"),
            "column DmaPacketAggregated.start_ts of schema 9.3.0 is in ticks, and not in nanoseconds",
        ),
        (
            lambda f: change(f, "Instruction", {"start_ts": pa.array(range(6), pa.timestamp("ms"))}),
            "column Instruction.start_ts of schema 9.3.0 is of type timestamp[ms], and not int64",
        ),
        (
            lambda f: about(f, profile_schema_version="twelve"),
            "its schema has the version 'twelve', and not one of the form 7.4.0",
        ),
        (lambda f: split(f, "Instruction", [0, 2]), "Instruction_1.parquet is missing"),
        (
            lambda f: shutil.copy(f / "Flow.parquet", f / "Flow_0.parquet"),
            "it has both Flow.parquet and numbered files of that table",
        ),
        (lambda f: (f / "SchemaFields.parquet").write_bytes(b"PAR1"), "SchemaFields.parquet is damaged"),
    ],
)  # fmt: skip
def test_a_folder_that_cannot_be_read_ends_in_one_sentence(
    folder: Path, spoil: Callable[[Path], Any], sentence: str
) -> None:
    about(folder, profile_schema_version=UNPUBLISHED)
    spoil(folder)
    with pytest.raises(BadFile) as error:
        Profile.load(folder)
    assert error.value.message == f"explorer is not a readable profile: {sentence}"


def split(folder: Path, table: str, numbers: list[int]) -> None:
    """Cut the file of a table into numbered ones of about as many rows each."""
    file = folder / f"{table}.parquet"
    whole = pq.ParquetFile(file).read()
    file.unlink()
    edges = [whole.num_rows * n // len(numbers) for n in range(len(numbers) + 1)]
    for number, start, stop in zip(numbers, edges, edges[1:], strict=False):
        part = whole.slice(start, stop - start)
        if number % 2:  # writers choose types by what a file holds
            at = part.column_names.index("engine") if "engine" in part.column_names else 0
            field = part.column_names[at]
            part = part.set_column(at, field, part[field].combine_chunks().dictionary_encode())
        pq.write_table(part, folder / f"{table}_{number}.parquet")


@pytest.mark.parametrize("count", [1, 3, 6])
def test_a_table_may_lie_in_several_files(folder: Path, count: int) -> None:
    begins, ends = profile().span_ns
    cut = Profile.load(folder, start_ns=begins + 400, end_ns=ends - 300)
    split(folder, "Instruction", list(range(count)))
    split(folder, "SbufUsage", [0, 1])
    p = Profile.load(folder)
    same(p, "Instruction", "SbufUsage", "DmaPacketAggregated")
    assert not told(p)
    assert Profile.load(folder, start_ns=begins + 400, end_ns=ends - 300) == cut


@pytest.mark.parametrize("seed", range(8))
def test_whatever_changes_a_column_is_read_as_written_or_told(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    about(folder, profile_schema_version=f"{chance.randrange(8, 13)}.{seed}.0")
    units, dropped = {}, set()
    tables = ("Instruction", "DmaPacketAggregated", "Flow", "SbufUsage", "Summary")
    for table in tables:
        whole = pq.ParquetFile(folder / f"{table}.parquet").read()
        usual = [name for name in whole.column_names if name not in KEYS.get(table, ())]
        for name in chance.sample(usual, min(5, len(usual))):
            way = chance.choice(["drop", "rename", "unit", "bytes"])
            at = whole.column_names.index(name)
            if way == "drop":
                whole = whole.drop_columns([name])
                dropped.add((table, name))
            elif way == "rename":
                whole = whole.rename_columns(
                    [f"{n}_v2" if n == name else n for n in whole.column_names]
                )
            elif way == "unit":
                units[f"{table}__{name}"] = "fortnights"
            else:
                whole = whole.set_column(at, name, pa.array([b"\xff"] * whole.num_rows))
        pq.write_table(whole, folder / f"{table}.parquet")
    write_fields(folder, **units)
    p = Profile.load(folder)
    messages = " ".join(told(p))
    written = {table: list(profile().records(table)) for table in tables}
    for table, rows in written.items():
        for field in TABLES[table].values():
            as_written = [r[field.name] for r in p.records(table)] == [r[field.name] for r in rows]
            optional = (table, field.name) in dropped and not field.required
            follows = field.name in ("duration_ns", "throughput")
            assert as_written or f"{table}.{field.name}" in messages or optional or follows


def test_the_page_has_every_version_and_every_difference() -> None:
    page = schema_page()
    assert all(f"| {v.version} | {v.sdk} |" in page for v in VERSIONS)
    assert all(change in page and source in page for v in VERSIONS for change, source in v.changes)
    assert all(f"- {what}" in page for what in DIFFERENCES.values())
