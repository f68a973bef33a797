"""What may follow a trace as it grows, and answer which values tensors have so far?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from nki_lab.ir.building.builder import Builder
    from nki_lab.ir.definition.instruction import Instruction
    from nki_lab.ir.program.nodes import Loop
    from nki_lab.ir.tensor.register import Register
    from nki_lab.ir.tensor.view import NkiTensor


class Watch(Protocol):
    """Runs instructions while they are traced; a Builder tells it what it appends."""

    def begin(self, builder: Builder) -> None:
        """Take the builder, which holds the kernel's arguments and nothing else yet."""

    def emitted(self, i: Instruction) -> None:
        """Follow an instruction that breaks no rule."""

    def opened(self, loop: Loop) -> None:
        """Follow the beginning of a device loop, whose body is still empty."""

    def closed(self, loop: Loop) -> None:
        """Follow the end of a device loop, with its body."""

    def values(self, tensor: NkiTensor) -> np.ndarray:
        """Return a copy of what a view holds now."""

    def shown(self, tensor: NkiTensor) -> str:
        """Return what a view holds now, as text."""

    def value(self, register: Register) -> int | None:
        """Return what a register holds now; None where it was never set."""


def watch_of(owner: Any) -> Watch | None:
    """Return what follows the trace a tensor or register belongs to, if anything does."""
    return getattr(owner, "watch", None)
