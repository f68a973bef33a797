"""Tests that the curves under a timeline are exact where they can be, and never beyond the truth elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.profiler.analyses.curves import curves
from nki_lab.views.timeline import curves as module
from nki_lab.views.timeline.curves import between, known_curves, timeline_curves
from nki_lab.views.timeline.model import TimelineModel
from nki_lab.widgets.packing import unpack
from tests.profiler import example
from tests.views.runs import added, by_hand


def at(times: np.ndarray, values: np.ndarray, moment: float) -> float:
    """Return the value of a curve at a moment: that of the last change before it, 0 before the first."""
    past = np.flatnonzero(times <= moment)
    return float(values[past[-1]]) if len(past) else 0.0


def test_curves_of_a_run_say_what_its_summary_says() -> None:
    profile = added().profile
    found = {curve.title: curve for curve in curves(profile)}
    for title, bytes_moved in (
        ("DMA throughput", profile.numbers("DmaPacketAggregated", "transfer_bytes").sum()),
        ("HBM throughput", profile.hbm_bytes("read").sum() + profile.hbm_bytes("write").sum()),
    ):
        curve = found[title]
        area = (curve.values[:-1] * np.diff(curve.times)).sum()  # GB/s times ns is bytes
        assert area == pytest.approx(bytes_moved, rel=1e-9)
        assert curve.limit > 0
    assert found["Pending DMA"].values.max() == found["Pending DMA"].values.round().max() >= 1


def test_utilisation_adds_up_to_the_mean_of_the_summary() -> None:
    profile = example.profile()
    (curve,) = [c for c in curves(profile) if c.title == "MFU"]
    area = (curve.values[:-1] * np.diff(curve.times)).sum() / 100
    assert area / profile.total_ns == pytest.approx(profile.summary["mfu_estimated_percent"])


@pytest.mark.parametrize("points", [4, 16, 1024])
def test_parts_hold_the_least_and_most_of_their_span(monkeypatch, points: int) -> None:
    monkeypatch.setattr(module, "POINTS", points)
    rng = np.random.default_rng(3)
    for _ in range(40):
        times = np.sort(rng.choice(500, 60, replace=False)) + 20
        values = rng.integers(0, 9, 60).astype(float)
        first, last = np.sort(rng.choice(600, 2, replace=False)).tolist()
        begin, low, high = between(times, values, first, last)
        ends = np.append(begin[1:], last)
        assert begin[0] == first and (np.diff(begin) > 0).all() and len(begin) <= points + 1
        for a, b, least, most in zip(begin, ends, low, high, strict=True):
            # Whatever holds at some moment of a <= t < b, changes within it included.
            moments = [a, *times[(times > a) & (times < b)]]
            true = [at(times, values, m) for m in moments]
            assert (least, most) == (min(true), max(true))


def test_a_window_of_the_curves_is_sent(monkeypatch) -> None:
    monkeypatch.setattr(module, "POINTS", 5)
    timeline = TimelineModel(by_hand())
    known = known_curves(timeline)
    meta, arrays = unpack(timeline_curves(timeline, known, 1000, 1500))
    assert meta["span"] == [1000, 1500]
    titles = [curve["title"] for curve in meta["curves"]]
    assert titles == ["SBUF usage", "PSUM usage", "Pending DMA", "DMA throughput", "HBM throughput", "MFU"]  # fmt: skip
    for (_, curve), part in zip(known, meta["curves"], strict=True):
        time = arrays["time"][part["from"] : part["to"]]
        assert time[0] == 1000 and time[-1] < 1500
        assert arrays["high"][part["from"]] == pytest.approx(at(curve.times, curve.values, 1000))
        assert part["most"].startswith("at most ") and part["top"] >= curve.values.max()
        of_memory = part["title"] in ("SBUF usage", "PSUM usage")
        assert part["most"].endswith(" % of usable") == of_memory
