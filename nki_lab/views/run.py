"""The data that a view of a run is given, whoever ran it.

    ViewData       one run: its profile, program, tensors and findings
    Stage          the program's text after one pass, line by line
    Operation      one instruction of the compiled program
    Tensor         a tensor's memory: where it lies and from when to when it is in use
    Slice          a part of a tensor, and the instructions that touch it
    Access         one operand of an instruction: its tensor, its access pattern, the names of its axes
    Gather         the value of the device that decides where an operand lies
    Held           what a tensor holds at some moment, or why that is not known
    Listing        lines of the author's text
    Steps, Step    the executed instructions with the values around each

Everything is plain data, so that views need no compiler and no simulator: they show a run that was read from a file as
well as one that has just happened. What grows with the program is computed when a view asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar, overload

import numpy as np

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile
    from nki_lab.views.vary.variants import Variants

#: What is said of values where a run does not have them.
NO_VALUES = "the values of this run are not known"

T = TypeVar("T")


class Made(Sequence[T], Generic[T]):
    """Hold `count` things that are made when somebody looks at them: number n is `make(n)`."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> T: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[T]: ...
    def __getitem__(self, number: int | slice) -> T | Sequence[T]:
        if isinstance(number, slice):
            return [self._make(n) for n in range(self._count)[number]]
        return self._make(range(self._count)[number])

    def __iter__(self) -> Iterator[T]:
        return map(self._make, range(self._count))


@dataclass(frozen=True)
class Place:
    """A line of the author's text.

    Attributes:
        label: file and line, the same on every machine: "cell, line 5".
        heading: the same with the number of the cell, as a notebook shows it: "cell [3], line 5".
        text: the line itself.
        line: its number in the file; 0 where it is not known.
    """

    label: str
    heading: str
    text: str
    line: int = 0

    @property
    def file(self) -> str:
        """The file with the number of the cell, without the line: "cell [3]"."""
        return self.heading.rpartition(", line ")[0] or self.heading.rpartition(":")[0]


@dataclass(frozen=True)
class Remark:
    """A finding: something an author should know that does not stop the kernel.

    Attributes:
        kind: what it is about, in one word.
        message: one sentence.
        help: what to write instead.
        place: the line it is about.
        is_serious: a device may refuse the kernel or compute other values.
        excerpt: that line with carets under the part it is about, as errors show it.
    """

    kind: str
    message: str
    help: str = ""
    place: Place | None = None
    is_serious: bool = False
    excerpt: tuple[str, ...] = ()


class CodeLine(NamedTuple):
    """A line of a program's text.

    Attributes:
        text: the line.
        place: where the author wrote what it came from.
        position: number of the instruction it shows, None for other lines.
        engine: engine of that instruction; "" where there is none.
    """

    text: str
    place: Place | None = None
    position: int | None = None
    engine: str = ""


@dataclass(frozen=True, eq=False)
class ProgramStage:
    """The program after one pass.

    Attributes:
        name: of the pass.
        make_lines: gives `lines`.
        changed: False where the pass left the program as it was.
    """

    name: str
    make_lines: Callable[[], Sequence[CodeLine]] = field(repr=False)
    changed: bool = True

    @cached_property
    def lines(self) -> Sequence[CodeLine]:
        """The program's text."""
        return self.make_lines()


@dataclass(frozen=True)
class Operation:
    """An instruction: its name, the engine it runs on, its text, and the line it came from."""

    name: str
    engine: str
    text: str
    place: Place | None = None


@dataclass(frozen=True)
class Tensor:
    """The memory behind a tensor.

    Attributes:
        name, shape, dtype: as created; `itemsize` is the bytes of one element.
        memory: "sbuf", "psum", "private_hbm" or "shared_hbm".
        origin: "input", "output", "constant" or "temporary".
        on_chip: axis 0 is the partition axis.
        address: first partition and byte within the partition; None where it has none.
        lifetime: first and last instruction that touch it, or the one before the last where that begins another
            tile in its place; None where nothing touches it.
        place: where it was created.
    """

    name: str
    memory: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    origin: str
    on_chip: bool
    address: tuple[int, int] | None = None
    lifetime: tuple[int, int] | None = None
    place: Place | None = None

    @property
    def rows(self) -> int:
        """Partitions it covers; in HBM, steps along its first axis."""
        return self.shape[0] if len(self.shape) > 1 or self.on_chip else 1

    @property
    def row_elements(self) -> int:
        """Elements of one row."""
        count = 1
        for size in self.shape[1:] if len(self.shape) > 1 or self.on_chip else self.shape:
            count *= size
        return count

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: on chip, bytes per partition."""
        return self.row_elements * self.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.rows * self.row_bytes


@dataclass(frozen=True)
class Slice:
    """A part of a tensor that instructions touch.

    Attributes:
        text: as the program's text writes it, e.g. "%x[0:128, 0:512]".
        shape, strides: of the view, outermost axis first; strides in elements of `itemsize` bytes.
        offset: first element.
        itemsize: bytes of one element of the view.
        readers, writers: positions of the instructions that read and write it.
        dynamic: where it lies is decided while the kernel runs; shape, strides and offset are then
            those of the part it may lie in.
    """

    text: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    itemsize: int
    readers: Sequence[int] = ()
    writers: Sequence[int] = ()
    dynamic: bool = False


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
class ShownAccess:
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
    numbers = np.full(tuple(shape), offset, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        along = np.arange(size, dtype=np.int64) * stride
        numbers += along.reshape(-1, *(1,) * (len(shape) - axis - 1))
    return numbers


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


def contracted(accesses: Sequence[ShownAccess]) -> str:
    """Return the name of the axis that is summed over: two operands have it, and no result; "" for none."""
    read = [name for a in accesses if a.way == "reads" for name in set(a.names) if name]
    written = {name for a in accesses if a.way != "reads" for name in a.names}
    return next((name for name in read if read.count(name) > 1 and name not in written), "")


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


@dataclass(frozen=True, eq=False)
class ViewData:
    """One run as the views show it.

    Attributes:
        name: what ran, usually the kernel's name.
        profile: its timeline.
        grid: the launch grid, where one core runs its programs one after the other.
        operations: instructions of the compiled program; the profile names the one at position n `inst.n:0`.
        stages: the program after each pass, the traced program first.
        tensors: every tensor of the program.
        slices: the parts of a tensor that instructions touch, by the tensor's number.
        make_names: gives `names`; None where `operations` are few enough to be asked.
        make_lines: gives `lines`; None where they are known from the profile only.
        findings: what the author should know.
        make_steps: gives `steps`.
        accesses: what an instruction does with each operand, by its position.
        held: what a tensor holds, by its number: when the run has ended (None), or before (`after` is False) or
            after the instruction of a position.
        places: elements of the tensor behind operand `k` of the instruction at a position, where values of the device
            decide them; None where they are not known.
        make_listings: gives `listings`.
        find_products: gives `products`.
        make_variants: gives `variants`.
        state: what is said where there are no times, in place of where they come from: "compiled, not run".
        about_places: how tiles of on-chip memories got their addresses, in a sentence; "" for those of our compiler.
    """

    name: str
    profile: Profile
    grid: tuple[int, ...] = ()
    operations: Sequence[Operation] = field(default=(), repr=False)
    stages: Sequence[ProgramStage] = field(default=(), repr=False)
    tensors: Sequence[Tensor] = field(default=(), repr=False)
    slices: Callable[[int], Sequence[Slice]] = field(default=lambda number: (), repr=False)
    make_names: Callable[[], Sequence[str]] | None = field(default=None, repr=False)
    make_lines: Callable[[], tuple[np.ndarray, Sequence[Place]]] | None = field(
        default=None, repr=False
    )
    findings: Sequence[Remark] = field(default=(), repr=False)
    make_steps: Callable[[], Steps] = field(default=NoSteps, repr=False)
    accesses: Callable[[int], Sequence[ShownAccess]] = field(
        default=lambda position: (), repr=False
    )
    held: Callable[[int, int | None, bool], Held] = field(
        default=lambda number, position, after: Held(None, NO_VALUES), repr=False
    )
    places: Callable[[int, int], np.ndarray | None] = field(
        default=lambda position, k: None, repr=False
    )
    make_listings: Callable[[], Sequence[Listing]] = field(default=lambda: (), repr=False)
    find_products: Callable[[], np.ndarray] | None = field(default=None, repr=False)
    make_variants: Callable[[], Variants] | None = field(default=None, repr=False)
    state: str = field(default="", repr=False)
    about_places: str = field(default="", repr=False)

    @cached_property
    def names(self) -> Sequence[str]:
        """The name of every operation, as a kernel writes it."""
        return self.make_names() if self.make_names else [o.name for o in self.operations]

    @cached_property
    def listings(self) -> Sequence[Listing]:
        """The author's text that the program came from, the kernel's file first."""
        return self.make_listings()

    @cached_property
    def products(self) -> np.ndarray:
        """Positions of the instructions that sum products over an axis two of their operands share."""
        return np.zeros(0, dtype=np.int64) if self.find_products is None else self.find_products()

    @cached_property
    def steps(self) -> Steps:
        """The executed instructions with the values around them; the first look runs the kernel once more."""
        return self.make_steps()

    @cached_property
    def variants(self) -> Variants | None:
        """The kernel with other values of its parameters; None where only the profile of a run is known."""
        return None if self.make_variants is None else self.make_variants()

    @cached_property
    def lines(self) -> tuple[np.ndarray, Sequence[Place]] | None:
        """Per instruction, a number into the lines of the author's text that follow; -1 for none.

        They tell apart lines of the same number in different cells, which the profile's
        `nki_source_location` does not.
        """
        return None if self.make_lines is None else self.make_lines()
