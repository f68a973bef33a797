"""A kernel explained: how its arguments lie in tiles, and its steps with their lines and tiles."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from nki_lab.source import printable, text_of
from nki_lab.views.head import MARGIN
from nki_lab.widgets.picture import (
    LETTER,
    SHOWN_WIDTH,
    TEXT_HEIGHT,
    WIDTH,
    VectorPicture,
    cut,
    named,
)
from nki_lab.widgets.static_page import picture_html
from nki_lab.widgets.theme import FAINT, SERIES

# Units of a column of tiles, of the lines above it, and of 128 partitions.
_WIDE, _LINE, _TALL = WIDTH // 3, TEXT_HEIGHT + 4, 72
_COLOURS = {"sbuf": SERIES[0], "psum": SERIES[2]}
#: Tiles of a step that are shown.
_TILES_SHOWN = 6


class Tile(NamedTuple):
    """A tile on the chip.

    Attributes:
        name: of the tile.
        memory: "sbuf" or "psum".
        dtype: of its elements.
        partitions, free: how many partitions it has, and the sizes of the axes in each of them.
        axes: what lies in the partitions and in the free axes, where that is known.
    """

    name: str
    memory: str
    dtype: str
    partitions: int
    free: tuple[int, ...]
    axes: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        down, across = (f" ({axis})" if axis else "" for axis in self.axes)
        sizes = " x ".join(f"{size:,}" for size in self.free) or "1"
        return f"{self.memory.upper()}, {self.partitions} partitions{down} x {sizes} free{across}, {self.dtype}"


class Layout(NamedTuple):
    """An argument or result in device memory, and the tile that it is loaded into or stored from.

    Attributes:
        name: of the argument.
        axes: its axes with their sizes, outermost first.
        tile: the first tile; None where none holds a part of it.
        is_result: the tile is stored, not loaded.
    """

    name: str
    axes: tuple[tuple[str, int], ...]
    tile: Tile | None
    is_result: bool

    def __str__(self) -> str:
        axes = ", ".join(f"{name} {size:,}".strip() for name, size in self.axes)
        arrow = "<-" if self.is_result else "->"
        return f"{self.name} [{axes}] {arrow} {self.tile or 'no tile'}"


class ExplainedStep(NamedTuple):
    """A step of a kernel.

    Attributes:
        text: one sentence.
        place: file and lines; empty where the step names none.
        source: the text of these lines, with their numbers.
        engines: how many instructions of them run on each engine.
        tiles: what these instructions read and write on the chip.
    """

    text: str
    place: str = ""
    source: str = ""
    engines: Mapping[str, int] = {}
    tiles: Sequence[Tile] = ()

    @property
    def heading(self) -> str:
        """Where it stands and what it runs."""
        counts = ", ".join(f"{count:,} {engine}" for engine, count in self.engines.items())
        return f"{self.place}; instructions: {counts}" if counts else self.place


@dataclass(frozen=True)
class Explanation:
    """What a kernel does, as text and as HTML with drawn tiles.

    Attributes:
        call: name and signature.
        doc: its docstring.
        compiled: size, dtype and chip that the layouts are of.
        layouts: of its arguments and results.
        steps: in order.
        facts: what is known besides, one line each.
    """

    call: str
    doc: str
    compiled: str
    layouts: tuple[Layout, ...]
    steps: tuple[ExplainedStep, ...]
    facts: tuple[str, ...]

    def __repr__(self) -> str:
        lines = [self.call, "", *self.doc.split("\n"), "", f"layouts of {self.compiled}"]
        lines += [f"  {layout}" for layout in self.layouts]
        for number, step in enumerate(self.steps, 1):
            lines += ["", f"{number}. {step.text}"]
            if step.heading:
                lines.append(f"   {step.heading}")
            lines += [f"   {tile.name}: {tile}" for tile in step.tiles[:_TILES_SHOWN]]
        return text_of([*lines, "", *self.facts])

    def __str__(self) -> str:
        return repr(self)

    @cached_property
    def _html(self) -> str:
        drawn = [layout.tile._replace(name=layout.name) for layout in self.layouts if layout.tile]
        lines = "".join(f"<li>{html.escape(str(layout))}</li>" for layout in self.layouts)
        steps = "".join(f"<li>{_step_html(step)}</li>" for step in self.steps)
        facts = "".join(f"<li>{html.escape(fact)}</li>" for fact in self.facts)
        return (
            f"<div><h4>{html.escape(self.call)}</h4><pre>{html.escape(self.doc)}</pre>"
            f"<p>Layouts of {html.escape(self.compiled)}</p>{_drawn(drawn)}<ul>{lines}</ul>"
            f"<ol>{steps}</ol><ul>{facts}</ul></div>"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self._html}


def _step_html(step: ExplainedStep) -> str:
    shown = html.escape(step.text)
    if step.source:
        source = html.escape(printable(step.source, keep="\n"))
        shown += (
            f"<details><summary>{html.escape(step.heading)}</summary><pre>{source}</pre></details>"
        )
    return shown + _drawn(step.tiles[:_TILES_SHOWN])


def _drawn(tiles: Sequence[Tile]) -> str:
    """Return a picture of each tile: partitions run down, the free axes across, as wide as their elements."""
    most = max(map(_free, tiles), default=1)
    return "".join(_picture(tile, _free(tile) / most) for tile in tiles)


def _picture(tile: Tile, share: float) -> str:
    picture, room = VectorPicture(_WIDE, 4 * _LINE + _TALL), _WIDE // LETTER - 2
    down, across = (f", {axis}" if axis else "" for axis in tile.axes)
    sizes = " x ".join(f"{size:,}" for size in tile.free) or "1"
    top, tall = MARGIN + 2 * _LINE, max(3.0, _TALL * tile.partitions / 128)
    picture.text(MARGIN, MARGIN, cut(f"{tile.name}: {tile.memory.upper()}, {tile.dtype}", room))
    picture.text(
        MARGIN, MARGIN + _LINE, cut(f"down: {tile.partitions} partitions{down}", room), FAINT
    )
    colour = _COLOURS.get(tile.memory, SERIES[1])
    picture.fill(MARGIN, top, max(4.0, (_WIDE - 2 * MARGIN) * share), tall, colour)
    picture.text(MARGIN, top + tall + 2, cut(f"across: {sizes} free{across}", room), FAINT)
    words = f"{tile.name}: {tile}"
    return picture_html(
        words, named(picture.done(), words), "svg+xml", _WIDE * SHOWN_WIDTH // WIDTH
    )


def _free(tile: Tile) -> int:
    elements = 1
    for size in tile.free:
        elements *= size
    return elements
