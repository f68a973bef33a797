"""Points below lines, on axes that count in powers of ten."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nki_lab.views.charts.forms import GRID, ChartForms, plotly_layout, svg_opening
from nki_lab.widgets.theme import INK_ON_ANY

_WIDTH, _HEIGHT = 700, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 24, 34, 46


@dataclass(frozen=True)
class ChartLine:
    """A straight line between points, with a name written at its end."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    colour: str


@dataclass(frozen=True)
class Points:
    """Points of one kind; `joined` draws the way from each to the next.

    Attributes:
        name: what they are.
        x, y: where they are.
        texts: what is said of each.
        sizes: how large each is drawn, in pixels.
        colour: #rrggbb.
        joined: they are steps of one way.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    texts: tuple[str, ...]
    sizes: tuple[float, ...]
    colour: str
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
                line={"color": line.colour, "width": 2}, hoverinfo="name",
            )
            for line in self.lines
        ]  # fmt: skip
        traces += [
            go.Scatter(
                x=points.x,
                y=points.y,
                mode="lines+markers" if points.joined else "markers",
                name=html.escape(points.name, quote=False),
                marker={"color": points.colour, "size": list(points.sizes)},
                line={"color": points.colour, "width": 1, "dash": "dot"},
                text=[html.escape(text, quote=False) for text in points.texts],
                hovertemplate="%{text}<extra></extra>",
            )
            for points in self.points
        ]
        axis = {"type": "log", "gridcolor": GRID, "dtick": 1}
        layout = plotly_layout(self.title, _HEIGHT + 60) | {
            "margin": {"l": 70, "r": 20, "t": 40, "b": 50},
            "legend": {"orientation": "h", "y": -0.2},
            # Whole decades: an axis that shows less than one would have no mark.
            "xaxis": {"title": {"text": self.across}, "range": list(self._decades[0]), **axis},
            "yaxis": {"title": {"text": self.up}, "range": list(self._decades[1]), **axis},
        }
        return go.Figure(traces, layout)

    def to_svg(self) -> str:
        """Return the chart as an SVG image."""
        (x0, x1), (y0, y1) = self._decades

        def place(x: float, y: float) -> tuple[float, float]:
            across = (math.log10(x) - x0) / (x1 - x0) * (_WIDTH - _LEFT - _RIGHT)
            up = (math.log10(y) - y0) / (y1 - y0) * (_HEIGHT - _TOP - _BOTTOM)
            return round(_LEFT + across, 1), round(_HEIGHT - _BOTTOM - up, 1)

        parts = [
            *svg_opening(self.title, _WIDTH, _HEIGHT),
            f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">{html.escape(self.across)}</text>',
            f'<text x="{_LEFT + 4}" y="{_TOP + 8}">{html.escape(self.up)}</text>',
        ]
        for power in range(x0, x1 + 1):
            x, low = place(10.0**power, 10.0**y0)
            parts.append(_rule(x, _TOP, x, low))
            parts.append(
                f'<text x="{x}" y="{low + 16}" text-anchor="middle">{_power(power)}</text>'
            )
        for power in range(y0, y1 + 1):
            left, y = place(10.0**x0, 10.0**power)
            parts.append(_rule(left, y, _WIDTH - _RIGHT, y))
            parts.append(
                f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{_power(power)}</text>'
            )
        for line in self.lines:
            way = " ".join(f"{x},{y}" for x, y in map(place, line.x, line.y))
            x, y = place(line.x[-1], line.y[-1])
            parts.append(
                f'<polyline points="{way}" fill="none" stroke="{line.colour}" stroke-width="2"/>'
            )
            parts.append(
                f'<text x="{x - 4}" y="{y - 6}" text-anchor="end" fill="{line.colour}">{html.escape(line.name)}</text>'
            )
        for points in self.points:
            places = list(map(place, points.x, points.y))
            if points.joined and len(places) > 1:
                way = " ".join(f"{x},{y}" for x, y in places)
                parts.append(
                    f'<polyline points="{way}" fill="none" stroke="{points.colour}" stroke-dasharray="3 3"/>'
                )
            for (x, y), size, text in zip(places, points.sizes, points.texts, strict=True):
                parts.append(
                    f'<circle cx="{x}" cy="{y}" r="{size / 2:g}" fill="{points.colour}" fill-opacity="0.8">'
                    f"<title>{html.escape(text)}</title></circle>"
                )
        return "".join([*parts, "</svg>"])

    def __repr__(self) -> str:
        return f"{self.title}\n{self.text}"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten that enclose positive values."""
    if not values:
        return 0, 1
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _rule(x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<line x1="{x0}" y1="{y0}" x2="{x1}" y2="{y1}" stroke="{INK_ON_ANY}" stroke-opacity="0.3"/>'


def _power(power: int) -> str:
    return (
        f"{10**power:,}" if 0 <= power <= 6 else f"10^{power}" if power > 0 else f"{10.0**power:g}"
    )
