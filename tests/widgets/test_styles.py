"""Do the styles of the views and those of the editor's marks leave each other alone?

Both are on one page in JupyterLab, and both call things `.nki-value`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nki_lab.widgets.modules import FOLDER, style_text

BASE = Path(__file__).parents[2] / "extension" / "style" / "base.css"
PROGRESS = BASE.with_name("progress.css")
HIGHLIGHT = BASE.parents[1] / "src" / "highlight.ts"


def selectors(css: str) -> list[str]:
    """Return the selectors of a style sheet, those inside @media included."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    css = re.sub(r"@media[^{]*\{", "", css)
    heads = re.findall(r"([^{}]+)\{", css)
    return [part.strip() for head in heads for part in head.split(",")]


def test_selectors_are_found() -> None:
    css = "/* a */ .a, .b c { x: 1 }\n@media (w: 1) { .d { y: 2 } }"
    assert selectors(css) == [".a", ".b c", ".d"]


@pytest.mark.parametrize("selector", sorted(set(selectors(style_text()))))
def test_styles_of_the_views_stay_in_the_views(selector: str) -> None:
    assert re.match(r"\.nki-view(?![\w-])", selector)


@pytest.mark.parametrize("selector", sorted(set(selectors(BASE.read_text("utf-8")))))
def test_styles_of_marks_stay_in_editors(selector: str) -> None:
    # The line of progress and the cards of explanations are of their own, of names that no view has.
    assert re.match(r"(body(?![\w-])|\.cm-editor |\.nki-(progress|card)(?![\w-]))", selector)


def test_no_view_has_a_line_of_progress() -> None:
    assert not any("nki-progress" in path.read_text("utf-8") for path in FOLDER.iterdir())


@pytest.mark.parametrize("selector", sorted(set(selectors(PROGRESS.read_text("utf-8")))))
def test_styles_of_the_bar_stay_in_it(selector: str) -> None:
    assert re.match(r"\.jp-Cell > \.nki-progress(?![\w-])", selector)


def test_every_kind_of_mark_has_a_style() -> None:
    marks = re.findall(r"class: '([\w-]+)'", HIGHLIGHT.read_text("utf-8"))
    assert len(marks) == 7
    assert {f".cm-editor .{mark}" for mark in marks} <= set(selectors(BASE.read_text("utf-8")))
