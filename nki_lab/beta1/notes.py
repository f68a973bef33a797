"""What decisions of the dialect ask of a trip, noted while the trips of a loop may be replayed (replay.py).

What the loop variable moves enters decisions here: whether an index lies inside its tensor, whether a mask leaves all
of an access, whether an instruction reads what it writes. Each of them notes a number, which is affine in the loop
variable because the body is (repeatable.py). So two trips tell how far the decisions stay the same.
"""

from __future__ import annotations

from typing import Any

from nki_lab.ir.tensor.trace import active


class Notes:
    """What the trips of the open loops have noted.

    Attributes:
        least: numbers whose sign decides; they are not negative.
        same: what must not change from trip to trip.
        copied: how many instructions are copies of others.
        zeros: parts of tensors with zeros of PSUM that decisions ask about, and whether they were written anew.
    """

    __slots__ = ("least", "same", "zeros", "copied")

    def __init__(self) -> None:
        self.least: list[int] = []
        self.same: list[Any] = []
        self.zeros: list[tuple[Any, bool]] = []
        self.copied = 0

    def sign(self, number: int) -> None:
        """Note that the sign of a number decides."""
        self.least.append(number if number >= 0 else -1 - number)

    def differs(self) -> None:
        """Note what no two trips do alike, as far as can be told."""
        self.same.append(object())


def noted() -> Notes | None:
    """Return the notes of the trace that runs, while some are taken."""
    builder = active.builder
    return None if builder is None else builder.notes
