"""A run as one page that opens anywhere, without kernel, server and network.

The page holds the script, the styles and the data of the live views. What a view asks for beyond the data
that the page has room for is answered with a sentence that says so, and the page tells which views that concerns.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nki_lab.widgets.modules import Script, page_text, style_text
from nki_lab.widgets.theme import theme_table

#: Bytes of data that one page holds, compressed.
PAGE_BYTES = 16_000_000
# Nothing may be fetched, from nowhere: the page is complete.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
# A page that was made for a theme says so as JupyterLab's own does, which the views look at, too.
_STYLE = """
body { margin: 16px; background: #ffffff; color: #1f2328; }
@media (prefers-color-scheme: dark) {
  body:not([data-jp-theme-light]) { background: #111111; color: #e6e6e6; }
}
body[data-jp-theme-light="false"] { background: #111111; color: #e6e6e6; }
.nki-view { --nki-around: 120px; }
"""


Recorded = Mapping[str, Sequence[bytes]]
Cut = Mapping[str, Sequence[str]]


def saved_page(
    head: Mapping[str, Any],
    tabs: Sequence[str],
    scripts: tuple[Script, ...],
    record: Callable[[Sequence[str], int], tuple[Recorded, Cut]],
    make_text: Callable[[], str],
    theme: str | None = None,
) -> str:
    """Return a page with views of a run.

    Args:
        head: what stands above the tabs.
        tabs: names of the views.
        scripts: the modules of the views.
        record: returns the blocks of data of some views in at most as many bytes, by the name of their part, and for
            each view the parts that have no room.
        make_text: returns the views in plain text, for a browser without scripts; asked after `record`.
        theme: "light" or "dark"; None follows the reader's system.
    """
    recorded, cut = record(tabs, PAGE_BYTES)
    state = {
        "head": dict(head) | {"note": _note(head.get("note", ""), cut)},
        "tabs": list(tabs),
        "theme": theme_table(),
        "parts": {
            name: [base64.b64encode(block).decode() for block in blocks]
            for name, blocks in recorded.items()
        },
        "cut": sorted({name for names in cut.values() for name in names}),
    }
    # A script element ends at "</script", whatever stands around it.
    data = json.dumps(state, separators=(",", ":")).replace("<", "\\u003c")
    themed = "" if theme is None else f' data-jp-theme-light="{str(theme == "light").lower()}"'
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{html.escape(head['title'])}</title>\n"
        f"<style>{style_text()}{_STYLE}</style>\n</head>\n<body{themed}>\n"
        f'<div id="run"></div>\n<noscript><pre>{html.escape(make_text())}</pre></noscript>\n'
        f'<script type="application/json" id="state">{data}</script>\n'
        f'<script type="module">\n{page_text(scripts)}</script>\n</body>\n</html>\n'
    )


def _note(note: str, cut: Mapping[str, Sequence[str]]) -> str:
    """Return what is said above the tabs, with the views of which parts are left out."""
    views = [tab for tab, names in cut.items() if names]
    if not views:
        return note
    room = (
        f"this page holds at most {PAGE_BYTES:,} bytes and leaves out parts of {', '.join(views)}"
    )
    return f"{note}; {room}" if note else room
