"""Runs a program as a child process of ours: streams what it prints, limits its time, and ends it and nothing else."""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nki_lab.errors import DeviceTimedOut, DiskFull, ToolchainError
from nki_lab.source import headline

#: Bytes of output that are kept of a child: its last ones, where errors stand.
KEPT_BYTES = 1 << 18
#: Bytes of output that are written to the file.
FILE_BYTES = 16 << 20
#: Seconds that a child has to give up the device before it is killed.
GRACE_S = 5.0
_LOOK_S = 0.05


@dataclass(frozen=True)
class Ended:
    """A child that has ended by itself.

    Attributes:
        code: its exit code; negative, the signal that killed it.
        output: the last part of what it printed, both streams in order.
    """

    code: int
    output: str


def run_child(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    say: Callable[[str], None] | None = None,
    held: Sequence[int] = (),
) -> Ended:
    """Run a program until it ends; whatever ends this call ends the program and all it has started.

    Args:
        arguments: the program and its arguments.
        folder: its working folder; what it prints is kept there in output.txt.
        environment: its variables.
        seconds: after so long it is ended, and TimedOut raised.
        say: is given each line that it prints; None keeps them silent.
        held: file descriptors that it holds open, so that a lock lasts as long as it runs.
    """
    name = Path(arguments[0]).name
    output = _Output(
        folder / "output.txt", say
    )  # first: where it cannot be written, nothing is started
    try:
        child = subprocess.Popen(
            arguments,
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its process group is ended as a whole, and is no other's
            pass_fds=tuple(held),
        )
    except OSError as error:
        output.close()
        raise ToolchainError(
            f"{name} cannot be started: {headline(error)}",
            help="look at %nki_doctor, which shows the interpreter and the tools that are used",
        ) from None
    try:
        _follow(child, output, time.monotonic() + seconds)
    except _Expired:
        _end(child)
        raise DeviceTimedOut(
            f"{name} was ended after {seconds:g} seconds; it had printed {output.last() or 'nothing'}",
            notes=(f"all it printed is in {folder / 'output.txt'}",),
            help="look for an endless loop, or give a larger --timeout",
        ) from None
    except BaseException:  # an interrupt, or a time limit of the cell
        _end(child)
        raise
    finally:
        _end(child, at_once=True)
        output.close()
    return Ended(child.returncode, output.text)


class _Expired(Exception):
    """The time of a child is over."""


def _follow(child: subprocess.Popen[bytes], output: _Output, deadline: float) -> None:
    """Take what a child prints until it has ended."""
    assert child.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        is_open = True
        while True:
            ended = _has_ended(child)  # asked first: what it printed before is read below
            while is_open and selector.select(0 if ended else _LOOK_S):
                data = os.read(child.stdout.fileno(), 1 << 16)
                is_open = bool(data)
                output.take(data)
            if ended:
                return
            if not is_open:
                time.sleep(_LOOK_S)
            if time.monotonic() > deadline:
                raise _Expired


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Tell whether a child has ended, and leave its number taken, so that no other process can have it."""
    if child.returncode is not None:
        return True
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: subprocess.Popen[bytes], at_once: bool = False) -> None:
    """End a child and what it has started, first kindly: the runtime then gives the device up."""
    if child.returncode is not None:
        return
    if not at_once:
        _signal(child, signal.SIGTERM)
        limit = time.monotonic() + GRACE_S
        while not _has_ended(child) and time.monotonic() < limit:
            time.sleep(_LOOK_S)
    _signal(child, signal.SIGKILL)
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            stream.close()
    child.wait()


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        pass


class _Output:
    """What a child prints."""

    def __init__(self, path: Path, say: Callable[[str], None] | None) -> None:
        self._say = say
        self._kept = bytearray()
        self._line = b""
        self._written = 0
        try:
            self._file = open(path, "ab")  # noqa: SIM115 - closed with the child
        except OSError as error:
            raise unwritable(path.parent, error) from None

    def take(self, data: bytes) -> None:
        """Keep a part of the output, and tell the lines that are complete."""
        self._kept += data
        del self._kept[:-KEPT_BYTES]
        if self._written < FILE_BYTES:
            self._written += len(data)
            try:
                self._file.write(data)
            except OSError:  # a full disk: what it printed is still shown
                self._written = FILE_BYTES
        *lines, rest = (self._line + data).split(b"\n")
        self._line = rest[-KEPT_BYTES:]
        for line in lines:
            self._tell(line)

    def _tell(self, line: bytes) -> None:
        if self._say is not None:
            self._say(line.decode(errors="replace").rstrip("\r"))

    @property
    def text(self) -> str:
        """The last part of the output."""
        return self._kept.decode(errors="replace")

    def last(self) -> str:
        """Return the last line that is not empty."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        return repr(lines[-1][:200]) if lines else ""

    def close(self) -> None:
        """Tell an unfinished line, and close the file."""
        if self._line:
            self._tell(self._line)
            self._line = b""
        try:
            self._file.close()
        except OSError:
            pass


def unwritable(folder: Path, error: OSError) -> ToolchainError:
    """Return the error of a run folder that cannot be written."""
    kind = DiskFull if error.errno == errno.ENOSPC else ToolchainError
    return kind(
        f"the run folder {folder} cannot be written: {error.strerror or headline(error)}",
        help="make room on its disk, or name another folder with NKI_LAB_DEVICE_RUNS",
    )
