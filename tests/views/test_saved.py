"""Tests that a run can be kept as a page and as pictures, complete, safe and the same each time."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from nki_lab.errors import UnknownOption
from nki_lab.views.display import display
from nki_lab.views.registry import view_names
from nki_lab.widgets.picture import SHOWN_WIDTH, WIDTH
from tests.thorough import first
from tests.views.runs import added, by_hand
from tests.views.test_display import HOSTILE, hostile_run
from tests.widgets.test_picture import decode


def state_of(page: str) -> dict:
    """Return the data that stands in a saved page."""
    (text,) = re.findall(r'<script type="application/json" id="state">(.*?)</script>', page)
    return json.loads(text)


def saved(data, tmp_path, tabs=None) -> str:
    return (
        display(data, tabs or view_names())
        .save_html(tmp_path / "run.html")
        .read_text(encoding="utf-8")
    )


#: A name that SVG asks for; nobody fetches it.
SVG_NAME = "http://www.w3.org/2000/svg"


def test_a_page_holds_every_view_and_asks_for_nothing(tmp_path) -> None:
    page = saved(added(), tmp_path)
    state = state_of(page)
    assert state["tabs"] == list(view_names())
    assert {"report", "findings", "source", "ir", "layout", "array", "memory", "timeline",
            "timeline/events", "graph", "graph/lines", "access/0", "values/0"} <= set(state["parts"])  # fmt: skip
    outside = r"(?:https?:)?//[\w.-]+\.\w+|\bimport\(|@import|url\((?!#)|<link|<[a-z]+ [^>]*src="
    assert re.findall(outside, page.replace(SVG_NAME, "")) == []
    assert "default-src 'none'" in page
    assert page == saved(added(), tmp_path)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_page_shows_names_as_they_are(text, tmp_path) -> None:
    page = saved(hostile_run(text), tmp_path)
    assert page.count("<script") == 2 and page.count("</script>") == 2
    assert "<img" not in page and "<svg" not in page
    assert state_of(page)["head"]["title"] == text


@pytest.mark.parametrize("view", view_names())
@pytest.mark.parametrize("theme", first(["dark", "light"]))
def test_every_view_is_a_picture_of_pixels_and_of_shapes(view, theme) -> None:
    shown = display(added(), (view,))
    pixels = decode(shown.to_image("png", theme=theme))
    assert pixels.shape[1] == 2 * SHOWN_WIDTH and len(set(map(tuple, pixels.reshape(-1, 3)))) > 2
    assert (pixels[0, 0].mean() > 128) == (theme == "light")
    drawing = ElementTree.fromstring(shown.to_image("svg", theme=theme))
    assert drawing.attrib["width"] == str(WIDTH)
    assert {node.tag.rpartition("}")[2] for node in drawing} <= SHAPES
    drawn = [node for node in drawing if not node.tag.endswith("title")]
    assert "add_halves on trn2" in "".join(text for node in drawn for text in node.itertext())


# All that a drawing may be made of: nothing that loads, links or acts.
SHAPES = {"rect", "text", "title", "polygon", "polyline", "circle"}
ATTRIBUTES = {
    "cx",
    "cy",
    "r",
    "text-anchor",
    "font-size",
    "x",
    "y",
    "width",
    "height",
    "points",
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_picture_of_shapes_shows_names_as_they_are(text) -> None:
    for view in view_names():
        drawing = ElementTree.fromstring(display(hostile_run(text), (view,)).to_image("svg"))
        assert {node.tag.rpartition("}")[2] for node in drawing} <= SHAPES
        assert all(set(node.attrib) <= ATTRIBUTES for node in drawing)


def test_a_picture_in_another_form_is_refused() -> None:
    for wrong in ({"format": "bmp"}, {"theme": "blue"}, {"view": "sketch"}):
        with pytest.raises(UnknownOption, match=str(next(iter(wrong.values())))):
            display(by_hand()).to_image(**wrong)


def test_a_result_shows_itself() -> None:
    assert added().show().tabs == view_names()
    assert added().show("memory", "ir").tabs == ("memory", "ir")
    with pytest.raises(UnknownOption, match="sketch"):
        added().show("sketch")
