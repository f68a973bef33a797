"""Where are plans of compiled programs kept from one process to the next?

In one SQLite file of the user's cache folder: SQLite gives whole writes, several processes at a time, and a bound on
what is kept. The store can only save time: whatever is wrong with it, the passes run as if there were none.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

from nki_lab import __version__

#: Bytes of plans that are kept; the least recently used ones are dropped first.
LIMIT_BYTES = 256 << 20
FILE_NAME = "plans.sqlite3"
_T = TypeVar("_T")
_BUSY_SECONDS = 1.0  # how long another process may hold the file before one goes on without it
_LAYOUT = """
CREATE TABLE IF NOT EXISTS plans (
    key TEXT PRIMARY KEY, plan BLOB NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL, used REAL NOT NULL
)
"""


class Store:
    """Plans by the digest of what they were made of.

    Attributes:
        folder: where the file is; it is made when something is kept.
        limit: bytes that are kept at most.
    """

    def __init__(self, folder: Path, limit: int = LIMIT_BYTES) -> None:
        self.folder = folder
        self.limit = limit

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / FILE_NAME

    def get(self, key: str) -> Any:
        """Return what was kept under a key; None where there is nothing, or nothing that can be relied on."""
        if not os.path.exists(
            self.path
        ):  # unlike Path.exists, False for whatever cannot be looked at
            return None
        row = self._with(lambda file: _take(file, key))
        if row is None:
            return None
        packed, digest = row
        if type(packed) is not bytes or hashlib.sha256(packed).hexdigest() != digest:
            return None
        with suppress(zlib.error, ValueError, RecursionError):  # kept by something else
            return json.loads(zlib.decompress(packed))
        return None

    def put(self, key: str, value: Any) -> None:
        """Keep a value of plain data, and drop the least recently used ones beyond the limit."""
        packed = zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)
        if len(packed) > self.limit:
            return
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
        row = key, packed, hashlib.sha256(packed).hexdigest(), len(packed), time.time()

        def keep(file: sqlite3.Connection) -> None:
            file.execute("INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?, ?)", row)
            file.execute(_DROP, (self.limit,))

        self._with(keep)

    def size(self) -> int:
        """Return how many bytes the file has."""
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    def _with(self, act: Callable[[sqlite3.Connection], _T]) -> _T | None:
        """Do something with the file in one transaction; None where something is wrong with it."""
        try:
            with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as file, file:
                file.execute("PRAGMA auto_vacuum = FULL")
                file.execute(_LAYOUT)
                return act(file)
        except sqlite3.OperationalError:  # busy, no space, no permission
            return None
        except (sqlite3.DatabaseError, ValueError, MemoryError):
            # Damaged, also in texts and sizes, or another kind of file: begin a new one.
            with suppress(OSError):
                self.path.unlink()
            return None


def _take(file: sqlite3.Connection, key: str) -> Any:
    row = file.execute("SELECT plan, sha256 FROM plans WHERE key = ?", (key,)).fetchone()
    if row is not None:
        file.execute("UPDATE plans SET used = ? WHERE key = ?", (time.time(), key))
    return row


# Beyond the limit: all rows whose size, added to those used later, exceeds it.
_DROP = """
DELETE FROM plans WHERE key IN (
    SELECT key FROM (SELECT key, SUM(size) OVER (ORDER BY used DESC, key) AS total FROM plans) WHERE total > ?
)
"""


def store_of(setting: str) -> Store | None:
    """Return the store a setting asks for: a folder, `cache` for that of the user, or `none`.

    None also where the folder is in the home of a user that there is not.
    """
    if setting in ("none", ""):
        return None
    with suppress(RuntimeError):
        if setting == "cache":
            return Store(platformdirs.user_cache_path("nki_lab"))
        return Store(Path(setting).expanduser())
    return None


@cache
def own_version() -> str:
    """Return what tells this nki_lab from others, with changes of its files that have no version yet."""
    folder = Path(__file__).parent.parent
    facts = [
        (str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*.py"))
    ]
    return f"{__version__} {hashlib.sha256(repr(facts).encode()).hexdigest()}"
