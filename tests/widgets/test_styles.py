"""Tests that the styles of the views and those of the editor's marks leave each other alone.

Both are on one page in JupyterLab, and both call things `.nki-value`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nki_lab.widgets.modules import FOLDER, style_text

BASE = Path(__file__).parents[2] / "extension" / "style" / "base.css"
SHEETS = sorted(BASE.parent.glob("*.css"))
VIEW_CLASSES = {
    name
    for path in (*FOLDER.iterdir(), *FOLDER.parents[1].glob("views/*/*.js"))
    for name in re.findall(r"nki-[\w-]+", path.read_text("utf-8"))
}
HIGHLIGHT = BASE.parents[1] / "src" / "highlight.ts"


def selectors(css: str) -> list[str]:
    """Return the selectors of a style sheet, those inside @media and @container included."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    css = re.sub(r"@(?:media|container)[^{]*\{", "", css)
    heads = re.findall(r"([^{}]+)\{", css)
    return [part.strip() for head in heads for part in head.split(",")]


def test_selectors_are_found() -> None:
    css = "/* a */ .a, .b c { x: 1 }\n@media (w: 1) { .d { y: 2 } }\n@container (w: 2) { .e { z: 3 } }"
    assert selectors(css) == [".a", ".b c", ".d", ".e"]


@pytest.mark.parametrize("selector", sorted(set(selectors(style_text()))))
def test_styles_of_the_views_stay_in_the_views(selector: str) -> None:
    assert re.match(r"\.nki-view(?![\w-])", selector)


@pytest.mark.parametrize(
    ("sheet", "selector"),
    sorted({(sheet.name, s) for sheet in SHEETS for s in selectors(sheet.read_text("utf-8"))}),
)
def test_styles_of_the_extension_stay_out_of_the_views(sheet: str, selector: str) -> None:
    """A rule begins with a part of the page that is JupyterLab's, or with a class that no view has."""
    first = re.match(r"\S+", selector)[0]
    if not re.match(r"body(?![\w-])|\.(cm|jp|lm)-", first):
        (name, *_) = re.findall(r"\.(nki-[\w-]+)", first)
        assert name not in VIEW_CLASSES


def test_every_kind_of_mark_has_a_style() -> None:
    marks = re.findall(r"class: '([\w-]+)'", HIGHLIGHT.read_text("utf-8"))
    assert len(marks) == 7
    assert {f".cm-editor .{mark}" for mark in marks} <= set(selectors(BASE.read_text("utf-8")))
