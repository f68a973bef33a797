"""What do all views of a run share: what stands above their tabs, and which line has which colour?"""

from __future__ import annotations

from typing import Any

from nki_lab.profiler.line_costs import line_costs
from nki_lab.profiler.report import badge
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.profiler.view_data import ViewData

#: Lines that get a colour at once; runs of more events leave that to the views.
COLOURED_LINES = 64
_EVENTS_SUMMED = 20_000


def view_head(data: ViewData) -> dict[str, Any]:
    """Return title, target, whether times are modelled or measured, and the costliest lines.

    Colours go to the lines in the order of `lines`, so that those which take most time have one of their own, and
    have the same one whichever view is opened first.
    """
    target = data.profile.target
    return {
        "title": data.name,
        "target": f"{target.name} ({target.core_name})",
        "badge": badge(data.profile),
        "modelled": data.profile.is_simulation,
        "lines": _costliest(data),
    }


def _costliest(data: ViewData) -> list[str]:
    profile = data.profile
    if profile.count("Instruction") + profile.count(TRANSFERS) > _EVENTS_SUMMED:
        return []
    costs = sorted(line_costs(data), key=lambda cost: -cost.total_ns)
    return [cost.place.heading for cost in costs if cost.executed][:COLOURED_LINES]
