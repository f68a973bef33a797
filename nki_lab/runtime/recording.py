"""Records which kernels ran inside a block, and warns of the findings of those that nobody recorded."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from nki_lab.ir.program.nodes import Finding
from nki_lab.runtime.result import Result
from nki_lab.source import Span, is_internal, text_of


class _Recording:
    """A block that records, and its runs while it is open: contexts that are kept for longer hold this too."""

    def __init__(self, runs: list[Result]) -> None:
        self.runs: list[Result] | None = runs


_open: ContextVar[_Recording | None] = ContextVar("nki_lab_runs", default=None)
_listeners: list[Callable[[Result], None]] = []


@contextmanager
def record_runs() -> Iterator[list[Result]]:
    """Collect the Result of every kernel run inside a `with` block, in the order they ended.

    Whoever records shows the findings of the runs; they are not issued as warnings.
    """
    runs: list[Result] = []
    block = _Recording(runs)
    token = _open.set(block)
    try:
        yield runs
    finally:
        _open.reset(token)
        block.runs = None


def _runs() -> list[Result] | None:
    block = _open.get()
    return None if block is None else block.runs


class NkiWarning(UserWarning):
    """A finding of a kernel that was called directly, where no report lists findings."""


def warn_of(result: Result) -> None:
    """Warn of the findings of a run, at their lines; not inside a block that records."""
    if _runs() is None:
        warn_of_findings(result.findings)


# What `warnings` has shown, for each file: with the usual filters a fact is shown once for its line.
_shown: dict[str, dict[Any, Any]] = {}


def warn_of_findings(findings: Iterable[Finding]) -> None:
    """Warn of all findings but advice, each at its line in the author's text."""
    warned = []
    for finding in findings:
        if finding.kind == "advice":
            continue
        text = text_of([finding.message + (f"; {finding.help}" if finding.help else "")])
        filename, line = _place(finding)
        shown = _shown.setdefault(filename, {})
        key = text, NkiWarning, line
        # Another call may tell the same with other numbers.
        same = re.sub(r"[\d,.]+", "0", text), NkiWarning, line
        if same in shown:
            shown[key] = True
        warnings.warn_explicit(text, NkiWarning, filename, line, registry=shown)
        warned.append((shown, key, same))
    for shown, key, same in warned:
        if key in shown:
            shown[same] = True


def _place(finding: Finding) -> tuple[str, int]:
    """Return the file and line of a finding; of the call where it has none."""
    if finding.stack:
        span = Span.of(finding.stack[0])
        return span.filename, span.line
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and is_internal(frame.f_code):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def on_run(tell: Callable[[Result], None] | None) -> None:
    """Have `tell` called with every run of the process, recorded or not; None ends that.

    One listener is enough: the notebook's list of runs. It is called before whoever called the kernel has the result.
    """
    _listeners[:] = [] if tell is None else [tell]


def record(result: Result) -> None:
    """Add a run to the innermost recording, if there is one, and tell who listens."""
    for tell in _listeners:
        tell(result)
    runs = _runs()
    if runs is not None:
        runs.append(result)
