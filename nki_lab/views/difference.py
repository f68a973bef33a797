"""Shows where a result differs from its reference: a map by partition and free index, regions, and numbers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nki_lab.source import printable, text_of
from nki_lab.views.head import MARGIN
from nki_lab.widgets.picture import (
    LETTER,
    PAPERS,
    SHOWN_WIDTH,
    TEXT_HEIGHT,
    WIDTH,
    Paper,
    cut,
    heat_colour,
    named,
    wrapped,
)
from nki_lab.widgets.static_page import picture_html
from nki_lab.widgets.theme import FAINT, HEAT, INK, LIMIT, RULE

#: Blocks of the map, down and across: in pictures, and in text.
_BLOCKS, _BLOCKS_OF_TEXT = (64, 128), (16, 64)
_REGIONS_SHOWN, _PLACES_SHOWN = 5, 8
_PARTITIONS = 128
_LINE = TEXT_HEIGHT + 6
_ROOM = (WIDTH - 2 * MARGIN) // LETTER
_LEFT = MARGIN + 7 * LETTER
_MAP = 8  # units that a block takes at least


class Region(NamedTuple):
    """Neighbouring wrong elements: their rows and columns (both ends included), how many, and the worst one."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int
    wrong: int
    worst: tuple[int, int]


@dataclass(frozen=True)
class Difference:
    """Where a result is not what it should be, ready to be shown.

    Attributes:
        name: of the result, such as "the result [0]".
        found, expected: arrays of one shape.
        wrong: which elements are outside the tolerance, at least one.
    """

    name: str
    found: np.ndarray
    expected: np.ndarray
    wrong: np.ndarray

    @cached_property
    def _flat(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Found, expected and wrong as rows (the first axis) by all other axes."""
        rows = len(self.found) if self.found.ndim > 1 else 1
        found, expected = (
            a.astype(np.float64).reshape(rows, -1) for a in (self.found, self.expected)
        )
        return found, expected, self.wrong.reshape(rows, -1)

    @cached_property
    def badness(self) -> np.ndarray:
        """Per element its distance from what it should be: 0 where it is right, infinite where either is not finite."""
        found, expected, wrong = self._flat
        with np.errstate(all="ignore"):
            distance = np.abs(found - expected)
        return np.where(wrong, np.where(np.isfinite(distance), distance, np.inf), 0.0)

    def blocks(
        self, down: int, across: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return (row edges, column edges, share of wrong elements, signed worst distance) of a map of blocks.

        The distance is that of the block's worst element, infinite where the map marks NaN or infinity.
        """
        found, expected, wrong = self._flat
        rows, columns = (
            np.linspace(0, size, min(size, most) + 1).astype(int)
            for size, most in zip(wrong.shape, (down, across), strict=True)
        )

        def reduced(values: np.ndarray, how: np.ufunc) -> np.ndarray:
            return how.reduceat(how.reduceat(values, rows[:-1], axis=0), columns[:-1], axis=1)  # type: ignore[no-any-return]

        sizes = np.diff(rows)[:, None] * np.diff(columns)[None]
        share = reduced(wrong.astype(np.int64), np.add) / sizes
        with np.errstate(all="ignore"):
            above = reduced(np.where(found > expected, self.badness, 0.0), np.maximum)
        most = reduced(self.badness, np.maximum)
        return rows, columns, share, np.where(above >= most, most, -most)

    @cached_property
    def _groups(self) -> list[list[tuple[int, int]]]:
        """Blocks of the map with wrong elements, those that touch each other together; the worst group first."""
        _, _, share, distance = self.blocks(*_BLOCKS)

        def rank(group: list[tuple[int, int]]) -> tuple[float, float, tuple[int, int]]:
            worst = max(abs(float(distance[block])) for block in group)
            return -worst, -sum(float(share[block]) for block in group), min(group)

        return sorted(_touching(share > 0), key=rank)

    @cached_property
    def regions(self) -> list[Region]:
        """The worst groups of neighbouring wrong elements, the worst first."""
        rows, columns, _, _ = self.blocks(*_BLOCKS)
        wrong = self._flat[2]
        regions = []
        for group in self._groups[:_REGIONS_SHOWN]:
            inside = np.zeros(wrong.shape, dtype=bool)
            for row, column in group:
                part = slice(rows[row], rows[row + 1]), slice(columns[column], columns[column + 1])
                inside[part] = wrong[part]
            down, across = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
            row, column = divmod(int(np.argmax(np.where(inside, self.badness, -1))), wrong.shape[1])
            bounds = (int(down[0]), int(down[-1]), int(across[0]), int(across[-1]))
            regions.append(Region(*bounds, int(inside.sum()), (row, column)))
        return regions

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """Wrong elements as (row, column): the worst of every region, then the largest differences of numbers."""
        columns = self.badness.shape[1]
        # Where all of a region is NaN, numbers from elsewhere say more than the next NaN.
        finite = np.where(np.isfinite(self.badness), self.badness, 0.0)
        order = np.argsort(-finite, axis=None, kind="stable")[:_PLACES_SHOWN].tolist()
        others = [divmod(n, columns) for n in order]
        places = [*(r.worst for r in self.regions), *(p for p in others if finite[p])]
        return list(dict.fromkeys(places))[:_PLACES_SHOWN]

    @property
    def _row_name(self) -> str:
        return "partition" if len(self._flat[2]) <= _PARTITIONS else "row"

    def _title(self) -> str:
        wrong = self._flat[2]
        return f"{self.name} differs in {int(wrong.sum()):,} of {wrong.size:,} elements"

    def _told(self) -> Iterator[str]:
        """Yield a line for each region, then one for each of the worst elements."""
        found, expected, _ = self._flat
        for number, r in enumerate(self.regions, 1):
            area = (r.last_row - r.first_row + 1) * (r.last_column - r.first_column + 1)
            rows = _range(f"{self._row_name}", r.first_row, r.last_row)
            columns = _range("element", r.first_column, r.last_column)
            yield f"{number}. {rows}, {columns}: {r.wrong:,} of {area:,} wrong"
        if len(self._groups) > len(self.regions):
            yield f"and {len(self._groups) - len(self.regions):,} more regions"
        yield ""
        yield _ROW.format("worst at", "found", "expected", "difference")
        for place in self.places:
            at = f"[{', '.join(map(str, self._index(place)))}]"
            with np.errstate(all="ignore"):
                values = (found[place], expected[place], found[place] - expected[place])
            yield _ROW.format(at, *(f"{value:.6g}".replace("nan", "NaN") for value in values))

    def _index(self, place: tuple[int, int]) -> tuple[int, ...]:
        """Return the index of an element in the result itself."""
        number = place[0] * self._flat[2].shape[1] + place[1]
        return tuple(int(n) for n in np.unravel_index(number, self.found.shape))

    def __repr__(self) -> str:
        _, _, share, distance = self.blocks(*_BLOCKS_OF_TEXT)
        tenths = np.ceil(share * 9).astype(int)
        rows = ["".join("." if not n else str(n) for n in row) for row in tenths.tolist()]
        for row, column in np.argwhere(np.isinf(distance)).tolist():
            rows[row] = f"{rows[row][:column]}N{rows[row][column + 1 :]}"
        return text_of(
            [
                self._title(),
                f"{self._row_name}s from top to bottom, elements from left to right;"
                " . is right, 9 all wrong, N not finite",
                *(f"  {row}" for row in rows),
                *(f"  {line}" for line in self._told()),
            ]
        )

    def to_image(self, format: str = "png", theme: str = "light") -> bytes:
        """Return the map with regions and worst elements as a picture.

        Args:
            format: "png" or "svg".
            theme: "light" or "dark".
        """
        told = [part for line in self._told() for part in wrapped(line, _ROOM)]
        rows, columns, _, distance = self.blocks(*_BLOCKS)
        high = max(120, min(400, _MAP * len(distance)))
        top = MARGIN + 2 * _LINE + 6
        picture = PAPERS[format](WIDTH, top + high + (3 + len(told)) * _LINE + MARGIN, theme)
        picture.text(MARGIN, MARGIN, cut(self._title(), _ROOM), INK)
        self._legend(picture, MARGIN + _LINE)
        wide = WIDTH - _LEFT - MARGIN
        picture.fill(_LEFT, top, wide, high, RULE)
        across, down = wide / columns[-1], high / rows[-1]
        finite = np.abs(distance[np.isfinite(distance)])
        scale = float(finite.max(initial=0.0)) or 1.0
        for (row, column), value in np.ndenumerate(distance):
            if not value:
                continue
            x, y = _LEFT + columns[column] * across, top + rows[row] * down
            size = np.diff(columns)[column] * across, np.diff(rows)[row] * down
            share = np.sign(value) * (0.35 + 0.65 * min(1.0, abs(value) / scale))
            bad = LIMIT if np.isinf(value) else heat_colour(HEAT, float(share), theme)
            picture.fill(x, y, *size, bad)
            if np.isinf(value):  # a line as well: not told by its colour alone
                picture.line([(x, y + size[1]), (x + size[0], y)], INK)
        for number, r in enumerate(self.regions, 1):
            x, y = _LEFT + r.first_column * across, top + r.first_row * down
            right, low = _LEFT + (r.last_column + 1) * across, top + (r.last_row + 1) * down
            picture.line([(x, y), (right, y), (right, low), (x, low), (x, y)], INK)
            picture.fill(x, y, 1.5 * LETTER, TEXT_HEIGHT, INK)
            picture.text(x + 3, y, str(number), RULE)
        picture.text(_LEFT - LETTER, top, "0", FAINT, end=True)
        picture.text(_LEFT - LETTER, top + high - TEXT_HEIGHT, str(rows[-1] - 1), FAINT, end=True)
        picture.text(_LEFT, top + high + 4, f"element 0; {self._row_name}s downwards", FAINT)
        picture.text(WIDTH - MARGIN, top + high + 4, str(columns[-1] - 1), FAINT, end=True)
        for k, line in enumerate(told):
            picture.text(MARGIN, top + high + (k + 1.5) * _LINE, line, INK)
        drawing = picture.done()
        return named(drawing, self._title()) if format == "svg" else drawing

    def _legend(self, picture: Paper, y: float) -> None:
        x: float = MARGIN
        for colour, words in (
            (RULE, "right"), (HEAT[0], "less than expected"), (HEAT[-1], "more than expected"),
            (LIMIT, "NaN or infinite"),
        ):  # fmt: skip
            picture.fill(x, y + 2, 14, 14, colour)
            x = picture.text(x + 20, y, words, FAINT) + LETTER

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        png, svg = (self.to_image(format) for format in ("png", "svg"))
        kind, smaller = min((("svg+xml", svg), ("png", png)), key=lambda form: len(form[1]))
        words = printable(self._title())
        return {
            "text/plain": repr(self),
            "image/png": base64.b64encode(png).decode(),
            "text/html": picture_html(words, smaller, kind, SHOWN_WIDTH),
        }, {"image/png": {"width": SHOWN_WIDTH, "alt": words}}


_ROW = "{:<20}  {:>14}  {:>14}  {:>14}"


def _range(what: str, first: int, last: int) -> str:
    return f"{what} {first:,}" if first == last else f"{what}s {first:,} to {last:,}"


def _touching(marked: np.ndarray) -> Iterator[list[tuple[int, int]]]:
    """Yield groups of marked blocks that share an edge or a corner."""
    left = {(int(r), int(c)) for r, c in np.argwhere(marked)}
    while left:
        reached, group = [left.pop()], []
        while reached:
            row, column = reached.pop()
            group.append((row, column))
            near = {(row + i, column + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= near
            reached += near
        yield group


class _Shown:
    """Shows differences: as text, until a notebook sets its own way."""

    def __init__(self) -> None:
        self.how: Callable[[Difference], None] = print

    def __call__(self, difference: Difference) -> None:
        self.how(difference)


#: Shows a difference where the reader is.
show_difference = _Shown()
