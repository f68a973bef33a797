"""The picture that stands for a view where nothing is alive."""

from __future__ import annotations

from nki_lab.errors import UnknownOption
from nki_lab.profiler.analyses.report import badge, bound_sentence
from nki_lab.views.head import summary
from nki_lab.views.registry import Parts, views
from nki_lab.views.run import ViewData
from nki_lab.views.texts import view_text
from nki_lab.widgets.picture import (
    LETTER,
    PAPERS,
    TEXT_HEIGHT,
    THEMES,
    WIDTH,
    Picture,
    VectorPicture,
    cut,
    named,
    wrapped,
)
from nki_lab.widgets.theme import FAINT, INK

_MARGIN = 12
_LINES_SHOWN = 60

PaperKind = type[Picture] | type[VectorPicture]


def view_picture(parts: Parts, view: str, format: str = "png", theme: str = "light") -> bytes:
    """Return a view as a picture; one without its own drawing is its text.

    Args:
        parts: the run.
        view: name of the view.
        format: "png" or "svg".
        theme: "light" or "dark".
    """
    if format not in PAPERS or theme not in THEMES:
        raise UnknownOption(
            f"there is no picture of format `{format}` and theme `{theme}`",
            help=f"formats: {', '.join(PAPERS)}; themes: {', '.join(THEMES)}",
        )
    draw = views()[view].picture
    paper = PAPERS[format]
    picture = parts.call(draw, paper, theme) if draw else _text(parts.data, view, paper, theme)
    return named(picture, picture_words(parts, view)) if format == "svg" else picture


def picture_words(parts: Parts, view: str) -> str:
    """Return what the picture of a view shows, in words for whoever does not see it."""
    data, other, shown = parts.data, parts.other, views()[view]
    beside = f", beside that of {summary(other)}" if other is not None and shown.compares else ""
    return f"{shown.words} of {summary(data)}{beside}; bound by {bound_sentence(data.profile)}"


def _text(data: ViewData, view: str, paper: PaperKind, theme: str) -> bytes:
    room = (WIDTH - 2 * _MARGIN) // LETTER
    told = view_text(data, view, _LINES_SHOWN).split("\n")
    lines = [part for line in told for part in wrapped(line, room)]
    line_height = TEXT_HEIGHT + 4
    picture = paper(WIDTH, 2 * _MARGIN + line_height * (len(lines) + 3), theme)
    heads = [(summary(data), INK), (badge(data.profile), FAINT), ("", INK)]
    for k, (line, colour) in enumerate([*heads, *((line, INK) for line in lines)]):
        picture.text(_MARGIN, _MARGIN + k * line_height, cut(line, room), colour)
    return picture.done()
