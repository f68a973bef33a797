"""What stands above the tabs of a run?"""

from __future__ import annotations

from typing import Any

from nki_lab.profiler.report import badge
from nki_lab.profiler.view_data import ViewData


def view_head(data: ViewData) -> dict[str, Any]:
    """Return title, target, and whether times are modelled or measured."""
    target = data.profile.target
    return {
        "title": data.name,
        "target": f"{target.name} ({target.core_name})",
        "badge": badge(data.profile),
        "modelled": data.profile.is_simulation,
    }
