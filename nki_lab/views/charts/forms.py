"""A chart in three forms that say the same: text, a picture without script, and the data of a plotly figure."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

from nki_lab.widgets.static_page import picture_html
from nki_lab.widgets.theme import INK_ON_ANY

PLOTLY = "application/vnd.plotly.v1+json"
#: Of an axis of a plotly figure.
# Characters of a chart's text that stand for its picture.
_WORDS_LENGTH = 400
GRID = "rgba(128,128,128,0.3)"


class ChartForms(ABC):
    """A chart, ready to be shown; its `repr` is its text."""

    @abstractmethod
    def figure(self) -> Any:
        """Return the chart as a plotly figure."""

    @abstractmethod
    def to_svg(self) -> str:
        """Return the chart as an SVG image."""

    @cached_property
    def _bundle(self) -> dict[str, Any]:
        svg = self.to_svg()
        words = " ".join(repr(self).split())[:_WORDS_LENGTH]
        bundle: dict[str, Any] = {
            "text/plain": repr(self),
            "image/svg+xml": svg,
            "text/html": picture_html(words, svg.encode(), "svg+xml"),
        }
        try:
            bundle[PLOTLY] = self.figure().to_plotly_json()
        except ImportError:
            pass  # text and picture say the same
        return bundle

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return dict(self._bundle)


def plotly_layout(title: str, height: int) -> dict[str, Any]:
    """Return what the layouts of all figures have in common: they take the colours of the page."""
    return {
        "template": "none",
        "title": {"text": html.escape(title, quote=False), "font": {"size": 14}},
        "font": {"color": INK_ON_ANY},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "height": height,
    }


def svg_opening(title: str, width: int, height: int) -> list[str]:
    """Return the beginning of a picture, with its title."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12" fill="{INK_ON_ANY}" role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<text x="8" y="17" font-size="13">{html.escape(title)}</text>',
    ]
