"""Writes a single table as CSV or rows for other programs, and reads it back from CSV.

An empty field of a CSV table is an unknown value, so which texts are really empty has to be told besides
(`empty_texts`).
"""

from __future__ import annotations

import csv
import io
import json
import sys
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from nki_lab.profiler.columns import Column, Strings
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import TABLES

_ROWS_AT_ONCE = 1 << 16
_LONGEST_FIELD = 1 << 30


def table_csv(profile: ProfileData, table: str) -> str:
    """Return a table as CSV with every column of the schema; unknown values are empty."""
    out = io.StringIO()
    _write(profile, table, out)
    return out.getvalue()


def table_json(profile: ProfileData, table: str) -> str:
    """Return a table as a JSON list of rows with every column of the schema, null where unknown."""
    return json.dumps(list(profile.records(table)))


def write_csv(profile: ProfileData, table: str, path: Path) -> None:
    """Write what `table_csv` returns to a file, some rows at a time."""
    with path.open("w", encoding="utf-8", newline="") as file:
        _write(profile, table, file)


def _write(profile: ProfileData, table: str, file: TextIO) -> None:
    # With this line terminator every field that holds one of its characters is quoted.
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(TABLES[table])
    flags = [name for name, field in TABLES[table].items() if field.type == "bool"]
    for start in range(0, profile.count(table), _ROWS_AT_ONCE):
        for record in profile.records(table, start, start + _ROWS_AT_ONCE):
            for name in flags:
                if record[name] is not None:
                    record[name] = "true" if record[name] else "false"
            writer.writerow(record.values())


def empty_texts(columns: Mapping[str, Column]) -> dict[str, list[int] | bool]:
    """Return the rows of each column that hold an empty text; True where every empty field is one."""
    empty: dict[str, list[int] | bool] = {}
    for name, column in columns.items():
        if isinstance(column, Strings):
            rows = np.flatnonzero(column.equal_to(""))
            if len(rows):
                empty[name] = rows.tolist() if (column.codes < 0).any() else True
    return empty


def read_csv(
    path: Path,
    table: str,
    wanted: Collection[str],
    empty: Mapping[str, Any],
    chosen: np.ndarray | None = None,
) -> dict[str, Any]:
    """Return columns of a table that `write_csv` wrote.

    Args:
        path: the file.
        table: its name.
        wanted: the columns to return.
        empty: what `empty_texts` told.
        chosen: the rows to return, as a mask; None is all of them.

    Raises ValueError where it is not such a file.
    """
    fields = TABLES[table]
    with _long_fields(), path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file, strict=True)
        read = [fields[name] for name in wanted]
        places = [list(fields).index(name) for name in wanted]
        columns: list[list[Any]] = [[] for _ in wanted]
        numbers = array("q")
        try:
            if next(rows, None) != list(fields):
                raise ValueError("other columns")
            for number, row in enumerate(rows):
                if len(row) != len(fields):
                    raise ValueError("a row of another length")
                if chosen is not None and not chosen[number]:
                    continue
                numbers.append(number)
                for column, place in zip(columns, places, strict=True):
                    # Texts are few, and many times each.
                    column.append(sys.intern(row[place]))
        except csv.Error as error:
            raise ValueError(str(error)) from None
    return {
        field.name: _values(column, field.type, empty.get(field.name), numbers)
        for field, column in zip(read, columns, strict=True)
    }


def _values(texts: list[str], kind: str, empty: Any, numbers: Sequence[int]) -> list[Any]:
    if kind != "string":
        convert = _CONVERT[kind]
        return [convert(text) if text else None for text in texts]
    if empty is True:
        return list(texts)
    empty_rows = set(empty or ())
    return [
        text or ("" if row in empty_rows else None)
        for row, text in zip(numbers, texts, strict=True)
    ]


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text]


_CONVERT: dict[str, Callable[[str], Any]] = {
    "int64": int,
    "int32": int,
    "float": float,
    "bool": _flag,
}


@contextmanager
def _long_fields() -> Iterator[None]:
    """Let the csv module read texts of any length meanwhile."""
    before = csv.field_size_limit(_LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)
