"""Finds the files of a folder of Neuron Explorer's tables, and how they differ from the schema they are read by.

    Instruction.parquet                             a table in one file
    BirInstruction_0.parquet BirInstruction_1...    a table in several files, numbered from 0
    Metadata.parquet                                `profile_schema_version` tells the version
    SchemaFields.parquet                            a row for each column of each table, with its unit

A column is read where its name, type and unit are those of our schema. Any other one, and any table that we do not
have, is left out, and a row of the table Warning names it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nki_lab.errors import BadFile
from nki_lab.profiler.formats.parquet_tables import arrow, arrow_errors
from nki_lab.profiler.schema import SCHEMA_VERSION, TABLES, TRANSFERS, Field
from nki_lab.profiler.span import EVENTS

#: The file of a table, or one of its numbered files.
_FILE = re.compile(r"([A-Z][A-Za-z]*)(?:_(\d+))?\.parquet")
_VERSION = re.compile(r"(\d+)\.\d+\.\d+")
#: Category of the rows of Warning that tell differences.
CATEGORY = "schema"
#: Kind of difference -> what it is.
DIFFERENCES: dict[str, str] = {
    "table": "tables that nki_lab does not have",
    "column": f"columns that schema {SCHEMA_VERSION} does not have",
    "missing": f"columns that schema {SCHEMA_VERSION} requires and the file does not have",
    "type": "columns of another type",
    "unit": "columns in another unit",
}
#: Our unit -> the name it has in SchemaFields.
UNITS: dict[str, str] = {
    "ns": "nanoseconds",
    "s": "seconds",
    "B": "bytes",
    "B/s": "bytes_per_second",
    "GHz": "gigahertz",
    "fraction": "percent",
    "cycles": "cycles",
    "flops": "flops",
}
#: Unit of a column for which the schema names none, by its name.
_IMPLIED = ((re.compile(r".*_ts|trigger|completion"), "ns"), (re.compile(r".*_bytes"), "B"))
#: Table -> the columns without which its rows say nothing.
KEYS: dict[str, tuple[str, ...]] = {
    "Instruction": ("start_ts", "end_ts", "engine", "opcode", "id"),
    TRANSFERS: ("start_ts", "end_ts", "id", "source", "dest", "read_bytes", "write_bytes"),
    "Flow": ("in_id", "out_id", "in_table", "out_table"),
}


def is_explorer_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder of tables as Neuron Explorer writes them."""
    return any(os.path.isfile(path / f"Instruction{part}.parquet") for part in ("", "_0"))


@dataclass(frozen=True)
class Difference:
    """Something in a folder that is left out: its kind in DIFFERENCES, its name, and more about it."""

    kind: str
    name: str
    note: str = ""


class ExplorerFiles:
    """Hold the files of the tables in a folder.

    Attributes:
        name: name of the folder.
        parts: table -> its files, in order; tables that we do not have as well.
    """

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        numbered: dict[str, dict[int, Path]] = {}
        for path in sorted(folder.iterdir()):
            named = _FILE.fullmatch(path.name)
            if named is not None and path.is_file():
                number = -1 if named[2] is None else int(named[2])
                numbered.setdefault(named[1], {})[number] = path
        self.parts = {table: self._in_order(table, files) for table, files in numbered.items()}
        if "Instruction" not in self.parts:
            raise BadFile(
                f"{self.name} has no table Instruction.parquet",
                help="name the folder into which Explorer wrote its tables",
            )

    def _in_order(self, table: str, files: Mapping[int, Path]) -> list[Path]:
        if -1 in files and len(files) > 1:
            raise self.unreadable(f"it has both {table}.parquet and numbered files of that table")
        if -1 not in files and sorted(files) != list(range(len(files))):
            absent = next(n for n in range(len(files)) if n not in files)
            raise self.unreadable(f"{table}_{absent}.parquet is missing")
        return [files[number] for number in sorted(files)]

    def unreadable(self, problem: str) -> BadFile:
        """Return the error that this folder cannot be read, with what is wrong."""
        return BadFile(
            f"{self.name} is not a readable profile: {problem}",
            help="export it from Explorer again, with all of its files in one folder",
        )

    def damaged(self, path: Path) -> BadFile:
        """Return the error that a file is damaged."""
        return self.unreadable(f"{path.name} is damaged")

    def open(self, table: str) -> Iterator[tuple[Path, Any]]:
        """Yield the files of a table, each opened. Raises BadFile for a damaged one."""
        pa = arrow()
        for path in self.parts[table]:
            try:
                with arrow_errors(pa):
                    yield path, pa.parquet.ParquetFile(path)
            except ValueError:
                raise self.damaged(path) from None

    def rows(self, table: str) -> int:
        """Return the number of rows of a table."""
        return sum(file.metadata.num_rows for _, file in self.open(table))

    @property
    def tables(self) -> list[str]:
        """The tables that are read, in the schema's order."""
        return [name for name in TABLES if self.columns.get(name)]

    @cached_property
    def version(self) -> str:
        """The version of the schema that the folder follows; empty where it does not tell."""
        if "Metadata" not in self.parts:
            return ""
        told = self._texts("Metadata", "profile_schema_version")
        version = told[0] if told else None
        if version is not None and _VERSION.fullmatch(version) is None:
            raise self.unreadable(
                f"its schema has the version {version[:40]!r}, and not one of the form 7.4.0"
            )
        return version or ""

    def _texts(self, table: str, column: str) -> list[str | None]:
        """Return a column of texts; nothing where the table does not have it."""
        texts: list[str | None] = []
        for path, file in self.open(table):
            if column not in file.schema_arrow.names:
                return []
            try:
                with arrow_errors(arrow()):
                    values = file.read(columns=[column])[column].to_pylist()
            except ValueError:
                raise self.damaged(path) from None
            texts += [None if value is None else str(value) for value in values]
        return texts

    @cached_property
    def _units(self) -> dict[tuple[str | None, str | None], str]:
        """Table and column -> the unit that SchemaFields tells, where it tells one."""
        if "SchemaFields" not in self.parts:
            return {}
        names = ("table_name", "field_name", "field_unit")
        columns = [self._texts("SchemaFields", name) for name in names]
        return {(table, field): unit for table, field, unit in zip(*columns, strict=False) if unit}

    @cached_property
    def _compared(self) -> tuple[dict[str, list[str]], list[Difference]]:
        columns: dict[str, list[str]] = {}
        differences = [Difference("table", t) for t in sorted(self.parts) if t not in TABLES]
        for table in (t for t in TABLES if t in self.parts):
            wrong = list(self._differences(table))
            differences += wrong
            outside = {difference.name for difference in wrong}
            names = {name for _, file in self.open(table) for name in file.schema_arrow.names}
            columns[table] = [
                c for c in TABLES[table] if c in names and f"{table}.{c}" not in outside
            ]
            absent = [c for c in KEYS.get(table, ()) if c not in columns[table]]
            if absent and table in EVENTS:
                told = next((d for d in wrong if d.name == f"{table}.{absent[0]}"), None)
                raise self.unreadable(self._needed(table, absent[0], told))
            if absent:
                del columns[table]
        return columns, differences

    def _needed(self, table: str, column: str, difference: Difference | None) -> str:
        version = f" of schema {self.version}" if self.version else ""
        if difference is None or difference.kind == "missing":
            return f"table {table}{version} has no column {column}, which schema {SCHEMA_VERSION} requires"
        return f"column {table}.{column}{version} is {difference.note}"

    def _differences(self, table: str) -> Iterator[Difference]:
        present: dict[str, Any] = {}
        for _, file in self.open(table):
            present |= {field.name: field.type for field in file.schema_arrow}
        for name, kind in present.items():
            field = TABLES[table].get(name)
            if field is None:
                yield Difference("column", f"{table}.{name}")
            elif not _fits(kind, field):
                note = f"of type {kind}, and not {field.type}"
                yield Difference("type", f"{table}.{name}", note)
            elif (unit := _unit(field)) and self._units.get((table, name), unit) not in (
                unit,
                field.unit,
            ):
                note = f"in {self._units[table, name]}, and not in {unit}"
                yield Difference("unit", f"{table}.{name}", note)
        for field in TABLES[table].values():
            if field.required and field.name not in present:
                yield Difference("missing", f"{table}.{field.name}")

    @property
    def columns(self) -> dict[str, list[str]]:
        """Table -> the columns that are read, in the schema's order. Raises BadFile where a needed one is missing."""
        return self._compared[0]

    def messages(self) -> list[str]:
        """Return what the table Warning tells of the differences, one sentence for each kind."""
        of = f"schema {self.version}" if self.version else "an unknown version of the schema"
        texts = []
        if self.version.partition(".")[0] not in ("", SCHEMA_VERSION.partition(".")[0]):
            texts.append(
                f"the profile follows {of}, which is not compatible with {SCHEMA_VERSION}; columns are read where"
                " name, type and unit are the same"
            )
        for kind, what in DIFFERENCES.items():
            of_kind = [d for d in self._compared[1] if d.kind == kind]
            names = ", ".join(d.name + (f" ({d.note})" if d.note else "") for d in of_kind)
            if names:
                texts.append(f"not read, from {of}: {what}: {names}")
        return texts


def _unit(field: Field) -> str | None:
    """Return the name in SchemaFields of the unit of a column; None where the schema does not tell one."""
    implied = next((unit for name, unit in _IMPLIED if name.fullmatch(field.name)), "-")
    return UNITS.get(field.unit if field.unit != "-" else implied)


def _fits(kind: Any, field: Field) -> bool:
    """Tell whether values of an Arrow type can be read as a column."""
    types = arrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if field.type == "string":
        return not (types.is_binary(kind) or types.is_large_binary(kind))
    if types.is_null(kind):
        return True
    if field.type == "bool":
        return bool(types.is_boolean(kind) or types.is_integer(kind))
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
