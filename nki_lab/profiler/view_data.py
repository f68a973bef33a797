"""What do the views need to know about a run, whoever ran it?

    ViewData       one run: its profile, program, tensors and findings
    Stage          the program's text after one pass, line by line
    Operation      one instruction of the compiled program
    Tensor         a tensor's memory: where it lies and from when to when it is in use
    Slice          a part of a tensor, and the instructions that touch it
    Access         what an instruction does with one operand (`nki_lab.profiler.view_operands`)

Everything is plain data, so that views need no compiler and no simulator: they can show a run that
was read from a file as well as one that has just happened. What grows with the program is made when
a view asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, overload

import numpy as np

from nki_lab.profiler.step_data import NoSteps, Steps
from nki_lab.profiler.view_operands import Access, Held, Listing

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile
    from nki_lab.profiler.variants import Variants

#: Names of the views of a run, in the order they are shown.
VIEWS = (
    "report",
    "findings",
    "source",
    "ir",
    "layout",
    "array",
    "memory",
    "stepper",
    "timeline",
    "graph",
    "vary",
)

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
    """

    kind: str
    message: str
    help: str = ""
    place: Place | None = None
    is_serious: bool = False


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
class Stage:
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
        lifetime: first and last instruction that touch it; None where nothing does.
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


@dataclass(frozen=True, eq=False)
class ViewData:
    """One run as the views show it.

    Attributes:
        name: what ran, usually the kernel's name.
        profile: its timeline.
        operations: instructions of the compiled program; the profile names the one at position n `inst.n:0`.
        stages: the program after each pass, the traced program first.
        tensors: every tensor of the program.
        slices: the parts of a tensor that instructions touch, by the tensor's number.
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
    """

    name: str
    profile: Profile
    operations: Sequence[Operation] = field(default=(), repr=False)
    stages: Sequence[Stage] = field(default=(), repr=False)
    tensors: Sequence[Tensor] = field(default=(), repr=False)
    slices: Callable[[int], Sequence[Slice]] = field(default=lambda number: (), repr=False)
    make_lines: Callable[[], tuple[np.ndarray, Sequence[Place]]] | None = field(
        default=None, repr=False
    )
    findings: Sequence[Remark] = field(default=(), repr=False)
    make_steps: Callable[[], Steps] = field(default=NoSteps, repr=False)
    accesses: Callable[[int], Sequence[Access]] = field(default=lambda position: (), repr=False)
    held: Callable[[int, int | None, bool], Held] = field(
        default=lambda number, position, after: Held(None, NO_VALUES), repr=False
    )
    places: Callable[[int, int], np.ndarray | None] = field(
        default=lambda position, k: None, repr=False
    )
    make_listings: Callable[[], Sequence[Listing]] = field(default=lambda: (), repr=False)
    find_products: Callable[[], np.ndarray] | None = field(default=None, repr=False)
    make_variants: Callable[[], Variants] | None = field(default=None, repr=False)

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
