"""The roofline of a run, how busy its engines are, and its DMA transfers by size and rate."""

from __future__ import annotations

from nki_lab.profiler.text_table import cut
from nki_lab.views.charts.forms import ChartForms
from nki_lab.views.charts.model import CHARTS
from nki_lab.views.registry import Needs, View
from nki_lab.views.run import ViewData
from nki_lab.widgets.packing import pack


def charts_text(data: ViewData, limit: int | None) -> list[str]:
    """Return every chart as text."""
    texts = [str(_drawn(data, name)) for name in CHARTS]
    return cut("\n\n".join(texts).split("\n"), limit)


def charts_parts(data: ViewData) -> bytes:
    """Return the picture of every chart with its text, packed."""
    charts = [_drawn(data, name) for name in CHARTS]
    return pack(
        [
            {"text": str(chart), "svg": chart.to_svg() if isinstance(chart, ChartForms) else ""}
            for chart in charts
        ]
    )


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
    words="Text with the roofline, the engines and the DMA transfers",
    parts={"charts": charts_parts},
    saved=("charts",),
)
