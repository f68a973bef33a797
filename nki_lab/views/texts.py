"""The texts of the views, and where two runs differ."""

from __future__ import annotations

from nki_lab.profiler.analyses.compare import compare_profiles
from nki_lab.profiler.text_table import cut
from nki_lab.source import text_of
from nki_lab.views.registry import views
from nki_lab.views.run import ViewData


def known_text(data: ViewData, view: str, lines: int | None = None) -> str:
    """Return the text of a view without computing anything for it: no variant of the kernel is timed."""
    chosen = views()[view]
    return text_of((chosen.known_text or chosen.text)(data, lines))


def view_text(data: ViewData, view: str, lines: int | None = None) -> str:
    """Return one view of a run as plain text, the same on every run and machine.

    Args:
        data: the run.
        view: its name.
        lines: limits the lines; the last one says how many more there are. None is no limit.
    """
    return text_of(views()[view].text(data, lines))


def comparison_lines(first: ViewData, second: ViewData, limit: int | None = None) -> list[str]:
    """Return where two runs differ, line by line; lines of the author are matched by their text."""
    texts = [
        {place.label: place.text.strip() for place in run.lines[1]} if run.lines else {}
        for run in (first, second)
    ]
    comparison = compare_profiles(
        first.profile, second.profile, lambda run, place: texts[run].get(place, "")
    )
    return cut(str(comparison).split("\n"), limit)
