"""Defines an exercise.

    Problem            id, title, statement, three hints
    +-- Task           a kernel to write: inputs, reference, limits, modelled times
    +-- Places         a slice or a small kernel: which elements does it touch?
    +-- Question       a number, a choice or a formula, asked about the profile of a run

An exercise is declared as one block in `problems/n<notebook>.py`; everything else reads that block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nki_lab.exercises.draw import Draw

Sizes = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One exercise.

    Attributes:
        id: number of the notebook and of the exercise in it, "21.3".
        title: a few words.
        statement: what is asked, as a learner reads it.
        hints: three, each saying more than the one before.
    """

    id: str
    title: str
    statement: str
    hints: tuple[str, str, str]

    @property
    def number(self) -> tuple[int, int]:
        """The id as two numbers, to sort by."""
        notebook, _, exercise = self.id.partition(".")
        return int(notebook), int(exercise)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a kernel may use, counted in the run of the first case; None or nothing leaves it open.

    Attributes:
        instructions: the most executed instructions allowed, by engine: "tensor", "vector", "scalar", "gpsimd".
        transfers: the most DMA transfers allowed.
        transfer_bytes: the most bytes they may move.
        sbuf_bytes: the most bytes of a partition that may be in use at the same time.
        sbuf_end: all tiles lie below this byte of their partitions; for kernels that choose addresses.
        psum_banks: the most PSUM banks that may be in use at the same time.
        uses: instructions the program must have, by name.
        avoids: instructions it must not have.
        clean: no finding of any kind, not only none that may make the result wrong on a device.
    """

    instructions: Mapping[str, int] = field(default_factory=dict)
    transfers: int | None = None
    transfer_bytes: int | None = None
    sbuf_bytes: int | None = None
    sbuf_end: int | None = None
    psum_banks: int | None = None
    uses: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    clean: bool = False


@dataclass(frozen=True)
class Tiers:
    """Modelled microseconds of the first case on one target: what passes, and what earns a star."""

    passes: float
    star: float


@dataclass(frozen=True)
class Mistake:
    """A wrong kernel that learners often write, told by what it computes.

    Attributes:
        computes: what it computes, as the reference does: in float64, from the inputs.
        message: what has gone wrong, one sentence.
        help: what to look at.
    """

    computes: Callable[..., Any]
    message: str
    help: str = ""


@dataclass(frozen=True)
class Cause:
    """What is wrong with a given kernel, to be named before its correction is looked at.

    Attributes:
        right: key of the right choice.
        choices: key -> what it says.
    """

    right: str
    choices: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Task(Problem):
    """A kernel to write, or to mend.

    Attributes:
        signature: "add_rows(a, b)".
        inputs: makes the arguments from a Draw and the sizes of a case: `lambda draw, rows, columns: (...)`.
        reference: what the kernel returns, with NumPy in float64, from copies of the arguments.
        cases: sizes that are always tried; the first is also the one that is counted and timed.
        fresh: size -> (least, most): two more cases are drawn from these anew in each check.
        dtype: dtype of the result; that of the first array of floats where it is not given.
        rtol: relative tolerance, instead of the one that follows from the narrowest dtype.
        float32_sums: sums lie in tiles of float32, whatever the dtype of the arguments.
        writes: arguments, by number, that the kernel may write.
        reads: elements of the first argument that the kernel is to read, and no others: a slice, or bools.
        limits, tiers: what is counted and timed; tiers by target.
        mistakes: wrong kernels, each with the message for it.
        cause: what is wrong with the kernel that is given, for exercises that mend one.
        cores: cores that the kernel is launched on.
        targets: chips it can be solved on; none means all.
    """

    signature: str
    inputs: Callable[..., tuple[Any, ...]]
    reference: Callable[..., Any]
    cases: tuple[Sizes, ...]
    fresh: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    dtype: str = ""
    rtol: float | None = None
    float32_sums: bool = False
    writes: tuple[int, ...] = ()
    reads: Callable[..., Any] | None = None
    limits: Limits = field(default_factory=Limits)
    tiers: Mapping[str, Tiers] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()
    cause: Cause | None = None
    cores: int = 1
    targets: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return self.signature.partition("(")[0]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its parameters."""
        inside = self.signature.partition("(")[2].rpartition(")")[0]
        return tuple(word.partition("=")[0].strip() for word in inside.split(",") if word.strip())

    def arguments(self, draw: Draw, sizes: Sizes) -> list[Any]:
        """Return the arguments of one case."""
        return list(self.inputs(draw, **sizes))


@dataclass(frozen=True, kw_only=True)
class Places(Problem):
    """Which elements of a tensor does an answer touch?

    The answer is a slice (`np.s_[0:64, ::2]`), the arguments of `.ap` (`{"pattern": [[2, 4]], "offset": 1}`), a
    function from the sizes to one of them, or a kernel.

    Attributes:
        sizes: cases, as keyword arguments of `shape`, `wanted` and of an answer that is a function.
        shape: of the tensor.
        wanted: the elements to touch: array of bools in that shape, or a slice of it; or array of integers, the numbers
            of the elements, counted row by row, in the order in which a pattern is to come to them.
        way: for a kernel: "reads" elements of its first argument, or "writes" elements of its result.
        dtype: of the array that a kernel is given.
    """

    sizes: tuple[Sizes, ...]
    shape: Callable[..., tuple[int, ...]]
    wanted: Callable[..., Any]
    way: str = "reads"
    dtype: str = "float32"

    @property
    def has_order(self) -> bool:
        """True where the order of the elements counts, too."""
        return isinstance(self.wanted(**self.sizes[0]), np.ndarray) and not self._is_mask(
            self.wanted(**self.sizes[0])
        )

    def numbers(self, sizes: Sizes) -> np.ndarray:
        """Return the numbers of the elements to touch, in order."""
        wanted = self.wanted(**sizes)
        if self._is_mask(wanted):
            return np.flatnonzero(wanted)
        if isinstance(wanted, np.ndarray):
            return wanted.reshape(-1)
        shape = self.shape(**sizes)
        return np.arange(np.prod(shape)).reshape(shape)[wanted].reshape(-1)

    @staticmethod
    def _is_mask(wanted: Any) -> bool:
        return isinstance(wanted, np.ndarray) and wanted.dtype == bool


@dataclass(frozen=True, kw_only=True)
class Question(Problem):
    """Something to find out from the profile of a run.

    Attributes:
        truth: the answer, found in a run: a key of `choices`, or a number.
        evidence: what in the run shows it, one sentence; told with a right answer.
        choices: key -> its text; empty for an exercise that wants a number.
        rtol: a number may differ by this share.
        unit: of the number.
        run: makes the run, or the runs, that are asked about; None where the learner names one.
        about: says what is wrong with the run that a learner names; "" where nothing is.
        sizes: where there are some, the answer is a formula, a function of them, and is tried with each; so is `run`.
    """

    truth: Callable[[Any], Any]
    evidence: Callable[[Any], str]
    choices: Mapping[str, str] = field(default_factory=dict)
    rtol: float = 0.02
    unit: str = ""
    run: Callable[..., Any] | None = None
    about: Callable[[Any], str] = lambda run: ""
    sizes: tuple[Sizes, ...] = ()
