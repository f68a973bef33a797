"""Reports how far long work is to those who listen.

    with phase("simulating", iterator_position, total):
        ...

Loops report nothing: a phase says how far it is when somebody asks, from what its loop has anyway, such as the
position of an iterator. So loops cost the same whether somebody listens or not. Who listens is asked by a thread, and
only once work has taken a second: a notebook, or the command line (`listen`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence, Sized
from contextvars import Context, ContextVar, copy_context
from functools import wraps
from operator import length_hint
from typing import Any, ParamSpec, Protocol, TypeVar

from nki_lab.errors import show_place

_P = ParamSpec("_P")
_R = TypeVar("_R")
#: Work that takes no longer is not shown.
FIRST_S = 1.0
_EVERY_S = 0.2  # between two looks
_IDLE_S = 5.0  # after so long without work the thread ends


class ProgressDisplay(Protocol):
    """Shows one piece of work."""

    def show(self, fraction: float | None, text: str) -> None:
        """Show how far the work is, from 0 to 1 where that is known, and what is being done."""

    def end(self) -> None:
        """Take away what was shown: the work has ended."""


class phase:
    """A part of the work: what is done inside a `with` block. Parts lie in each other.

    Args:
        what: what is done, such as "timing".
        done: tells how many steps are done; it is called from another thread, so it only looks. By default that is
            the attribute `at`, which slow loops set.
        total: how many steps there are; 0 where that is not known.
        unit: what the steps are called, where the total is not known.
    """

    __slots__ = ("_work", "at", "done", "total", "unit", "what")

    def __init__(
        self, what: str, done: Callable[[], int] | None = None, total: int = 0, unit: str = ""
    ) -> None:
        self.what = what
        self.done = done
        self.total = total
        self.unit = unit
        self.at = 0
        self._work: _Work | None = None

    def __enter__(self) -> phase:
        work = _current.get()
        if work is None or work.ended:
            if _begin is None:
                return self
            _current.set(
                None
            )  # the copy of the context that work keeps is not to hold the work before it
            work = _Work()
            _current.set(work)
            _watcher.add(work)
        self._work = work
        work.phases.append(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        work = self._work
        if work is not None and self in work.phases:
            if isinstance(error, KeyboardInterrupt):
                show_place(error)
            # Those inside it, too, which an interrupt may have left.
            del work.phases[work.phases.index(self) :]
            if not work.phases:
                work.end()


def doing(what: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make each call of a function a phase (a decorator)."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with phase(what):
                return function(*args, **kwargs)

        return run

    return decorate


class counted:
    """An iterator over a sequence that a phase can ask how many of its items were taken."""

    __slots__ = ("_iterator", "total")

    def __init__(self, items: Sequence[Any]) -> None:
        self._iterator = iter(items)
        self.total = len(items)

    def __iter__(self) -> Any:
        return self._iterator  # the list's own: nothing is done for each item

    def done(self) -> int:
        """Return how many items were taken."""
        return self.total - length_hint(self._iterator)


def grown(collected: Sized) -> Callable[[], int]:
    """Return what tells how long a list is by now."""
    return collected.__len__


class _Work:
    """What runs in one context: its phases, the outermost first."""

    def __init__(self) -> None:
        self.phases: list[phase] = []
        self.since = time.monotonic()
        self.ended = False
        # Displays belong to the cell in which the work began. A context holds all that is recorded in it.
        self._context: Context | None = copy_context()
        self._display: ProgressDisplay | None = None
        self._nobody_looks = False
        self._lock = threading.Lock()

    def tell(self) -> None:
        """Show how far the work is, if it has taken long enough and somebody looks."""
        if self._nobody_looks or time.monotonic() - self.since < FIRST_S:
            return
        with self._lock:
            begin = _begin
            context = self._context
            if self.ended or begin is None or context is None:
                return
            if self._display is None:
                self._display = context.run(begin)
                self._nobody_looks = self._display is None
            if self._display is not None:
                context.run(self._display.show, *_state(list(self.phases)))

    def end(self) -> None:
        """Take away what is shown."""
        self.ended = True
        _watcher.works.discard(self)
        with self._lock:
            if self._display is not None and self._context is not None:
                self._context.run(self._display.end)
            self._display = self._context = None


def _state(phases: Sequence[phase]) -> tuple[float | None, str]:
    """Return how far work is, and a text: what it is about, what is done now, and how much of it."""
    fraction: float | None = None
    count = ""
    for part in reversed(phases):
        done = part.at if part.done is None else part.done()
        if part.total:
            fraction = min(max((done + (fraction or 0.0)) / part.total, 0.0), 1.0)
        elif part.unit and not count:
            count = f"{done:,} {part.unit}"
    named = list(dict.fromkeys(part.what for part in phases if part.what))
    text = ": ".join(named[:1] + named[1:][-1:])
    return fraction, ", ".join(filter(None, (text, count)))


class _Watcher:
    """The thread that looks how far work is."""

    def __init__(self) -> None:
        self.works: set[_Work] = set()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, work: _Work) -> None:
        """Watch some work, until it ends."""
        with self._lock:
            self.works.add(work)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="nki_lab", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        idle_since = time.monotonic()
        while True:
            time.sleep(_EVERY_S)
            works = self.works.copy()
            for work in works:
                work.tell()
            now = time.monotonic()
            if works:
                idle_since = now
            elif now - idle_since > _IDLE_S:
                with self._lock:
                    if not self.works:
                        self._thread = None
                        return


_watcher = _Watcher()
_current: ContextVar[_Work | None] = ContextVar("nki_lab_work", default=None)
_begin: Callable[[], ProgressDisplay | None] | None = None


def listen(begin: Callable[[], ProgressDisplay | None] | None) -> None:
    """Let `begin` be asked for a display by work that has taken a second; None: nobody listens any more.

    It is called from another thread, in the context in which the work began, and returns None where nobody looks.
    """
    global _begin
    _begin = begin


def _begin_alone() -> None:
    """Tell nobody in a copy of this process: its displays are those of the process it was made from."""
    global _watcher
    listen(None)
    _watcher = _Watcher()
    _current.set(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_alone)


def forget() -> None:
    """End whatever is shown: an interrupt may come between the end of work and its being told."""
    for work in _watcher.works.copy():
        work.end()
