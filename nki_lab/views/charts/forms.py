"""A chart in three forms that say the same: text, a picture without script, and the data of a plotly figure."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

from nki_lab.views.head import MARGIN
from nki_lab.widgets.picture import (
    LETTER,
    SHOWN_WIDTH,
    TEXT_HEIGHT,
    WIDTH,
    Paper,
    VectorPicture,
    cut,
    named,
)
from nki_lab.widgets.static_page import picture_html
from nki_lab.widgets.theme import ENGINE_COLOURS, INK, PAPER, RULE, Colour

PLOTLY = "application/vnd.plotly.v1+json"
# Characters of a chart's text that stand for its picture.
_WORDS_LENGTH = 400
#: Of an axis of a plotly figure.
GRID = RULE.light


class ChartForms(ABC):
    """A chart, ready to be shown; its `repr` is its text.

    Attributes:
        title: what is shown, and whether it is modelled or measured.
    """

    title: str

    @abstractmethod
    def figure(self) -> Any:
        """Return the chart as a plotly figure."""

    @property
    @abstractmethod
    def height(self) -> int:
        """Units that the picture takes down."""

    @abstractmethod
    def draw(self, picture: Paper, top: float) -> None:
        """Draw the chart from `top` down."""

    def table_html(self) -> str:
        """Return what stands below the picture in HTML."""
        return ""

    def to_svg(self, theme: str = "light", width: int = WIDTH) -> str:
        """Return the chart as an SVG image in a theme, "light" or "dark", as many units wide."""
        picture = VectorPicture(width, self.height, theme)
        self.draw(picture, 0)
        return named(picture.done(), self.title).decode()

    @cached_property
    def _bundle(self) -> dict[str, Any]:
        svg = self.to_svg()
        words = " ".join(repr(self).split())[:_WORDS_LENGTH]
        bundle: dict[str, Any] = {
            "text/plain": repr(self),
            "image/svg+xml": svg,
            "text/html": picture_html(words, svg.encode(), "svg+xml", SHOWN_WIDTH)
            + self.table_html(),
        }
        try:
            bundle[PLOTLY] = self.figure().to_plotly_json()
        except ImportError:
            pass  # text and picture say the same
        return bundle

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return dict(self._bundle)


def plotly_layout(title: str, height: int) -> dict[str, Any]:
    """Return what the layouts of all figures have in common: the ground and the text of a light page."""
    return {
        "template": "none",
        "title": {"text": html.escape(title, quote=False), "font": {"size": 14}},
        "font": {"color": INK.light},
        "paper_bgcolor": PAPER.light,
        "plot_bgcolor": PAPER.light,
        "height": height,
    }


def colour_of(engine: str) -> Colour:
    """Return the colour of an engine in a picture; "" is that of text."""
    return ENGINE_COLOURS.get(engine, INK)


def letters_across(picture: Paper) -> int:
    """Return how many letters a line of a picture has room for."""
    return (picture.width - 2 * MARGIN) // LETTER


def draw_title(picture: Paper, top: float, title: str) -> float:
    """Write the title of a chart, without its brackets where it is long; returns where its drawing begins."""
    room = letters_across(picture)
    shown = title if len(title) <= room else cut(title.partition(" (")[0], room)
    picture.text(MARGIN, top + MARGIN, shown)
    return top + 2 * MARGIN + TEXT_HEIGHT
