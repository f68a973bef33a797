"""Which small charts does a run have beside its views?

A chart comes in three forms, as a run does: text, a picture, and a plotly figure for front ends that
draw those themselves. The figure travels as its data only; plotly's own script is never part of it.
The picture is SVG: beside a PNG, plotly's extension of JupyterLab shows the PNG and draws nothing.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from nki_lab.profiler.profile import Profile
from nki_lab.profiler.report import badge
from nki_lab.profiler.schema import TRANSFERS
from nki_lab.profiler.view_data import ViewData
from nki_lab.widgets.report_model import engine_rows, size_text
from nki_lab.widgets.theme import ENGINE_LABELS, ENGINE_ON_ANY, INK_ON_ANY

_PLOTLY = "application/vnd.plotly.v1+json"
_BAR_LETTERS = 40
# Of the picture: its width, a row, and a letter at its widest.
_WIDTH, _ROW, _LETTER = 700, 26, 7


@dataclass(frozen=True)
class Chart:
    """Horizontal bars.

    Attributes:
        title: what is shown, and whether it is modelled or measured.
        unit: of the values.
        labels, values, notes: per bar its name, its length, and what is written beside it.
        colours: per bar #rrggbb.
    """

    title: str
    unit: str
    labels: tuple[str, ...]
    values: tuple[float, ...]
    notes: tuple[str, ...]
    colours: tuple[str, ...]

    def figure(self) -> Any:
        """Return the chart as a plotly figure."""
        import plotly.graph_objects as go  # takes a second: only when a chart is wanted

        bars = go.Bar(
            x=self.values,
            y=self.labels,
            orientation="h",
            marker={"color": list(self.colours)},
            text=self.notes,
            textposition="auto",
            hovertemplate="%{y}: %{text}<extra></extra>",
        )
        axis = {"gridcolor": "rgba(128,128,128,0.3)", "zerolinecolor": INK_ON_ANY}
        layout = {
            "template": "none",
            "title": {"text": html.escape(self.title, quote=False), "font": {"size": 14}},
            "font": {"color": INK_ON_ANY},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "height": 110 + 30 * len(self.labels),
            "margin": {"l": 110, "r": 20, "t": 40, "b": 40},
            "xaxis": {"title": {"text": self.unit}, **axis},
            "yaxis": {"autorange": "reversed", **axis},
        }
        return go.Figure(bars, layout)

    def to_svg(self) -> str:
        """Return the chart as an SVG image."""
        left = 20 + _LETTER * max(map(len, self.labels), default=0)
        room = _WIDTH - left - 16 - _LETTER * max(map(len, self.notes), default=0)
        longest = max(self.values, default=0) or 1
        height = 34 + _ROW * len(self.labels)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="12" fill="{INK_ON_ANY}">',
            f'<text x="8" y="17" font-size="13">{html.escape(self.title)}</text>',
        ]
        for k, label in enumerate(self.labels):
            y = 30 + k * _ROW
            length = round(self.values[k] / longest * room, 1)
            text = f'y="{y + 14}">{html.escape(label)}</text>'
            note = f'y="{y + 14}">{html.escape(self.notes[k])}</text>'
            parts += [
                f'<text x="{left - 8}" text-anchor="end" {text}',
                f'<rect x="{left}" y="{y + 2}" width="{length}" height="{_ROW - 6}" fill="{self.colours[k]}"/>',
                f'<text x="{left + length + 6}" {note}',
            ]
        return "".join([*parts, "</svg>"])

    def __repr__(self) -> str:
        longest = max(self.values, default=0) or 1
        width = max(map(len, self.labels), default=0)
        lines = [self.title]
        for label, value, note in zip(self.labels, self.values, self.notes, strict=True):
            bar = "#" * round(value / longest * _BAR_LETTERS)
            lines.append(f"  {label:<{width}}  {bar:<{_BAR_LETTERS}}  {note}".rstrip())
        return "\n".join(lines)

    @cached_property
    def _bundle(self) -> dict[str, Any]:
        bundle: dict[str, Any] = {
            "text/plain": repr(self),
            "image/svg+xml": self.to_svg(),
        }
        try:
            bundle[_PLOTLY] = self.figure().to_plotly_json()
        except ImportError:
            pass  # text and picture say the same
        return bundle

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return dict(self._bundle)


def utilisation(result: Any) -> Chart:
    """Chart the share of the time each engine and the DMA engines are busy.

    Args:
        result: a Result of `nki_lab.run`, a ViewData, or a Profile.
    """
    profile = _profile(result)
    rows = engine_rows(profile)
    return Chart(
        title=f"{profile.name or 'kernel'}: busy share of the time ({badge(profile)})",
        unit="% of the time",
        labels=tuple(ENGINE_LABELS[row["engine"]] for row in rows),
        values=tuple(100 * row["share"] for row in rows),
        notes=tuple(f"{100 * row['share']:.1f} %" for row in rows),
        colours=tuple(ENGINE_ON_ANY[row["engine"]] for row in rows),
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
        title=f"{profile.name or 'kernel'}: DMA transfers by size ({badge(profile)})",
        unit="transfers",
        labels=tuple(f"from {size_text(1 << p)}" for p in powers),
        values=tuple(map(float, counts)),
        notes=tuple(f"{count:,}" for count in counts),
        colours=(ENGINE_ON_ANY["dma"],) * len(counts),
    )


def _profile(result: Any) -> Profile:
    if isinstance(result, Profile):
        return result
    return result.profile if isinstance(result, ViewData) else result.view_data.profile
