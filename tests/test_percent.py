"""Tests that shares are written as percent in one way, and that no module writes them by itself."""

import re
from pathlib import Path

import pytest

from nki_lab.percent import percent

PACKAGE = Path(__file__).parents[1] / "nki_lab"


@pytest.mark.parametrize(
    ("share", "given", "text"),
    [
        (0.1424, {}, "14.2 %"),
        (1 / 3, {"digits": 0}, "33 %"),
        (0.05, {"sign": "+"}, "+5.0 %"),
        (-0.05, {"sign": "+"}, "-5.0 %"),
    ],
)
def test_a_share_as_percent(share, given, text):
    assert percent(share, **given) == text


def test_no_module_formats_percent_by_itself():
    own = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if path.name != "percent.py" and re.search(r"\.\d[f]\}\s?%", path.read_text("utf-8"))
    ]
    assert own == []
