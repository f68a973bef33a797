"""Curves over steps, such as the loss of a model while it is trained."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nki_lab.profiler.text_table import text_table
from nki_lab.views.charts.forms import GRID, ChartForms, draw_title, plotly_layout
from nki_lab.views.head import MARGIN
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, Paper
from nki_lab.widgets.theme import FAINT, RULE, SERIES

_HEIGHT, _LINE = 300, TEXT_HEIGHT + 6
_LEFT = MARGIN + 8 * LETTER
# Lines of the text, and marks of an axis.
_TOLD, _MARKS = 8, 5
# Points of the first curve, on which the others may lie.
_DOT = 9


@dataclass(frozen=True)
class CurveChart(ChartForms):
    """Curves over the same steps, which count from 0, of finite numbers.

    The first is drawn as points and the others as lines, so that they are seen where they agree.

    Attributes:
        title: what is shown.
        across, up: names of the axes.
        curves: the values of each curve by its name.
    """

    title: str
    across: str
    up: str
    curves: Mapping[str, Sequence[float]]

    @property
    def _steps(self) -> int:
        return max(map(len, self.curves.values()))

    @property
    def _ends(self) -> tuple[float, float]:
        values = [value for curve in self.curves.values() for value in curve]
        low, high = min(0.0, *values), max(0.0, *values)
        return low, high if high > low else low + 1.0

    def figure(self) -> Any:
        """Return the chart as a plotly figure."""
        import plotly.graph_objects as go  # takes a second: only when a chart is wanted

        traces = [
            go.Scatter(
                x=list(range(len(values))), y=list(values), mode="lines" if n else "markers",
                name=html.escape(name, quote=False), line={"color": colour.light, "width": 2},
                marker={"color": colour.light, "size": _DOT},
                hovertemplate=f"{html.escape(self.across, quote=False)} %{{x}}: %{{y}}",
            )
            for n, ((name, values), colour) in enumerate(zip(self.curves.items(), SERIES, strict=False))
        ]  # fmt: skip
        axis = {"gridcolor": GRID, "zerolinecolor": GRID}
        layout = plotly_layout(self.title, 380) | {
            "margin": {"l": 60, "r": 20, "t": 40, "b": 50},
            "legend": {"orientation": "h", "y": -0.2},
            "xaxis": {"title": {"text": self.across}, **axis},
            "yaxis": {"title": {"text": self.up}, "rangemode": "tozero", **axis},
        }
        return go.Figure(traces, layout)

    @property
    def height(self) -> int:
        """Units that the picture takes down."""
        return _HEIGHT + _LINE * len(self.curves) + MARGIN

    def draw(self, picture: Paper, top: float) -> None:
        """Draw the chart from `top` down: the curves, and below them which colour is which."""
        first = draw_title(picture, top, self.title) + _LINE
        right, last = picture.width - 4 * LETTER, top + _HEIGHT - 2 * _LINE - MARGIN
        low, high = self._ends
        longest = max(1, self._steps - 1)

        def place(step: float, value: float) -> tuple[float, float]:
            return (
                _LEFT + step / longest * (right - _LEFT),
                last - (value - low) / (high - low) * (last - first),
            )

        picture.text(MARGIN, first - _LINE - 4, self.up, FAINT)
        for mark in range(_MARKS):
            value = low + (high - low) * mark / (_MARKS - 1)
            _, y = place(0, value)
            picture.fill(_LEFT, y, right - _LEFT, 1, RULE)
            picture.text(_LEFT - LETTER, y - TEXT_HEIGHT / 2, f"{value:.3g}", FAINT, end=True)
        for step in sorted({longest * mark // (_MARKS - 1) for mark in range(_MARKS)}):
            x, _ = place(step, low)
            picture.fill(x, first, 1, last - first, RULE)
            name = f"{step:,}"
            picture.text(x + LETTER * len(name) / 2, last + 6, name, FAINT, end=True)
        picture.text(right, last + _LINE + 6, self.across, FAINT, end=True)
        y = top + _HEIGHT
        pairs = zip(self.curves.items(), SERIES, strict=False)
        for n, ((name, values), colour) in enumerate(pairs):
            places = [place(step, value) for step, value in enumerate(values)]
            if n:
                picture.line(places, colour)
                picture.fill(MARGIN, y + TEXT_HEIGHT / 2, 2 * LETTER, 2, colour)
            else:
                for point in places:
                    picture.dot(*point, _DOT, colour)
                picture.dot(MARGIN + LETTER, y + TEXT_HEIGHT / 2, _DOT, colour)
            picture.text(MARGIN + 3 * LETTER, y, name)
            y += _LINE

    def __repr__(self) -> str:
        told = sorted({(self._steps - 1) * n // (_TOLD - 1) for n in range(_TOLD)})
        lines = [
            [str(n), *(f"{c[n]:.4g}" if n < len(c) else "" for c in self.curves.values())]
            for n in told
        ]
        return "\n".join(
            [f"{self.title}: {self.up}", *text_table([self.across, *self.curves], lines, None)]
        )
