"""The charts of a run.

    utilisation(result)       how busy each engine is
    transfer_sizes(result)    how many DMA transfers have which size
    transfer_rates(result)    how fast transfers of each size are
    roofline(*results)        runs below the roofs of their chip

A chart comes in three forms, as a run does: text, a picture, and a plotly figure for front ends that
draw those themselves. The figure travels as its data only; plotly's own script is never part of it.
The picture is SVG: beside a PNG, plotly's extension of JupyterLab shows the PNG and draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lab.percent import percent
from nki_lab.profiler.analyses.report import badge
from nki_lab.profiler.analyses.roofline import roofline as limits_of
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.source import printable
from nki_lab.views.charts.forms import (
    GRID,
    ChartForms,
    colour_of,
    draw_title,
    plotly_layout,
)
from nki_lab.views.charts.scatter import ChartLine, Points, ScatterChart
from nki_lab.views.head import MARGIN
from nki_lab.views.report.model import engine_rows, size_text
from nki_lab.views.run import ViewData
from nki_lab.widgets.picture import LETTER, TEXT_HEIGHT, Paper
from nki_lab.widgets.theme import ENGINE_LABELS, INK

_BAR_LETTERS = 40
#: Points of a chart, and lines of its text.
_POINTS_SHOWN, _TEXTS_SHOWN = 1_500, 30
# Units of a bar with the gap below it.
_ROW = TEXT_HEIGHT + 8


@dataclass(frozen=True)
class Chart(ChartForms):
    """Horizontal bars.

    Attributes:
        title: what is shown, and whether it is modelled or measured.
        unit: of the values.
        labels, values, notes: per bar its name, its length, and what is written beside it.
        engines: per bar the engine whose colour it has.
    """

    title: str
    unit: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    notes: tuple[str, ...]
    engines: tuple[str, ...]

    def figure(self) -> Any:
        """Return the chart as a plotly figure."""
        import plotly.graph_objects as go  # takes a second: only when a chart is wanted

        bars = go.Bar(
            x=self.values,
            y=self.labels,
            orientation="h",
            marker={"color": [colour_of(engine).light for engine in self.engines]},
            text=self.notes,
            textposition="auto",
            hovertemplate="%{y}: %{text}<extra></extra>",
        )
        axis = {"gridcolor": GRID, "zerolinecolor": INK.light}
        layout = plotly_layout(self.title, 110 + 30 * len(self.labels)) | {
            "margin": {"l": 110, "r": 20, "t": 40, "b": 40},
            "xaxis": {"title": {"text": self.unit}, **axis},
            "yaxis": {"autorange": "reversed", **axis},
        }
        return go.Figure(bars, layout)

    @property
    def height(self) -> int:
        """Units that the picture takes down."""
        return 3 * MARGIN + TEXT_HEIGHT + _ROW * len(self.labels)

    def draw(self, picture: Paper, top: float) -> None:
        """Draw the chart from `top` down."""
        y = draw_title(picture, top, self.title)
        left = MARGIN + LETTER * (1 + max(map(len, self.labels), default=0))
        room = picture.width - left - MARGIN - LETTER * (1 + max(map(len, self.notes), default=0))
        longest = max(self.values, default=0) or 1
        for k, label in enumerate(self.labels):
            picture.text(left - LETTER, y + k * _ROW, label, end=True)
            length = self.values[k] / longest * room
            if length:
                picture.fill(left, y + k * _ROW, length, TEXT_HEIGHT, colour_of(self.engines[k]))
            picture.text(left + length + LETTER / 2, y + k * _ROW, self.notes[k])

    def __repr__(self) -> str:
        longest = max(self.values, default=0) or 1
        width = max(map(len, self.labels), default=0)
        lines = [self.title]
        for label, value, note in zip(self.labels, self.values, self.notes, strict=True):
            bar = "#" * round(value / longest * _BAR_LETTERS)
            lines.append(f"  {label:<{width}}  {bar:<{_BAR_LETTERS}}  {note}".rstrip())
        return "\n".join(lines)


def utilisation(result: Any) -> Chart:
    """Chart the share of the time each engine and the DMA engines are busy.

    Args:
        result: a Result of `nki_lab.run`, a ViewData, or a Profile.
    """
    profile = _profile(result)
    rows = engine_rows(profile)
    return Chart(
        title=f"{printable(profile.name or 'kernel')}: busy share of the time ({badge(profile)})",
        unit="% of the time",
        labels=tuple(ENGINE_LABELS[row["engine"]] for row in rows),
        values=tuple(100 * row["share"] for row in rows),
        notes=tuple(percent(row["share"]) for row in rows),
        engines=tuple(row["engine"] for row in rows),
    )


def transfer_sizes(result: Any) -> Chart:
    """Chart how many DMA transfers have which size, in steps of powers of two.

    Args:
        result: a Result of `nki_lab.run`, a ViewData, or a Profile.
    """
    profile = _profile(result)
    moved = profile.numbers(TRANSFERS, "transfer_bytes")
    power = np.log2(np.maximum(moved, 1)).astype(np.int64)
    powers = range(int(power.min()), int(power.max()) + 1) if len(power) else range(0)
    counts = [int((power == p).sum()) for p in powers]
    return Chart(
        title=f"{printable(profile.name or 'kernel')}: DMA transfers by size ({badge(profile)})",
        unit="transfers",
        labels=tuple(f"from {size_text(1 << p)}" for p in powers),
        values=tuple(map(float, counts)),
        notes=tuple(f"{count:,}" for count in counts),
        engines=("dma",) * len(counts),
    )


def roofline(*results: Any) -> ScatterChart:
    """Chart runs below the roofs of their chip: operations per byte across, operations per second up.

    Several runs of one kernel are drawn as its way, in the order they are given.

    Args:
        results: Results of `nki_lab.run`, ViewData or Profiles, on one target.

    Raises ValueError where the runs are of different targets, or none uses the Tensor engine: then only the bytes
    count, and `result.roofline()` says what they allow.
    """
    profiles = [_profile(result) for result in results]
    if len({profile.target.name for profile in profiles}) != 1:
        raise ValueError("a roofline has the roofs of one chip: give runs of one target")
    limits = [(profile, limits_of(profile)) for profile in profiles]
    # The axes are logarithmic: what a file may also hold, such as negative operations, has no place on them.
    placed = [(p, r) for p, r in limits if min(r.flops, r.intensity or 0, r.total_ns) > 0]
    if not placed:
        raise ValueError(
            "no run moves bytes of HBM and uses the Tensor engine; print(result.roofline()) tells what bounds it"
        )
    target = profiles[0].target
    peak = target.tensor_peak_flops_per_ns / 1000  # TFLOP/s
    memory = min(target.hbm_bytes_per_ns, target.dma_bytes_per_ns_all_engines) / 1000  # TB/s
    balance = peak / memory
    intensities = [r.intensity for _, r in placed if r.intensity]
    left, right = min(*intensities, balance) / 8, max(*intensities, balance) * 8
    reached = [r.flops / r.total_ns / 1000 for _, r in placed]
    texts = []
    for number, ((profile, r), rate) in enumerate(zip(placed, reached, strict=True), 1):
        attainable = min(peak, memory * (r.intensity or 0))
        texts.append(
            f"{number}. {printable(profile.name or 'kernel')}: {r.intensity:,.1f} FLOP per byte,"
            f" {rate:,.2f} of {attainable:,.2f} TFLOP/s attainable ({badge(profile)})"
        )
    lines = (
        ChartLine(
            f"HBM and DMA: {1000 * memory:,.0f} GB/s",
            (left, balance),
            (left * memory, peak),
            "dma",
        ),
        ChartLine(
            f"Tensor engine, bfloat16: {peak:,.1f} TFLOP/s",
            (balance, right),
            (peak, peak),
            "tensor",
        ),
    )
    runs = Points(
        "runs", tuple(intensities), tuple(reached), tuple(texts), (11.0,) * len(texts), "",
        joined=len(texts) > 1,
    )  # fmt: skip
    names = printable(", ".join(dict.fromkeys(p.name or "kernel" for p, _ in placed)))
    return ScatterChart(
        title=f"{names}: roofline of {target.name} ({badge(profiles[0])})",
        across="FLOP per byte of HBM",
        up="TFLOP/s",
        lines=lines,
        points=(runs,),
        text="\n".join([*texts, *(str(r) for _, r in placed[-1:])]),
    )


def transfer_rates(result: Any) -> ScatterChart:
    """Chart how fast DMA transfers of each size are: bytes across, bytes per nanosecond up.

    Transfers of equal size and time are one point, the larger the more there are of them.

    Args:
        result: a Result of `nki_lab.run`, a ViewData, or a Profile.
    """
    profile = _profile(result)
    moved = profile.numbers(TRANSFERS, "transfer_bytes")
    lasted = profile.numbers(TRANSFERS, "duration_ns")
    is_timed = (moved > 0) & (lasted > 0)
    pairs, counts = np.unique(
        np.stack((moved[is_timed], lasted[is_timed]), axis=1), axis=0, return_counts=True
    )
    if len(pairs) > _POINTS_SHOWN:  # the most frequent say most
        kept = np.sort(np.argsort(-counts, kind="stable")[:_POINTS_SHOWN])
        pairs, counts = pairs[kept], counts[kept]
    sizes, times = pairs[:, 0].tolist(), pairs[:, 1].tolist()
    rates = tuple(size / ns for size, ns in zip(sizes, times, strict=True))
    texts = tuple(
        f"{count:,} x {size_text(size)} in {ns:,} ns: {rate:,.1f} B/ns"
        for count, size, ns, rate in zip(counts.tolist(), sizes, times, rates, strict=True)
    )
    drawn = tuple(6.0 + 4.0 * float(np.log10(count)) for count in counts)
    limit = profile.target.dma_bytes_per_ns_all_engines
    ends = (min(sizes) / 2.0, max(sizes) * 2.0) if sizes else (1.0, 10.0)
    roof = ChartLine(f"all DMA engines: {limit:,.0f} B/ns", ends, (limit, limit), "")
    points = Points("transfers", tuple(sizes), rates, texts, drawn, "dma")
    return ScatterChart(
        title=f"{printable(profile.name or 'kernel')}: rate of DMA transfers by size ({badge(profile)})",
        across="bytes of a transfer",
        up="bytes per ns",
        lines=(roof,),
        points=(points,),
        text="\n".join(_first(texts, "no transfer moved a byte")),
    )


def _first(texts: Sequence[str], nothing: str) -> list[str]:
    more = len(texts) - _TEXTS_SHOWN
    return [*texts[:_TEXTS_SHOWN], *([f"... {more:,} more"] if more > 0 else [])] or [nothing]


def _profile(result: Any) -> Profile:
    if isinstance(result, Profile):
        return result
    return result.profile if isinstance(result, ViewData) else result.view_data.profile


#: Name -> the chart of a run.
CHARTS: dict[str, Callable[[Any], ChartForms]] = {
    "roofline": roofline,
    "utilisation": utilisation,
    "transfer_sizes": transfer_sizes,
    "transfer_rates": transfer_rates,
}
