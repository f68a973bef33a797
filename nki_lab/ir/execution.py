"""Which instructions ran, in which order?

Timing and profiling read this and never the simulator. A program without device loops runs in program order, so its
execution is known without computing a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nki_lab.ir.nodes import Kernel


@dataclass(frozen=True)
class Execution:
    """The executed stream of one core.

    Attributes:
        kernel: the compiled kernel.
        order: positions in `kernel.instructions`, in the order they ran; a loop body's positions repeat.
        iterations: per loop (by its position), the number of trips; empty without device loops.
    """

    kernel: Kernel
    order: Sequence[int]
    iterations: tuple[int, ...] = field(default=())

    @classmethod
    def in_program_order(cls, kernel: Kernel) -> Execution:
        """Return the execution of a kernel without device loops."""
        assert not kernel.has_loops, "only running a program with loops shows what it executes"
        return cls(kernel, range(len(kernel.instructions)))
