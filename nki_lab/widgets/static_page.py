"""A run as HTML without a script, where no live view can be shown."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping


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


def static_html(title: str, badge: str, texts: Mapping[str, str], note: str = "") -> str:
    """Return the texts of some views as HTML: no script, no style sheet, nothing from elsewhere.

    Args:
        title: one line on the run.
        badge: whether its times are modelled or measured.
        texts: view -> its text; the first one is open.
        note: why there is no live view.
    """
    parts = [f"<h4>{html.escape(title)}</h4>", f"<p>{html.escape(badge)}</p>"]
    for number, (view, text) in enumerate(texts.items()):
        opened = "" if number else " open"
        shown = html.escape(text)
        parts.append(f"<details{opened}><summary>{view}</summary><pre>{shown}</pre></details>")
    if note:
        parts.append(f"<p><em>{html.escape(note)}</em></p>")
    return f"<div>{''.join(parts)}</div>"
