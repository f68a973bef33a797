"""Which instructions of a trace run in program order because the author said so?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nki_lab.ir.instruction import Instruction


class KeptOrder:
    """The `nl.no_reorder` blocks of a trace: in a block, each instruction waits for the one before it.

    A block in a block is part of it. What only looks (`Definition.observes`) comes after what was before it, and
    nothing waits for it.
    """

    def __init__(self) -> None:
        self.blocks = 0  # how many are open
        self._last: Instruction | None = None

    @contextmanager
    def block(self) -> Iterator[None]:
        """Keep the order of what is emitted in a `with` block."""
        self.blocks += 1
        try:
            yield
        finally:
            self.blocks -= 1
            if not self.blocks:
                self._last = None

    def note(self, made: Instruction) -> None:
        """Let an instruction wait for the one before it in its block."""
        if self._last is not None:
            made.after += (self._last,)
        if not made.definition.observes:
            self._last = made
