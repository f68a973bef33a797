"""On what are pictures drawn that need no browser: pixels for PNG, shapes for SVG?

A code host, an exported page and a mail show these where nothing is alive. They are made of NumPy
arrays, zlib and text: no drawing library is needed, and no front end refuses them. Both kinds of paper
take the same calls, so each picture is drawn by one function.
"""

from __future__ import annotations

import html
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from nki_lab.widgets.glyphs import ADVANCE, LINE, doubled, text_dots
from nki_lab.widgets.theme import INK, PAPER, Colour, rgb

#: Pixels; front ends show it at half this size on fine screens.
WIDTH = 1200
# How strong the area below a curve is; and colours that a picture of many shades keeps as they are.
_AREA = 0.35
_KEPT_COLOURS = 64
# zlib's own choice: 9 makes a picture a fifth smaller and takes seven times as long.
_PACKING = 6
#: Pixels of a letter and of a line of text.
LETTER, TEXT_HEIGHT = 2 * ADVANCE, 2 * LINE


class Paper(Protocol):
    """What a picture is drawn on.

    Attributes:
        width, height: in pixels.
    """

    width: int
    height: int

    def fill(self, x: float, y: float, width: float, height: float, colour: Colour | str) -> None:
        """Fill a rectangle."""

    def text(self, x: float, y: float, text: str, colour: Colour | str = INK) -> float:
        """Write text with its upper left corner at x, y; returns where it ends."""

    def shade(self, x: int, y: int, height: int, shares: np.ndarray, colour: Colour | str) -> None:
        """Paint columns from x on, each as strongly as its share of 1."""

    def area(self, x: int, y: int, height: int, shares: np.ndarray, colour: Colour | str) -> None:
        """Draw a curve with the area below it: per column from x on, a share of the height."""

    def line(self, points: Sequence[tuple[float, float]], colour: Colour | str) -> None:
        """Draw a line through points."""

    def done(self) -> bytes:
        """Return the picture as a file."""


def of_theme(colour: Colour | str, theme: str) -> str:
    """Return a colour as #rrggbb in a theme, "light" or "dark"."""
    return colour if isinstance(colour, str) else str(getattr(colour, theme))


def strength(shares: np.ndarray) -> np.ndarray:
    """Return how strongly shares of 1 are painted: what is there at all can be seen."""
    return np.where(shares > 0, 0.12 + 0.88 * shares, 0.0)


class Picture:
    """An image of pixels that is drawn into.

    Args:
        width, height: in pixels.
        theme: "light" or "dark".
    """

    def __init__(self, width: int, height: int, theme: str = "light") -> None:
        self.width, self.height = width, height
        self.theme = theme
        self.pixels = np.empty((height, width, 3), dtype=np.uint8)
        self.pixels[:] = self._rgb(PAPER)

    def _rgb(self, colour: Colour | str) -> tuple[int, int, int]:
        return rgb(of_theme(colour, self.theme))

    def fill(self, x: float, y: float, width: float, height: float, colour: Colour | str) -> None:
        """Fill a rectangle; something of it is seen however small it is."""
        x0, y0 = max(0, round(x)), max(0, round(y))
        x1, y1 = max(round(x + width), round(x) + 1), max(round(y + height), round(y) + 1)
        self.pixels[y0 : max(0, y1), x0 : max(0, x1)] = self._rgb(colour)

    def text(self, x: float, y: float, text: str, colour: Colour | str = INK) -> float:
        """Write text with its upper left corner at x, y; returns where it ends."""
        dots = doubled(text_dots(text))
        x, y = round(x), round(y)
        area = self.pixels[y : y + dots.shape[0], x : x + dots.shape[1]]
        area[dots[: area.shape[0], : area.shape[1]]] = self._rgb(colour)
        return x + dots.shape[1]

    def shade(self, x: int, y: int, height: int, shares: np.ndarray, colour: Colour | str) -> None:
        """Paint columns from x on, each as strongly as its share of 1."""
        ink, paper = np.array(self._rgb(colour)), np.array(self._rgb(PAPER))
        columns = np.rint(paper + strength(shares)[:, None] * (ink - paper))
        self.pixels[y : y + height, x : x + len(shares)] = columns

    def area(self, x: int, y: int, height: int, shares: np.ndarray, colour: Colour | str) -> None:
        """Draw a curve with the area below it: per column from x on, a share of the height."""
        tops = np.rint(height * (1 - np.clip(shares, 0, 1))).astype(int)
        ink, paper = np.array(self._rgb(colour)), np.array(self._rgb(PAPER))
        down = np.arange(height + 1)[:, None]
        # The line reaches from each column's value to that of its neighbour, so that steps are joined.
        before = np.concatenate((tops[:1], tops[:-1]))
        on_line = (down >= np.minimum(tops, before)) & (down <= np.maximum(tops, before) + 1)
        here = self.pixels[y : y + height + 1, x : x + len(tops)]
        here[down > tops] = np.rint(paper + _AREA * (ink - paper))
        here[on_line] = ink

    def line(self, points: Sequence[tuple[float, float]], colour: Colour | str) -> None:
        """Draw a line through points, two pixels wide."""
        for (x0, y0), (x1, y1) in pairwise(points):
            count = int(max(abs(x1 - x0), abs(y1 - y0))) + 1
            columns = np.rint(np.linspace(x0, x1, count + 1)).astype(int)
            rows = np.rint(np.linspace(y0, y1, count + 1)).astype(int)
            for across, down in ((0, 0), (1, 0), (0, 1)):
                at = (rows + down, columns + across)
                inside = (at[0] >= 0) & (at[0] < self.height) & (at[1] >= 0) & (at[1] < self.width)
                self.pixels[at[0][inside], at[1][inside]] = self._rgb(colour)

    def png(self) -> bytes:
        """Return the image as PNG with a palette."""
        words = np.zeros((self.height, self.width), dtype="<u4")
        words.view(np.uint8).reshape(self.height, self.width, 4)[..., :3] = self.pixels[..., ::-1]
        # Most pixels are like the one before them: only where that ends a colour is looked up.
        flat = words.reshape(-1)
        starts = np.concatenate(([0], np.flatnonzero(flat[1:] != flat[:-1]) + 1))
        lengths = np.diff(starts, append=len(flat))
        colours, index = np.unique(flat[starts], return_inverse=True)
        if (
            len(colours) > 256
        ):  # shades beyond what a palette holds lose their last bits, rare ones only
            counts = np.bincount(index, weights=lengths)
            rare = counts < np.sort(counts)[-_KEPT_COLOURS]
            coarse = np.where(rare, colours & 0xF0F0F0, colours)
            colours, place = np.unique(coarse, return_inverse=True)
            index = place[index]
        if len(colours) > 256:
            rows = self.pixels.reshape(self.height, -1)
            return _png(self.width, self.height, 2, rows)
        palette = b"".join(int(c).to_bytes(3, "big") for c in colours)
        rows = np.repeat(index.astype(np.uint8), lengths).reshape(self.height, self.width)
        return _png(self.width, self.height, 3, rows, palette)

    def done(self) -> bytes:
        """Return the image as PNG."""
        return self.png()


def _png(width: int, height: int, kind: int, rows: np.ndarray, palette: bytes = b"") -> bytes:
    """Return rows of bytes as PNG; kind 2 is true colour, 3 a palette (PNG specification, 11.2)."""
    lines = np.zeros((height, rows.shape[1] + 1), dtype=np.uint8)
    lines[:, 1:] = rows
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))]
    if palette:
        chunks.append((b"PLTE", palette))
    chunks += [(b"IDAT", zlib.compress(lines.tobytes(), _PACKING)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


class VectorPicture:
    """A drawing of shapes, as SVG without script, style sheet or font of its own.

    Args:
        width, height: in pixels.
        theme: "light" or "dark".
    """

    def __init__(self, width: int, height: int, theme: str = "light") -> None:
        self.width, self.height = width, height
        self.theme = theme
        self._shapes = [f'<rect width="{width}" height="{height}" fill="{self._hex(PAPER)}"/>']

    def _hex(self, colour: Colour | str) -> str:
        return of_theme(colour, self.theme)

    def fill(self, x: float, y: float, width: float, height: float, colour: Colour | str) -> None:
        """Fill a rectangle."""
        w, h = max(width, 0.5), max(height, 0.5)
        self._shapes.append(
            f'<rect x="{_short(x)}" y="{_short(y)}" width="{_short(w)}" height="{_short(h)}"'
            f' fill="{self._hex(colour)}"/>'
        )

    def text(self, x: float, y: float, text: str, colour: Colour | str = INK) -> float:
        """Write text with its upper left corner at x, y; returns where it ends."""
        # Spaces are drawn as they stand, though neither XML nor browsers promise to keep them.
        written = text.lstrip(" ")
        at = x + LETTER * (len(text) - len(written))
        shown = "".join(c if c.isprintable() else "\ufffd" for c in written).rstrip(" ")
        shown = html.escape(shown.replace("  ", " \xa0").replace("  ", " \xa0"))
        if shown:
            self._shapes.append(
                f'<text x="{_short(at)}" y="{_short(y + 15)}" fill="{self._hex(colour)}">{shown}</text>'
            )
        return x + LETTER * len(text)

    def shade(self, x: int, y: int, height: int, shares: np.ndarray, colour: Colour | str) -> None:
        """Paint columns from x on, each as strongly as its share of 1; equal neighbours are one shape."""
        levels = np.rint(strength(shares) * 50) / 50
        edges = np.flatnonzero(np.diff(levels, prepend=-1.0, append=-1.0))
        for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if levels[first]:
                self._shapes.append(
                    f'<rect x="{x + first}" y="{y}" width="{end - first}" height="{height}"'
                    f' fill="{self._hex(colour)}" fill-opacity="{levels[first]:g}"/>'
                )

    def area(self, x: int, y: int, height: int, shares: np.ndarray, colour: Colour | str) -> None:
        """Draw a curve with the area below it: per column from x on, a share of the height."""
        levels = y + np.round(height * (1 - np.clip(shares, 0, 1)), 1)
        edges = np.flatnonzero(np.diff(levels, prepend=np.inf, append=np.inf))
        steps = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        points = [(x + k, float(levels[a])) for a, b in steps for k in (a, b)]
        ends = [(x + len(shares), y + height), (x, y + height)]
        shape = " ".join(f"{_short(a)},{_short(b)}" for a, b in [*points, *ends])
        self._shapes.append(
            f'<polygon points="{shape}" fill="{self._hex(colour)}" fill-opacity="{_AREA}"/>'
        )
        self.line(points, colour)

    def line(self, points: Sequence[tuple[float, float]], colour: Colour | str) -> None:
        """Draw a line through points."""
        shape = " ".join(f"{_short(x)},{_short(y)}" for x, y in points)
        self._shapes.append(
            f'<polyline points="{shape}" fill="none" stroke="{self._hex(colour)}" stroke-width="2"/>'
        )

    def done(self) -> bytes:
        """Return the drawing as SVG."""
        shapes = "\n".join(self._shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}"'
            f' width="{self.width}" height="{self.height}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace"'
            f' font-size="20">\n{shapes}\n</svg>\n'
        ).encode()


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


#: Format -> the paper that gives it.
PAPERS: dict[str, type[Picture] | type[VectorPicture]] = {"png": Picture, "svg": VectorPicture}


def cut(text: str, letters: int) -> str:
    """Return a text of at most so many letters; what is left out shows as two dots."""
    return text if len(text) <= letters else f"{text[: max(0, letters - 2)]}.."
