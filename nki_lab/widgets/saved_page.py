"""How does a run become one page that opens anywhere, without kernel, server and network?

The page holds the script, the styles and the data of the live views. What a view asks for beyond the data
that the page has room for is answered with a sentence that says so.
"""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from typing import Any

from nki_lab.profiler.view_text import view_text
from nki_lab.widgets.modules import page_text, style_text
from nki_lab.widgets.parts import Parts

#: Bytes of data that one page holds, compressed.
PAGE_BYTES = 16_000_000
_TEXT_LINES = 40
# Nothing may be fetched, from nowhere: the page is complete.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_STYLE = """
body { margin: 16px; background: #ffffff; color: #1f2328; }
@media (prefers-color-scheme: dark) { body { background: #111111; color: #e6e6e6; } }
.nki-view .nki-panel { height: calc(100vh - 120px); }
"""


def saved_page(parts: Parts, head: dict[str, Any], tabs: Sequence[str], theme: Any) -> str:
    """Return a page with views of a run.

    Args:
        parts: the run.
        head: what stands above the tabs.
        tabs: names of the views.
        theme: the table of colours.
    """
    state = {
        "head": head,
        "tabs": list(tabs),
        "theme": theme,
        "parts": {
            name: [base64.b64encode(block).decode() for block in blocks]
            for name, blocks in parts.recorded(tabs, PAGE_BYTES).items()
        },
    }
    # A script element ends at "</script", whatever stands around it.
    data = json.dumps(state, separators=(",", ":")).replace("<", "\\u003c")
    text = "\n\n".join(view_text(parts.data, tab, _TEXT_LINES) for tab in tabs)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{html.escape(parts.data.name)}</title>\n"
        f"<style>{style_text()}{_STYLE}</style>\n</head>\n<body>\n"
        f'<div id="run"></div>\n<noscript><pre>{html.escape(text)}</pre></noscript>\n'
        f'<script type="application/json" id="state">{data}</script>\n'
        f'<script type="module">\n{page_text()}</script>\n</body>\n</html>\n'
    )
