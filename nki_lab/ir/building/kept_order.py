"""Keeps in program order the instructions of a trace whose author said so."""

from __future__ import annotations

from contextlib import AbstractContextManager

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.source import Stack


class KeptOrder:
    """The `nl.no_reorder` blocks of a trace: in a block, each instruction waits for the one before it.

    A block in a block is part of it. What only looks (`Definition.observes`) comes after what was before it, and
    nothing waits for it.
    """

    def __init__(self) -> None:
        self.blocks = 0  # how many are open
        self.not_entered: list[_Block] = []
        self._last: Instruction | None = None

    def block(self, stack: Stack) -> AbstractContextManager[None]:
        """Return a context manager that keeps the order of what is emitted in its `with` block."""
        made = _Block(self, stack)
        self.not_entered.append(made)
        return made

    def end(self) -> None:
        """Forget the block that ends, if it is the outermost."""
        self.blocks -= 1
        if not self.blocks:
            self._last = None

    def note(self, made: Instruction) -> None:
        """Let an instruction wait for the one before it in its block."""
        if self._last is not None:
            made.after += (self._last,)
        if not made.definition.observes:
            self._last = made


class _Block(AbstractContextManager[None]):
    """A block of a trace, made at a place in the author's text."""

    def __init__(self, order: KeptOrder, stack: Stack) -> None:
        self.order, self.stack = order, stack

    def __enter__(self) -> None:
        if self in self.order.not_entered:
            self.order.not_entered.remove(self)
        self.order.blocks += 1

    def __exit__(self, *error: object) -> None:
        self.order.end()
