"""Pictures that need no browser: pixels for PNG, shapes for SVG.

A code host, an exported page and a mail show these where nothing is alive. Both kinds of paper take the same calls, so
each picture is drawn by one function.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence
from functools import cache, lru_cache
from io import BytesIO
from typing import Protocol

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nki_lab.widgets.theme import INK, PAPER, RULE, Colour, rgb

#: The themes of pictures.
THEMES = ("light", "dark")
#: Units of every picture.
WIDTH = 1200
#: Pixels of a page that a picture takes: its text is then as large as that of live views.
SHOWN_WIDTH = 800
#: Pixels of a PNG per unit: two for each pixel of a page, for fine screens.
FINE = 2 * SHOWN_WIDTH / WIDTH
_PALETTE = 256
_DPI = 96 * 2
# How many strengths of a colour are told apart, and shades of a scale on each side of zero.
_LEVELS, _SHADES = 25, 50
# How strong the area below a curve is.
_AREA = 0.35
#: Units of a letter and of a line of text.
LETTER, TEXT_HEIGHT = 12, 18
_FONT_SIZE = 19
#: How much larger than text a headline is.
LARGE = 1.4
# Letters are drawn without shades: at two pixels for one a screen smooths them, and files are a third smaller.
_HARD = [0] * 112 + [255] * 144
_WORDS = re.compile(r"\S+(?: \S+)*")
_NUMBER = re.compile(r"[-+]?[\d,.]+( ?%)?$")


class Paper(Protocol):
    """What a picture is drawn on; all places and sizes are in units.

    Attributes:
        width, height: of the picture.
    """

    width: int
    height: int

    def fill(self, x: float, y: float, width: float, height: float, colour: Colour | str) -> None:
        """Fill a rectangle."""

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: Colour | str = INK,
        *,
        end: bool = False,
        scale: float = 1.0,
    ) -> float:
        """Write text with its upper left corner, or its right end, at x; returns where its last cell ends."""

    def shade(
        self, x: int, y: int, width: int, height: int, shares: np.ndarray, colour: Colour | str
    ) -> None:
        """Paint columns of equal width, each as strongly as its share of 1."""

    def area(
        self, x: int, y: int, width: int, height: int, shares: np.ndarray, colour: Colour | str
    ) -> None:
        """Draw a curve with the area below it: per column of equal width, a share of the height."""

    def line(self, points: Sequence[tuple[float, float]], colour: Colour | str) -> None:
        """Draw a line through points."""

    def dot(self, x: float, y: float, width: float, colour: Colour | str) -> None:
        """Draw a filled circle around a point."""

    def done(self, height: float | None = None) -> bytes:
        """Return the picture as a file, cut to a height."""


def of_theme(colour: Colour | str, theme: str) -> str:
    """Return a colour as #rrggbb in a theme, "light" or "dark"."""
    return colour if isinstance(colour, str) else str(getattr(colour, theme))


def heat_colour(scale: Sequence[Colour], share: float, theme: str) -> str:
    """Return the colour on a scale of a share from -1 to 1, in steps that a palette has room for."""
    stops = [rgb(of_theme(colour, theme)) for colour in scale]
    at = (round(min(1.0, max(-1.0, share)) * _SHADES) / _SHADES + 1) * (len(stops) - 1) / 2
    k = min(len(stops) - 2, int(at))
    parts = (round(a + (at - k) * (b - a)) for a, b in zip(stops[k], stops[k + 1], strict=True))
    return "#" + bytes(parts).hex()


def strength(shares: np.ndarray) -> np.ndarray:
    """Return how strongly shares of 1 are painted: what is there at all can be seen."""
    return np.where(shares > 0, 0.12 + 0.88 * shares, 0.0)


class Picture:
    """An image of pixels that is drawn into, with a border: its ground may differ from that of a page.

    Letters stand in cells of LETTER units, so that columns of a text stay columns; a word is drawn as a whole.

    Args:
        width, height: in units.
        theme: "light" or "dark".
    """

    def __init__(self, width: int, height: int, theme: str = "light") -> None:
        self.width, self.height = width, height
        self.theme = theme
        size = round(FINE * width), round(FINE * height)
        self._numbers: dict[str, int] = {}
        self.image = Image.new("P", size, self._number(PAPER))
        self._pen = ImageDraw.Draw(self.image)

    def _number(self, colour: Colour | str) -> int:
        """Return the number of a colour in the palette; of a colour without room the number of the nearest."""
        name = of_theme(colour, self.theme)
        if name not in self._numbers and len(self._numbers) == _PALETTE:
            held = np.array([rgb(one) for one in self._numbers])
            return int(((held - rgb(name)) ** 2).sum(axis=1).argmin())
        return self._numbers.setdefault(name, len(self._numbers))

    def fill(self, x: float, y: float, width: float, height: float, colour: Colour | str) -> None:
        """Fill a rectangle; something of it is seen however small it is."""
        x0, y0, x1, y1 = (round(FINE * edge) for edge in (x, y, x + width, y + height))
        corner = max(x1, x0 + 1) - 1, max(y1, y0 + 1) - 1
        self._pen.rectangle((x0, y0, *corner), self._number(colour))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: Colour | str = INK,
        *,
        end: bool = False,
        scale: float = 1.0,
    ) -> float:
        """Write text with its upper left corner, or its right end, at x; returns where its last cell ends."""
        size, cell, top = FINE * scale * _FONT_SIZE, FINE * scale * LETTER, round(FINE * y)
        first = round(FINE * x) - (round(cell * len(text)) if end else 0)
        for words in _WORDS.finditer(text):
            start, stop = (first + round(cell * k) for k in words.span())
            shown = "".join(c if c.isprintable() else "?" for c in words[0])
            # Another word follows two cells later at the earliest.
            mask = _mask(shown, stop - start + round(cell / 2), round(size))
            # A text that ends at x, and numbers of a column, end below each other.
            if end or (_NUMBER.match(shown) and words.start()):
                start = stop - mask.width
            self.image.paste(self._number(colour), (start, top), mask)
        return x + (0 if end else LETTER * scale * len(text))

    def shade(
        self, x: int, y: int, width: int, height: int, shares: np.ndarray, colour: Colour | str
    ) -> None:
        """Paint columns of equal width, each as strongly as its share of 1."""
        levels = np.rint(strength(_spread(shares, round(FINE * width))) * _LEVELS).astype(int)
        numbers = {
            n: self._number(self._mixed(colour, n / _LEVELS)) for n in np.unique(levels).tolist()
        }
        columns = np.array([numbers.get(n, 0) for n in range(_LEVELS + 1)], np.uint8)[levels]
        x0, y0, y1 = (round(FINE * edge) for edge in (x, y, y + height))
        self.image.paste(Image.fromarray(np.repeat(columns[None], y1 - y0, 0)), (x0, y0))

    def area(
        self, x: int, y: int, width: int, height: int, shares: np.ndarray, colour: Colour | str
    ) -> None:
        """Draw a curve with the area below it: per column of equal width, a share of the height."""
        x, y, high = (round(FINE * size) for size in (x, y, height))
        shares = _spread(shares, round(FINE * width))
        tops = np.rint(high * (1 - np.clip(shares, 0, 1))).astype(int)
        down = np.arange(high + 1)[:, None]
        # The line reaches from each column's value to that of its neighbour, so that steps are joined.
        before = np.concatenate((tops[:1], tops[:-1]))
        on_line = (down >= np.minimum(tops, before)) & (down <= np.maximum(tops, before) + 2)
        pixels = np.array(self.image.crop((x, y, x + len(tops), y + high + 1)))
        pixels[down > tops] = self._number(self._mixed(colour, _AREA))
        pixels[on_line] = self._number(colour)
        self.image.paste(Image.fromarray(pixels), (x, y))

    def line(self, points: Sequence[tuple[float, float]], colour: Colour | str) -> None:
        """Draw a line through points, two units wide."""
        self._pen.line(
            [(FINE * x, FINE * y) for x, y in points], self._number(colour), round(2 * FINE)
        )

    def dot(self, x: float, y: float, width: float, colour: Colour | str) -> None:
        """Draw a filled circle around a point."""
        self._pen.circle((FINE * x, FINE * y), FINE * width / 2, self._number(colour))

    def _mixed(self, colour: Colour | str, share: float) -> str:
        """Return the colour of a share of paint on paper."""
        ink, paper = (np.array(rgb(of_theme(c, self.theme))) for c in (colour, PAPER))
        return "#" + bytes(np.rint(paper + share * (ink - paper)).astype(np.uint8)).hex()

    def done(self, height: float | None = None) -> bytes:
        """Return the image as PNG with a palette, cut to a height."""
        wide, high = self.image.size
        picture = self.image.crop((0, 0, wide, round(FINE * height) if height else high))
        edge = (0, 0, wide - 1, picture.height - 1)
        ImageDraw.Draw(picture).rectangle(edge, None, self._number(RULE))
        picture.putpalette([part for colour in self._numbers for part in rgb(colour)])
        file = BytesIO()
        picture.save(file, "png", dpi=(_DPI, _DPI))
        return file.getvalue()


def _spread(shares: np.ndarray, columns: int) -> np.ndarray:
    """Return the share that each of some columns shows."""
    return shares[(np.arange(columns) * 2 + 1) * len(shares) // (2 * columns)]


@lru_cache(4096)
def _mask(text: str, width: int, size: int) -> Image.Image:
    """Return how strongly each pixel of a text is painted, in letters of at most a size that fit into a width."""
    sizes = range(size, 8, -1)
    font = _sized(next((s for s in sizes if _sized(s).getlength(text) <= width), sizes[-1]))
    mask = Image.new("L", (min(round(font.getlength(text)), width) + 1, round(1.2 * size)))
    ImageDraw.Draw(mask).text((0, round(0.8 * size)), text, 255, font, "ls")
    return mask.point(_HARD)


@cache
def _sized(size: int) -> ImageFont.FreeTypeFont:
    # The basic layout is the same everywhere; the other one depends on libraries of the system.
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)
    return font.font_variant(layout_engine=ImageFont.Layout.BASIC)


class VectorPicture:
    """A drawing of shapes, as SVG without script, style sheet or embedded font.

    Args:
        width, height: in units.
        theme: "light" or "dark".
    """

    def __init__(self, width: int, height: int, theme: str = "light") -> None:
        self.width, self.height = width, height
        self.theme = theme
        self._shapes: list[str] = []

    def _hex(self, colour: Colour | str) -> str:
        return of_theme(colour, self.theme)

    def fill(self, x: float, y: float, width: float, height: float, colour: Colour | str) -> None:
        """Fill a rectangle."""
        w, h = max(width, 0.5), max(height, 0.5)
        self._shapes.append(
            f'<rect x="{_short(x)}" y="{_short(y)}" width="{_short(w)}" height="{_short(h)}"'
            f' fill="{self._hex(colour)}"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        colour: Colour | str = INK,
        *,
        end: bool = False,
        scale: float = 1.0,
    ) -> float:
        """Write text with its upper left corner, or its right end, at x; returns where its last cell ends."""
        # Spaces are drawn as they stand, though neither XML nor browsers promise to keep them.
        written = text.lstrip(" ")
        at = x if end else x + LETTER * scale * (len(text) - len(written))
        shown = "".join(c if c.isprintable() else "\ufffd" for c in written).rstrip(" ")
        shown = html.escape(shown.replace("  ", " \xa0").replace("  ", " \xa0"))
        how = ' text-anchor="end"' * end + f' font-size="{_short(20 * scale)}"' * (scale != 1)
        if shown:
            self._shapes.append(
                f'<text x="{_short(at)}" y="{_short(y + 15 * scale)}" fill="{self._hex(colour)}"{how}>{shown}</text>'
            )
        return x + (0 if end else LETTER * scale * len(text))

    def shade(
        self, x: int, y: int, width: int, height: int, shares: np.ndarray, colour: Colour | str
    ) -> None:
        """Paint columns of equal width, each as strongly as its share of 1; equal neighbours are one shape."""
        levels = np.rint(strength(shares) * 50) / 50
        edges = np.flatnonzero(np.diff(levels, prepend=-1.0, append=-1.0))
        wide = width / len(shares)
        for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            if levels[first]:
                self._shapes.append(
                    f'<rect x="{_short(x + first * wide)}" y="{y}" width="{_short((end - first) * wide)}"'
                    f' height="{height}" fill="{self._hex(colour)}" fill-opacity="{levels[first]:g}"/>'
                )

    def area(
        self, x: int, y: int, width: int, height: int, shares: np.ndarray, colour: Colour | str
    ) -> None:
        """Draw a curve with the area below it: per column of equal width, a share of the height."""
        levels = y + np.round(height * (1 - np.clip(shares, 0, 1)), 1)
        edges = np.flatnonzero(np.diff(levels, prepend=np.inf, append=np.inf))
        steps = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        wide = width / len(shares)
        points = [(x + k * wide, float(levels[a])) for a, b in steps for k in (a, b)]
        ends = [(x + width, y + height), (x, y + height)]
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

    def dot(self, x: float, y: float, width: float, colour: Colour | str) -> None:
        """Draw a filled circle around a point."""
        self._shapes.append(
            f'<circle cx="{_short(x)}" cy="{_short(y)}" r="{_short(width / 2)}" fill="{self._hex(colour)}"/>'
        )

    def done(self, height: float | None = None) -> bytes:
        """Return the drawing as SVG, cut to a height."""
        width, high = self.width, _short(height or self.height)
        ground = f'<rect width="{width}" height="{high}" fill="{self._hex(PAPER)}" stroke="{self._hex(RULE)}"/>'
        shapes = "\n".join([ground, *self._shapes])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {high}"'
            f' width="{width}" height="{high}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace"'
            f' font-size="20">\n{shapes}\n</svg>\n'
        ).encode()


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


#: Format -> the paper that gives it.
PAPERS: dict[str, type[Picture] | type[VectorPicture]] = {"png": Picture, "svg": VectorPicture}


def cut(text: str, letters: int) -> str:
    """Cut a text to a number of letters; two dots stand for the rest."""
    return text if len(text) <= letters else f"{text[: max(0, letters - 2)]}.."


def named(drawing: bytes, words: str) -> bytes:
    """Return an SVG with words for whoever does not see it."""
    return drawing.replace(b">", f' role="img">\n<title>{html.escape(words)}</title>'.encode(), 1)


def wrapped(text: str, letters: int, margin: str = "    ") -> list[str]:
    """Return a line as several of at most so many letters, the later ones further to the right."""
    indent = " " * (len(text) - len(text.lstrip(" ")))
    first, *more = textwrap.wrap(
        text.strip(" "), letters - len(indent + margin), replace_whitespace=False, drop_whitespace=False,
        break_on_hyphens=False,
    ) or [""]  # fmt: skip
    return [indent + first, *(indent + margin + line.lstrip(" ") for line in more)]
