"""Times a kernel with other values of its compile-time parameters.

    Parameter   one parameter that can be changed, and the values it may take
    Variant     the kernel with one value of each: its time, what bounds it, or why it does not compile
    Variants    all of them; each is compiled and timed when somebody asks for it, and no value is computed

Everything here is plain data and one callable that times, so that views need no compiler.
"""

from __future__ import annotations

import itertools
import math
import reprlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from nki_lab.errors import NkiError, UnknownOption, UsageError, close_matches
from nki_lab.profiler.analyses.report import bound_words, psum_peak_banks, sbuf_peak_bytes
from nki_lab.progress import phase

if TYPE_CHECKING:
    from nki_lab.profiler.profile import Profile
    from nki_lab.views.run import ViewData

#: The most combinations that are timed at once.
MOST_COMBINATIONS = 64
#: Instructions of all programs that are timed at most where nobody watches: a text or a page is made.
MOST_INSTRUCTIONS = 100_000
#: Instructions of all variants whose timelines are kept; the others are timed again when they are looked at.
KEPT_INSTRUCTIONS = 200_000

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Parameter:
    """A compile-time parameter that can be changed.

    Attributes:
        name: as the kernel calls it; "dtype" or "x.dtype" for the arrays, "target" for the chip, "lnc" for the cores.
        kind: "argument", "global", "dtype", "target" or "cores".
        values: what it may be, in the order of a slider.
        start: which of them it is at first.
    """

    name: str
    kind: str
    values: tuple[Any, ...]
    start: int = 0

    @property
    def texts(self) -> list[str]:
        """The values as they are shown."""
        return [value_words(value) for value in self.values]

    @property
    def is_ordered(self) -> bool:
        """True for numbers, which stand on a slider from small to large."""
        return all(type(value) in (int, float) for value in self.values)

    def number(self, value: Any) -> int:
        """Return which of the values this one is.

        Raises UnknownOption where it is none of them.
        """
        for n, candidate in enumerate(self.values):
            if type(candidate) is type(value) and candidate == value:
                return n
        words = value_words(value)
        if words in self.texts:
            return self.texts.index(words)
        raise UnknownOption(
            f"{self.name}={words}: its values here are {', '.join(self.texts)}",
            help=close_matches(words, self.texts)
            or f"ask for it: vary({self.name}=[..., {words}])",
        )


@dataclass(frozen=True, eq=False)
class Variant:
    """A kernel with one value of each parameter.

    Attributes:
        numbers: which value of each parameter.
        values: the same by name.
        problem: the error it ends with instead of being timed; "" where it was timed.
        doubt: why it may not compute what the start does: a finding, or another number of products; else "".
        total_ns: modelled time from its first instruction to its last event.
        bound: what holds it back, and how much of the time that is busy.
        sbuf_bytes: most bytes per partition of SBUF in use at one time.
        psum_banks: most banks of PSUM in use at one time.
        instructions: executed ones.
    """

    numbers: Numbers
    values: Mapping[str, Any]
    problem: str = ""
    doubt: str = ""
    total_ns: int | None = None
    bound: str = ""
    sbuf_bytes: int | None = None
    psum_banks: int | None = None
    instructions: int | None = None
    _look: Callable[[], ViewData] | None = field(default=None, repr=False, compare=False)

    @property
    def data(self) -> ViewData:
        """What views show of it; UsageError where it does not compile."""
        if self._look is None:
            raise UsageError(
                f"there is no timeline of a variant that does not compile: {self.problem}",
                help="look at a variant that compiles",
            )
        return self._look()

    @property
    def profile(self) -> Profile:
        """Its modelled timeline."""
        return self.data.profile

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name}={value_words(value)}" for name, value in self.values.items())
        if self.problem:
            return f"{chosen}: {self.problem.partition(chr(10))[0]}"
        return f"{chosen}: {(self.total_ns or 0) / 1000:,.3f} us, bound by {self.bound} (modelled)"


class Variants:
    """A kernel with every combination of values; each is timed once, on demand.

    Args:
        name: of the kernel.
        parameters: what can be changed.
        retime: compiles and times it with values by name; raises the NkiError it ends with.
        start: the kernel as it stands, which was timed before.
        fixed: other parameters, which stay as they are, by name.
        problem: why nothing can be changed; "" where something can.
        asked: somebody has named the parameters and their values.

    Attributes:
        visited: the variants that were timed, in that order.
    """

    def __init__(
        self,
        name: str,
        parameters: Sequence[Parameter] = (),
        retime: Callable[[dict[str, Any]], ViewData] | None = None,
        start: ViewData | None = None,
        fixed: Mapping[str, Any] | None = None,
        problem: str = "",
        asked: bool = False,
    ) -> None:
        self.name = name
        self.parameters = tuple(parameters)
        self.fixed = dict(fixed or {})
        self.problem = problem
        self.asked = asked
        self._retime = retime
        self._known: dict[Numbers, Variant] = {}
        self._kept: OrderedDict[Numbers, ViewData] = OrderedDict()
        self._lock = threading.RLock()  # views ask from another thread
        self._given = start
        # What is given out leads back here. What is kept does not, so that all of it goes with the last who holds it.
        self._seen: WeakValueDictionary[Numbers, Variant] = WeakValueDictionary()
        self._shown: WeakValueDictionary[Numbers, ViewData] = WeakValueDictionary()

    @property
    def start(self) -> Numbers:
        """The combination that the kernel stands at."""
        return tuple(parameter.start for parameter in self.parameters)

    @property
    def visited(self) -> list[Variant]:
        """The variants that were timed, in that order."""
        return list(map(self._given_out, self._known.values()))

    def at(self, **values: Any) -> Variant:
        """Return the kernel with some values, the others as at the start; it is compiled and timed the first time.

        A combination that does not compile has a `problem` and no time.

        Raises UnknownOption for a parameter or a value that is none of these.
        """
        numbers = list(self.start)
        names = [parameter.name for parameter in self.parameters]
        for name, value in values.items():
            if name not in names:
                raise UnknownOption(
                    f"`{name}` is not one of the parameters {', '.join(names)}",
                    help=close_matches(name, names) or "name it when the variants are made",
                )
            at = names.index(name)
            numbers[at] = self.parameters[at].number(value)
        return self.variant(tuple(numbers))

    def variant(self, numbers: Numbers) -> Variant:
        """Return the kernel with the values of these numbers; see `at`."""
        with self._lock:
            variant = self._known.get(numbers)
            if variant is None:
                variant = self._known[numbers] = self._made(numbers)
            return self._given_out(variant)

    def _given_out(self, variant: Variant) -> Variant:
        """Return a variant as one that can be looked at, the same one while somebody holds it."""
        if variant.problem:
            return variant
        seen = self._seen.get(variant.numbers)
        if seen is None:
            seen = replace(variant, _look=partial(self._data, variant.numbers))
            self._seen[variant.numbers] = seen
        return seen

    def values(self, numbers: Numbers) -> dict[str, Any]:
        """Return the values of these numbers by name."""
        pairs = zip(self.parameters, numbers, strict=True)
        return {parameter.name: parameter.values[n] for parameter, n in pairs}

    def sweep(self, most: int | None = None) -> list[Numbers]:
        """Return the combinations to time in a sweep, the start first.

        All of them where there are at most MOST_COMBINATIONS; else those that differ from the start in one parameter,
        as many as that, and as have at most `most` instructions together, if they are of the size of the start: by
        default MOST_INSTRUCTIONS, and five times as many where the values were named.
        """
        start = self.start
        sizes = [len(parameter.values) for parameter in self.parameters]
        if math.prod(sizes) <= MOST_COMBINATIONS:
            sweep = list(itertools.product(*map(range, sizes)))
        else:
            sweep = [
                (*start[:k], n, *start[k + 1 :])
                for k, size in enumerate(sizes)
                for n in range(size)
                if n != start[k]
            ]
        sweep = [start, *(numbers for numbers in sweep if numbers != start)]
        most = most or MOST_INSTRUCTIONS * (5 if self.asked else 1)
        each = self.variant(start).instructions or 1
        return sweep[: max(1, min(MOST_COMBINATIONS, most // max(1, each)))]

    def __iter__(self) -> Iterator[Variant]:
        """Time the combinations of `sweep`, one after the other."""
        sweep = self.sweep()
        with phase("timing variants", total=len(sweep)) as timing:
            for timing.at, numbers in enumerate(sweep):
                yield self.variant(numbers)

    @property
    def combinations(self) -> int:
        """Number of all combinations."""
        return math.prod(len(parameter.values) for parameter in self.parameters)

    def best(self) -> Variant | None:
        """Return the fastest variant so far of those that seem to do the start's work; None where there is none."""
        timed = [v for v in self.visited if v.total_ns is not None and not v.doubt]
        return min(timed, key=lambda variant: variant.total_ns or 0, default=None)

    def _made(self, numbers: Numbers) -> Variant:
        try:
            return self._timed(numbers, self._data(numbers))
        except NkiError as error:
            return Variant(numbers, self.values(numbers), str(error))

    def _timed(self, numbers: Numbers, data: ViewData) -> Variant:
        profile = data.profile
        return Variant(
            numbers,
            self.values(numbers),
            doubt="" if numbers == self.start else self._doubt(data),
            total_ns=profile.total_ns,
            bound=bound_words(profile),
            sbuf_bytes=sbuf_peak_bytes(profile),
            psum_banks=psum_peak_banks(profile),
            instructions=profile.count("Instruction"),
        )

    def _doubt(self, data: ViewData) -> str:
        """Say why a variant may compute something else than the start, as with a tile that does not divide."""
        start = self.variant(self.start).data
        messages = {remark.message for remark in start.findings}
        for remark in data.findings:
            if remark.is_serious and remark.message not in messages:
                return f"{remark.kind}: {remark.message}"
        before, now = _products(start.profile), _products(data.profile)
        if before == now:
            return ""
        return (
            f"the Tensor engine does {now / 1e9:,.6g} GFLOP, and {before / 1e9:,.6g} at the start"
        )

    def _data(self, numbers: Numbers) -> ViewData:
        """Return what views show of a variant; it is timed again where that is not kept."""
        with self._lock:
            shown = self._shown.get(numbers)
            if shown is None:
                shown = replace(self._timed_data(numbers), make_variants=lambda: self)
                self._shown[numbers] = shown
            return shown

    def _timed_data(self, numbers: Numbers) -> ViewData:
        if numbers == self.start and self._given is not None:
            return self._given
        data = self._kept.get(numbers)
        if data is None:
            assert self._retime is not None
            data = self._kept[numbers] = self._retime(self.values(numbers))
            self._forget()
        self._kept.move_to_end(numbers)
        return data

    def _forget(self) -> None:
        sizes = [data.profile.count("Instruction") for data in self._kept.values()]
        while len(self._kept) > 1 and sum(sizes) > KEPT_INSTRUCTIONS:
            self._kept.popitem(last=False)
            sizes.pop(0)


def _products(profile: Profile) -> int:
    """Return the floating-point operations of matrix products, those of transposes left out."""
    summary = profile.summary
    return int(summary.get("hardware_flops", 0) - summary.get("transpose_flops", 0))


def value_words(value: Any) -> str:
    """Return a value as it is shown: names for enums, dtypes and chips, Python's text for numbers."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, str):
        return str(value)
    name = getattr(value, "__name__", None) if isinstance(value, type) else None
    return name or reprlib.repr(value)
