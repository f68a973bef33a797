"""What does an instruction do with its operands, and what must hold for them?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from nki_lab.dtypes import DType
from nki_lab.errors import InstructionError, RuleBroken
from nki_lab.targets.spaces import MemoryRegion

if TYPE_CHECKING:
    from nki_lab.ir.definition.instruction import Instruction
    from nki_lab.ir.tensor.view import NkiTensor
    from nki_lab.targets.spec import Target

READ, WRITE, UPDATE = "read", "write", "update"
SPOIL = "spoil"  # of hidden registers: what they hold afterwards is undefined


class Shape(Enum):
    """In which shape `.semantics` gets an operand."""

    STREAM = "stream"  # the shape of `dst`: free axes are one stream, ranks may differ
    VECTOR = "vector"  # one value per partition, shaped to broadcast against STREAM operands
    FLAT = "flat"  # [partitions, elements per partition]
    OWN = "own"  # the shape of the view


class Order(Enum):
    """In which order an instruction reads its operands and writes a result.

    Operands with one value per partition are read before anything is written, and results of one value per partition
    are written after everything is read, whatever the order.
    """

    STREAM = "stream"  # in each partition one element after the other; a result follows the elements that it takes
    LAST = "last"  # everything is read before the result is written
    MOVES = "moves"  # each element is written after the one that it comes from is read; nothing else is promised
    NONE = "none"  # nothing is promised: results must not lie over what is read


RoleOf = Callable[["Instruction"], "str | None"]


@dataclass(frozen=True)
class Operand:
    """What an instruction does with one of its parameters.

    Attributes:
        spaces: memories the tensor may live in.
        role: READ, WRITE or UPDATE, or a function of the instruction giving one of them or None (not touched).
        shape: how `.semantics` gets it.
        optional: None is allowed.
        scalar: a Python number is allowed.
        many: a list of tensors.
        nested: authors give each tensor of the list in a list of its own.
        dtypes: allowed element types, or None for any.
        part: `(i, tensor) -> view` of the elements that are really read or written, where the instruction passes over
            others of the tensor; None: all of them.
        part_written: the same of those that are written, where they are others than those that are read.
        chosen: other operands, or a mask, choose which of the elements go into `dst`, at most one into each of its
            own; the others are not used.
        indirect: the view may be one of `.indirect()` (Tensor Indirection).
        rows: a tile of indices may choose the rows of the view (DMA).
        axes: what the instruction calls the partition axis and the free axes, for views; one name stands for axes that
            run together, and one that only operands that are read have is summed over. "" is no name.
        along: `(i, view) -> {axis: word}`: what the instruction does along axes of the view ("reduced"), for views.
    """

    spaces: tuple[MemoryRegion, ...]
    role: str | RoleOf
    shape: Shape = Shape.STREAM
    optional: bool = False
    scalar: bool = False
    many: bool = False
    nested: bool = False
    dtypes: frozenset[DType] | None = None
    part: Callable[[Instruction, NkiTensor], NkiTensor] | None = None
    part_written: Callable[[Instruction, NkiTensor], NkiTensor] | None = None
    chosen: bool = False
    indirect: bool = False
    rows: bool = False
    axes: tuple[str, str] = ("", "")
    along: Callable[[Instruction, NkiTensor], dict[int, str]] | None = None


def reads(*spaces: MemoryRegion, **facts: Any) -> Operand:
    """Declare an operand that is read."""
    return Operand(spaces, facts.pop("role", READ), **facts)


def writes(*spaces: MemoryRegion, **facts: Any) -> Operand:
    """Declare an operand of which every element of the view is written and none is read."""
    return Operand(spaces, facts.pop("role", WRITE), **facts)


def updates(*spaces: MemoryRegion, **facts: Any) -> Operand:
    """Declare an operand that is read and written, or written only in part."""
    return Operand(spaces, facts.pop("role", UPDATE), **facts)


@dataclass(frozen=True)
class Rule:
    """One hardware constraint: the sentence of the docs and of the error, and its check.

    Attributes:
        text: the constraint as a sentence.
        about: parameters it is about; the error marks the first and describes all.
        holds: predicate of (instruction, target).
        help: what to write instead, or a function of the instruction that says it.
        error: class of the error.
        source: page of the official documentation.
        finding: kind of the finding a broken rule is, where the instruction still has a meaning; "" for an error.
    """

    text: str
    about: tuple[str, ...]
    holds: Callable[[Instruction, Target], bool]
    help: str | Callable[[Instruction], str] = ""
    error: type[InstructionError] = RuleBroken
    source: str = ""
    finding: str = ""


def rule(
    text: str,
    *about: str,
    help: str | Callable[[Instruction], str] = "",
    error: type[InstructionError] = RuleBroken,
    source: str = "",
    finding: str = "",
) -> Callable[[Callable[[Instruction, Target], bool]], Rule]:
    """Turn a predicate of (instruction, target) into a rule."""
    return lambda holds: Rule(text, about, holds, help, error, source, finding)
