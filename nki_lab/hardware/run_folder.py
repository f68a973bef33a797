"""Keeps what belongs to one run on a device in a folder of its own, and lets one run at a time have a core.

A run folder holds the author's text, the request and its arrays, the NEFF, the NTFF, what the tools exported and
printed, and `bundle.json` with versions and environment. The newest `KEPT` stay; a run that is under way keeps its own.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nki_lab.errors import ToolchainError
from nki_lab.hardware.child import unwritable

#: Run folders that are kept.
KEPT = 20
_PREFIX = "run_"
_BUNDLE = "bundle.json"
_WAIT_S = 0.2


class RunFolder:
    """The folder of one run.

    Attributes:
        path: where it is.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    @classmethod
    def new(cls, base: Path, name: str) -> RunFolder:
        """Make a folder for a run of a kernel, and remove the oldest ones that no run uses."""
        now = time.time_ns()
        stamp = time.strftime("%Y%m%d_%H%M%S", time.localtime(now // 10**9))
        path = base / f"{_PREFIX}{stamp}_{now % 10**9:09d}_{os.getpid()}_{name}"
        try:
            path.mkdir(parents=True)
            folder = cls(path)
            folder._lock = os.open(path / ".in_use", os.O_RDWR | os.O_CREAT, 0o600)
            _take(folder._lock)
        except OSError as error:
            raise unwritable(base, error) from None
        _remove_old(base, keep=path)
        return folder

    def release(self) -> None:
        """Say that the run has ended: from now on the folder may be removed."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __reduce__(self) -> tuple[Any, ...]:
        return RunFolder, (self.path,)

    def write(self, name: str, content: bytes | str) -> Path:
        """Write a file; ToolchainError where the disk is full or the folder is gone."""
        path = self.path / name
        try:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise unwritable(self.path, error) from None
        return path

    def read(self, name: str) -> bytes:
        """Return what a file holds; ToolchainError where it is gone."""
        try:
            return (self.path / name).read_bytes()
        except OSError:
            raise self.gone(name) from None

    def gone(self, name: str) -> ToolchainError:
        """Return the error of a file of the run that is not there any more."""
        return ToolchainError(
            f"{name} is not in the run folder {self.path}: somebody has removed it, or the run did not write it",
            help="run the kernel again; the folder of a run is kept until newer runs take its place",
        )

    def note(self, **facts: Any) -> None:
        """Add facts to the bundle's description."""
        described = {**self.described, **facts}
        self.write(_BUNDLE, json.dumps(described, indent=1, default=str) + "\n")

    @property
    def described(self) -> dict[str, Any]:
        """What the bundle says of itself; nothing where it is gone or damaged."""
        try:
            described = json.loads((self.path / _BUNDLE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return described if isinstance(described, dict) else {}


def compiled_before(base: Path, key: str) -> Path | None:
    """Return the NEFF of an earlier run of the same kernel, inputs, chip, versions and flags; None without."""
    for path in sorted(base.glob(f"{_PREFIX}*"), reverse=True):
        described = RunFolder(path).described
        neff = described.get("neff")
        if described.get("key") == key and isinstance(neff, str) and (path / neff).is_file():
            return path / neff
    return None


def _remove_old(base: Path, keep: Path) -> None:
    folders = sorted(p for p in base.glob(f"{_PREFIX}*") if p.is_dir() and p != keep)
    unused = [path for path in folders if not _is_used(path)]
    for path in unused[: max(len(folders) - KEPT + 1, 0)]:
        shutil.rmtree(path, ignore_errors=True)


def _is_used(path: Path) -> bool:
    try:
        lock = os.open(path / ".in_use", os.O_RDWR)
    except OSError:
        return False
    try:
        _take(lock)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _take(lock: int) -> None:
    """Take a lock of the operating system, or raise BlockingIOError where another process has it."""
    import fcntl  # late: no Windows has it, nor any Neuron device

    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def core_lock(base: Path, core: int, who: str, say: Callable[[str], None]) -> Iterator[int]:
    """Have a core alone inside a `with` block: wait for other notebooks, and say for whom; give the lock's descriptor.

    The lock is one of the operating system, which no process keeps that has ended. A child that holds the descriptor
    keeps the lock as long as it runs.
    """
    path = base / f"core_{core}.lock"
    try:
        base.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unwritable(base, error) from None
    told = False
    try:
        while True:
            try:
                _take(lock)
                break
            except BlockingIOError:
                if not told:
                    say(f"core {core} is used by {_holder(path)}: waiting until that run has ended")
                    told = True
                time.sleep(_WAIT_S)
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"pid": os.getpid(), "kernel": who}).encode(), 0)
        yield lock
    finally:
        os.close(lock)


def _holder(path: Path) -> str:
    try:
        holder: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return f"process {holder['pid']}, which runs {holder['kernel']}"
    except (OSError, ValueError, TypeError, KeyError):
        return "another run of nki_lab"
