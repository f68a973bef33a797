"""What does an instruction do with its operands, and what is known of the values?

Access    one operand: its tensor, its access pattern, and how the instruction calls its axes
Gather    which value of the device decides where the operand lies
Held      what a tensor holds at some moment, or why that is not known
Listing   lines of the author's text, as a source view shows them
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Gather:
    """An address that values of the device decide.

    Attributes:
        kind: "scalar" (one value moves the whole view), "vector" (a value per row) or "elements" (a value per element).
        index: the register or view that holds the values, as the program's text writes it.
        tensor: number of the index's tensor; -1 for a register.
        step: elements that one unit moves.
        limit: valid are 0 to limit - 1; 0 where only the end of the tensor limits them.
    """

    kind: str
    index: str
    tensor: int
    step: int
    limit: int


@dataclass(frozen=True)
class Access:
    """What one instruction does with one operand.

    Attributes:
        operand: name of the parameter.
        way: "reads", "writes" or "updates".
        tensor: number of its tensor.
        text: as the program's text writes it, e.g. "%x[0:128, 0:512]".
        shape, strides, offset: of the view, outermost axis first, in elements of `itemsize` bytes.
        itemsize, dtype: of one element of the view.
        names: what the instruction calls the first axis and the others ("K", "M"); empty where it has no name.
        along: axis -> what the instruction does along it ("reduced").
        per_partition: it has one value for all elements of a partition.
        gather: what decides where it lies while the kernel runs; None for a fixed place.
    """

    operand: str
    way: str
    tensor: int
    text: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    itemsize: int
    dtype: str
    names: tuple[str, str] = ("", "")
    along: Mapping[int, str] = field(default_factory=dict)
    per_partition: bool = False
    gather: Gather | None = None

    def elements(self) -> np.ndarray:
        """Return the number of every element within its tensor, in the shape of the view; for a fixed place."""
        return element_numbers(self.shape, self.strides, self.offset)


def element_numbers(shape: Sequence[int], strides: Sequence[int], offset: int) -> np.ndarray:
    """Return the number of every element that strides lead to from an offset, in the shape of the view."""
    found = np.full(tuple(shape), offset, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        along = np.arange(size, dtype=np.int64) * stride
        found += along.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return found


@dataclass(frozen=True, eq=False)
class Held:
    """What a tensor holds.

    Attributes:
        values: an array of the tensor's shape, or None where they are not known.
        note: at which moment, or why they are not known; one sentence without a full stop.
    """

    values: np.ndarray | None
    note: str


@dataclass(frozen=True)
class Listing:
    """Lines of the author's text.

    Attributes:
        label: the file, the same on every machine: "cell", "add.py".
        heading: the same with the number of the cell, as a notebook shows it: "cell [3]".
        first: number of the first line.
        lines: the lines.
    """

    label: str
    heading: str
    first: int
    lines: Sequence[str]


def contracted(accesses: Sequence[Access]) -> str:
    """Return the name of the axis that is summed over: two operands have it, and no result; "" for none."""
    read = [name for a in accesses if a.way == "reads" for name in set(a.names) if name]
    made = {name for a in accesses if a.way != "reads" for name in a.names}
    return next((name for name in read if read.count(name) > 1 and name not in made), "")
