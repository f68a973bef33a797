"""Tests that the view of the report keeps advice and limits of the model apart, and that its picture says the same."""

from __future__ import annotations

import base64
from xml.etree import ElementTree

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from nki_lab.views.display import display
from nki_lab.views.registry import view_names
from nki_lab.views.report.model import report_data, report_parts
from nki_lab.views.report.picture import report_picture
from nki_lab.widgets.packing import unpack
from nki_lab.widgets.picture import VectorPicture
from nki_lab.widgets.theme import ENGINE_COLOURS, ENGINE_LABELS
from tests.timing.advice.ladder import tiled
from tests.views.test_view_pictures import shapes


def test_advice_and_limits_of_the_model_are_kept_apart() -> None:
    x = np.ones((512, 512), ml_dtypes.bfloat16)
    result = nki_lab.run(tiled, x, x, target="trn2")
    meta, _ = unpack(report_parts(result.view_data))
    assert [f"{a['message']}. Help: {a['help']}" for a in meta["advice"]] == [
        str(advice) for advice in result.advice()
    ]
    assert meta["advice"][0]["message"].startswith(result.advice()[0].rule)
    assert {w["kind"] for w in meta["warnings"]} == {"not modelled", "assumed"}


def test_the_picture_of_a_report_says_what_the_live_report_says() -> None:
    x = np.ones((512, 512), ml_dtypes.bfloat16)
    data = nki_lab.run(tiled, x, x, target="trn2").view_data
    report = report_data(data)
    drawing = report_picture(data, VectorPicture)
    text = " ".join(" ".join(ElementTree.fromstring(drawing).itertext()).split())
    for figure in report["figures"]:
        assert all(part in text for part in (figure["label"], figure["value"], figure["note"]))
    assert len(report["advice"]) >= 2
    for advice in report["advice"][:5]:
        assert advice["message"] in text and f"help: {advice['help']}" in text
    for row in report["engines"]:
        name, colour = ENGINE_LABELS[row["engine"]], ENGINE_COLOURS[row["engine"]].light
        assert f"{name} {100 * row['share']:.1f} % {row['active_us']:,.3f}" in text
        _chip, *bars = shapes(drawing, colour)
        if row["share"]:  # its bar, in a frame of 160
            assert bars[0][2] == pytest.approx(160 * row["share"], abs=0.5)
    for line in report["lines"][:5]:
        assert f"{line['place']} {line['engine_us']:,.3f} {line['dma_us']:,.3f}" in text
        assert line["source"].strip()[:60] in text
    for warning in report["warnings"][:5]:
        assert f"{warning['kind']}: {warning['message']}" in text


def test_a_result_leaves_its_report_as_picture_and_in_html() -> None:
    """Where nothing is alive the picture is what the first tab shows, not another view."""
    x = np.ones((512, 512), ml_dtypes.bfloat16)
    shown = display(nki_lab.run(tiled, x, x, target="trn2"))
    bundle, metadata = shown._repr_mimebundle_()
    assert view_names()[0] == "report"
    assert base64.b64decode(bundle["image/png"]) == shown.to_image("png", "report")
    assert metadata["image/png"]["alt"].startswith("Report of tiled on trn2")
    drawing = base64.b64decode(bundle["text/html"].partition("base64,")[2].partition('"')[0])
    assert "Advice, the largest gain first" in drawing.decode()
    assert len(str(bundle)) < 300_000
