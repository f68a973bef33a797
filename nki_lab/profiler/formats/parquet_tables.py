"""Writes a table to a Parquet file, and reads it back.

Types are those of the schema and an unknown value is null, so that other readers need nothing of ours. Every file
says by itself whether its times are modelled, in its metadata under the key `nki_lab`.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.errors import UsageError
from nki_lab.profiler.columns import Column, Strings
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.profile_json import dump
from nki_lab.profiler.schema import TABLES
from nki_lab.targets import target_data

_ROWS_AT_ONCE = 1 << 17
_TYPES = {
    "int64": "int64",
    "int32": "int32",
    "float": "float64",
    "bool": "bool_",
    "string": "string",
}


def arrow() -> Any:
    """Return pyarrow. Raises UsageError, with the command that installs it, where it is missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "Parquet files need pyarrow, which is not installed",
            help=f"install it: {sys.executable} -m pip install pyarrow",
        ) from None
    return pyarrow


def write_parquet(profile: ProfileData, table: str, path: Path) -> None:
    """Write a table with every column of the schema, some rows at a time."""
    pa = arrow()
    columns = profile.table(table)
    about = {
        "profile": profile.name,
        "target": target_data(profile.target),
        "is_simulation": profile.is_simulation,
    }
    fields = [
        pa.field(
            field.name,
            getattr(pa, _TYPES[field.type])(),
            metadata=None if field.unit == "-" else {"unit": field.unit},
        )
        for field in TABLES[table].values()
    ]
    schema = pa.schema(fields, metadata={"nki_lab": dump(about)})
    with pa.parquet.ParquetWriter(
        path, schema, compression="zstd", write_page_checksum=True
    ) as writer:
        for start in range(0, profile.count(table), _ROWS_AT_ONCE):
            part = slice(start, min(start + _ROWS_AT_ONCE, profile.count(table)))
            arrays = [_array(pa, columns.get(field.name), field, part) for field in fields]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _array(pa: Any, column: Column | None, field: Any, part: slice) -> Any:
    if column is None:
        return pa.nulls(part.stop - part.start, field.type)
    if isinstance(column, Strings):
        return pa.array(column.take(part).to_list(), field.type)
    values = column[part]
    unknown = np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else None
    return pa.array(np.ascontiguousarray(np.ma.getdata(values)), field.type, mask=unknown)


def read_parquet(
    path: Path, table: str, wanted: Collection[str], rows: np.ndarray | None = None
) -> dict[str, Any]:
    """Return columns of a table that `write_parquet` wrote, or only those rows of them that a mask chooses.

    Raises ValueError where it is not such a file.
    """
    pa = arrow()
    fields = TABLES[table]
    texts = [name for name in wanted if fields[name].type == "string"]
    with arrow_errors(pa):
        file = pa.parquet.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True)
        columns = read_rows(pa, file, wanted, rows)
        if columns.column_names != list(wanted):
            raise ValueError("other columns")
        return {
            name: _strings(pa, columns[name]) if name in texts else _numbers(columns[name])
            for name in wanted
        }


def read_rows(pa: Any, file: Any, wanted: Collection[str], rows: np.ndarray | None) -> Any:
    """Return columns of an open file as a table, or those rows that a mask chooses, some of the others at a time."""
    if rows is None:
        return file.read(columns=list(wanted))
    at, parts = 0, []
    for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=list(wanted)):
        chosen = rows[at : at + batch.num_rows]
        at += batch.num_rows
        if chosen.any():
            parts.append(batch.filter(pa.array(chosen)))
    if at != len(rows):
        raise ValueError("another number of rows")
    schema = parts[0].schema if parts else file.schema_arrow
    table = pa.Table.from_batches(parts, schema=schema)
    return table.select([name for name in wanted if name in table.column_names])


def _strings(pa: Any, column: Any) -> Strings:
    if not pa.types.is_dictionary(column.type):
        raise ValueError("a column of another type")
    codes: dict[str, int] = {}
    parts = [np.zeros(0, dtype=np.int32)]
    for chunk in column.chunks:
        values = chunk.dictionary.to_pylist()
        numbers = np.array([codes.setdefault(text, len(codes)) for text in values] + [-1])
        parts.append(numbers[chunk.indices.fill_null(len(values)).to_numpy()])
    return Strings(np.concatenate(parts), codes)


def _numbers(column: Any) -> np.ndarray:
    whole = column.combine_chunks()
    if not whole.null_count:
        return np.asarray(whole.to_numpy(zero_copy_only=False))
    unknown = whole.is_null().to_numpy(zero_copy_only=False)
    filled = whole.fill_null(False if str(whole.type) == "bool" else 0)
    return np.ma.MaskedArray(filled.to_numpy(zero_copy_only=False), unknown)


@contextmanager
def arrow_errors(pa: Any) -> Iterator[None]:
    """Turn what pyarrow says of a damaged file into ValueError."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        raise ValueError(str(error)) from None
