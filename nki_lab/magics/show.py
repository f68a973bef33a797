"""How does a notebook show a run?"""

from __future__ import annotations

from IPython.display import display

from nki_lab import widgets
from nki_lab.runtime import Result


def show(result: Result, views: tuple[str, ...] | None) -> None:
    """Show the views of a run below the cell.

    Args:
        result: the run.
        views: names of views; None is the choice of the display, an empty tuple shows nothing.
    """
    if views is None or views:
        display(widgets.display(result, views))
