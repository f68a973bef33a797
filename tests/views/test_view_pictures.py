"""Tests that the pictures of memory and of steps show what is in use, and what was computed."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from nki_lab.views.display import display
from nki_lab.views.memory.occupancy import occupancy
from nki_lab.views.memory.picture import memory_picture
from nki_lab.views.run import ViewData
from nki_lab.views.stepper.picture import stepper_picture
from nki_lab.widgets.picture import Picture, VectorPicture
from nki_lab.widgets.theme import HEAT, LIMIT, SERIES, rgb
from tests.views.runs import added, by_hand, many_events
from tests.views.test_stepper_model import scaled_run
from tests.widgets.test_picture import decode

MARGIN = 12


def shapes(drawing: bytes, colour: str) -> list[tuple[float, ...]]:
    """Return x, y, width and height of the rectangles of one colour."""
    found = ElementTree.fromstring(drawing)
    return [
        tuple(float(node.attrib[k]) for k in ("x", "y", "width", "height"))
        for node in found
        if node.attrib.get("fill") == colour and "x" in node.attrib and node.tag.endswith("rect")
    ]


def test_tiles_are_drawn_as_long_and_high_as_they_are() -> None:
    """The two tiles of one line: y has 128 bytes at 256 in 0 to 3, z 32 bytes at 256 in 2 to 5."""
    drawn = shapes(memory_picture(by_hand(), VectorPicture), SERIES[0].light)
    y, z = sorted(shape for shape in drawn if shape[0] > MARGIN)[:2]  # without the legend's mark
    assert (y[2] + 1) / (z[2] + 1) == 1 and y[0] < z[0]
    assert round((y[3] + 1) / (z[3] + 1), 2) == 4
    assert y[1] + y[3] == pytest.approx(z[1] + z[3])  # the same first byte


def test_a_picture_of_memory_names_the_most_in_use() -> None:
    text = "".join(
        ElementTree.fromstring(memory_picture(added().view_data, VectorPicture)).itertext()
    )
    tiles = occupancy(added().view_data, "sbuf")
    peak, moment = tiles.peak(128)
    assert f"SBUF: 6 tiles, at most {peak:,} of" in text and f"at instruction {moment}" in text
    assert "PSUM" not in text
    nothing = ElementTree.fromstring(memory_picture(by_hand(tensors=[]), VectorPicture))
    assert "no tile is used" in "".join(nothing.itertext())


def test_a_picture_of_steps_marks_what_is_no_number() -> None:
    drawing = stepper_picture(scaled_run().view_data, VectorPicture)
    marked = shapes(drawing, LIMIT.light)
    assert (
        len(marked) == 2 * 2 + 2 * 2
    )  # two blocks of the tile twice, then two rows of the sums twice
    text = "".join(ElementTree.fromstring(drawing).itertext())
    assert "the first 4 of 4 executed instructions" in text and ", 1 NaN, 1 Inf" in text
    pixels = decode(stepper_picture(scaled_run().view_data, Picture, "dark"))
    assert (pixels == np.array(rgb(HEAT[-1].dark))).all(-1).any()


def test_a_run_without_steps_says_so_in_its_picture() -> None:
    text = "".join(ElementTree.fromstring(stepper_picture(by_hand(), VectorPicture)).itertext())
    assert "only the outcome is known" in text


def test_pictures_stay_small_and_come_with_every_display() -> None:
    for view in ("memory", "stepper", "report", "timeline"):
        bundle = display(added(), (view,))._repr_mimebundle_()[0]
        assert len(bundle["image/png"]) < 100_000
    many = ViewData("many", many_events(1_000))
    assert len(display(many).to_image(view="memory")) < 20_000
