"""Configures Sphinx for the documentation site. `make docs` builds it, with every warning an error."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import nki_lab  # noqa: E402
from docs.generate import write_pages  # noqa: E402

project = "nki_lab"
author = "nki_lab developers"
version = release = nki_lab.__version__
extensions = ["myst_parser"]
nitpicky = True
myst_heading_anchors = 2
highlight_language = "text"
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_title = f"nki_lab {release}"
# Everything a reader sees comes with the site: no fonts, scripts or pictures from elsewhere.
html_show_sourcelink = False
html_copy_source = False


def setup(app) -> None:  # noqa: D103
    from pygments.lexers.special import TextLexer

    app.add_lexer("nkir", TextLexer)
    app.connect("builder-inited", lambda app: write_pages(HERE / "generated"))
