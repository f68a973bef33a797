"""Tests that the view of the report gets advice apart from what is said about the model."""

from __future__ import annotations

import ml_dtypes
import numpy as np

import nki_lab
from nki_lab.views.report.model import report_parts
from nki_lab.widgets.packing import unpack
from tests.timing.advice.ladder import tiled


def test_advice_and_limits_of_the_model_are_kept_apart() -> None:
    x = np.ones((512, 512), ml_dtypes.bfloat16)
    result = nki_lab.run(tiled, x, x, target="trn2")
    meta, _ = unpack(report_parts(result.view_data))
    assert [f"{a['message']}. Help: {a['help']}" for a in meta["advice"]] == [
        str(advice) for advice in result.advice()
    ]
    assert meta["advice"][0]["message"].startswith(result.advice()[0].rule)
    assert {w["kind"] for w in meta["warnings"]} == {"not modelled", "assumed"}
