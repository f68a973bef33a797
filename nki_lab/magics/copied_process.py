"""Works on a copy of the notebook's state, which cannot change it, for a limited time.

In a child made by `fork`: it has all variables as they are at that moment and none of them afterwards. What it prints
goes nowhere. The notebook's kernel waits for the answer without standing still.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

#: Whether this system has what a copy needs.
AVAILABLE = hasattr(os, "fork") and hasattr(signal, "setitimer")


def in_copy(
    loop: asyncio.AbstractEventLoop | None,
    work: Callable[[], Any],
    done: Callable[[Any], None],
    seconds: float,
) -> None:
    """Call `work` in a copy of this process, and `done` in this one with the plain data it returned.

    `done` is given None where the time is up, or the copy ended without an answer.

    Args:
        loop: the running event loop of this thread; None waits for the answer here.
        work: what to do; it returns what JSON can hold.
        done: takes the answer.
        seconds: how long the copy may take.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # There are threads, none of which holds what the copy needs; should one, the time limit ends it.
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        _work(work, reading, writing, seconds)
    os.close(writing)
    if loop is None:
        done(_wait(pid, reading, seconds))
        return
    parts: list[bytes] = []
    os.set_blocking(reading, False)

    def end() -> None:
        timer.cancel()
        loop.remove_reader(reading)
        os.close(reading)
        _end(pid)
        done(_answer(parts))

    def read() -> None:
        try:
            part = os.read(reading, 1 << 16)
        except BlockingIOError:
            return
        if part:
            parts.append(part)
        else:
            end()

    timer = loop.call_later(seconds + 0.5, end)
    loop.add_reader(reading, read)


def _work(work: Callable[[], Any], reading: int, writing: int, seconds: float) -> None:
    """Do the work of the copy; never returns."""
    try:
        os.close(reading)
        # Ends the copy whatever it is doing, also where the kernel is too busy to look at the time.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        sys.breakpointhook = lambda *_, **__: None  # there is nobody to look
        sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
        with suppress(Exception), os.fdopen(writing, "wb") as file:
            file.write(json.dumps(work()).encode())
    finally:
        os._exit(0)


def _wait(pid: int, reading: int, seconds: float) -> Any:
    parts, until = [], time.monotonic() + seconds + 0.5
    with os.fdopen(reading, "rb") as file:
        while time.monotonic() < until:  # the copy ends by itself
            part = file.read(1 << 16)
            if not part:
                break
            parts.append(part)
    _end(pid)
    return _answer(parts)


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _answer(parts: list[bytes]) -> Any:
    try:
        return json.loads(b"".join(parts))
    except ValueError:
        return None
