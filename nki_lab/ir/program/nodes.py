"""Programs: kernels, loops, parameters and findings.

    Kernel       = name, target, params, storages, body, outputs, and what passes found out
    body         = tuple of Instruction | Loop
    Loop         = kind ("for" | "while"), bounds, register, body
    Param        = name, tensor or constant value

A kernel is never changed: a pass returns another one (`with_`), which shares what stayed the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.program.lifetimes import Lifetime, lifetimes
from nki_lab.ir.program.touches import Touches
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.source import Blame, Span, Stack
from nki_lab.targets.engines import Engine
from nki_lab.targets.spec import Target


@dataclass(frozen=True)
class Param:
    """A parameter of the kernel: a tensor in HBM, a constant known while tracing, or a container of both."""

    name: str
    value: Any


@dataclass(frozen=True)
class OutputRef:
    """In `Kernel.result`, stands for `Kernel.outputs[index]`."""

    index: int


@dataclass(frozen=True)
class Loop:
    """A loop the device runs; everything unrolled while tracing is not one.

    Attributes:
        kind: "for" or "while".
        bounds: (start, stop, step) of a "for" loop; each an integer or a register.
        register: the register that holds the induction variable or the condition.
        body: instructions and loops.
        stack: where it was opened.
        number: from 1 on, in order of opening; tensors made in its body carry it.
    """

    kind: str
    bounds: tuple[Any, ...]
    register: Any
    body: tuple[Instruction | Loop, ...]
    stack: Stack = ()
    number: int = 0

    @cached_property
    def numbers(self) -> frozenset[int]:
        """Its number, and those of the loops in its body."""
        inner = (node.numbers for node in self.body if isinstance(node, Loop))
        return frozenset((self.number,)).union(*inner)


@dataclass(frozen=True)
class Finding:
    """Something an author should know that does not stop the kernel.

    Attributes:
        kind: "portability", "uninitialized", "capacity", "deprecation", "advice", "hazard" or "unchecked".
        message: one sentence.
        stack: places in the author's text, innermost first.
        help: what to write instead.
        code: of the error that this is where it is refused, or under `strict`.
        blame: the argument that the error marks.
    """

    kind: str
    message: str
    stack: Stack = ()
    help: str = ""
    code: str = ""
    blame: Blame | None = field(default=None, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        stack = tuple(map(Span.of, self.stack))  # code objects stay in their process
        return Finding, (self.kind, self.message, stack, self.help, self.code, self.blame)

    @property
    def is_serious(self) -> bool:
        """True where a device may refuse the kernel or compute other values than the simulator."""
        return self.kind in ("uninitialized", "capacity", "hazard")


class Dependences(NamedTuple):
    """Pairs of instructions that must keep their order, by position; in no particular order, and some more than once.

    Attributes:
        before: the earlier instruction of each pair.
        after: the one that must follow it.
        result: it needs a result of the earlier one, and not only the bytes that one uses.
    """

    before: np.ndarray
    after: np.ndarray
    result: np.ndarray

    def moved(self, order: Sequence[int]) -> Dependences:
        """Return the same pairs where `order` gives the former position of each instruction."""
        place = np.empty(len(order), np.int32)
        place[np.array(order, np.int64)] = np.arange(len(order), dtype=np.int32)
        return Dependences(place[self.before], place[self.after], self.result)


@dataclass(frozen=True)
class Kernel:
    """A program for one core of one target.

    Attributes:
        name: the function's name.
        target: the machine it was traced for.
        params: parameters in order.
        storages: every tensor's memory; `storages[s.id] is s`.
        body: instructions and loops in program order.
        outputs: tensors returned, flat.
        result: what the function returned, with an OutputRef for each tensor.
        forms: operand signatures met while tracing.
        findings: what an author should know.
        addresses: storage id -> Address, after allocation.
        overlaps: groups of storages whose bytes overlap while both are in use, after allocation.
        program: which core it is for, and of how many.
        registers: names of the registers, by id.
        poisoned: storages that are read before they are written, filled with NaN (integers: 4) before use.
        tracked: those of which only a run shows whether an element is written when it is read or returned.
        placed: the engines of the instructions have been chosen and are shown.
        waits: per instruction, the positions of the instructions it waits for, after insert_waits.
        timed: what its dialect assumes of its times, for reports; "" for nothing.
        dependences: whom instructions must follow, where a pass has found it out for those behind it.
    """

    name: str
    target: Target
    params: tuple[Param, ...] = ()
    storages: tuple[Storage, ...] = ()
    body: tuple[Instruction | Loop, ...] = ()
    outputs: tuple[NkiTensor, ...] = ()
    result: Any = None
    forms: dict[Any, Form] = field(default_factory=dict, repr=False, compare=False)
    findings: tuple[Finding, ...] = ()
    addresses: dict[int, Address] | None = None
    overlaps: tuple[frozenset[int], ...] = ()
    program: tuple[int, int] = (0, 1)
    registers: tuple[str, ...] = ()
    poisoned: frozenset[int] = frozenset()
    tracked: frozenset[int] = frozenset()
    placed: bool = False
    waits: tuple[tuple[int, ...], ...] | None = None
    timed: str = ""
    dependences: Dependences | None = field(default=None, repr=False, compare=False)

    def with_(self, **changes: Any) -> Kernel:
        """Return a copy with some fields replaced."""
        if not _DECIDE_DEPENDENCES.isdisjoint(changes):
            changes.setdefault("dependences", None)
        kernel = replace(self, **changes)
        if "body" not in changes:  # what was derived from the body stays true
            kernel.__dict__.update({k: v for k, v in self.__dict__.items() if k in _FROM_BODY})
            if "poisoned" in changes:
                kernel.__dict__.pop("lifetimes", None)
        return kernel

    @cached_property
    def lifetimes(self) -> dict[int, Lifetime]:
        """Lifetime of every storage that is touched, by id.

        The device runs a loop's body again and again, so what a loop touches is in use during all of it
        (nki/deep-dives/nki-dynamic-loops.rst). A tensor made in the body starts anew in each pass, and is in use in a
        part of the body only.
        """
        return lifetimes(self.touches, self.loops, self._anew if self.has_loops else None)

    @cached_property
    def _anew(self) -> dict[int, int]:
        # What is read before it is written shows what an earlier pass left.
        return {s.id: s.loop for s in self.storages if s.loop and s.id not in self.poisoned}

    @cached_property
    def handed_over(self) -> frozenset[int]:
        """Ids of the tiles whose last instruction begins another one in their place, after allocation."""
        placed = [
            (k, (self.storages[k].buffer, address), self.lifetimes[k])
            for k, address in (self.addresses or {}).items()
        ]
        begins = {(place, life.first) for _, place, life in placed}
        return frozenset(
            k
            for k, place, life in placed
            if life.first < life.last and (place, life.last) in begins
        )

    def starts_anew(self, storage: Storage) -> bool:
        """Tell whether a tensor has no value that lives from one pass of its loop to the next."""
        return storage.id in self._anew

    @cached_property
    def touches(self) -> Touches:
        """Every access of an instruction to a tensor, in columns."""
        return Touches(self.instructions)

    @cached_property
    def loops(self) -> tuple[LoopRange, ...]:
        """Every device loop with the positions of its body in `instructions`, outer loops first."""
        ranges: list[LoopRange] = []
        _loop_ranges(self.body, 0, ranges)
        return tuple(ranges)

    @cached_property
    def loop_numbers(self) -> tuple[int, ...]:
        """Per instruction, the number of the innermost loop around it; 0 outside all."""
        numbers = [0] * len(self.instructions)
        for loop in self.loops:
            numbers[loop.first : loop.end] = [loop.loop.number] * (loop.end - loop.first)
        return tuple(numbers)

    def rewrite(self, change: Callable[[Instruction], Instruction]) -> Kernel:
        """Return the kernel with every instruction replaced by `change(instruction)`, in program order."""
        return self.with_(body=_rewritten(self.body, change))

    def with_instructions(self, instructions: Sequence[Instruction]) -> Kernel:
        """Return the kernel with these instructions in place of its own, one for one in program order."""
        if not self.has_loops:
            return self.with_(body=tuple(instructions))
        following = iter(instructions)
        return self.rewrite(lambda _: next(following))

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """Every instruction in program order, loop bodies once."""
        if not self.has_loops:
            return self.body  # type: ignore[return-value]
        return tuple(_walk(self.body))

    @cached_property
    def written_inputs(self) -> frozenset[int]:
        """Ids of the arguments that some instruction writes."""
        return frozenset(
            view.storage.id
            for i in self.instructions
            for view in i.written()
            if view.storage.origin == "input"
        )

    @property
    def has_loops(self) -> bool:
        """True when the device runs a loop, so that the executed stream differs from the program."""
        return bool(self.loops)

    @cached_property
    def inputs(self) -> tuple[Storage, ...]:
        """Storages of the tensor parameters, in order."""
        return tuple(s for s in self.storages if s.origin == "input")

    def engine(self, i: Instruction) -> Engine:
        """Return the engine `i` runs on."""
        return i.form.engine


class LoopRange(NamedTuple):
    """A loop and the positions `first` to `end` (exclusive) of its body in the flat program."""

    loop: Loop
    first: int
    end: int


_DECIDE_DEPENDENCES = frozenset(("body", "addresses", "overlaps"))
_FROM_BODY = ("instructions", "lifetimes", "loops", "loop_numbers", "touches")


def _loop_ranges(body: tuple[Instruction | Loop, ...], at: int, ranges: list[LoopRange]) -> int:
    if Loop not in set(map(type, body)):  # most bodies are long and hold none
        return at + len(body)
    for node in body:
        if type(node) is Loop:
            place = len(ranges)
            ranges.append(LoopRange(node, at, at))
            end = _loop_ranges(node.body, at, ranges)
            ranges[place] = LoopRange(node, at, end)
            at = end
        else:
            at += 1
    return at


def _rewritten(
    body: tuple[Instruction | Loop, ...], change: Callable[[Instruction], Instruction]
) -> tuple[Instruction | Loop, ...]:
    return tuple(
        replace(node, body=_rewritten(node.body, change))
        if isinstance(node, Loop)
        else change(node)
        for node in body
    )


def _walk(body: tuple[Instruction | Loop, ...]) -> Iterator[Instruction]:
    for node in body:
        if type(node) is Loop:
            yield from _walk(node.body)
        else:
            yield node  # type: ignore[misc]


def told_once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings without those that say the same of the same place, such as a helper that is called twice."""
    first: dict[Hashable, Finding] = {}
    for finding in findings:
        first.setdefault((finding.kind, finding.message, finding.stack[:1]), finding)
    return tuple(first.values())


class FindingsByPlace:
    """Findings of which, about one thing at one place, the first is kept, and how many there were."""

    def __init__(self, earlier: Iterable[Finding]) -> None:
        self._known = tuple(earlier)
        self._first: dict[tuple[Hashable, Stack], Finding] = {}
        self._times: dict[tuple[Hashable, Stack], int] = {}

    def add(self, about: Hashable, stack: Stack, make: Callable[[], Finding]) -> None:
        """Note a finding about `about`; `make` is called for the first one at its place."""
        key = about, stack
        times = self._times[key] = self._times.get(key, 0) + 1
        if times == 1:
            self._first[key] = make()

    def by_key(self) -> list[tuple[Any, Finding]]:
        """Return the findings added, in order, each with what it is about."""
        return [
            (about, _counted(f, self._times[about, stack]))
            for (about, stack), f in self._first.items()
        ]

    def all(self) -> tuple[Finding, ...]:
        """Return the findings known before and those added, in order."""
        return (*self._known, *(finding for _, finding in self.by_key()))


def _counted(finding: Finding, times: int) -> Finding:
    if times == 1:
        return finding
    return replace(
        finding, message=f"{finding.message} (and {times - 1:,} more times at this line)"
    )
