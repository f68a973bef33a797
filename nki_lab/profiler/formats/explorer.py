"""Reads a folder of Parquet tables that Neuron Explorer wrote.

    Instruction.parquet  DmaPacketAggregated.parquet  Summary.parquet  Metadata.parquet  ...

Its tables and columns are the schema's own, so little is left to do: tables and columns of other versions are passed
over, and a list of texts becomes one text. Single packets, of which there can be very many, are read when asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.errors import BadFile
from nki_lab.profiler.columns import Column, Strings, known
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.parquet_tables import arrow, arrow_errors, read_rows
from nki_lab.profiler.formats.reading import check_texts, reading
from nki_lab.profiler.schema import TABLES, TRANSFERS, Field
from nki_lab.profiler.span import (
    EVENTS,
    TimeSpan,
    Whole,
    chosen_rows,
    cut,
    end_codes,
    refuse_more,
)
from nki_lab.targets import Target, get_target

#: A folder is taken for one of Explorer's where it has this table.
_NEEDED = "Instruction"


def is_explorer_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder of tables as Neuron Explorer writes them."""
    return (path / f"{_NEEDED}.parquet").is_file()


def load_explorer_folder(
    path: str | Path, target: str | Target | None = None, span: TimeSpan | None = None
) -> ProfileData:
    """Read the profile in a folder of Parquet tables that Neuron Explorer wrote.

    Args:
        path: the folder.
        target: the chip; by default that of the instance named in the table Metadata.
        span: read only what lies within it.

    Raises BadFile with one sentence where it cannot be read or does not tell the chip, UsageError without pyarrow.
    """
    path = Path(path)
    arrow()
    if not is_explorer_folder(path):
        raise BadFile(f"{path.name} has no table {_NEEDED}.parquet")
    known_tables = [name for name in TABLES if (path / f"{name}.parquet").is_file()]
    counts = {name: _file(path, name).metadata.num_rows for name in EVENTS if name in known_tables}
    about: Mapping[str, Any] = _table(path, "Metadata") if "Metadata" in known_tables else {}
    with reading(f"{path.name} is not a readable profile"):
        chip = _chip(path, about) if target is None else get_target(target)
        if span is None:
            refuse_more(sum(counts.values()), path.name)
            rows: dict[str, np.ndarray | None] = {}
        else:
            column = partial(_named_column, path, known_tables)
            first_row = {name: _first(about, name) for name in about}
            whole = Whole.of(span, chip, column, first_row)
            rows = _rows(path, known_tables, span.reach(whole.last_ns), span)
        tables = {name: partial(_table, path, name, rows.get(name)) for name in known_tables}
        named = _first(about, "profile_name") or path.name
        profile = ProfileData.from_tables(
            chip,
            tables,
            is_simulation=bool(_first(about, "is_simulation")),
            name=named,
        )
        for name in tables:  # what does not fit the schema is to be told here
            if name != "DmaPacket":
                profile.table(name)
        check_texts(profile, tables.keys() - {"DmaPacket"})
    return profile if span is None else cut(profile, span, whole, rows.get(TRANSFERS))


def _chip(path: Path, about: Mapping[str, Any]) -> Target:
    instance = _first(about, "instance_type")
    if not instance:
        raise BadFile(
            f"{path.name} does not say which chip it is of",
            help="name it: Profile.load(path, target='trn2'), or --target trn2",
        )
    return get_target(instance.partition(".")[0].removesuffix("n"))


def _first(table: Mapping[str, Any], column: str) -> Any:
    values = table.get(column)
    return None if values is None or not len(values) else values[0]


def _named_column(folder: Path, tables: Sequence[str], table: str, column: str) -> Column | None:
    """Return a column of a folder's tables; None where there is no such one."""
    if table not in tables or column not in _file(folder, table).schema_arrow.names:
        return None
    values: Column = _table(folder, table, columns=[column])[column]
    return values


def _rows(
    folder: Path, tables: Sequence[str], reach: TimeSpan, span: TimeSpan
) -> dict[str, np.ndarray | None]:
    """Return which rows of each table lie in a span, as masks; None for tables it says nothing about."""
    event_ids: dict[str, np.ndarray] = {}

    def number(name: str, column: str) -> np.ndarray:
        values = _table(folder, name, columns=[column])[column]
        return end_codes(values) if isinstance(values, Strings) else known(values)

    rows: dict[str, np.ndarray | None] = {}
    for name in (*EVENTS, *(name for name in tables if name not in EVENTS)):
        if name not in tables or name == "DmaPacket":
            continue
        rows[name] = chosen = chosen_rows(name, reach, partial(number, name), event_ids)
        if name in EVENTS and chosen is not None:
            event_ids[name] = number(name, "id")[chosen]
    refuse_more(sum(map(len, event_ids.values())), folder.name, span)
    return rows


def _file(folder: Path, name: str) -> Any:
    pa = arrow()
    try:
        with arrow_errors(pa):
            return pa.parquet.ParquetFile(folder / f"{name}.parquet")
    except ValueError:
        raise _damaged(folder, name) from None


def _table(
    folder: Path,
    name: str,
    rows: np.ndarray | None = None,
    columns: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the columns of a table that the schema knows, or some of them, or only the rows that a mask chooses."""
    pa = arrow()
    fields = TABLES[name]
    file = _file(folder, name)
    try:
        with arrow_errors(pa):
            wanted = [c for c in file.schema_arrow.names if c in fields]
            table = read_rows(pa, file, wanted if columns is None else columns, rows)
            return {
                column: _column(pa, table[column].combine_chunks(), fields[column])
                for column in table.column_names
            }
    except (ValueError, TypeError, OverflowError, KeyError):
        raise _damaged(folder, name) from None


def _damaged(folder: Path, name: str) -> BadFile:
    return BadFile(f"{folder.name} is not a readable profile: {name}.parquet is damaged")


def _column(pa: Any, values: Any, field: Field) -> Any:
    if field.type == "string":
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        return Strings.of([_text(value) for value in values.to_pylist()])
    kind = {"float": pa.float64(), "bool": pa.bool_()}.get(field.type, pa.int64())
    cast = values.cast(kind)  # a number that is not whole is not an integer
    unknown = cast.is_null().to_numpy(zero_copy_only=False)
    filled = cast.fill_null(False if field.type == "bool" else 0).to_numpy(zero_copy_only=False)
    return np.ma.MaskedArray(filled, unknown) if unknown.any() else filled


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or None
    if isinstance(value, bytes):
        raise TypeError("bytes are not text")
    return None if value is None else str(value)
