"""How does a notebook show a run?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from IPython.display import display

from nki_lab.errors import UsageError
from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Result
from nki_lab.source import Stack
from nki_lab.views.display import display as displayed


def profile_of(what: Any, stack: Stack = ()) -> Profile:
    """Return the profile of a Result, a Profile, or of the file of that name.

    Raises UsageError at `stack` for anything else, BadFile where a file holds none.
    """
    if isinstance(what, Result):
        return what.profile
    if isinstance(what, Profile):
        return what
    if isinstance(what, (str, Path)):
        return Profile.load(what)
    raise UsageError(
        f"found {type(what).__name__}, expected a run",
        stack=stack,
        help="name a Result such as add_result, a Profile, or the file of a stored profile in quotes",
    )


def show(
    result: Result | Profile,
    views: tuple[str, ...] | None,
    compare: Result | Profile | None = None,
    tells: bool = True,
) -> None:
    """Show the views of a run below the cell.

    Args:
        result: the run, or what is known of it from its profile.
        views: names of views; None is the choice of the display, an empty tuple shows nothing.
        compare: a run whose timeline is shown with it.
        tells: with another run, the text says where both differ.
    """
    if views is None or views:
        display(displayed(result, views, compare, tells))
