"""What is told of a run that is gone through instruction by instruction, whoever computes it?

Steps       the executed instructions, and what can be asked about them
Step        one of them, with the values around it
StepOperand what it does with one operand
StepPass    the pass of a device loop that it belongs to
NoSteps     a run that cannot be gone through, and why
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from nki_lab.profiler.view_data import Place

#: What is said of a run that keeps no way to compute it again.
NOT_KNOWN = "of this run only the outcome is known, not how to compute it again"


@dataclass(frozen=True, eq=False)
class StepOperand:
    """What an instruction does with one operand.

    Attributes:
        name: of its parameter.
        text: as the program's text writes it, e.g. "%x[0:128, 0:512]".
        tensor: number of the tensor behind it.
        way: "reads", "writes" or "updates".
        shape, dtype: of the view.
        memory: "sbuf", "psum", "private_hbm" or "shared_hbm".
        before, after: its values, in the dtype they are held in; None where nothing had written it yet, or where the
            instruction did not end.
        unwritten: which elements of `before` nothing had written, where that holds for some of them; else None.
        skipped: rows that the instruction leaves out, since their index is out of range; they have no values.
    """

    name: str
    text: str
    tensor: int
    way: str
    shape: tuple[int, ...]
    dtype: str
    memory: str
    before: np.ndarray | None = field(repr=False)
    after: np.ndarray | None = field(repr=False)
    unwritten: np.ndarray | None = field(default=None, repr=False)
    skipped: int = 0


@dataclass(frozen=True)
class StepPass:
    """A pass of a device loop.

    Attributes:
        place: where the loop was written.
        number: of the pass, from 0 on.
        total: how many passes this entry of the loop has.
        register: name of the register that counts them, or is its condition.
        value: what the register is set to for the pass; None for a `while` loop.
    """

    place: Place | None
    number: int
    total: int
    register: str
    value: int | None


@dataclass(frozen=True, eq=False)
class Step:
    """An executed instruction.

    Attributes:
        number: how many ran before it.
        position: in the compiled program.
        operands: in the order of its parameters.
        passes: of the device loops around it, the outermost first.
        registers: values by name, before it.
        registers_set: values by name of those it sets.
        printed: what it prints.
        error: what ends the run here; "" where nothing does.
    """

    number: int
    position: int
    operands: tuple[StepOperand, ...]
    passes: tuple[StepPass, ...] = ()
    registers: Mapping[str, int] = field(default_factory=dict)
    registers_set: Mapping[str, int] = field(default_factory=dict)
    printed: str = ""
    error: str = ""


class Steps(Protocol):
    """The executed instructions of a run.

    Attributes:
        order: per executed instruction its position in the compiled program.
        problem: why they cannot be gone through; "" where they can.
        note: how they are computed, in a sentence.
    """

    order: np.ndarray
    problem: str
    note: str

    def at(self, number: int) -> Step:
        """Return an executed instruction with the values around it."""

    def values(self, number: int, tensor: int) -> np.ndarray | None:
        """Return what a tensor holds after `number` instructions; None where nothing has written it, or no longer."""

    def next_not_finite(self, start: int, stop: int | None = None) -> int | None:
        """Return the first executed instruction from `start` on, before `stop`, that writes a NaN or an infinity."""

    def touching(self, tensor: int, writes: bool, reads: bool) -> np.ndarray:
        """Return the executed instructions that write or read a tensor, in order."""


class NoSteps:
    """A run that cannot be gone through."""

    note = ""

    def __init__(self, problem: str = NOT_KNOWN) -> None:
        self.order = np.zeros(0, dtype=np.uint32)
        self.problem = problem

    def at(self, number: int) -> Step:
        """Refuse: there is none."""
        raise IndexError(self.problem)

    def values(self, number: int, tensor: int) -> np.ndarray | None:
        """Return None."""
        return None

    def next_not_finite(self, start: int, stop: int | None = None) -> int | None:
        """Return None."""
        return None

    def touching(self, tensor: int, writes: bool, reads: bool) -> np.ndarray:
        """Return none."""
        return self.order
