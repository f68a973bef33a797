"""Tests that the picture is a valid PNG that shows what ran when."""

import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image, ImageFont

from nki_lab.views.run import ViewData
from nki_lab.views.timeline.curves import known_curves
from nki_lab.views.timeline.model import TimelineModel
from nki_lab.views.timeline.picture import timeline_picture
from nki_lab.widgets.picture import FINE, LETTER, SHOWN_WIDTH, WIDTH, Picture, VectorPicture, _sized
from nki_lab.widgets.theme import ENGINE_COLOURS, LIMIT, PAPER, RULE, rgb
from tests.views.runs import added, by_hand, many_events


def decode(png: bytes) -> np.ndarray:
    """Read a PNG as colours [height, width, 3]."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


@pytest.mark.parametrize("colours", [5, 200, 4_000])
def test_colours_survive(rng, colours: int) -> None:
    picture = Picture(150, 60)
    few = rng.integers(0, 256, (colours, 3), dtype=np.uint8)
    cells = few[rng.integers(0, colours, (20, 50))]
    for row, column in np.ndindex(20, 50):
        picture.fill(3 * column, 3 * row, 3, 3, "#" + cells[row, column].tobytes().hex())
    # Three units are four pixels; the border is one pixel wide.
    apart = np.abs(decode(picture.done())[2::4, 2::4].astype(int) - cells).max(-1)
    if colours <= 200:
        assert apart.max() == 0
    else:  # a palette has 256 colours: of the others it gives the nearest
        assert np.mean(apart == 0) > 0.2 and np.median(apart) < 40


def test_a_picture_has_its_own_ground_and_a_border() -> None:
    for theme in ("light", "dark"):
        pixels = decode(Picture(30, 20, theme).done())
        edge = np.concatenate((pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))
        assert (edge == rgb(getattr(RULE, theme))).all()
        assert (pixels[1:-1, 1:-1] == rgb(getattr(PAPER, theme))).all()
        (ground,) = ElementTree.fromstring(VectorPicture(30, 20, theme).done())
        assert ground.get("fill") == getattr(PAPER, theme)
        assert ground.get("stroke") == getattr(RULE, theme)


def test_a_picture_has_two_pixels_for_each_of_a_page() -> None:
    image = Image.open(io.BytesIO(Picture(WIDTH, 30).done()))
    assert image.width == 2 * SHOWN_WIDTH
    assert image.info["dpi"] == pytest.approx((192, 192), abs=0.1)


def test_the_font_has_every_letter_of_ascii_which_views_are_written_in() -> None:
    def drawn_as(letter: str) -> tuple:
        mask = _sized(25).getmask(letter)
        return mask.size, bytes(mask)

    blank = drawn_as("\U000fffff")  # what a font draws for a letter that it does not have
    assert [chr(c) for c in range(33, 127) if drawn_as(chr(c)) == blank] == []


def test_a_track_is_coloured_where_it_is_busy() -> None:
    timeline = TimelineModel(by_hand())
    image = decode(timeline_picture(timeline)).astype(int)
    assert image.shape[1] == 2 * SHOWN_WIDTH
    vector = rgb(ENGINE_COLOURS["vector"].light)
    row, columns = max(
        ((y, np.flatnonzero((image[y] == vector).all(-1))) for y in range(len(image))),
        key=lambda found: len(found[1]),
    )
    # Busy from 1000 to 2600 and from 2700 to 3100 ns of 3100 ns: the last column is busy, and so are 2000 of 2100.
    first, last = columns[0], columns[-1]
    width = (last - first + 1) / (2100 / 3100)
    assert len(columns) / width == np.clip(
        len(columns) / width, 2000 / 3100 - 0.01, 2000 / 3100 + 0.01
    )
    gap = np.flatnonzero(np.diff(columns) > 1)
    assert len(gap) == 1
    assert (columns[gap[0]] - first) / width == np.clip(
        (columns[gap[0]] - first) / width, 1600 / 3100 - 0.01, 1600 / 3100 + 0.01
    )
    assert row > 0


def test_a_picture_is_small_whatever_the_run() -> None:
    assert len(timeline_picture(TimelineModel(ViewData("many", many_events(30_000))))) < 60_000


def drawn(text: str, x: int = 0) -> np.ndarray:
    """Return where a text is drawn on white, as True."""
    picture = Picture(400, 30)
    assert picture.text(x, 4, text, "#000000") == x + LETTER * len(text)
    return (decode(picture.done()) < 128).any(-1)


def ends(text: str) -> int:
    """Return the column of the last pixel of a text, in units."""
    return int(np.flatnonzero(drawn(text).any(0)).max() / FINE)


def test_letters_differ_and_words_stay_in_their_columns() -> None:
    letters = [drawn(chr(code)).tobytes() for code in range(33, 127)]
    assert len(set(letters)) == len(letters)
    for text, start, end in (("name    tile", 8, 12), ("ab   1,234", 5, 10), ("MMMMMMMM", 0, 8)):
        assert LETTER * start <= ends(text) < LETTER * (end + 0.5) + 1
    assert ends("ab   1,234") >= LETTER * 10 - 4  # a number of a column ends where the column ends
    assert (drawn("a\x00b") == drawn("a?b")).all()


def test_the_font_is_that_of_the_library_and_laid_out_without_the_system() -> None:
    font = _sized(19)
    assert font.layout_engine == ImageFont.Layout.BASIC and font.getname()[0] == "Aileron"


def test_the_picture_of_a_timeline_has_curves_and_the_critical_path() -> None:
    data = added().view_data
    timeline = TimelineModel(data)
    drawing = ElementTree.fromstring(timeline_picture(timeline, VectorPicture))
    known = known_curves(timeline)
    lines = [node for node in drawing if node.tag.endswith("polyline")]
    assert len(lines) == len(known) > 3
    text = " ".join(drawing.itertext())
    assert all(curve.title in text for _, curve in known)
    # The highest point of a curve is as far up as its most is of what it can be.
    for line, (_, curve) in zip(lines, known, strict=True):
        heights = [float(pair.split(",")[1]) for pair in line.get("points").split()]
        share = curve.values.max() / (curve.limit or curve.values.max())
        floor = float(
            drawing.findall("{*}polygon")[lines.index(line)].get("points").split()[-1].split(",")[1]
        )
        assert (floor - min(heights)) / 40 == pytest.approx(share, abs=0.01)
    marks = [n for n in drawing.findall("{*}rect") if n.get("fill") == LIMIT.light]
    path = data.profile.critical_path()
    assert len(marks) == len(path.steps)
    ticks = {
        n.text: float(n.get("x"))
        for n in drawing.findall("{*}text")
        if re.fullmatch(r"[\d.]+ us", n.text)
    }
    (_, first), (text, second) = list(ticks.items())[:2]
    width = (second - first) / (1000 * float(text.split()[0]))
    spans = sum(step.span_ns for step in path.steps)
    assert sum(float(n.get("width")) for n in marks) == pytest.approx(spans * width, rel=0.02)


def test_a_picture_of_shapes_keeps_spaces() -> None:
    picture = VectorPicture(400, 40)
    picture.text(10, 10, "    a  b")
    (node,) = ElementTree.fromstring(picture.done()).findall("{*}text")
    assert float(node.get("x")) == 10 + 4 * LETTER and node.text == "a \xa0b"
