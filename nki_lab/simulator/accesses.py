"""Says which elements an executed instruction reads and writes.

For operands at fixed places they are known when a program is bound. Where a register or a tile of indices decides,
`Late.accesses(i)` gives them with the values of the moment. Checks that follow a run (`Observer`) read nothing else,
so that all of them mean the same elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from nki_lab.ir.definition.instruction import READ, UPDATE, WRITE, Instruction
from nki_lab.ir.program.nodes import Finding
from nki_lab.ir.tensor.coverage import part_of
from nki_lab.ir.tensor.view import NkiTensor


class Elements(NamedTuple):
    """Elements of one storage: all of `window`, or those at `at`.

    Attributes:
        window: a view at a fixed place.
        at: arrays of indices into `window`, as NumPy takes them; None for all of its elements.
        rows: where rows of the operand are left out, which of them the first axis of `at` has.
        exact: of an operand that is updated, all these elements are written.
    """

    window: NkiTensor
    at: tuple[np.ndarray, ...] | None = None
    rows: np.ndarray | None = None
    exact: bool = False

    def of(self, marks: np.ndarray, unit: int) -> np.ndarray:
        """Return the marks of these elements.

        Args:
            marks: of the storage, flat, one per `unit` bytes.
            unit: the size of an element, or 1; where an element has several units, they are a last axis.
        """
        part = part_of(marks, unit, self.window)
        return part if self.at is None else part[self.at]

    def mark(self, marks: np.ndarray, unit: int, value: object = True) -> None:
        """Set the marks of these elements to `value`."""
        part = part_of(marks, unit, self.window)
        part[... if self.at is None else self.at] = value

    def mark_where(self, marks: np.ndarray, unit: int, chosen: np.ndarray) -> None:
        """Set the marks of those of these elements that `chosen`, in their shape, names."""
        part = part_of(marks, unit, self.window)
        if self.at is not None:
            part[tuple(a[chosen] for a in self.at)] = True
        else:
            part |= chosen[..., None] if part.ndim > chosen.ndim else chosen


class Access(NamedTuple):
    """What an executed instruction does with one tensor.

    Attributes:
        position: of the argument.
        role: READ, WRITE or UPDATE. Some of what is updated may keep its value.
        view: as the program has it: an operand, one of a list, or a tile of indices that addresses an operand.
        elements: those that are touched.
        is_index: it is a tile of indices.
    """

    position: int
    role: str
    view: NkiTensor
    elements: Elements
    is_index: bool = False


class Observer(Protocol):
    """Follows the accesses of a run, each before its instruction runs."""

    def wants(self, i: Instruction) -> bool:
        """Tell, when a program is bound, whether the accesses of an instruction matter."""

    def before(self, i: Instruction, accesses: Sequence[Access]) -> None:
        """Take note of what an instruction is about to touch."""


class Checker(Observer, Protocol):
    """An observer that reports what it has seen."""

    def begin(self) -> None:
        """Forget the last run, before another one and when its results are let go of."""

    def noticed(self) -> tuple[Finding, ...]:
        """Return what the last run showed."""


def indices_read(i: Instruction) -> list[Access]:
    """Return the accesses to the tiles of indices that address an instruction's operands."""
    indices = []
    for position in {*i.form.reads, *i.form.writes} if i.form.dynamic else ():
        value = i.args[position]
        for view in value if type(value) is tuple else (value,):
            if view.dynamic is not None and type(view.dynamic.index) is NkiTensor:
                index = view.dynamic.index
                indices.append(Access(position, READ, index, Elements(index), is_index=True))
    return indices


def fixed_accesses(i: Instruction) -> list[Access]:
    """Return what an instruction touches whose operands are all at fixed places."""
    accesses = []
    for position, role in i.definition.roles(i):
        value = i.args[position]
        for view in value if type(value) is tuple else (value,):
            accesses += operand_accesses(i, position, role, view, view)
    return accesses


def operand_accesses(
    i: Instruction, position: int, role: str, view: NkiTensor, static: NkiTensor
) -> list[Access]:
    """Return the accesses to one operand, whose elements lie at `static`; those that are passed over are left out."""
    operand = i.definition.operands[i.definition.params[position]]
    if operand.part is None:
        return [Access(position, role, view, Elements(static))]
    accesses = []
    if role == READ or (role == UPDATE and operand.part_written):
        accesses.append(Access(position, READ, view, Elements(operand.part(i, static))))
    if role != READ:
        written = operand.part_written or operand.part
        accesses.append(Access(position, WRITE, view, Elements(written(i, static))))
    return accesses
