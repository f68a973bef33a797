"""Shows a run below a cell."""

from __future__ import annotations

from IPython.display import display

from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Result
from nki_lab.views.display import display as displayed


def show(
    result: Result | Profile,
    views: tuple[str, ...] | None,
    compare: Result | Profile | None = None,
    tells: bool = True,
) -> None:
    """Show the views of a run below the cell.

    Args:
        result: the run, or a profile of it.
        views: names of views; None is the choice of the display, an empty tuple shows nothing.
        compare: a run whose timeline is shown with it.
        tells: with another run, the text says where both differ.
    """
    if views is None or views:
        display(displayed(result, views, compare, tells))
