"""What stands above every view of a run: its name, chip, time, and the costliest lines."""

from __future__ import annotations

from typing import Any

from nki_lab.profiler.analyses.report import badge
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.source import text_of
from nki_lab.views.run import ViewData
from nki_lab.views.source.costs import line_costs
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, WIDTH, Paper, cut
from nki_lab.widgets.theme import FAINT

#: Pixels around a picture.
MARGIN = 12
#: Lines that get a colour at once; runs of more events leave that to the views.
COLOURED_LINES = 64
_EVENTS_SUMMED = 20_000


def summary(data: ViewData) -> str:
    """Return one line on a run: which kernel ran, where, and for how long."""
    profile = data.profile
    what = data.state or f"{profile.total_ns / 1000:,.3f} us {profile.origin}"
    return text_of([f"{data.name} on {profile.target.name}: {what}"])


def heading(picture: Paper, data: ViewData, *notes: str, line: int = TEXT_HEIGHT + 8) -> None:
    """Write what a picture is of, and a few notes below it; by default whether times are modelled or measured."""
    room = (WIDTH - 2 * MARGIN) // LETTER
    picture.text(MARGIN, MARGIN, cut(summary(data), room))
    for k, note in enumerate(notes or (data.state or badge(data.profile),), 1):
        picture.text(MARGIN, MARGIN + k * line, cut(note, room), FAINT)


def view_head(data: ViewData) -> dict[str, Any]:
    """Return title, target, whether times are modelled or measured, and the costliest lines.

    Colours go to the lines in the order of `lines`, so that those which take most time have one of their own, and
    have the same one whichever view is opened first.
    """
    target = data.profile.target
    return {
        "title": data.name,
        "target": f"{target.name} ({target.core_name})",
        "badge": data.state or badge(data.profile),
        "modelled": data.profile.is_simulation,
        "state": data.state,
        "lines": _costliest(data),
    }


def _costliest(data: ViewData) -> list[str]:
    profile = data.profile
    if profile.count("Instruction") + profile.count(TRANSFERS) > _EVENTS_SUMMED:
        return []
    costs = sorted(line_costs(data), key=lambda cost: -cost.total_ns)
    return [cost.place.heading for cost in costs if cost.executed][:COLOURED_LINES]
