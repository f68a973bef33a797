"""What does an instruction do along the axes of an operand: reduce them, search them, walk over them?

These are facts for people who look at an operand (`Operand.along`). An axis that two operands share and sum over has
a name of its own instead (`Operand.axes`).
"""

from __future__ import annotations

from collections.abc import Callable

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.view import NkiTensor

Along = Callable[[Instruction, NkiTensor], dict[int, str]]

REDUCED, SEARCHED, SCANNED = "reduced", "searched", "scanned in order"


def over_free_axes(word: str) -> Along:
    """Say one word of all free axes of an operand."""
    return lambda i, view: dict.fromkeys(range(1, len(view.shape)), word)


def over_partitions(word: str) -> Along:
    """Say one word of the partition axis of an operand."""
    return lambda i, view: {0: word}


def into_result(parameter: str) -> Along:
    """Say of a tile's free axes that what is written is also reduced into another parameter, where that is given."""

    def along(i: Instruction, view: NkiTensor) -> dict[int, str]:
        if not isinstance(getattr(i, parameter), NkiTensor):
            return {}
        return dict.fromkeys(range(1, len(view.shape)), f"{REDUCED} into {parameter}")

    return along
