"""What the library knows about a kernel: its reference, its sizes, its work and its tolerances."""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple

import numpy as np

from nki_lab.choices import Choices
from nki_lab.dtypes import DTYPES
from nki_lab.errors import KernelArgument, UsageError, close_matches
from nki_lab.hardware.kernel_files import constant_on_device
from nki_lab.kernels import library
from nki_lab.runtime import Result, launch, run
from nki_lab.runtime.jit import KernelFunction
from nki_lab.source import is_prebuilt, stack_of_frame
from nki_lab.targets import Target
from nki_lab.views.explained import Explanation

# What kernels are drawn for, where they compile for it; the kept rows of the benchmark are of the same chip.
_USUAL_CHIP = "trn2"

#: Numbers that say how large the arguments of a kernel are, by name.
Size = Mapping[str, int]


class Step(str):
    """One sentence on what a kernel does, and the lines it speaks of.

    Args:
        text: the sentence.
        at: the name of a function of the kernel's module, or how a statement of it begins: all that begin so. What
            stands in a module that kernels share is "attention.py:products".
    """

    at: str

    def __new__(cls, text: str, at: str = "") -> Step:
        """Return the sentence, with its lines."""
        step = super().__new__(cls, text)
        step.at = at
        return step


class Work(NamedTuple):
    """What a kernel must do at one size, whatever way it does it.

    Attributes:
        flops: multiplications and additions of its products; 0 where it multiplies no matrices.
        hbm_bytes: bytes of its arguments and results, each once.
    """

    flops: int
    hbm_bytes: int


class Refused(NamedTuple):
    """Arguments that a kernel refuses, and what its error says.

    Attributes:
        given: by name of parameter; a tuple is the shape of float32 zeros.
        message, help: a part of the message of the error, and of its help.
    """

    given: Mapping[str, Any]
    message: str
    help: str

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, by name of parameter."""
        return {
            name: np.zeros(value, np.float32) if isinstance(value, tuple) else value
            for name, value in self.given.items()
        }


@dataclass(frozen=True, eq=False)
class Prebuilt:
    """A kernel of the library, and all that is known about it.

    Attributes:
        kernel: the kernel; it is called with arrays.
        arguments: makes arguments: random generator, dtype and a size -> values by name of parameter.
        reference: computes the result from the arguments, in float64.
        tested: sizes at which tests compare it with its reference.
        ranges: small values of each number of a size, from which tests draw more sizes.
        legal: whether numbers of these ranges are a size together.
        timed: sizes at which it is timed; the last is the large one.
        tolerance: relative error allowed for each dtype it takes, of the largest element of the result.
        chips: targets it compiles for.
        ranks: for a kernel that runs as ranks: what each is given, made of the arguments; its results are stacked.
        cores: over how many cores one call may be split: kernel[2](...).
        decoded: what results that are codes, such as quantised ones, stand for: results and arguments -> numbers to
            compare with the reference.
        edges: makes arguments with NaN, -inf, masked rows and the like from a random generator, by name.
        refused: arguments that it refuses.
        loss: for a kernel that computes gradients: the function of the same arguments that it differentiates.
        gradients: for each of its results, the argument by which it differentiates.
        operator: options of `nki_lab.torch.custom_op`, and its twin of JAX, that an operator of it has: its backward.
        multiplies: work of its products at a size, in multiplications and additions.
        official: what it offers in modules of Beta 1, by full name: "neuronxcc.nki.kernels.vision.resize_nearest" and
            such. Functions and kernels become kernels of the older dialect (kernels/official.py).
        falls_short: why it stays below 85 % of its roof at its large size, by dtype.
        steps: what the kernel does, in order, one sentence each; a `Step` also names its lines.
        sources: where its signature and its mathematics are described.
    """

    kernel: KernelFunction
    arguments: Callable[..., dict[str, Any]]
    reference: Callable[..., Any]
    tested: tuple[Size, ...]
    timed: tuple[Size, ...]
    tolerance: Mapping[str, float]
    steps: tuple[str, ...]
    sources: tuple[str, ...]
    ranges: Mapping[str, range]
    legal: Callable[..., bool] = lambda **size: True
    chips: tuple[str, ...] = ("trn1", "trn2", "trn3")
    ranks: Callable[[Mapping[str, Any]], list[dict[str, Any]]] | None = None
    cores: tuple[int, ...] = (1,)
    decoded: Callable[[Any, Mapping[str, Any]], Any] = field(
        default=lambda results, arguments: results
    )
    edges: Mapping[str, Callable[[np.random.Generator], dict[str, Any]]] = field(
        default_factory=dict
    )
    refused: tuple[Refused, ...] = ()
    loss: Callable[..., float] | None = None
    gradients: tuple[str, ...] = ()
    operator: Mapping[str, Any] = field(default_factory=dict)
    multiplies: Callable[..., int] = field(default=lambda **size: 0)
    falls_short: Mapping[str, str] = field(default_factory=dict)
    official: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        vars(self.kernel).update(accepts=self._accepts, operator=self.operator)

    def _accepts(self, target: Target, given: Mapping[str, Any]) -> None:
        """Raise KernelArgument for a chip that it does not run on, and for values that are no tensors or numbers."""
        require(
            target.chip in self.chips,
            f"{self.name} does not run on {target.name}, which lacks instructions or dtypes that it needs",
            f"choose another chip: target={self.chips[0]!r}",
        )
        parameters = self.kernel.__signature__.parameters.values()
        wanted = [p.name for p in parameters if p.default is p.empty]
        wanted = [name for name in wanted if not hasattr(given.get(name), "shape")]
        for name in wanted:
            value, usual = given.get(name), [made.get(name) for made in _usual(self)]
            require(
                not all(isinstance(u, np.ndarray) for u in usual),
                f"{self.name}: `{name}` is {value!r}; expected an array",
                f"give an array of NumPy, PyTorch or JAX for `{name}`",
            )
            require(
                not all(type(u) is int for u in usual) or isinstance(value, (int, np.integer)),
                f"{self.name}: `{name}` is {value!r}; expected an integer",
                f"write an integer, such as {name}={usual[0]!r}",
            )

    @property
    def name(self) -> str:
        """Name of the kernel, and of its module."""
        return self.kernel.__name__

    @property
    def summary(self) -> str:
        """What the kernel computes, in one line."""
        return (inspect.getdoc(self.kernel.func) or "").partition("\n")[0]

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Names of the dtypes it takes."""
        return tuple(self.tolerance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel and return its result."""
        return self.kernel(*args, **kwargs)

    def example(
        self, size: Size | None = None, dtype: str | None = None, seed: int = 0
    ) -> dict[str, Any]:
        """Return random arguments of a size; that of the first test, and of its first dtype, where none is given."""
        dtype = self.dtypes[0] if dtype is None else dtype
        if dtype not in self.tolerance:
            raise KernelArgument(
                f"{self.name} does not take {dtype}", help=f"it takes {', '.join(self.dtypes)}"
            )
        size = self.tested[0] if size is None else size
        _check_size(self, size)
        numpy_dtype = DTYPES[dtype].host
        try:
            return self.arguments(np.random.default_rng(seed), numpy_dtype, **size)
        except (ArithmeticError, IndexError, MemoryError, TypeError, ValueError) as error:
            shown = ", ".join(f"{name}={value!r}" for name, value in size.items())
            raise UsageError(
                f"{self.name}: no arguments can be made of {shown} and seed={seed!r}: {error}",
                help=f"write numbers above 0 that fit into memory: size={dict(self.timed[-1])}",
            ) from error

    def run(
        self, size: Size | None = None, dtype: str | None = None, seed: int = 0, **choices: Any
    ) -> Result:
        """Run the kernel on random arguments and return its Result; `choices` are those of `nki_lab.run`."""
        return self.launched(self.example(size, dtype, seed), **choices)[1]

    def launched(self, arguments: Mapping[str, Any], **choices: Any) -> tuple[Any, Result]:
        """Run the kernel and return its value, that of all ranks where it has some, and the Result of the first."""
        if self.ranks is None:
            result = run(self.kernel, **arguments, **choices)
            return result.value, result
        given = self.ranks(arguments)
        results = launch(self.kernel, len(given), given, **choices)
        return np.stack([result.value for result in results]), results[0]

    def given(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return what one call takes of these arguments: all, or those of the first rank."""
        return dict(arguments) if self.ranks is None else self.ranks(arguments)[0]

    def work(self, size: Size, arguments: Mapping[str, Any], results: Any) -> Work:
        """Return what the kernel must do for these arguments and results."""
        results = results if isinstance(results, tuple) else (results,)
        arrays = [a for a in (*arguments.values(), *results) if isinstance(a, np.ndarray)]
        return Work(self.multiplies(**size), sum(a.nbytes for a in arrays))

    def error(self, results: Any, arguments: Mapping[str, Any]) -> float:
        """Return the largest difference to the reference, as a part of its largest element.

        Elements that are not finite must be alike; where they are not, the difference is infinite.
        """
        with np.errstate(all="ignore"):  # arguments may hold NaN and -inf
            expected = self.reference(**arguments)
            pairs = zip(_tuple(self.decoded(results, arguments)), _tuple(expected), strict=True)
            return max(_difference(np.asarray(found), np.asarray(want)) for found, want in pairs)

    def explain(
        self, size: Size | None = None, dtype: str | None = None, target: str | None = None
    ) -> Explanation:
        """Return what the kernel does: how its arguments lie in tiles, and each step with its lines and tiles.

        Args:
            size: that it is compiled for; the small one that it is timed at where none is given.
            dtype: of the arguments; by default the first that it takes.
            target: the chip; by default trn2, or the newest that it compiles for.
        """
        from nki_lab.kernels.explained import explained_steps, layouts  # they need the compiler

        function, size = self.kernel.func, self.timed[0] if size is None else size
        dtype = dtype or self.dtypes[0]
        target = target or (_USUAL_CHIP if _USUAL_CHIP in self.chips else self.chips[-1])
        chosen = Choices.current().replace(target=target)
        compiled = self.kernel.compile_with(
            chosen, (), self.given(self.example(size, dtype))
        ).compiled
        facts = [f"dtypes: {', '.join(self.dtypes)}; chips: {', '.join(self.chips)}"]
        facts += [f"in Beta 1: {official}" for official in self.official]
        shown = ", ".join(f"{name}={value}" for name, value in size.items())
        return Explanation(
            call=f"{self.name}{inspect.signature(function)}",
            doc=inspect.getdoc(function) or "",
            compiled=f"{shown}, {dtype}, compiled for {compiled.target.name}",
            layouts=layouts(compiled.kernel, function),
            steps=explained_steps(compiled.kernel, function.__code__.co_filename, self.steps),
            facts=(*facts, *(f"source: {source}" for source in self.sources)),
        )


@cache
def _usual(kernel: Prebuilt) -> list[dict[str, Any]]:
    """Return what tests give a kernel, which tells arrays and numbers apart."""
    return [kernel.example(size) for size in kernel.tested]


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _difference(found: np.ndarray, expected: np.ndarray) -> float:
    if found.shape != expected.shape:
        return float("inf")
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    if not (same | (finite & np.isfinite(found))).all():
        return float("inf")
    largest = float(np.max(np.abs(expected[finite]), initial=0.0))
    difference = float(np.max(np.abs(found - expected)[finite & ~same], initial=0.0))
    return difference / largest if largest else difference


def _check_size(kernel: Prebuilt, size: Size) -> None:
    names = list(kernel.tested[0])
    if not isinstance(size, Mapping) or sorted(size) != sorted(names):
        named = ", ".join(map(str, size)) if isinstance(size, Mapping) else repr(size)
        raise UsageError(
            f"{kernel.name}: the size names {named or 'nothing'}; expected {', '.join(names)}",
            help=f"write {' '.join(f'{n}={v}' for n, v in kernel.timed[-1].items())}",
        )


@constant_on_device(None)
def require(condition: bool, message: str, help: str) -> None:
    """Raise KernelArgument unless `condition` holds, at the author's line that calls the kernel."""
    if not condition:
        stack = stack_of_frame(sys._getframe(1))
        callers = (p for p in stack if not (isinstance(p, tuple) and is_prebuilt(p[0])))
        raise KernelArgument(message, stack=tuple(itertools.islice(callers, 1)), help=help)


@cache
def names() -> tuple[str, ...]:
    """Return the names of all prebuilt kernels."""
    return tuple(sorted(m.name for m in iter_modules(library.__path__)))


def get(name: str) -> Prebuilt:
    """Return the prebuilt kernel of a name; UsageError names those that are alike."""
    if name not in names():
        raise UsageError(
            f"there is no prebuilt kernel `{name}`",
            help=close_matches(str(name), names()) or f"there are {', '.join(names())}",
        )
    kernel: Prebuilt = import_module(f"{library.__name__}.{name}").KERNEL
    return kernel
