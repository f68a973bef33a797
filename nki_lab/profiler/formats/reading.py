"""Reads and writes files of nki_lab, and says what is wrong with a damaged one."""

from __future__ import annotations

import json
import re
import secrets
import stat
import struct
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nki_lab.errors import BadFile, UnknownTarget
from nki_lab.profiler.columns import Strings
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.tables import BadTable

#: Larger files are refused before they are read.
MAX_BYTES = 1 << 30
#: Characters of a name, and of any other text, in a file of ours.
MAX_NAME, MAX_TEXT = 10_000, 100_000
_BEGINNING = 200  # bytes that tell what a file is
_NAME_SHOWN = 80  # characters of a name that no file can have

WRITTEN_BY = "name a profile that nki_lab wrote, or write it again, with nki-lab profile -o FILE"
_COPY = "copy what it gives into a file first"


def read_document(path: Path, head: re.Pattern[bytes], complaint: str) -> str:
    """Return the text of a file that begins as `head` says; of another one only the beginning is read.

    Raises BadFile, with one sentence, where it cannot be read, is too large, or is not text (`complaint`).
    """
    try:
        return read_bytes(path, head).decode("utf-8")
    except UnicodeDecodeError:
        raise BadFile(complaint, help=WRITTEN_BY) from None


def read_bytes(path: Path, head: re.Pattern[bytes]) -> bytes:
    """Return what is in a file that begins as `head` says; of another one only the beginning is read.

    Raises BadFile, with one sentence, where it cannot be read or is too large.
    """
    try:
        if stat.S_ISFIFO(path.stat().st_mode):  # opening one waits for whoever writes
            raise BadFile(f"{path.name} cannot be read: it is a pipe, not a file", help=_COPY)
        with path.open("rb") as file:
            begun = file.read(_BEGINNING)
            if path.stat().st_size > MAX_BYTES:
                raise BadFile(
                    f"{path.name} is larger than {MAX_BYTES >> 20} MiB",
                    help="save a profile of this size as tables: a name that ends in .parquet",
                )
            # Anything else is refused before it is read whole.
            return begun + (file.read() if head.match(begun) else b"")
    except BadFile:
        raise  # a ValueError, too
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise BadFile(
            f"{path.name[:_NAME_SHOWN]} cannot be read: {reason}",
            help="name a file that is there and that you may read",
        ) from None
    except ValueError:
        raise BadFile(
            f"{path.name!r} cannot be read: it is not a valid file name",
            help="name a file that is there",
        ) from None


def beginning_of(path: Path) -> bytes:
    """Return how a file begins; nothing of what cannot be read, and of what is not a file."""
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(_BEGINNING)
    except (OSError, ValueError):  # also a name that no file can have
        return b""


def check_texts(profile: ProfileData, tables: Iterable[str]) -> None:
    """Raise BadTable where a file has a text that no list of a view has room for."""
    if len(profile.name) > MAX_NAME:
        raise BadTable(f"its name has {len(profile.name):,} characters, more than {MAX_NAME:,}")
    for table in tables:
        for name, column in profile.table(table).items():
            longest = max(map(len, column.values), default=0) if isinstance(column, Strings) else 0
            if longest > MAX_TEXT:
                raise BadTable(
                    f"table {table}: a text of column {name} has {longest:,} characters, more than {MAX_TEXT:,}"
                )


def write_whole(path: Path, content: str | Iterable[str | bytes]) -> None:
    """Write a file in one step, so that another process reads all of it, or what was there before.

    Args:
        path: the file.
        content: its text, or pieces of text or bytes.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with part.open("xb") as file:
            for piece in [content] if isinstance(content, str) else content:
                file.write(piece.encode() if isinstance(piece, str) else piece)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def reading(complaint: str, help: str = WRITTEN_BY) -> Iterator[None]:
    """Turn whatever goes wrong while a document is read into BadFile: `complaint`, what is wrong, and what to do."""
    try:
        yield
        return
    except BadFile:
        raise  # says already what is wrong
    except (json.JSONDecodeError, RecursionError):
        problem = "the JSON is damaged or cut off"
    except BadTable as error:
        problem = str(error)
    except UnknownTarget as error:
        problem = error.message
    except (
        KeyError,
        TypeError,
        AttributeError,
        AssertionError,
        ValueError,
        OverflowError,
        struct.error,
        zlib.error,
    ):
        problem = "a part of it is missing or of the wrong type"
    raise BadFile(f"{complaint}: {problem}", help=help)
