"""Reads a folder of Parquet tables that Neuron Explorer wrote.

    Instruction.parquet  DmaPacketAggregated.parquet  Summary.parquet  Metadata.parquet  ...

Its tables and columns are the schema's own, so little is left to do: a list of texts becomes one text, and what another
version of the schema has is told in the table Warning. Single packets, of which there can be very many, are read when
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.profiler.columns import Column, Strings, known, to_list
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.explorer_files import CATEGORY, ExplorerFiles
from nki_lab.profiler.formats.imported import Chip, chip_of
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


def load_explorer_folder(
    path: str | Path, target: Chip = None, span: TimeSpan | None = None
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
    files = ExplorerFiles(path)
    counts = {name: files.rows(name) for name in EVENTS if name in files.tables}
    about: Mapping[str, Any] = _table(files, "Metadata") if "Metadata" in files.tables else {}
    with reading(f"{path.name} is not a readable profile"):
        chip = chip_of(path.name, _first(about, "instance_type"), target)
        if span is None:
            refuse_more(sum(counts.values()), path.name)
            rows: dict[str, np.ndarray | None] = {}
        else:
            column = partial(_named_column, files)
            first_row = {name: _first(about, name) for name in about}
            whole = Whole.of(span, chip, column, first_row)
            rows = _rows(files, span.reach(whole.last_ns), span)
        tables: dict[str, Any] = {
            name: partial(_table, files, name, rows.get(name)) for name in files.tables
        }
        if messages := files.messages():
            tables["Warning"] = _with_messages(tables.get("Warning"), messages)
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


def _with_messages(
    read: Callable[[], dict[str, Any]] | None, messages: list[str]
) -> dict[str, Any]:
    """Return the table Warning, with a row for each message after those of the file."""
    rows = {} if read is None else {name: to_list(column) for name, column in read().items()}
    count = max(map(len, rows.values()), default=0)
    added = {"message": messages, "category": [CATEGORY] * len(messages)}
    return {name: rows.get(name, [None] * count) + texts for name, texts in added.items()}


def _first(table: Mapping[str, Any], column: str) -> Any:
    values = table.get(column)
    return None if values is None or not len(values) else values[0]


def _named_column(files: ExplorerFiles, table: str, column: str) -> Column | None:
    """Return a column of a folder's tables; None where there is no such one."""
    if column not in files.columns.get(table, ()):
        return None
    values: Column = _table(files, table, columns=[column])[column]
    return values


def _rows(files: ExplorerFiles, reach: TimeSpan, span: TimeSpan) -> dict[str, np.ndarray | None]:
    """Return which rows of each table lie in a span, as masks; None for tables it says nothing about."""
    event_ids: dict[str, np.ndarray] = {}

    def number(name: str, column: str) -> np.ndarray:
        values = _table(files, name, columns=[column])[column]
        return end_codes(values) if isinstance(values, Strings) else known(values)

    rows: dict[str, np.ndarray | None] = {}
    for name in (*EVENTS, *(name for name in files.tables if name not in EVENTS)):
        if name not in files.tables or name == "DmaPacket":
            continue
        rows[name] = chosen = chosen_rows(name, reach, partial(number, name), event_ids)
        if name in EVENTS and chosen is not None:
            event_ids[name] = number(name, "id")[chosen]
    refuse_more(sum(map(len, event_ids.values())), files.name, span)
    return rows


def _table(
    files: ExplorerFiles,
    name: str,
    rows: np.ndarray | None = None,
    columns: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the columns of a table that are read, or some of them, or only the rows that a mask chooses."""
    pa = arrow()
    wanted = files.columns[name] if columns is None else columns
    parts, at = [], 0
    for path, file in files.open(name):
        count = file.metadata.num_rows
        chosen = None if rows is None else rows[at : at + count]
        at += count
        try:
            with arrow_errors(pa):
                present = [column for column in wanted if column in file.schema_arrow.names]
                part = read_rows(pa, file, present, chosen)
                nothing = pa.nulls(part.num_rows)
                values = {c: part[c].combine_chunks() if c in present else nothing for c in wanted}
                parts.append({c: _column(pa, v, TABLES[name][c]) for c, v in values.items()})
        except (ValueError, TypeError, OverflowError, KeyError):
            raise files.damaged(path) from None
    return {c: _joined(pa, [part[c] for part in parts], TABLES[name][c]) for c in wanted}


def _column(pa: Any, values: Any, field: Field) -> Any:
    """Return a column of one file in the type of the schema: an Arrow array, or a list of texts."""
    if field.type != "string":
        kind = {"float": pa.float64(), "bool": pa.bool_()}.get(field.type, pa.int64())
        return values.cast(kind)  # a number that is not whole is not an integer
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return [_text(value) for value in values.to_pylist()]


def _joined(pa: Any, parts: Sequence[Any], field: Field) -> Any:
    """Return a column from those of the files of a table."""
    if field.type == "string":
        return Strings.of([text for part in parts for text in part])
    values = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
    unknown = values.is_null().to_numpy(zero_copy_only=False)
    empty = False if field.type == "bool" else 0
    filled = values.fill_null(empty).to_numpy(zero_copy_only=False)
    return np.ma.MaskedArray(filled, unknown) if unknown.any() else filled


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or None
    if isinstance(value, bytes):
        raise TypeError("bytes are not text")
    return None if value is None else str(value)
