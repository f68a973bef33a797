"""Tests that the charts show what the profile says, without bringing plotly's script along."""

import json
import math
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from nki_lab.runtime import run
from nki_lab.views.charts.curves import CurveChart
from nki_lab.views.charts.model import CHARTS, roofline, transfer_rates, transfer_sizes, utilisation
from nki_lab.views.run import ViewData
from nki_lab.widgets.picture import LETTER
from tests.profiler import example
from tests.views.runs import added, by_hand
from tests.views.test_access_model import matmul

PLOTLY = "application/vnd.plotly.v1+json"


def test_bars_are_the_busy_shares_of_the_summary() -> None:
    chart = utilisation(added())
    summary = added().profile.summary
    assert chart.labels == ("DMA", "Tensor", "Vector", "Scalar", "GpSimd", "Sync")
    assert chart.values[0] == 100 * summary["dma_active_time_percent"]
    assert chart.values[2] == 100 * summary["vector_engine_active_time_percent"]
    drawn = chart.figure().to_plotly_json()["data"][0]
    assert tuple(drawn["x"]) == chart.values and tuple(drawn["y"]) == chart.labels


def test_every_transfer_is_in_one_bar() -> None:
    # 8,000 bytes are from 4 KiB, 40,000 bytes from 32 KiB.
    chart = transfer_sizes(example.profile())
    assert chart.labels == ("from 4.00 KiB", "from 8.00 KiB", "from 16.00 KiB", "from 32.00 KiB")
    assert chart.values == (1.0, 0.0, 0.0, 1.0)


def test_text_says_whether_it_is_modelled_and_draws_bars() -> None:
    lines = repr(utilisation(added())).split("\n")
    assert "modelled from public documents" in lines[0]
    assert re.fullmatch(r"  DMA +#+ +\d+\.\d %", lines[1])


def test_a_chart_is_small_and_has_a_picture() -> None:
    bundle = utilisation(by_hand())._repr_mimebundle_()
    assert list(bundle) == ["text/plain", "image/svg+xml", "text/html", PLOTLY]
    picture = ElementTree.fromstring(bundle["image/svg+xml"])
    _, *bars = picture.findall("{*}rect")  # the ground comes first
    shares = [share for share in utilisation(by_hand()).values if share]
    longest = max(float(bar.get("width")) for bar in bars)
    for bar, share in zip(bars, shares, strict=True):
        assert float(bar.get("width")) == pytest.approx(share / max(shares) * longest, abs=0.1)
    assert len(json.dumps(bundle)) < 20_000


def test_a_narrow_picture_cuts_no_text(products) -> None:
    for chart in (*(make(products[0]) for make in CHARTS.values()),):
        drawing = ElementTree.fromstring(chart.to_svg(width=720))
        texts = [
            (text, float(text.get("x"))) for text in drawing.iter() if text.text and text.get("x")
        ]
        assert len(texts) > 3 and not [text.text for text, _ in texts if text.text.endswith("..")]
        assert drawing.get("viewBox").split()[2] == "720"
        ends = [x + LETTER * len(t.text) * (t.get("text-anchor") != "end") for t, x in texts]
        assert max(ends) <= 720 + LETTER


def test_a_name_with_markup_stays_text() -> None:
    profile = example.profile()
    profile.name = "<b onload=x>"
    title = utilisation(ViewData("x", profile)).figure().layout.title.text
    assert title.startswith("&lt;b onload=x&gt;: busy")
    picture = ElementTree.fromstring(utilisation(ViewData("x", profile)).to_svg())
    assert {part.tag.split("}")[1] for part in picture.iter()} == {"svg", "title", "text", "rect"}
    assert "<b onload=x>: busy" in picture.find("{*}title").text


def test_a_run_without_transfers_has_an_empty_chart() -> None:
    columns = {name: [] for name in ("start_ts", "end_ts", "transfer_bytes")}
    chart = transfer_sizes(example.profile(DmaPacketAggregated=columns, Flow={}))
    assert chart.values == ()
    assert len(ElementTree.fromstring(chart.to_svg()).findall("{*}rect")) == 1  # the ground


def test_plotly_is_loaded_only_for_a_chart() -> None:
    program = "import sys, nki_lab.views.display; print('plotly' in sys.modules, 'anywidget' in sys.modules)"
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert outcome.stdout.split() == ["False", "False"], outcome.stderr


@pytest.fixture(scope="module")
def products():
    rng = np.random.default_rng(5)
    shapes = ((128, 128, 512), (64, 32, 48))
    return [
        run(
            matmul, *(rng.standard_normal((k, c)).astype(np.float32) for c in (m, n)), target="trn2"
        )
        for k, m, n in shapes
    ]


def test_a_run_stands_below_its_roof_at_its_intensity(products) -> None:
    result = products[0]
    chart = roofline(result)
    (runs,) = chart.points
    flops, moved = 2 * 128 * 128 * 512, 4 * (128 * 128 + 128 * 512 + 128 * 512)
    assert runs.x == pytest.approx((flops / moved,))
    assert runs.y == pytest.approx((flops / result.profile.total_ns / 1000,))
    slope, flat = chart.lines
    # Up to the balance the roof is the bytes per time, beyond it the peak.
    assert slope.y[0] / slope.x[0] == pytest.approx(slope.y[1] / slope.x[1])
    assert (
        flat.y[0]
        == flat.y[1]
        == pytest.approx(result.profile.target.tensor_peak_flops_per_ns / 1000)
    )
    assert runs.y[0] < min(flat.y[0], runs.x[0] * slope.y[0] / slope.x[0])
    assert "FLOP per byte" in repr(chart) and "modelled from public documents" in repr(chart)


def test_several_runs_are_one_way(products) -> None:
    (runs,) = roofline(*products).points
    assert runs.joined and len(runs.x) == 2
    drawn = roofline(*products).figure().to_plotly_json()["data"]
    assert tuple(drawn[2]["x"]) == runs.x and drawn[2]["mode"] == "lines+markers"


def test_a_roofline_of_nothing_says_what_to_ask_instead(products) -> None:
    with pytest.raises(ValueError, match=r"result\.roofline\(\)"):
        roofline(added())
    with pytest.raises(ValueError, match="one chip"):
        roofline(products[0], run(matmul, *products[0].inputs, target="trn1"))


def test_every_transfer_is_in_one_point_with_its_rate() -> None:
    chart = transfer_rates(example.profile())
    (points,) = chart.points
    assert sorted(zip(points.x, points.y, strict=True)) == [
        (8000, 8000 / 800),
        (40000, 40000 / 2000),
    ]
    texts = " ".join(points.texts)
    assert "1 x 7.81 KiB in 800 ns: 10.0 B/ns" in texts
    none = {name: [] for name in ("start_ts", "end_ts", "transfer_bytes")}
    empty = transfer_rates(example.profile(DmaPacketAggregated=none, Flow={}))
    assert "no transfer" in repr(empty) and ElementTree.fromstring(empty.to_svg()).tag.endswith(
        "svg"
    )


def test_points_are_drawn_where_their_logarithms_are(products) -> None:
    chart = transfer_rates(products[0])
    picture = ElementTree.fromstring(chart.to_svg())
    *circles, _legend = picture.findall("{*}circle")
    (points,) = chart.points
    assert len(circles) == len(points.x) >= 2
    first, second = (float(c.get("cx")) for c in circles[:2])
    (first_mark, second_mark) = [
        float(t.get("x")) - LETTER * len(t.text) / 2  # their ends are given
        for t in picture.findall("{*}text")
        if t.text in ("10,000", "100,000")
    ][-2:]
    decade = second_mark - first_mark
    apart = math.log10(points.x[1]) - math.log10(points.x[0])
    assert (second - first) / decade == pytest.approx(apart, abs=0.01)
    assert len(json.dumps(chart._repr_mimebundle_())) < 60_000


def test_names_with_markup_stay_text_in_scatter_charts() -> None:
    profile = example.profile()
    profile.name = "<b onload=x>"
    chart = transfer_rates(ViewData("x", profile))
    assert chart.figure().layout.title.text.startswith("&lt;b onload=x&gt;:")
    picture = ElementTree.fromstring(chart.to_svg())
    assert {part.tag.split("}")[1] for part in picture.iter()} <= {
        "svg",
        "text",
        "rect",
        "polyline",
        "circle",
        "title",
    }


def test_curves_are_drawn_where_their_values_are() -> None:
    curves = {"PyTorch": (4.0, 1.0, -2.0), "<b>ours</b>": (4.0, 2.0)}
    chart = CurveChart("Loss & more", "step", "loss", curves)
    assert repr(chart).splitlines()[1:] == [
        "step  PyTorch  <b>ours</b>", "0     4        4", "1     1        2", "2     -2",
    ]  # fmt: skip
    first, second = chart.figure().to_plotly_json()["data"]
    assert tuple(first["y"]) == curves["PyTorch"] and list(second["x"]) == [0, 1]
    assert second["name"] == "&lt;b&gt;ours&lt;/b&gt;"
    assert (first["mode"], second["mode"]) == ("markers", "lines")
    root = ElementTree.fromstring(chart.to_svg())
    svg = "{http://www.w3.org/2000/svg}"
    dots = [tuple(float(c.attrib[k]) for k in ("cx", "cy")) for c in root.iter(f"{svg}circle")]
    (line,) = [
        [tuple(map(float, point.split(","))) for point in shape.attrib["points"].split()]
        for shape in root.iter(f"{svg}polyline")
    ]
    (x0, y0), (x1, y1), (x2, y2), _ = dots  # the last is in the legend
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and x0 < x1
    assert y1 - y0 == pytest.approx(y2 - y1, abs=0.2) and y0 < y1  # 4, 1 and -2 are as far apart
    assert line[0] == (x0, y0) and line[1][0] == x1 and y0 < line[1][1] < y1
    flat = CurveChart("nothing", "step", "loss", {"zero": (0.0,)})
    assert "0     0" in repr(flat) and "NaN" not in flat.to_svg()
    assert set(chart._repr_mimebundle_()) == {PLOTLY, "image/svg+xml", "text/html", "text/plain"}
