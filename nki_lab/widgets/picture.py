"""Pictures that need no browser: pixels for PNG, shapes for SVG.

A code host, an exported page and a mail show these where nothing is alive. Both kinds of paper take the same calls, so
each picture is drawn by one function.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from io import BytesIO
from typing import Protocol

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nki_lab.widgets.theme import INK, PAPER, Colour, rgb

#: Pixels; front ends show it at half this size on fine screens.
WIDTH = 1200
_PALETTE = 256
_CODE = np.array([65536, 256, 1], dtype=np.int32)
# How strong the area below a curve is.
_AREA = 0.35
#: Pixels of a letter and of a line of text.
LETTER, TEXT_HEIGHT = 12, 18
_FONT_SIZE = 19
# Edges of letters have few shades, so that a palette holds them all.
_SHADES = [round(k / 255 * 2) * 255 // 2 for k in range(256)]
_WORDS = re.compile(r"\S+(?: \S+)*")
_NUMBER = re.compile(r"[-+]?[\d,.]+( ?%)?$")


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

    Letters stand in cells of LETTER pixels, so that columns of a text stay columns; a word is drawn as a whole.

    Args:
        width, height: in pixels.
        theme: "light" or "dark".
    """

    def __init__(self, width: int, height: int, theme: str = "light") -> None:
        self.width, self.height = width, height
        self.theme = theme
        self.image = Image.new("RGB", (width, height), self._hex(PAPER))
        self._pen = ImageDraw.Draw(self.image)

    def _hex(self, colour: Colour | str) -> str:
        return of_theme(colour, self.theme)

    def fill(self, x: float, y: float, width: float, height: float, colour: Colour | str) -> None:
        """Fill a rectangle; something of it is seen however small it is."""
        x0, y0 = round(x), round(y)
        corner = max(round(x + width), x0 + 1) - 1, max(round(y + height), y0 + 1) - 1
        self._pen.rectangle((x0, y0, *corner), self._hex(colour))

    def text(self, x: float, y: float, text: str, colour: Colour | str = INK) -> float:
        """Write text with its upper left corner at x, y; returns where it ends."""
        x, top = round(x), round(y)
        for words in _WORDS.finditer(text):
            start, end = x + LETTER * words.start(), x + LETTER * words.end()
            shown = "".join(c if c.isprintable() else "?" for c in words[0])
            mask = _mask(shown, end - start)
            if _NUMBER.match(shown) and words.start():  # numbers of a column end below each other
                start = end - mask.width
            self.image.paste(self._hex(colour), (start, top), mask)
        return x + LETTER * len(text)

    def shade(self, x: int, y: int, height: int, shares: np.ndarray, colour: Colour | str) -> None:
        """Paint columns from x on, each as strongly as its share of 1."""
        ink, paper = np.array(rgb(self._hex(colour))), np.array(rgb(self._hex(PAPER)))
        columns = np.rint(paper + strength(shares)[:, None] * (ink - paper)).astype(np.uint8)
        self.image.paste(Image.fromarray(np.repeat(columns[None], height, 0)), (x, y))

    def area(self, x: int, y: int, height: int, shares: np.ndarray, colour: Colour | str) -> None:
        """Draw a curve with the area below it: per column from x on, a share of the height."""
        tops = np.rint(height * (1 - np.clip(shares, 0, 1))).astype(int)
        ink, paper = np.array(rgb(self._hex(colour))), np.array(rgb(self._hex(PAPER)))
        down = np.arange(height + 1)[:, None]
        # The line reaches from each column's value to that of its neighbour, so that steps are joined.
        before = np.concatenate((tops[:1], tops[:-1]))
        on_line = (down >= np.minimum(tops, before)) & (down <= np.maximum(tops, before) + 1)
        pixels = np.array(self.image.crop((x, y, x + len(tops), y + height + 1)))
        pixels[down > tops] = np.rint(paper + _AREA * (ink - paper))
        pixels[on_line] = ink
        self.image.paste(Image.fromarray(pixels), (x, y))

    def line(self, points: Sequence[tuple[float, float]], colour: Colour | str) -> None:
        """Draw a line through points, two pixels wide."""
        self._pen.line(list(points), self._hex(colour), 2)

    def done(self) -> bytes:
        """Return the image as PNG with a palette."""
        picture, colours = self.image, self.image.getcolors(_PALETTE)
        if colours is not None:  # the palette has each colour as it is
            codes = np.sort([_CODE @ colour for _, colour in colours])
            numbers = np.searchsorted(codes, np.asarray(picture) @ _CODE).astype(np.uint8)
            picture = Image.fromarray(numbers)
            picture.putpalette((codes[:, None] // _CODE % 256).astype(np.uint8).tobytes())
        file = BytesIO()
        picture.save(file, "png")
        return file.getvalue()


@lru_cache(4096)
def _mask(text: str, width: int) -> Image.Image:
    """Return how strongly each pixel of a text is painted, in letters that fit into a width."""
    sizes = range(_FONT_SIZE, 8, -1)
    font = _sized(next((s for s in sizes if _sized(s).getlength(text) <= width), sizes[-1]))
    mask = Image.new("L", (min(round(font.getlength(text)), width) + 1, TEXT_HEIGHT + 4))
    ImageDraw.Draw(mask).text((0, TEXT_HEIGHT - 3), text, 255, font, "ls")
    return mask.point(_SHADES)


@cache
def _sized(size: int) -> ImageFont.FreeTypeFont:
    # The basic layout is the same everywhere; the other one depends on libraries of the system.
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)
    return font.font_variant(layout_engine=ImageFont.Layout.BASIC)


class VectorPicture:
    """A drawing of shapes, as SVG without script, style sheet or embedded font.

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
    """Cut a text to a number of letters; two dots stand for the rest."""
    return text if len(text) <= letters else f"{text[: max(0, letters - 2)]}.."
