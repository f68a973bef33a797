"""Tests that the picture is a valid PNG that shows what ran when."""

import re
import struct
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

from nki_lab.views.run import ViewData
from nki_lab.views.timeline.curves import known_curves
from nki_lab.views.timeline.model import Timeline
from nki_lab.views.timeline.picture import timeline_picture
from nki_lab.widgets.glyphs import text_dots
from nki_lab.widgets.picture import LETTER, WIDTH, Picture, VectorPicture
from nki_lab.widgets.theme import ENGINE_COLOURS, LIMIT, rgb
from tests.views.runs import added, by_hand, many_events


def decode(png: bytes) -> np.ndarray:
    """Read a PNG without filters, as colours [height, width, 3]; checks every chunk."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        name, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            name + data
        )
        chunks[name], at = data, at + 12 + length
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert depth == 8 and list(chunks)[-1] == b"IEND"
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not rows[:, 0].any()
    if kind == 2:
        return rows[:, 1:].reshape(height, width, 3)
    return np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)[rows[:, 1:]]


def test_pixels_survive(rng) -> None:
    for colours in (5, 200, 4_000):
        picture = Picture(40, 30)
        few = rng.integers(0, 256, (colours, 3), dtype=np.uint8)
        picture.pixels[:] = few[rng.integers(0, colours, (30, 40))]
        found = decode(picture.png()).astype(int)
        # Beyond a palette's 256 colours the picture is kept as it is.
        assert (found == picture.pixels).all()


def test_a_track_is_coloured_where_it_is_busy() -> None:
    timeline = Timeline(by_hand())
    image = decode(timeline_picture(timeline)).astype(int)
    assert image.shape[1] == WIDTH
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
    assert len(timeline_picture(Timeline(ViewData("many", many_events(30_000))))) < 60_000


def test_letters_are_letters() -> None:
    def drawn(letter: str) -> list[str]:
        return ["".join("#" if dot else "." for dot in row[:5]) for row in text_dots(letter)[:7]]

    assert drawn("T") == ["#####", "..#..", "..#..", "..#..", "..#..", "..#..", "..#.."]
    assert drawn("L") == ["#....", "#....", "#....", "#....", "#....", "#....", "#####"]
    assert (text_dots("é") == text_dots("?")).all()
    letters = [text_dots(chr(code)).tobytes() for code in range(33, 127)]
    assert len(set(letters)) == len(letters)


def test_a_picture_of_many_shades_keeps_its_background() -> None:
    picture = Picture(64, 64)
    picture.pixels[:20] = np.arange(20 * 64 * 3).reshape(20, 64, 3) % 251
    found = decode(picture.png())
    assert (found[20:] == 255).all()
    assert np.abs(found[:20].astype(int) - picture.pixels[:20]).max() < 16


def test_the_picture_of_a_timeline_has_curves_and_the_critical_path() -> None:
    data = added().view_data
    timeline = Timeline(data)
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
