"""What do the notebook and the command line say about a run?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nki_lab.profiler import view_text as texts

if TYPE_CHECKING:
    from nki_lab.runtime import Result


def view_text(result: Result, view: str) -> str:
    """Return one view of a run (see `nki_lab.options.table.VIEWS`) as plain text."""
    return texts.view_text(result.view_data, view)


def summary(result: Result) -> str:
    """Return one line on a run: which kernel ran, where, and for how long."""
    return texts.summary(result.view_data)
