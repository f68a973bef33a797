"""What does a run look like where nothing is alive: on a code host, in an exported page, in a mail?

A picture of the timeline, made of NumPy arrays and packed as PNG with zlib: no drawing library is
needed, and no front end refuses it.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from nki_lab.profiler.report import badge, bound_sentence
from nki_lab.widgets.glyphs import ADVANCE, LINE, doubled, text_dots
from nki_lab.widgets.theme import ENGINE_COLOURS, FAINT, INK, PAPER, RULE, rgb
from nki_lab.widgets.timeline_model import Timeline

#: Pixels; front ends show it at half this size on fine screens.
WIDTH = 1200
_MARGIN = 12
_ROW = 26
_TEXT_HEIGHT = 2 * LINE
_LETTER = 2 * ADVANCE
_TRACKS_SHOWN = 24


class Picture:
    """An image that is drawn into.

    Args:
        width, height: in pixels.
    """

    def __init__(self, width: int, height: int) -> None:
        self.pixels = np.empty((height, width, 3), dtype=np.uint8)
        self.pixels[:] = rgb(PAPER.light)

    def fill(self, x: int, y: int, width: int, height: int, colour: str) -> None:
        """Fill a rectangle."""
        self.pixels[max(0, y) : y + height, max(0, x) : x + width] = rgb(colour)

    def text(self, x: int, y: int, text: str, colour: str = INK.light) -> int:
        """Write text with its upper left corner at x, y; returns where it ends."""
        dots = doubled(text_dots(text))
        area = self.pixels[y : y + dots.shape[0], x : x + dots.shape[1]]
        area[dots[: area.shape[0], : area.shape[1]]] = rgb(colour)
        return x + dots.shape[1]

    def shade(self, x: int, y: int, height: int, shares: np.ndarray, colour: str) -> None:
        """Paint columns from x on, each as strongly as its share of 1."""
        strength = np.where(shares > 0, 0.12 + 0.88 * shares, 0.0)[:, None]
        ink, paper = np.array(rgb(colour)), np.array(rgb(PAPER.light))
        self.pixels[y : y + height, x : x + len(shares)] = np.rint(paper + strength * (ink - paper))

    def png(self) -> bytes:
        """Return the image as PNG with a palette."""
        words = self.pixels.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
        colours, index = np.unique(words, return_inverse=True)
        if len(colours) > 256:  # shades beyond what a palette holds lose their last bits
            words &= 0xF8F8F8
            colours, index = np.unique(words, return_inverse=True)
        height, width = words.shape
        index = index.reshape(height, width)
        if len(colours) > 256:
            return _png(width, height, 2, self.pixels.reshape(height, -1))
        palette = b"".join(int(c).to_bytes(3, "big") for c in colours)
        return _png(width, height, 3, index.astype(np.uint8), palette)


def _png(width: int, height: int, kind: int, rows: np.ndarray, palette: bytes = b"") -> bytes:
    """Return rows of bytes as PNG; kind 2 is true colour, 3 a palette (PNG specification, 11.2)."""
    lines = np.zeros((height, rows.shape[1] + 1), dtype=np.uint8)
    lines[:, 1:] = rows
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    if palette:
        chunks.append((b"PLTE", palette))
    chunks += [(b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def timeline_picture(timeline: Timeline) -> bytes:
    """Return the timeline of a run as PNG: a row per engine and DMA queue, and what bounds the run."""
    profile = timeline.profile
    tracks = timeline.tracks[:_TRACKS_SHOWN]
    left = _MARGIN + _LETTER * min(24, max((len(t.label) for t in tracks), default=0) + 7)
    top = 3 * _TEXT_HEIGHT + 3 * _MARGIN
    height = top + _ROW * len(tracks) + _TEXT_HEIGHT + 2 * _MARGIN
    picture = Picture(WIDTH, height)
    title = f"{timeline.data.name} on {profile.target.name}: {profile.total_ns / 1000:,.3f} us"
    room = (WIDTH - 2 * _MARGIN) // _LETTER
    picture.text(_MARGIN, _MARGIN, _cut(title, room))
    picture.text(_MARGIN, _MARGIN + _TEXT_HEIGHT + 4, _cut(badge(profile), room), FAINT.light)
    sentence = f"bound by {bound_sentence(profile)}"
    picture.text(_MARGIN, _MARGIN + 2 * _TEXT_HEIGHT + 8, _cut(sentence, room), FAINT.light)
    columns = WIDTH - left - _MARGIN
    total = timeline.last_ns - timeline.first_ns
    _time_axis(picture, timeline, left, columns, top + _ROW * len(tracks))
    edges = np.linspace(timeline.first_ns, timeline.last_ns, columns + 1)
    for k, track in enumerate(tracks):
        y = top + k * _ROW
        share = f"{100 * track.busy_ns / total:.0f}%" if len(track.rows) else "-"
        label = _cut(track.label, (left - _MARGIN) // _LETTER - 6)
        picture.text(_MARGIN, y + 4, label, INK.light if len(track.rows) else FAINT.light)
        picture.text(left - _LETTER * (len(share) + 1), y + 4, share, FAINT.light)
        colour = ENGINE_COLOURS[track.engine].light if track.engine in ENGINE_COLOURS else INK.light
        picture.shade(left, y + 2, _ROW - 6, track.coverage(edges), colour)
        picture.fill(left, y + _ROW - 2, columns, 1, RULE.light)
    more = len(timeline.tracks) - len(tracks)
    if more:
        picture.text(_MARGIN, height - _TEXT_HEIGHT, f"and {more} more", FAINT.light)
    return picture.png()


def _time_axis(picture: Picture, timeline: Timeline, left: int, columns: int, y: int) -> None:
    total = timeline.last_ns - timeline.first_ns
    step = _round_step(total / 5)
    for tick in range(0, total + 1, step):
        x = left + round(tick / total * (columns - 1))
        picture.fill(x, y, 1, 6, FAINT.light)
        text = f"{(tick + timeline.first_ns) / 1000:g} us"
        if x + _LETTER * len(text) <= WIDTH:
            picture.text(x, y + 8, text, FAINT.light)


def _round_step(least: float) -> int:
    power = 1
    while True:
        for factor in (1, 2, 5):
            if power * factor >= least:
                return power * factor
        power *= 10


def _cut(text: str, letters: int) -> str:
    return text if len(text) <= letters else f"{text[: max(0, letters - 2)]}.."
