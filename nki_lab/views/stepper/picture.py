"""Draws the first executed instructions: what each writes, and its values."""

from __future__ import annotations

import numpy as np

from nki_lab.views.head import heading
from nki_lab.views.run import StepOperand, ViewData
from nki_lab.views.stepper.model import block_edges, coarse
from nki_lab.views.stepper.summary import number_text, summarize
from nki_lab.widgets.picture import (
    LETTER,
    TEXT_HEIGHT,
    WIDTH,
    Paper,
    Picture,
    VectorPicture,
    cut,
    heat_colour,
)
from nki_lab.widgets.theme import ENGINE_COLOURS, FAINT, HEAT, INK, LIMIT

_MARGIN = 12
_STEPS_SHOWN = 16
_ROW = 2 * TEXT_HEIGHT + 14
#: Blocks of a picture of values, and pixels of a block.
_DOWN, _ACROSS, _BLOCK = 8, 32, 6
_TEXT_LEFT = _MARGIN + 16 + _ACROSS * _BLOCK


def stepper_picture(
    data: ViewData, paper: type[Picture] | type[VectorPicture], theme: str = "light"
) -> bytes:
    """Return the first executed instructions as a picture, each with the values it has written."""
    steps = data.steps
    count = min(len(steps.order), _STEPS_SHOWN)
    picture = paper(WIDTH, 3 * _MARGIN + 2 * TEXT_HEIGHT + max(1, count) * _ROW, theme)
    told = (
        steps.problem
        or f"the first {count:,} of {len(steps.order):,} executed instructions, and what they write"
    )
    heading(picture, data, told, line=TEXT_HEIGHT + 4)
    for number in range(count):
        _step(picture, data, number, 2 * _MARGIN + 2 * TEXT_HEIGHT + number * _ROW, theme)
    return picture.done()


def _step(picture: Paper, data: ViewData, number: int, y: int, theme: str) -> None:
    step = data.steps.at(number)
    operation = data.operations[step.position]
    room = (WIDTH - _TEXT_LEFT - 12 - _MARGIN) // LETTER
    picture.fill(_TEXT_LEFT - 8, y, 4, _ROW - 10, ENGINE_COLOURS.get(operation.engine, INK))
    picture.text(_TEXT_LEFT, y, cut(f"{number} {operation.text}", room))
    written = [o for o in step.operands if o.way != "reads" and o.after is not None]
    picture.text(_TEXT_LEFT, y + TEXT_HEIGHT + 2, cut(_facts(written), room), FAINT)
    if written and written[0].after is not None:
        _values(picture, written[0].after, y, theme)


def _facts(written: list[StepOperand]) -> str:
    parts = []
    for operand in written:
        assert operand.after is not None
        summary = summarize(operand.after)
        bad = "".join(
            f", {n:,} {what}" for n, what in ((summary.nan, "NaN"), (summary.infinite, "Inf")) if n
        )
        shape = " x ".join(map(str, operand.shape))
        parts.append(
            f"{operand.text} {shape} {operand.dtype}: {number_text(summary.least)} to {number_text(summary.most)}{bad}"
        )
    return "; ".join(parts)


def _values(picture: Paper, values: np.ndarray, y: int, theme: str) -> None:
    """Draw the means of blocks of values; a block with a NaN or an infinity is marked."""
    grid = values.reshape(len(values), -1) if values.ndim else values.reshape(1, 1)
    if not grid.size:
        return
    down, across = block_edges(len(grid), _DOWN), block_edges(grid.shape[1], _ACROSS)
    mean, marks = coarse(grid, None, down, across)
    scale = float(np.abs(mean).max()) or 1.0
    for row in range(mean.shape[0]):
        for column in range(mean.shape[1]):
            colour: object = (
                LIMIT if marks[row, column] else heat_colour(HEAT, mean[row, column] / scale, theme)
            )
            picture.fill(_MARGIN + column * _BLOCK, y + row * _BLOCK, _BLOCK, _BLOCK, colour)  # type: ignore[arg-type]
