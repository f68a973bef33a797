"""Curves under a timeline, sent exactly or as the least and most of short spans.

A curve of a large run changes more often than a screen has columns. What is sent of a span of time has at most
`POINTS` parts: each change, where there are not more of them, else the least and the most of equal parts of the
span. Looking closer asks for a shorter span.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.profiler.analyses.curves import Curve, curves, most_text
from nki_lab.views.timeline.model import TimelineModel, joined
from nki_lab.widgets.packing import pack

#: Parts of one curve that are sent at once.
POINTS = 1024
#: Curve -> its place in the series of colours, and that of those which are not named.
CURVE_COLOURS = {
    "SBUF usage": 0,
    "PSUM usage": 3,
    "Pending DMA": 4,
    "DMA throughput": 5,
    "HBM throughput": 2,
    "MFU": 1,
}
OTHER_CURVES = 5


def timeline_curves(
    timeline: TimelineModel, known: list[tuple[int, Curve]], first: int, last: int
) -> bytes:
    """Return the curves between two times, in ns after the start, packed.

    `time` holds when each part begins, `low` and `high` what the curve is at least and at most until the next one
    does; a part of one value has both the same.
    """
    meta: list[dict[str, Any]] = []
    columns: dict[str, list[np.ndarray]] = {"time": [], "low": [], "high": []}
    count = 0
    for run, curve in known:
        shift = timeline.shifts[run] - timeline.first_ns
        time, low, high = between(curve.times + shift, curve.values, first, last)
        for name, part in zip(columns, (time, low, high), strict=True):
            columns[name].append(part)
        meta.append(
            {
                "title": curve.title,
                "unit": curve.unit,
                "colour": CURVE_COLOURS.get(curve.title, OTHER_CURVES),
                "core": curve.core,
                "run": run,
                "top": float(curve.limit or curve.values.max(initial=0.0)),
                "most": most_text(curve, float(curve.values.max(initial=0.0))),
                "from": count,
                "to": count + len(time),
            }
        )
        count += len(time)
    arrays = {
        "time": joined(columns["time"]).astype("f8"),
        "low": joined(columns["low"]).astype("f4"),
        "high": joined(columns["high"]).astype("f4"),
    }
    return pack({"span": [first, last], "curves": meta}, arrays)


def known_curves(timeline: TimelineModel) -> list[tuple[int, Curve]]:
    """Return the curves of every run with the run's number; those that never leave zero say nothing."""
    return [
        (number, curve)
        for number, run in enumerate(timeline.runs)
        for curve in curves(run.profile)
        if curve.values.any()
    ]


def between(
    times: np.ndarray, values: np.ndarray, first: int, last: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return when the parts of a curve begin, and its least and most value in each."""
    a = int(np.searchsorted(times, first, "right")) - 1
    b = int(np.searchsorted(times, last, "left"))
    if b - max(a, 0) <= POINTS:
        inside = slice(max(a, 0), b)
        moments, exact = np.maximum(times[inside], first), values[inside]
        if a < 0:  # nothing was known before the first change
            moments, exact = np.append(first, moments), np.append(0.0, exact)
        return moments, exact, exact
    edges = np.linspace(first, last, POINTS + 1)[:-1]
    # The value that holds at the begin of a part belongs to it, too.
    begin = np.maximum(np.searchsorted(times, edges, "right") - 1, 0)
    end = np.append(np.searchsorted(times, edges[1:], "left"), b)
    ends = np.maximum(end, begin + 1)
    places = np.stack((begin, ends), axis=1).reshape(-1)
    padded = np.append(values, values[-1])  # an end may be one past the last value
    low = np.minimum.reduceat(padded, places)[::2]
    high = np.maximum.reduceat(padded, places)[::2]
    if a < 0:
        early = edges < times[0]
        low = np.where(early, 0.0, low)
        high = np.where(early & (np.append(edges[1:], last) <= times[0]), 0.0, high)
    return edges, low, high
