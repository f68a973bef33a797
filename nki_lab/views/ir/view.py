"""The text of the program after each pass."""

from __future__ import annotations

from collections.abc import Iterator

from nki_lab.profiler.text_table import cut
from nki_lab.views.ir.model import PassListings
from nki_lab.views.ir.picture import ir_picture
from nki_lab.views.registry import Needs, Number, Parts, View, of_parts
from nki_lab.views.run import ViewData

#: Text of a program is printed with the cell up to this size, else when somebody looks.
PRINTED_OPERATIONS = 200


def ir_text(data: ViewData, limit: int | None) -> list[str]:
    """Return the text of the program after the last pass."""
    if not data.stages:
        return ["no program is known"]
    return cut(
        [
            f"{line.text}  // {line.place.label}" if line.place else line.text
            for line in data.stages[-1].lines
        ],
        limit,
    )


def _passes(parts: Parts) -> PassListings:
    return PassListings(parts.data)


@of_parts
def _overview(parts: Parts) -> bytes:
    return parts.kept(_passes).overview()


@of_parts
def _counts(parts: Parts) -> bytes:
    return parts.kept(_passes).counts()


@of_parts
def _stage(parts: Parts, number: int) -> bytes:
    return parts.kept(_passes).stage(number)


@of_parts
def _first(parts: Parts) -> list[str]:
    printed = parts.data.stages and len(parts.data.operations) <= PRINTED_OPERATIONS
    return ["ir", f"ir/{parts.kept(_passes).first_shown}"] if printed else ["ir"]


def _last_first(data: ViewData) -> Iterator[str]:
    return (f"ir/{n}" for n in reversed(range(len(data.stages))))


VIEW = View(
    name="ir",
    title="IR",
    needs=Needs.PROGRAM,
    text=ir_text,
    words="Text of the compiled program",
    parts={"ir": _overview, "ir/counts": _counts, "ir/{stage}": _stage},
    numbers={"stage": Number(lambda parts: len(parts.data.stages))},
    first=(_first,),
    saved=("ir/counts", _last_first),
    picture=ir_picture,
    if_small=True,
)
