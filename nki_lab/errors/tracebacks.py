"""Tracebacks of errors: what IPython shows of them, and what stays of them in memory."""

from __future__ import annotations

import sys

from nki_lab.errors.nki_error import NkiError
from nki_lab.source import authors_traceback, headline, printable, stack_in_cells


def show_place(error: BaseException) -> None:
    """Let IPython show what ended a cell from outside with its place in the author's text, without our frames."""

    # IPython asks an exception for this before it makes its own traceback.
    error._render_traceback_ = _place_lines  # type: ignore[attr-defined]


def _place_lines() -> list[str]:
    # The error that is handled when IPython asks, since its whole traceback is known then. The error itself must not be
    # held by what it holds: it and all its frames would stay.
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if error is None:
        return []
    shown = NkiError("", stack=stack_in_cells(error)).render(heading=True)
    return [*map(printable, headline(error).split("\n")), *shown[1:]]


def without_our_frames(error: BaseException) -> None:
    """Let an error keep the author's frames alone.

    An error is kept until the next one, for debuggers; frames of the simulator would keep memories and arrays with it.
    """
    error.__traceback__ = authors_traceback(error.__traceback__)
    if error.__suppress_context__:
        error.__context__ = None
    for one in getattr(error, "errors", ()):
        without_our_frames(one)
