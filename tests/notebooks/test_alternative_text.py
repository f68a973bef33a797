"""Tests that every exported picture says in words what it shows, for readers who do not see it."""

from __future__ import annotations

import base64
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest

from nki_lab.views.display import display
from nki_lab.views.registry import view_names
from tests.notebooks.front_ends import displays, every_view, executed
from tests.views.runs import added

pytestmark = [pytest.mark.notebook, pytest.mark.slow]

#: What the words on a view's picture have to name.
NAMED = {
    "report": "Report", "findings": "Findings", "source": "Lines of the kernel", "ir": "program", "layout": "tensors",
    "array": "Tensor engine", "memory": "SBUF", "stepper": "Values", "timeline": "Timeline", "graph": "Flow",
    "vary": "parameters", "charts": "Roofline",
}  # fmt: skip


class Pictures(HTMLParser):
    """Collects the attributes of the pictures of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[dict[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.found.append(dict(attrs))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the notebook of every view and chart, executed and in a file."""
    folder = tmp_path_factory.mktemp("every")
    nbformat.write(executed(every_view(), folder), folder / "every.ipynb")
    return folder / "every.ipynb"


def test_nbconvert_misses_no_text_and_each_says_what_is_shown(stored: Path):
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "html", stored.name],
        cwd=stored.parent, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "Alternative text" not in done.stderr, done.stderr
    pictures = Pictures(stored.with_suffix(".html").read_text("utf-8")).found
    shown = displays(nbformat.read(stored, as_version=4))
    assert len(pictures) == len(shown) == 1 + len(view_names()) + 1 + 4
    words = [" ".join((picture["alt"] or "").split()) for picture in pictures]
    for view, text in zip(("report", *view_names()), words, strict=False):
        assert NAMED[view] in text
        assert "of product on trn2: " in text and " us modelled" in text and "bound by" in text
    assert "beside that of product on trn2" in words[len(view_names()) + 1]
    for text in words[-4:]:
        assert len(text) > 40 and "product" in text
    # The size is what it was: as wide as it is told, and as high as that makes it.
    assert all(picture.get("width") == "800" for picture in pictures[: len(view_names()) + 2])


def test_the_words_are_in_every_form_of_a_picture():
    for view in view_names():
        bundle, metadata = display(added(), (view,))._repr_mimebundle_()
        words = metadata["image/png"]["alt"]
        assert NAMED[view] in words
        [picture] = Pictures(bundle["text/html"]).found
        assert picture["alt"] == words and picture["width"] == "800"
        kind, _, packed = (picture["src"] or "").partition(";base64,")
        png, svg = (display(added(), (view,)).to_image(form) for form in ("png", "svg"))
        assert base64.b64decode(packed) == (png if kind == "data:image/png" else svg)
        assert len(base64.b64decode(packed)) == min(len(png), len(svg))
        [title] = [e.text for e in ElementTree.fromstring(svg) if e.tag.endswith("title")]
        assert title == words
