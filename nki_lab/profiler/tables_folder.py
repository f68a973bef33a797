"""How is a profile kept as a folder with one file per table, as Neuron Explorer writes it?

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

from nki_lab.errors import BadFile
from nki_lab.profiler.columns import Column
from nki_lab.profiler.export_tables import empty_texts, read_csv, write_csv
from nki_lab.profiler.parquet_tables import arrow, read_parquet, write_parquet
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.profile_json import HEAD, check_head, dump, head_of, with_head
from nki_lab.profiler.reading import beginning_of, read_document, reading, write_whole
from nki_lab.profiler.schema import TABLES

#: Name of the file that tells what the others are.
INDEX = "profile.json"
#: A larger table DmaPacket is not written out; reading the profile gives it all the same.
MOST_PACKETS = 1_000_000


def save_folder(profile: Profile, path: str | Path, kind: str) -> Path:
    """Write every table of a profile that has rows into a folder, and return its path.

    A folder that holds a profile is replaced, in one step; any other one is left alone.

    Args:
        profile: what to write.
        path: the folder.
        kind: "csv" or "parquet".

    Raises BadFile where it cannot be written, UsageError where Parquet is asked for without pyarrow.
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


def _written(profile: Profile) -> Iterator[str]:
    """Yield the names of the tables to write."""
    for name in profile.table_names:
        follows = name == "DmaPacket" and profile.deals is not None
        if follows and int(profile.deals.packets.sum()) > MOST_PACKETS:  # type: ignore[union-attr]
            continue
        if profile.count(name):
            yield name


def _about(profile: Profile, name: str, columns: Mapping[str, Column], kind: str) -> dict[str, Any]:
    about: dict[str, Any] = {"rows": profile.count(name), "columns": list(columns)}
    if kind == "csv":
        about["empty"] = empty_texts(columns)
    return about


def is_folder(path: Path) -> bool:
    """Tell whether a path leads to a folder that `save_folder` wrote, by how its index begins."""
    return HEAD.match(beginning_of(path / INDEX)) is not None


def load_folder(path: str | Path) -> Profile:
    """Read a profile that `save_folder` wrote.

    Raises BadFile with one sentence when the folder is not such a one, damaged, or from a newer version.
    """
    path = Path(path)
    complaint = f"{path.name} is not a profile saved by nki_lab"
    if not (path / INDEX).is_file():
        raise BadFile(complaint, help=f"a folder of tables that nki_lab wrote has a file {INDEX}")
    text = read_document(path / INDEX, HEAD, complaint)
    check_head(text[:200], path.name)
    with reading(f"{path.name} is not a readable profile"):
        head = json.loads(text)
        kind = head["kind"]
        if kind not in ("csv", "parquet"):
            raise ValueError(f"no such kind of table: {kind}")
        return with_head(
            head,
            {name: _read(path, name, about, kind) for name, about in head["tables"].items()},
        )


def _read(folder: Path, name: str, about: Mapping[str, Any], kind: str) -> dict[str, Any]:
    wanted = about["columns"]
    if name not in TABLES or not set(wanted) <= set(TABLES[name]):
        raise BadFile(f"{folder.name} is not a readable profile: the schema has no such table")
    file = folder / f"{name}.{kind}"
    if not file.is_file():
        raise BadFile(f"{folder.name} is not a readable profile: {file.name} is missing")
    try:
        if kind == "csv":
            columns = read_csv(file, name, wanted, about["empty"])
        else:
            columns = read_parquet(file, name, wanted)
    except (ValueError, KeyError, OSError, MemoryError):
        columns = {}
    if not columns or any(len(column) != about["rows"] for column in columns.values()):
        raise BadFile(f"{folder.name} is not a readable profile: {file.name} is damaged")
    return columns


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a new folder to write into, which takes the place of `path` when all is written."""
    if os.path.exists(path) and not (is_folder(path) or _is_empty(path)):
        raise BadFile(
            f"{path} exists, and is no folder of tables that nki_lab wrote",
            help="choose another name, or remove it first",
        )
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            part.mkdir()
        except OSError as error:
            raise _unwritable(path, error) from None
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
            raise _unwritable(path, error) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _is_empty(path: Path) -> bool:
    return path.is_dir() and next(path.iterdir(), None) is None


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unwritable(path, error) from None
    except UnicodeEncodeError:
        raise BadFile(
            f"{path} cannot be written: a name in the profile is no text of Unicode",
            help="write it as .json, which keeps any name",
        ) from None


def _unwritable(path: Path, error: OSError) -> BadFile:
    return BadFile(f"{path} cannot be written: {error.strerror or type(error).__name__}")
