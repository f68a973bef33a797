"""Tests that the pictures of lines, tensors, products and data flow show what the views show."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from nki_lab.runtime import run
from nki_lab.views.array.picture import array_picture
from nki_lab.views.display import display
from nki_lab.views.graph.flow import data_flow
from nki_lab.views.graph.picture import graph_picture
from nki_lab.views.layout.picture import layout_picture
from nki_lab.views.registry import view_names
from nki_lab.views.source.costs import line_costs
from nki_lab.views.source.picture import source_picture
from nki_lab.widgets.picture import SHOWN_WIDTH, Picture, VectorPicture
from nki_lab.widgets.theme import ENGINE_COLOURS, PAPER, RULE, SERIES, rgb
from tests.views.runs import added, by_hand
from tests.views.test_access_model import matmul
from tests.views.test_view_pictures import shapes
from tests.widgets.test_picture import decode


def words(drawing: bytes) -> str:
    return " ".join(ElementTree.fromstring(drawing).itertext())


def test_bars_are_as_long_as_lines_cost() -> None:
    data = added().view_data
    drawing = source_picture(data, VectorPicture)
    costs = [cost for cost in line_costs(data) if cost.total_ns]
    # Below the legend, which has a mark in the same colour.
    drawn = [s for s in shapes(drawing, ENGINE_COLOURS["dma"].light) if s[1] > 100]
    assert len(drawn) == sum(cost.transfer_ns > 0 for cost in costs) == 2
    most = max(cost.total_ns for cost in costs)
    for bar, cost in zip(sorted(drawn, key=lambda bar: bar[1]), costs, strict=True):
        assert bar[2] / 200 == pytest.approx(cost.transfer_ns / most, abs=0.01)
        assert f"{cost.total_ns / 1000:,.3f} us" in words(drawing)
    assert '"""Add two tensors in two halves of their columns."""' in words(drawing)


def test_slices_are_drawn_where_they_lie() -> None:
    data = added().view_data
    drawing = layout_picture(data, VectorPicture)
    backs = sorted(shapes(drawing, RULE.light), key=lambda back: back[1])
    left, right = (
        sorted(shapes(drawing, colour.light), key=lambda p: p[1]) for colour in SERIES[:2]
    )
    # Of x, y and the result one half is the first slice, the other the second.
    for back, one, other in zip(backs[:3], left, right, strict=False):
        assert one[:2] == pytest.approx(back[:2])
        assert one[2] + 1 == pytest.approx(back[2] / 2) == pytest.approx(other[2] + 1)
        assert other[0] == pytest.approx(back[0] + back[2] / 2)
    assert "axis 1: 600 float32 per row (2,400 bytes)" in words(drawing)


def test_every_node_is_a_box_with_its_name() -> None:
    data = added().view_data
    drawing = graph_picture(data, VectorPicture)
    assert len(shapes(drawing, RULE.light)) == len(data_flow(data).nodes)
    assert {"dma_copy", "tensor_tensor", "x", "y"} <= set(words(drawing).split())
    assert "are not known" in words(graph_picture(by_hand(), VectorPicture))


def test_a_product_is_drawn_with_its_sizes(rng) -> None:
    a, b = (rng.standard_normal((64, n)).astype(np.float32) for n in (32, 48))
    data = run(matmul, a, b, target="trn2").view_data
    drawing = array_picture(data, VectorPicture)
    ((_, _, width, height),) = shapes(drawing, SERIES[0].light)
    ((_, _, whole, _),) = shapes(drawing, RULE.light)
    assert (width / whole, height / whole) == (32 / 128, 64 / 128)
    assert "K = 64 (summed over), M = 32, N = 48; 12% of the array" in words(drawing)
    assert "no instruction multiplies" in words(array_picture(added().view_data, VectorPicture))


@pytest.mark.parametrize("draw", [source_picture, layout_picture, graph_picture, array_picture])
def test_pictures_have_both_themes_and_stay_small(draw) -> None:
    for theme in ("light", "dark"):
        for data in (added().view_data, by_hand()):
            drawing = draw(data, Picture, theme)
            assert len(drawing) < 60_000
            pixels = decode(drawing)
            assert pixels.shape[1] == 2 * SHOWN_WIDTH
            assert tuple(pixels[2, 2]) == rgb(getattr(PAPER, theme))


def test_every_view_of_a_run_has_a_picture_of_both_kinds() -> None:
    shown = display(added())
    for view in view_names():
        assert shown.to_image("png", view).startswith(b"\x89PNG")
        assert ElementTree.fromstring(shown.to_image("svg", view, "dark")).tag.endswith("svg")
