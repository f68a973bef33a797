"""Several kernels over one size: a chart of each quantity below the other, and a table."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from nki_lab.profiler.text_table import text_table
from nki_lab.views.charts.forms import GRID, ChartForms, draw_title, plotly_layout
from nki_lab.views.head import MARGIN
from nki_lab.views.report.model import size_text
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, Paper
from nki_lab.widgets.theme import FAINT, INK, PAPER, RULE, SERIES

_PANEL, _LINE = 200, TEXT_HEIGHT + 6
_LEFT = MARGIN + 10 * LETTER


class SizeRow(NamedTuple):
    """A kernel at one size.

    Attributes:
        kernel: its name.
        size: the number that grows.
        time_us: time of one call.
        hbm_bytes: bytes moved from and to device memory.
        sbuf_bytes: most bytes of a partition that were in use.
    """

    kernel: str
    size: int
    time_us: float
    hbm_bytes: int
    sbuf_bytes: int


class _Quantity(NamedTuple):
    title: str
    value: Callable[[SizeRow], float]
    text: Callable[[float], str]


_QUANTITIES = (
    _Quantity("time us", lambda row: row.time_us, lambda value: f"{value:,.1f}"),
    _Quantity("HBM bytes", lambda row: row.hbm_bytes, lambda value: f"{value:,.0f}"),
    _Quantity("SBUF bytes", lambda row: row.sbuf_bytes, lambda value: f"{value:,.0f}"),
)


@dataclass(frozen=True)
class SizeChart(ChartForms):
    """Kernels that compute the same, over one number of their size; both axes are logarithmic.

    Attributes:
        title: what is compared, and whether it is modelled or measured.
        across: name of the number that grows.
        rows: every kernel at every size, in the order of the sizes.
    """

    title: str
    across: str
    rows: tuple[SizeRow, ...]

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return tuple(dict.fromkeys(row.kernel for row in self.rows))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes, the smallest first."""
        return tuple(dict.fromkeys(row.size for row in self.rows))

    def of(self, kernel: str) -> tuple[SizeRow, ...]:
        """Return the rows of a kernel."""
        return tuple(row for row in self.rows if row.kernel == kernel)

    def figure(self) -> Any:
        """Return the charts and the table as a plotly figure."""
        import plotly.graph_objects as go  # takes a second: only when a chart is wanted
        from plotly.subplots import make_subplots

        heads, table = self._table
        kinds = [[{"type": "xy"}]] * len(_QUANTITIES) + [[{"type": "table"}]]
        down = 26 * len(table) + 110
        heights = [240.0] * len(_QUANTITIES) + [float(down)]
        figure = make_subplots(
            len(kinds), 1, specs=kinds, row_heights=heights, vertical_spacing=0.06
        )
        axis = {"type": "log", "gridcolor": GRID}
        for row, quantity in enumerate(_QUANTITIES, 1):
            for kernel, colour in zip(self.kernels, SERIES, strict=False):
                points = self.of(kernel)
                values = [quantity.value(point) for point in points]
                trace = go.Scatter(
                    x=[point.size for point in points], y=values, mode="lines+markers",
                    name=html.escape(kernel, quote=False), legendgroup=kernel, showlegend=row == 1,
                    line={"color": colour.light}, text=[quantity.text(value) for value in values],
                    hovertemplate=f"{self.across}=%{{x}}: %{{text}}",
                )  # fmt: skip
                figure.add_trace(trace, row, 1)
            ticks = {"tickvals": self.sizes, "ticktext": [f"{size:,}" for size in self.sizes]}
            figure.update_xaxes(row=row, col=1, title=self.across, **axis, **ticks)
            figure.update_yaxes(row=row, col=1, title=quantity.title, **axis, dtick=1)
        cells = {
            "align": "right",
            "fill": {"color": PAPER.light},
            "font": {"color": INK.light, "size": 11},
        }
        columns = [list(column) for column in zip(heads, *table, strict=True)]
        columns[3][1:] = [size_text(row.hbm_bytes) for row in self.rows]  # a column has little room
        # Where a page draws the table out of sight, plotly leaves out texts that it might wrap.
        whole = [[text.replace(" ", "\N{NO-BREAK SPACE}") for text in column] for column in columns]
        body = go.Table(
            columnwidth=[3, 6, 3, 4, 3],
            header={"values": [column[0] for column in whole], **cells},
            cells={"values": [column[1:] for column in whole], **cells, "height": 26},
        )
        figure.add_trace(body, len(kinds), 1)
        title = html.escape(self.title, quote=False).replace(" (", "<br>(", 1)
        look = plotly_layout(self.title, sum(map(int, heights)) + 240)
        look["title"] |= {"text": title, "yref": "container", "y": 0.99, "yanchor": "top"}
        look |= {"margin": {"l": 70, "r": 20, "t": 90, "b": 20}}
        look["legend"] = {"orientation": "h", "y": 1.0, "yanchor": "bottom"}
        figure.update_layout(look)
        return figure

    @cached_property
    def _table(self) -> tuple[list[str], list[list[str]]]:
        """The heads of the table and its lines."""
        heads = [self.across, "kernel", *(quantity.title for quantity in _QUANTITIES)]
        lines = [
            [f"{row.size:,}", row.kernel, *(q.text(q.value(row)) for q in _QUANTITIES)]
            for row in self.rows
        ]
        return heads, lines

    @property
    def height(self) -> int:
        """Units that the picture takes down."""
        panel = _PANEL + 3 * _LINE + MARGIN
        return 3 * MARGIN + TEXT_HEIGHT + len(_QUANTITIES) * panel + _LINE * len(self.kernels)

    def draw(self, picture: Paper, top: float) -> None:
        """Draw a chart of each quantity from `top` down, and below them which colour is which kernel."""
        y = draw_title(picture, top, self.title)
        colours = dict(zip(self.kernels, SERIES, strict=False))
        for quantity in _QUANTITIES:
            self._panel(picture, y, quantity)
            y += _PANEL + 3 * _LINE + MARGIN
        for kernel, colour in colours.items():
            picture.dot(MARGIN + LETTER, y + TEXT_HEIGHT / 2, LETTER, colour)
            picture.text(MARGIN + 3 * LETTER, y, kernel)
            y += _LINE

    def _panel(self, picture: Paper, top: float, quantity: _Quantity) -> None:
        picture.text(MARGIN, top, f"{quantity.title}, over {self.across}", FAINT)
        first, last, right = top + _LINE + MARGIN, top + _LINE + _PANEL, picture.width - 4 * LETTER
        low, high = _ends([quantity.value(row) for row in self.rows])
        left, end = _ends(self.sizes)

        def place(size: float, value: float) -> tuple[float, float]:
            across = (math.log(size) - left) / (end - left) * (right - _LEFT)
            return _LEFT + across, last - (math.log(max(value, 1e-9)) - low) / (high - low) * (
                last - first
            )

        for value in (math.exp(low), math.exp((low + high) / 2), math.exp(high)):
            _, y = place(self.sizes[0], value)
            picture.fill(_LEFT, y, right - _LEFT, 1, RULE)
            text = size_text(value) if quantity.title != "time us" else quantity.text(value)
            picture.text(_LEFT - LETTER, y - TEXT_HEIGHT / 2, text, FAINT, end=True)
        for size in self.sizes:
            x, _ = place(size, 1)
            picture.fill(x, first, 1, last - first, RULE)
            text = f"{size:,}"
            picture.text(x + LETTER * len(text) / 2, last + 6, text, FAINT, end=True)
        for kernel, colour in zip(self.kernels, SERIES, strict=False):
            places = [place(row.size, quantity.value(row)) for row in self.of(kernel)]
            picture.line(places, colour)
            for x, y in places:
                picture.dot(x, y, LETTER, colour)

    def table_html(self) -> str:
        """Return the table as HTML."""
        heads, lines = self._table
        head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
        body = "".join(
            f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in line)}</tr>"
            for line in lines
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def __repr__(self) -> str:
        heads, lines = self._table
        return "\n".join([self.title, *text_table(heads, lines, None)])


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the logarithms between which positive values lie, apart from each other."""
    low, high = (math.log(max(value, 1e-9)) for value in (min(values), max(values)))
    return (low, high) if high - low > 1e-6 else (low - 0.7, high + 0.7)
