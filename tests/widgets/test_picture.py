"""Is the picture a valid PNG that shows what ran when?"""

import struct
import zlib

import numpy as np

from nki_lab.profiler.view_data import ViewData
from nki_lab.widgets.glyphs import text_dots
from nki_lab.widgets.picture import WIDTH, Picture
from nki_lab.widgets.theme import ENGINE_COLOURS, rgb
from nki_lab.widgets.timeline_model import Timeline
from nki_lab.widgets.timeline_picture import timeline_picture
from tests.widgets.runs import by_hand, many_events


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
