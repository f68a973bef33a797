"""The executed instructions, each with the values before and after it."""

from __future__ import annotations

from collections.abc import Iterator

from nki_lab.views.registry import Needs, Number, View
from nki_lab.views.run import ViewData
from nki_lab.views.stepper.model import (
    not_finite,
    stepper_overview,
    stepper_step,
    stepper_window,
)
from nki_lab.views.stepper.picture import stepper_picture
from nki_lab.views.stepper.text import stepper_text
from nki_lab.widgets.packing import UnknownPart

#: Executed instructions whose values a saved page holds.
STEPS_RECORDED = 60


def _before(data: ViewData, step: int, operand: int, row: int, column: int) -> bytes:
    return _window(data, step, operand, False, row, column)


def _after(data: ViewData, step: int, operand: int, row: int, column: int) -> bytes:
    return _window(data, step, operand, True, row, column)


def _window(data: ViewData, step: int, operand: int, after: bool, row: int, column: int) -> bytes:
    count = len(data.steps.at(step).operands)
    if operand >= count:
        raise UnknownPart(f"there is no part number '{operand}' of {count}")
    return stepper_window(data, step, operand, after, row, column)


def _saved(data: ViewData) -> Iterator[str]:
    if not data.steps.problem:
        yield from ("memory", "stepper/not_finite/0")
        yield from (f"stepper/at/{n}" for n in range(min(len(data.steps.order), STEPS_RECORDED)))


_ANY = Number(lambda parts: 1 << 53)

VIEW = View(
    name="stepper",
    title="Stepper",
    needs=Needs.RUN,
    text=stepper_text,
    words="Values of operands, instruction by instruction,",
    parts={
        "stepper": stepper_overview,
        "stepper/at/{step}": stepper_step,
        "stepper/not_finite/{start}": not_finite,
        "stepper/window/{step}/{operand}/before/{row}/{column}": _before,
        "stepper/window/{step}/{operand}/after/{row}/{column}": _after,
    },
    numbers={
        "step": Number(lambda parts: len(parts.data.steps.order)),
        "start": Number(lambda parts: len(parts.data.steps.order) + 1),
        "operand": _ANY,
        "row": _ANY,
        "column": _ANY,
    },
    # Nothing at first: the stepper runs the kernel once more, which waits until somebody looks.
    saved=(_saved,),
    live=(
        "stepper/window/{step}/{operand}/before/{row}/{column}",
        "stepper/window/{step}/{operand}/after/{row}/{column}",
    ),
    picture=stepper_picture,
)
