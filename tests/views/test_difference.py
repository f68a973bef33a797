"""Tests that the picture and text of a failed check show where values differ, the worst region first."""

from __future__ import annotations

import base64
from xml.etree import ElementTree

import numpy as np
import pytest

from nki_lab.runtime.check import compare_arrays, difference_of
from nki_lab.views.difference import Difference, Region
from nki_lab.widgets.theme import HEAT, LIMIT, RULE, rgb
from tests.views.test_view_pictures import shapes
from tests.widgets.test_picture import decode


def differing(found: np.ndarray, expected: np.ndarray) -> Difference:
    return difference_of("the result", found, expected, compare_arrays(found, expected))


@pytest.fixture
def planted(rng) -> Difference:
    """Plant a row of NaN, a block that is doubled, and one element, in regions that do not touch."""
    expected = rng.standard_normal((128, 1024)).astype(np.float32)
    found = expected.copy()
    found[16:48, 512:640] = 2 * expected[16:48, 512:640] + 1
    found[100] = np.nan
    found[3, 7] += 0.5
    return differing(found, expected)


def test_regions_are_those_that_were_planted_the_worst_first(planted) -> None:
    nan, block, one = planted.regions
    assert nan == Region(100, 100, 0, 1023, 1024, (100, 0))
    assert block[:4] == (16, 47, 512, 639) and one == Region(3, 3, 7, 7, 1, (3, 7))
    wrong = np.abs(planted.found - planted.expected)[16:48, 512:640]
    place = np.unravel_index(int(np.nanargmax(wrong)), wrong.shape)
    assert block.worst == (16 + place[0], 512 + place[1])
    assert planted.places[:3] == [nan.worst, block.worst, one.worst]


def test_the_text_has_a_map_the_regions_and_the_numbers(planted) -> None:
    title, key, *lines = str(planted).splitlines()
    assert (
        title
        == f"the result differs in {1024 + int(planted.wrong[16:48].sum()) + 1:,} of 131,072 elements"
    )
    assert "partitions" in key and str(planted).isascii()
    drawn = [line.strip() for line in lines[:16]]  # blocks of 8 partitions by 16 elements
    assert drawn[12] == "N" * 64
    assert drawn[0] == "1" + 63 * "."
    assert set(drawn[2][32:40]) <= {"8", "9"} and drawn[2][:32] == 32 * "."
    assert drawn[15] == 64 * "."
    assert "  1. partition 100, elements 0 to 1,023: 1,024 of 1,024 wrong" in lines
    assert "  3. partition 3, element 7: 1 of 1 wrong" in lines
    row = next(line for line in lines if line.startswith("  [3, 7]"))
    found, expected = planted.found[3, 7], planted.expected[3, 7]
    assert row.split()[2:] == [f"{found:.6g}", f"{expected:.6g}", f"{found - expected:.6g}"]
    assert "NaN" in next(line for line in lines if line.startswith("  [100, 0]"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_picture_marks_what_is_no_number_more_and_less(theme, planted) -> None:
    drawing = planted.to_image("svg", theme)
    grounds = shapes(drawing, getattr(RULE, theme))
    (x, y, width, height) = max(grounds, key=lambda s: s[2] * s[3])
    marks = [s for s in shapes(drawing, getattr(LIMIT, theme)) if s[3] < height / 20 and s[2] < 14]
    assert len(marks) == 128  # a block for 8 of 1,024 elements
    for mark in marks:
        assert 100 / 128 >= (mark[1] - y) / height > 99 / 128 - 1 / 64
    pixels = decode(planted.to_image("png", theme)).reshape(-1, 3)
    for colour in (HEAT[0], HEAT[-1], LIMIT):
        assert (pixels == rgb(getattr(colour, theme))).all(-1).any()
    text = " ".join(ElementTree.fromstring(drawing).itertext())
    assert "NaN or infinite" in text and "1. partition 100, elements 0 to 1,023" in text
    assert x > 0 and width > 1000


def test_results_of_any_shape_are_shown(rng) -> None:
    for shape in ((5,), (1, 1), (300, 2), (2, 3, 4), (3000,)):
        expected = rng.standard_normal(shape)
        found = expected.copy()
        found[(-1,) * len(shape)] += 10
        shown = differing(found, expected)
        at = ", ".join(str(n - 1) for n in shape)
        assert f"[{at}]" in str(shown) and shown.to_image().startswith(b"\x89PNG")
    assert "row 299, element 1: 1 of 1 wrong" in str(
        differing(np.pad([[9.0]], ((299, 0), (1, 0))), np.zeros((300, 2)))
    )


def test_integers_and_many_regions_stay_short(rng) -> None:
    expected = np.zeros((128, 4096), np.int32)
    found = expected.copy()
    found[::4, ::64] = 1
    shown = differing(found, expected)
    assert "more regions" in str(shown) and len(str(shown).splitlines()) < 40
    bundle, metadata = shown._repr_mimebundle_()
    assert len(str(bundle)) < 300_000 and bundle["text/plain"] == repr(shown)
    assert metadata["image/png"]["alt"] == "the result differs in 2,048 of 524,288 elements"
    assert base64.b64decode(bundle["image/png"]) == shown.to_image()
