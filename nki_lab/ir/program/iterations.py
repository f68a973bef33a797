"""In which iteration of the author's Python loops was each instruction traced?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Iteration:
    """A loop variable and its value in one iteration.

    Attributes:
        name: the variable.
        value: a whole number; None where it is something else, or known only while the kernel runs.
        filename, line: where the loop stands.
        parent: position of the variable around it in `Iterations.entries`, -1 for the outermost.
    """

    name: str
    value: int | None
    filename: str
    line: int
    parent: int


@dataclass(frozen=True)
class Iterations:
    """The loop variables of a traced kernel.

    Attributes:
        entries: every variable and value, what is around it before it.
        innermost: `ident` of an instruction -> position in `entries`; -1 outside all loops.
    """

    entries: tuple[Iteration, ...]
    innermost: Mapping[int, int]

    def depth(self, entry: int) -> int:
        """Return how many loop variables an entry stands for, with those around it."""
        found = 0
        while entry >= 0:
            found += 1
            entry = self.entries[entry].parent
        return found
