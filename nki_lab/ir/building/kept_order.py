"""Order that the author asks for: `nl.no_reorder` blocks, in which each instruction waits for the one before it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from nki_lab.errors import NotAllowed
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
        self.last: Instruction | None = None  # of the outermost block

    def block(self, stack: Stack) -> AbstractContextManager[None]:
        """Return a context manager that keeps the order of what is emitted in its `with` block."""
        block = _Block(self, stack)
        self.not_entered.append(block)
        return block

    def check_entered(self) -> None:
        """Refuse a block that no `with` has entered: it keeps no order."""
        for block in self.not_entered:
            raise NotAllowed(
                "nl.no_reorder() has no effect without `with`",
                stack=block.stack,
                help="write `with nl.no_reorder():` and put the instructions into its block",
            )

    def note(self, i: Instruction) -> None:
        """Let an instruction wait for the one before it in its block."""
        if self.last is not None:
            i.after += (self.last,)
        if not i.definition.observes:
            self.last = i


class _Block(AbstractContextManager[None]):
    """A block of a trace, made at a place in the author's text."""

    def __init__(self, order: KeptOrder, stack: Stack) -> None:
        self.order, self.stack = order, stack

    def __enter__(self) -> None:
        if self in self.order.not_entered:
            self.order.not_entered.remove(self)
        self.order.blocks += 1

    def __exit__(self, *error: object) -> None:
        self.order.blocks -= 1
        if not self.order.blocks:
            self.order.last = None
