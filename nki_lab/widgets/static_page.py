"""What does a run look like as HTML without a script, where no live view can be made?"""

from __future__ import annotations

import html

from nki_lab.profiler.report import badge
from nki_lab.profiler.view_data import ViewData
from nki_lab.profiler.view_text import known_text, summary

_LINES_SHOWN = 40


def static_html(data: ViewData, views: tuple[str, ...], note: str = "") -> str:
    """Return the texts of some views as HTML: no script, no style sheet, nothing from elsewhere.

    Args:
        data: the run.
        views: names of views.
        note: why there is no live view.
    """
    parts = [f"<h4>{html.escape(summary(data))}</h4>", f"<p>{html.escape(badge(data.profile))}</p>"]
    for view in views:
        text = html.escape(known_text(data, view, _LINES_SHOWN))
        opened = " open" if view == views[0] else ""
        parts.append(f"<details{opened}><summary>{view}</summary><pre>{text}</pre></details>")
    if note:
        parts.append(f"<p><em>{html.escape(note)}</em></p>")
    return f"<div>{''.join(parts)}</div>"
