"""How does a notebook show a run?"""

from __future__ import annotations

from nki_lab.options.views import view_text
from nki_lab.runtime import Result


def show(result: Result, views: tuple[str, ...] | None) -> None:
    """Show the views of a run below the cell.

    Args:
        result: the run.
        views: names of views; None is the choice of the display, an empty tuple shows nothing.
    """
    for view in ("report",) if views is None else views:
        print()
        print(view_text(result, view))
