"""Points below lines, on axes that count in powers of ten."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nki_lab.views.charts.forms import (
    GRID,
    ChartForms,
    colour_of,
    draw_title,
    letters_across,
    plotly_layout,
)
from nki_lab.views.head import MARGIN
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, Paper, cut
from nki_lab.widgets.theme import FAINT, RULE

_HEIGHT = 480
_LEFT, _RIGHT, _BOTTOM = MARGIN + 9 * LETTER, 4 * LETTER, 60
_LINE = TEXT_HEIGHT + 6


@dataclass(frozen=True)
class ChartLine:
    """A straight line between points, named in the legend.

    Attributes:
        name: what it is.
        x, y: its points.
        engine: whose colour it has; "" is that of text.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    engine: str


@dataclass(frozen=True)
class Points:
    """Points of one kind; `joined` draws the way from each to the next.

    Attributes:
        name: what they are.
        x, y: where they are.
        texts: what is said of each.
        sizes: how large each is drawn, in pixels.
        engine: whose colour they have; "" is that of text.
        joined: they are steps of one way.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    texts: tuple[str, ...]
    sizes: tuple[float, ...]
    engine: str
    joined: bool = False


@dataclass(frozen=True)
class ScatterChart(ChartForms):
    """Points and lines on two logarithmic axes.

    Attributes:
        title: what is shown, and whether it is modelled or measured.
        across, up: names of the axes, with units.
        lines, points: what is drawn.
        text: the same in words.
    """

    title: str
    across: str
    up: str
    lines: tuple[ChartLine, ...]
    points: tuple[Points, ...]
    text: str

    @cached_property
    def _decades(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The powers of ten between which everything lies, across and up."""
        drawn: list[ChartLine | Points] = [*self.lines, *self.points]
        across = [x for part in drawn for x in part.x]
        return _decades(across), _decades([y for part in drawn for y in part.y])

    def figure(self) -> Any:
        """Return the chart as a plotly figure."""
        import plotly.graph_objects as go  # takes a second: only when a chart is wanted

        traces = [
            go.Scatter(
                x=line.x, y=line.y, mode="lines", name=html.escape(line.name, quote=False),
                line={"color": colour_of(line.engine).light, "width": 2}, hoverinfo="name",
            )
            for line in self.lines
        ]  # fmt: skip
        traces += [
            go.Scatter(
                x=points.x,
                y=points.y,
                mode="lines+markers" if points.joined else "markers",
                name=html.escape(points.name, quote=False),
                marker={"color": colour_of(points.engine).light, "size": list(points.sizes)},
                line={"color": colour_of(points.engine).light, "width": 1, "dash": "dot"},
                text=[html.escape(text, quote=False) for text in points.texts],
                hovertemplate="%{text}<extra></extra>",
            )
            for points in self.points
        ]
        axis = {"type": "log", "gridcolor": GRID, "dtick": 1}
        layout = plotly_layout(self.title, 380 + 60) | {
            "margin": {"l": 70, "r": 20, "t": 40, "b": 50},
            "legend": {"orientation": "h", "y": -0.2},
            # Whole decades: an axis that shows less than one would have no mark.
            "xaxis": {"title": {"text": self.across}, "range": list(self._decades[0]), **axis},
            "yaxis": {"title": {"text": self.up}, "range": list(self._decades[1]), **axis},
        }
        return go.Figure(traces, layout)

    @property
    def height(self) -> int:
        """Units that the picture takes down."""
        return _HEIGHT + _LINE * (len(self.lines) + len(self.points))

    def draw(self, picture: Paper, top: float) -> None:
        """Draw the chart from `top` down: what lies where, and below it which colour is what."""
        first = draw_title(picture, top, self.title) + _LINE + MARGIN
        right, last = picture.width - _RIGHT, top + _HEIGHT - _BOTTOM
        (x0, x1), (y0, y1) = self._decades

        def place(x: float, y: float) -> tuple[float, float]:
            across = (math.log10(x) - x0) / (x1 - x0) * (right - _LEFT)
            return _LEFT + across, last - (math.log10(y) - y0) / (y1 - y0) * (last - first)

        picture.text(MARGIN, first - _LINE - MARGIN, self.up, FAINT)
        picture.text(right, last + _LINE + 6, self.across, FAINT, end=True)
        for power in range(x0, x1 + 1):
            x, _ = place(10.0**power, 10.0**y0)
            picture.fill(x, first, 1, last - first, RULE)
            name = _power(power)
            end = min(x + LETTER * len(name) / 2, picture.width - LETTER)
            picture.text(end, last + 6, name, FAINT, end=True)
        for power in range(y0, y1 + 1):
            _, y = place(10.0**x0, 10.0**power)
            picture.fill(_LEFT, y, right - _LEFT, 1, RULE)
            picture.text(_LEFT - LETTER, y - TEXT_HEIGHT / 2, _power(power), FAINT, end=True)
        for line in self.lines:
            picture.line(list(map(place, line.x, line.y)), colour_of(line.engine))
        for points in self.points:
            colour, places = colour_of(points.engine), list(map(place, points.x, points.y))
            if points.joined and len(places) > 1:
                picture.line(places, colour)
            for (x, y), size in zip(places, points.sizes, strict=True):
                picture.dot(x, y, size, colour)
        y = top + _HEIGHT
        room = letters_across(picture) - 3
        for line in self.lines:
            picture.fill(MARGIN, y + TEXT_HEIGHT / 2, 2 * LETTER, 2, colour_of(line.engine))
            picture.text(MARGIN + 3 * LETTER, y, cut(line.name, room))
            y += _LINE
        for points in self.points:
            picture.dot(MARGIN + LETTER, y + TEXT_HEIGHT / 2, LETTER, colour_of(points.engine))
            # The title says what its brackets would: modelled or measured.
            name = points.texts[0].partition(" (")[0] if points.texts else points.name
            short = name if len(name) <= room else name.partition(": ")[2] or name
            picture.text(MARGIN + 3 * LETTER, y, cut(short, room))
            y += _LINE

    def __repr__(self) -> str:
        return f"{self.title}\n{self.text}"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten that enclose positive values."""
    if not values:
        return 0, 1
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _power(power: int) -> str:
    return (
        f"{10**power:,}" if 0 <= power <= 6 else f"10^{power}" if power > 0 else f"{10.0**power:g}"
    )
