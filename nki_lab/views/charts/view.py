"""The roofline of a run, how busy its engines are, and its DMA transfers by size and rate."""

from __future__ import annotations

from nki_lab.profiler.text_table import cut
from nki_lab.views.charts.forms import ChartForms
from nki_lab.views.charts.model import CHARTS
from nki_lab.views.page import ROOM, Page
from nki_lab.views.registry import Needs, View
from nki_lab.views.run import ViewData
from nki_lab.widgets.packing import pack
from nki_lab.widgets.picture import THEMES, WIDTH, Picture, VectorPicture, wrapped
from nki_lab.widgets.theme import FAINT

#: Units that charts are wide, in a wide and in a narrow output: letters are as large in both.
_WIDTHS = (WIDTH, 3 * WIDTH // 5)


def charts_text(data: ViewData, limit: int | None) -> list[str]:
    """Return every chart as text."""
    texts = [str(_drawn(data, name)) for name in CHARTS]
    return cut("\n\n".join(texts).split("\n"), limit)


def charts_parts(data: ViewData) -> bytes:
    """Return the picture of every chart with its text, packed."""
    charts = [_drawn(data, name) for name in CHARTS]
    return pack(
        [
            {
                "text": str(chart),
                "drawn": isinstance(chart, ChartForms)
                and {t: [chart.to_svg(t, width) for width in _WIDTHS] for t in THEMES},
            }
            for chart in charts
        ]
    )


def charts_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return every chart as a picture, below each other; one that cannot be drawn says why."""
    page = Page(data, paper, theme)
    for name in CHARTS:
        chart = _drawn(data, name)
        if isinstance(chart, ChartForms):
            chart.draw(page.picture, page.y)
            page.y += chart.height
        else:
            for line in wrapped(chart, ROOM):
                page.line(line, FAINT)
    return page.done()


def _drawn(data: ViewData, name: str) -> ChartForms | str:
    """Return a chart, or why there is none."""
    try:
        return CHARTS[name](data)
    except ValueError as problem:
        return f"{name}: {problem}"


VIEW = View(
    name="charts",
    title="Charts",
    needs=Needs.TIMES,
    text=charts_text,
    words="Roofline, busy engines and DMA transfers",
    parts={"charts": charts_parts},
    saved=("charts",),
    picture=charts_picture,
)
