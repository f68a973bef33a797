"""What does a run look like as HTML without a script, where no live view can be made?"""

from __future__ import annotations

import base64
import html

from nki_lab.profiler.report import badge
from nki_lab.profiler.view_data import ViewData
from nki_lab.profiler.view_text import known_text, summary

_LINES_SHOWN = 40


def picture_html(words: str, picture: bytes, kind: str, width: int | None = None) -> str:
    """Return a picture as HTML with a text for whoever does not see it: templates of nbconvert have no other place.

    Args:
        words: what the picture shows.
        picture: its file.
        kind: "png" or "svg+xml".
        width: in pixels of the page; by default its own.
    """
    packed = base64.b64encode(picture).decode()
    size = "" if width is None else f' width="{width}"'
    return f'<img alt="{html.escape(words)}"{size} src="data:image/{kind};base64,{packed}">'


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
