"""Do the charts show what the profile says, without bringing plotly's script along?"""

import json
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from nki_lab.profiler.view_data import ViewData
from nki_lab.widgets.charts import transfer_sizes, utilisation
from tests.profiler import example
from tests.widgets.runs import added, by_hand

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
    assert list(bundle) == ["text/plain", "image/svg+xml", PLOTLY]
    picture = ElementTree.fromstring(bundle["image/svg+xml"])
    bars = picture.findall("{*}rect")
    shares = utilisation(by_hand()).values
    longest = max(float(bar.get("width")) for bar in bars)
    for bar, share in zip(bars, shares, strict=True):
        assert float(bar.get("width")) == pytest.approx(share / max(shares) * longest, abs=0.1)
    assert len(json.dumps(bundle)) < 20_000


def test_a_name_with_markup_stays_text() -> None:
    profile = example.profile()
    profile.name = "<b onload=x>"
    title = utilisation(ViewData("x", profile)).figure().layout.title.text
    assert title.startswith("&lt;b onload=x&gt;: busy")
    picture = ElementTree.fromstring(utilisation(ViewData("x", profile)).to_svg())
    assert {part.tag.split("}")[1] for part in picture.iter()} == {"svg", "text", "rect"}
    assert picture.find("{*}text").text.startswith("<b onload=x>: busy")


def test_a_run_without_transfers_has_an_empty_chart() -> None:
    columns = {name: [] for name in ("start_ts", "end_ts", "transfer_bytes")}
    chart = transfer_sizes(example.profile(DmaPacketAggregated=columns, Flow={}))
    assert chart.values == ()
    assert ElementTree.fromstring(chart.to_svg()).findall("{*}rect") == []


def test_plotly_is_loaded_only_for_a_chart() -> None:
    program = (
        "import sys, nki_lab.widgets; print('plotly' in sys.modules, 'anywidget' in sys.modules)"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert outcome.stdout.split() == ["False", "False"], outcome.stderr
