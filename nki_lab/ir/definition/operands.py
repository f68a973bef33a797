"""Operands: what an instruction does with each, and the rules that follow from how it is declared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nki_lab.dtypes import DType, float32, int64
from nki_lab.errors import InstructionError, NotOnTarget, RuleBroken, WrongOperand
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.grid import NkiGrid
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.facts import DGE, GENERATED, LANGUAGE
from nki_lab.targets.spaces import PSUM, SBUF, MemoryRegion
from nki_lab.targets.spec import Target

if TYPE_CHECKING:
    from nki_lab.ir.definition.instruction import Definition, Instruction

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


class State(Enum):
    """Hidden registers of an engine, a row per partition, that outlive an instruction and that no operand names.

    Attributes:
        parameter: the name under which `.semantics` asks for the rows of its partitions.
        title: what an author knows them as.
        words: registers per partition.
        dtype: their NumPy type.
    """

    # One per partition on Scalar and on Vector (nki/api/nki/isa/__init__.py:1351, 2349).
    ACT_ACCUMULATOR = ("act_accumulator", "the accumulator of Scalar", 1, np.float32)
    DVE_ACCUMULATOR = ("dve_accumulator", "the accumulator of Vector", 1, np.float32)
    # XORWOW states of six words: four on Vector (nki/guides/architecture/trainium3_arch.rst:208), one on GpSimd
    # (nki/api/nki/isa/__init__.py:2197).
    DVE_RNG = ("dve_rng", "the random state of Vector", 24, np.uint32)
    POOL_RNG = ("pool_rng", "the random state of GpSimd", 6, np.uint32)

    def __init__(self, parameter: str, title: str, words: int, dtype: Any) -> None:
        self.parameter = parameter
        self.title = title
        self.words = words
        self.dtype = np.dtype(dtype)

    @property
    def is_accumulator(self) -> bool:
        """Whether it collects values, which mean nothing until it is reset."""
        return self.dtype.kind == "f"

    __hash__ = object.__hash__  # members are singletons; Enum's hash costs a Python call


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
        nested: authors give each tensor of the list in its own list.
        dtypes: allowed element types, or None for any.
        wide: int64 is allowed where `dtypes` allows any.
        part: `(i, tensor) -> view` of the elements that are really read or written, where the instruction passes over
            others of the tensor; None: all of them.
        part_written: the same of those that are written, where they are others than those that are read.
        chosen: other operands, or a mask, choose which of the elements go into `dst`, at most one into each of its
            own; the others are not used.
        indirect: the view may be one of `.indirect()` (Tensor Indirection).
        rows: a tile of indices may choose the rows of the view (DMA).
        axes: what the instruction calls the partition axis and the free axes, for views; one name stands for axes that
            run together, and one that only operands that are read have is summed over. "" is not a name.
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
    wide: bool = False
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
        since: version of NKI from which on kernels are held to it; "" for all.
        copy: the copy of an operand that makes it hold, for dialects whose compiler inserts one: into "sbuf", as
            "float32", to other "partitions", or to fewer "axes"; "" where none does.
    """

    text: str
    about: tuple[str, ...]
    holds: Callable[[Instruction, Target], bool]
    help: str | Callable[[Instruction], str] = ""
    error: type[InstructionError] = RuleBroken
    source: str = ""
    finding: str = ""
    since: str = ""
    copy: str = ""


def rule(
    text: str,
    *about: str,
    help: str | Callable[[Instruction], str] = "",
    error: type[InstructionError] = RuleBroken,
    source: str = "",
    finding: str = "",
    since: str = "",
    copy: str = "",
) -> Callable[[Callable[[Instruction, Target], bool]], Rule]:
    """Turn a predicate of (instruction, target) into a rule."""
    return lambda holds: Rule(text, about, holds, help, error, source, finding, since, copy)


# -- what an instruction does along the axes of an operand: values of `Operand.along` ----------------------------

Along = Callable[["Instruction", NkiTensor], dict[int, str]]

REDUCED, SEARCHED, SCANNED = "reduced", "searched", "scanned in order"


def over_free_axes(word: str) -> Along:
    """Say one word of all free axes of an operand."""
    return lambda i, view: dict.fromkeys(range(1, len(view.shape)), word)


def over_partitions(word: str) -> Along:
    """Say one word of the partition axis of an operand."""
    return lambda i, view: {0: word}


def into_result(parameter: str) -> Along:
    """Say of a tile's free axes that what is written is also reduced into another parameter, where that is given."""

    def along(i: Instruction, view: NkiTensor) -> dict[int, str]:
        if not isinstance(getattr(i, parameter), NkiTensor):
            return {}
        return dict.fromkeys(range(1, len(view.shape)), f"{REDUCED} into {parameter}")

    return along


# -- rules that follow from a declaration ----------------------------------------------------------

_INDIRECT = f"{LANGUAGE}:546"
_INDIRECT_DMA = f"{DGE}:102"


@cache
def operand_rules(definition: Definition) -> tuple[Rule, ...]:
    """Return the rules of availability, kind, memory, element type, rank and partitions."""
    rules = [_available(feature) for feature in definition.requires]
    for name, operand in definition.operands.items():
        rules.append(_kind(name, operand))
        rules.append(_memory(name, operand))
        if operand.dtypes is not None:
            rules.append(_dtypes(name, operand))
        elif not operand.wide:
            rules.append(_not_wide(name))
        rules += (_rank(name), _partitions(name), _start(name), _adjacent(name), _free_axes(name))
        rules += _dynamic(name, operand)
        if operand.shape is Shape.VECTOR:
            rules.append(_vector(name))
        elif operand.role != READ:
            rules.append(_spread(name))
    return tuple(rules)


def _values(i, name):
    value = i.args[i.definition.position[name]]
    return value if type(value) is tuple else (value,)


def _tensors(i, name, on_chip=False):
    return [
        t for t in _values(i, name) if type(t) is NkiTensor and (not on_chip or t.storage.on_chip)
    ]


def _available(feature: str) -> Rule:
    names = " or ".join(t.name for t in ALL_TARGETS if t.supports(feature))
    return Rule(
        f"needs a target with `{feature}`",
        (),
        lambda i, hw: hw.supports(feature),
        help=f"choose {names}, e.g. by %nki_target or NEURON_PLATFORM_TARGET_OVERRIDE",
        error=NotOnTarget,
    )


def _kind(name: str, operand: Operand) -> Rule:
    allowed = ["a list of tensors" if operand.many else "a tensor"]
    if operand.nested:
        allowed = ["a list of lists of one tensor"]
    if operand.scalar:
        allowed.append("a number")
    if operand.optional:
        allowed.append("None")

    def holds(i, hw):
        value = i.args[i.definition.position[name]]
        if operand.many:
            return type(value) is tuple and all(type(v) is NkiTensor for v in value)
        return (
            type(value) is NkiTensor
            or (operand.scalar and type(value) in (int, float, bool))
            or (operand.optional and value is None)
        )

    return Rule(
        f"`{name}` must be {' or '.join(allowed)}",
        (name,),
        holds,
        help="write [[tensor]], or [[first], [second]]"
        if operand.nested
        else lambda i: instead_of(_values(i, name)),
        error=WrongOperand,
    )


def instead_of(values: tuple[Any, ...], otherwise: str = "make tensors with nl.ndarray") -> str:
    """Return how to write a tensor where `values` are given: in another way where one is a grid."""
    if any(isinstance(v, NkiGrid) for v in values):
        return "give the selection of the grid as a tensor: `.data`"
    return otherwise


def _memory(name: str, operand: Operand) -> Rule:
    if operand.spaces == (PSUM,):
        advice = "make it with nl.ndarray(shape, dtype, buffer=nl.psum)"
    elif all(s.on_chip for s in operand.spaces):
        advice = "load it into an SBUF tile first with nisa.dma_copy"
    else:
        advice = "move it through SBUF with nisa.tensor_copy first"
    return Rule(
        f"`{name}` must be in {' or '.join(sorted({s.name for s in operand.spaces}))}",
        (name,),
        lambda i, hw: all(t.storage.buffer in operand.spaces for t in _tensors(i, name)),
        help=advice,
        error=WrongOperand,
        copy="sbuf" if SBUF in operand.spaces else "",
    )


def _dtypes(name: str, operand: Operand) -> Rule:
    allowed = operand.dtypes
    assert allowed is not None
    return Rule(
        f"`{name}` must have dtype {' or '.join(sorted(allowed))}",
        (name,),
        lambda i, hw: all(t.dtype in allowed for t in _tensors(i, name)),
        help="cast it with nisa.tensor_copy into a tile of an allowed dtype",
        copy="float32" if allowed == {float32} else "",
    )


def _not_wide(name: str) -> Rule:
    return Rule(
        f"`{name}` must not have dtype int64, which only scalars and copies take",
        (name,),
        lambda i, hw: all(t.dtype is not int64 for t in _tensors(i, name)),
        help="pass an array of 32-bit integers: array.astype(np.int32); a scalar of 64 bits is nisa.scalar_load(tile)",
        source=f"{GENERATED}/nki.isa.scalar_load.html",
    )


def _rank(name: str) -> Rule:
    return Rule(
        f"`{name}` in SBUF or PSUM must have a partition axis and at least one free axis",
        (name,),
        lambda i, hw: all(len(t.shape) >= 2 for t in _tensors(i, name, on_chip=True)),
        help="index with a slice of size 1 instead of an integer",
    )


def _partitions(name: str) -> Rule:
    return Rule(
        f"`{name}` must have at most 128 partitions",
        (name,),
        lambda i, hw: all(t.shape[0] <= hw.partitions for t in _tensors(i, name, on_chip=True)),
        help="split axis 0 into tiles of 128",
        source="nki/guides/architecture/trainium_inferentia2_arch.rst",
    )


def start_is_legal(t: NkiTensor, hw: Target) -> bool:
    """Tell whether an engine other than DMA can start at the first partition of a tile."""
    # trainium_inferentia2_arch.rst: more than 64 partitions start at 0, more than 32 at 0 or 64, others at 0/32/64/96.
    step = 128 if t.shape[0] > 64 else 64 if t.shape[0] > 32 else 32
    address = t.storage.address
    first = t.start_partition + (address.partition if address else 0)
    return first % step == 0 and first + t.shape[0] <= hw.partitions


def _start(name: str) -> Rule:
    def holds(i, hw):
        return name in i.definition.any_start or all(
            start_is_legal(t, hw) for t in _tensors(i, name, on_chip=True)
        )

    return Rule(
        f"`{name}` must start at partition 0, 32, 64 or 96 (over 32 partitions: 0 or 64; over 64: 0)",
        (name,),
        holds,
        help="copy the rows with nisa.dma_copy, which may start at any partition",
        source="nki/guides/architecture/trainium_inferentia2_arch.rst",
        copy="partitions",
    )


def _adjacent(name: str) -> Rule:
    def holds(i, hw):
        return name in i.definition.any_start or all(
            t.shape[0] == 1 or t.strides[0] * t.dtype.itemsize == t.storage.row_bytes
            for t in _tensors(i, name, on_chip=True)
        )

    return Rule(
        f"`{name}` must be on adjacent partitions",
        (name,),
        holds,
        help="copy every other row with nisa.dma_copy, which may step over partitions",
        source="nki/deep-dives/nki-aps.rst",
        copy="partitions",
    )


def _free_axes(name: str) -> Rule:
    return Rule(
        f"`{name}` may have at most 4 free axes with different strides",
        (name,),
        lambda i, hw: all(
            len(t.shape) - 1 <= hw.access_pattern_free_dims_max
            for t in _tensors(i, name, on_chip=True)
        ),
        help="merge axes with flatten_dims or reshape",
        source="nki/deep-dives/nki-aps.rst",
        copy="axes",
    )


def _spread(name: str) -> Rule:
    def holds(i, hw):
        return all(
            n == 1 or step
            for t in _tensors(i, name)
            for n, step in zip(t.shape, t.strides, strict=True)
        )

    return Rule(
        f"each element of `{name}` should be written once: an axis of stride 0 writes it again and again, and here the"
        " last value stays",
        (name,),
        holds,
        help="write one slice of the axis, or reduce over it first",
        finding="hazard",
    )


def _dynamic(name: str, operand: Operand) -> Iterator[Rule]:
    """Yield which forms of dynamic addresses the operand takes, in the memories it may live in."""
    gather = "gather it into an SBUF tile first, with nisa.dma_copy"
    if any(space.on_chip for space in operand.spaces):
        yield _addressing(
            name, Addressing.ELEMENTS, operand.indirect, "be a view of .indirect()",
            "tensor_indirection", "gather it into a tile first, with nisa.tensor_copy", _INDIRECT,
        )  # fmt: skip
    if not all(space.on_chip for space in operand.spaces):
        yield _addressing(
            name, Addressing.VECTOR, operand.rows, "choose its rows by a tile of indices",
            "dma_indirect", gather, _INDIRECT_DMA,
        )  # fmt: skip


def _addressing(
    name: str,
    kind: Addressing,
    taken: bool,
    words: str,
    feature: str,
    instead: str,
    source: str,
) -> Rule:
    def uses(i):
        return any(t.dynamic is not None and t.dynamic.kind is kind for t in _tensors(i, name))

    if not taken:
        return Rule(
            f"`{name}` must not {words}", (name,), lambda i, hw: not uses(i), help=instead,
            source=source,
        )  # fmt: skip
    return Rule(
        f"`{name}` may {words} only on a target with `{feature}`",
        (name,),
        lambda i, hw: hw.supports(feature) or not uses(i),
        help="choose another target, or address it with integers",
        error=NotOnTarget,
        source=source,
    )


def _vector(name: str) -> Rule:
    def holds(i, hw):
        dst = i.args[i.definition.position["dst"]]
        return all(
            t.free_size == 1 and (type(dst) is not NkiTensor or t.shape[0] == dst.shape[0])
            for t in _tensors(i, name)
        )

    return Rule(
        f"`{name}` must be one value per partition, shape [partitions of `dst`, 1]",
        (name,),
        holds,
        help="make a tile [partitions of `dst`, 1], or slice one column of a tile with as many partitions: t[:, 0:1]",
    )
