"""Keeps a profile as a folder with one file per table, as Neuron Explorer does.

    run.parquet/                or run.csv/
        profile.json            what ran, on which chip, and which tables and columns are known
        Instruction.parquet     a table, under its name in the schema
        Summary.parquet         tables that follow from others are written, too, for whoever reads the folder

Only tables that do not follow from others are read back.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from nki_lab.errors import BadFile
from nki_lab.profiler.columns import Column, Strings, known, make_column
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.formats.csv_tables import empty_texts, read_csv, write_csv
from nki_lab.profiler.formats.parquet_tables import arrow, read_parquet, write_parquet
from nki_lab.profiler.formats.profile_json import (
    HEAD,
    check_head,
    dump,
    head_of,
    lines_of,
    with_head,
)
from nki_lab.profiler.formats.reading import (
    WRITTEN_BY,
    beginning_of,
    read_document,
    reading,
    write_whole,
)
from nki_lab.profiler.schema import TABLES, TRANSFERS
from nki_lab.profiler.span import (
    EVENTS,
    TimeSpan,
    Whole,
    chosen_rows,
    cut,
    end_codes,
    refuse_more,
)
from nki_lab.targets import target_of

#: Name of the file that tells what the others are.
INDEX = "profile.json"
#: A larger table DmaPacket is not written out; reading the profile gives it all the same.
MOST_PACKETS = 1_000_000


def save_folder(profile: ProfileData, path: str | Path, kind: str) -> Path:
    """Write every table of a profile that has rows into a folder, and return its path.

    A folder that holds a profile is replaced, in one step; any other one is left alone.

    Args:
        profile: what to write.
        path: the folder.
        kind: "csv" or "parquet".

    Raises BadFile where it cannot be written, UsageError for Parquet without pyarrow.
    """
    path = Path(path)
    if kind == "parquet":
        arrow()
    with _replacing(path) as folder, _writing(path):
        stored = profile.stored
        tables = {}
        for name in _written(profile):
            columns = profile.table(name)
            if kind == "csv":
                write_csv(profile, name, folder / f"{name}.csv")
            else:
                write_parquet(profile, name, folder / f"{name}.parquet")
            if name in stored:
                tables[name] = _about(profile, name, columns, kind)
        head = head_of(profile) | {"kind": kind, "tables": tables}
        write_whole(folder / INDEX, dump(head))
    return path


def _written(profile: ProfileData) -> Iterator[str]:
    """Yield the names of the tables to write."""
    for name in profile.table_names:
        follows = name == "DmaPacket" and profile.deals is not None
        if follows and int(profile.deals.packets.sum()) > MOST_PACKETS:  # type: ignore[union-attr]
            continue
        if profile.count(name):
            yield name


def _about(
    profile: ProfileData, name: str, columns: Mapping[str, Column], kind: str
) -> dict[str, Any]:
    about: dict[str, Any] = {"rows": profile.count(name), "columns": list(columns)}
    if kind == "csv":
        about["empty"] = empty_texts(columns)
    return about


def is_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder that `save_folder` wrote, by how its index begins."""
    return HEAD.match(beginning_of(path / INDEX)) is not None


def load_folder(path: str | Path, span: TimeSpan | None = None) -> ProfileData:
    """Read a profile that `save_folder` wrote, or what it has within a span of time.

    Raises BadFile with one sentence when the folder is not such a one, damaged, from a newer version, or has more
    events than can be looked at together.
    """
    path = Path(path)
    complaint = f"{path.name or path} is not a profile saved by nki_lab"
    if not (path / INDEX).is_file():
        raise BadFile(complaint, help=f"a folder of tables that nki_lab wrote has a file {INDEX}")
    text = read_document(path / INDEX, HEAD, complaint)
    check_head(text[:200], path.name)
    with reading(f"{path.name} is not a readable profile"):
        head = json.loads(text)
        kind = head["kind"]
        if kind not in ("csv", "parquet"):
            raise ValueError(f"no such kind of table: {kind}")
        tables = head["tables"]
        if span is None:
            refuse_more(sum(tables[name]["rows"] for name in EVENTS if name in tables), path.name)
            return with_head(
                head, {name: _read(path, name, about, kind) for name, about in tables.items()}
            )
        return _part(path, head, kind, span)


def _part(path: Path, head: dict[str, Any], kind: str, span: TimeSpan) -> ProfileData:
    """Read what a folder has within a span."""
    tables = head["tables"]

    def column_of(name: str, column: str) -> Column | None:
        about = tables.get(name)
        if about is None or column not in about["columns"]:
            return None
        values = _read(path, name, about | {"columns": [column]}, kind)[column]
        return make_column(values, TABLES[name][column], about["rows"])

    def rows_of(name: str) -> np.ndarray | None:
        def number(column: str) -> np.ndarray:
            values = column_of(name, column)
            if values is None:
                return np.zeros(tables[name]["rows"], dtype=np.int64)
            return end_codes(values) if isinstance(values, Strings) else known(values)

        return chosen_rows(name, reach, number, event_ids)

    about_run = _read(path, "Metadata", tables["Metadata"], kind) if "Metadata" in tables else {}
    first_row = {name: values[0] for name, values in about_run.items()}
    whole = Whole.of(span, target_of(head["target"]), column_of, first_row, lines_of(head))
    reach = span.reach(whole.last_ns)
    event_ids: dict[str, np.ndarray] = {}
    rows: dict[str, np.ndarray | None] = {}
    for name in (*EVENTS, *(name for name in tables if name not in EVENTS)):
        if name in tables:
            rows[name] = chosen = rows_of(name)
            ids = column_of(name, "id") if name in EVENTS else None
            if isinstance(ids, np.ndarray) and chosen is not None:
                event_ids[name] = known(ids)[chosen]
    counts = [int(chosen.sum()) for n in EVENTS if (chosen := rows.get(n)) is not None]
    refuse_more(sum(counts), path.name, span)
    part = with_head(
        head,
        {
            name: columns
            for name, about in tables.items()
            if (columns := _read(path, name, about, kind, rows[name]))
        },
        rows.get(TRANSFERS),
    )
    return cut(part, span, whole, rows.get(TRANSFERS))


def _read(
    folder: Path,
    name: str,
    about: Mapping[str, Any],
    kind: str,
    rows: np.ndarray | None = None,
) -> dict[str, Any]:
    """Return the columns of a table, or those rows of them that a mask chooses; none where it chooses none."""
    wanted = about["columns"]
    if rows is not None and not rows.any():
        return {}
    if name not in TABLES or not set(wanted) <= set(TABLES[name]):
        raise BadFile(
            f"{folder.name} is not a readable profile: the schema has no such table",
            help=WRITTEN_BY,
        )
    file = folder / f"{name}.{kind}"
    if not file.is_file():
        raise BadFile(
            f"{folder.name} is not a readable profile: {file.name} is missing", help=WRITTEN_BY
        )
    try:
        if kind == "csv":
            columns = read_csv(file, name, wanted, about["empty"], rows)
        else:
            columns = read_parquet(file, name, wanted, rows)
    except (ValueError, KeyError, OSError, MemoryError):
        columns = {}
    count = about["rows"] if rows is None else int(rows.sum())
    if not columns or any(len(column) != count for column in columns.values()):
        raise BadFile(
            f"{folder.name} is not a readable profile: {file.name} is damaged", help=WRITTEN_BY
        )
    return columns


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a new folder to write into, which takes the place of `path` when all is written."""
    if os.path.exists(path) and not (is_folder(path) or _is_empty(path)):
        raise BadFile(
            f"{path} exists and is not a folder of tables that nki_lab wrote",
            help="choose another name, or remove it first",
        )
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            part.mkdir()
        except OSError as error:
            raise BadFile.unwritable(path, error) from None
        yield part
        try:
            if os.path.exists(path):
                old = path.with_name(f"{part.name}.old")
                path.rename(old)
                part.rename(path)
                shutil.rmtree(old, ignore_errors=True)
            else:
                part.rename(path)
        except OSError as error:
            raise BadFile.unwritable(path, error) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _is_empty(path: Path) -> bool:
    return path.is_dir() and next(path.iterdir(), None) is None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BadFile.unwritable(path, error) from None
    except UnicodeEncodeError:
        raise BadFile(
            f"{path} cannot be written: a name in the profile is not valid Unicode",
            help="write it as .json, which keeps any name",
        ) from None
