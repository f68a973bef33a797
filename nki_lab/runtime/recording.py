"""Which kernels ran inside a block?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from nki_lab.runtime.result import Result

_open: ContextVar[list[Result] | None] = ContextVar("nki_lab_runs", default=None)
_listeners: list[Callable[[Result], None]] = []


@contextmanager
def record_runs() -> Iterator[list[Result]]:
    """Collect the Result of every kernel run inside a `with` block, in the order they ended.

    Whoever records shows the findings of the runs; they are not issued as warnings.
    """
    runs: list[Result] = []
    token = _open.set(runs)
    try:
        yield runs
    finally:
        _open.reset(token)


def recording() -> bool:
    """Tell whether a block around the caller records."""
    return _open.get() is not None


def on_run(tell: Callable[[Result], None] | None) -> None:
    """Have `tell` called with every run of the process, recorded or not; None ends that.

    One listener is enough: the notebook's list of runs. It is called before whoever called the kernel has the result.
    """
    _listeners[:] = [] if tell is None else [tell]


def record(result: Result) -> None:
    """Add a run to the innermost recording, if there is one, and tell who listens."""
    for tell in _listeners:
        tell(result)
    runs = _open.get()
    if runs is not None:
        runs.append(result)
