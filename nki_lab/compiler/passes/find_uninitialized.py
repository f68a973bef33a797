"""Finds elements that are read although nothing has written them.

On the chip such a read gives whatever was there before; here it gives NaN (4 for integers, as in the official
simulator, nki/guides/nki_simulator.rst), never a former tensor's bytes, and a finding says where. The same holds for
accumulators that are read although nothing has reset them. Where values of the device decide what is written or read,
the tensor is tracked: the simulator decides (simulator/unwritten.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.overwritten import find_overwritten
from nki_lab.compiler.passes import compiler_pass
from nki_lab.errors import KernelResult
from nki_lab.ir.definition.instruction import READ, SPOIL, UPDATE, WRITE, Form, Instruction
from nki_lab.ir.definition.operands import Operand, Order, Shape, State
from nki_lab.ir.program.nodes import Finding, FindingsByPlace, Kernel, Loop, LoopRange
from nki_lab.ir.program.unwritten import (
    may_keep_elements,
    old_value_is_read,
    unset_state,
    unwritten_read,
    unwritten_result,
)
from nki_lab.ir.tensor.coverage import Coverage, Written, is_whole
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.targets.spaces import SHARED_HBM

Part = Callable[[Instruction, NkiTensor], NkiTensor]


class _Sight(NamedTuple):
    """What looking at a program shows.

    Attributes:
        findings: one per read, or result, of what nothing has written.
        poisoned: storages to fill before use.
        tracked: those of which only a run shows what is written when it is read.
        empty: results of which nothing is written.
    """

    findings: tuple[Finding, ...]
    poisoned: frozenset[int]
    tracked: frozenset[int]
    empty: list[NkiTensor]


class _Elsewhere(NamedTuple):
    """What the other core writes of a shared tensor: views at fixed places, and whether it may write more or less."""

    views: list[NkiTensor]
    uncertain: bool


@compiler_pass()
def find_uninitialized(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with a finding per unwritten read, the storages to fill before use, and those to track."""
    sight = _look_at(kernel)
    if kernel.outputs and len(sight.empty) == len(kernel.outputs) and not kernel.written_inputs:
        raise _no_result(kernel, sight.empty)
    return kernel.with_(
        findings=(*kernel.findings, *sight.findings, *find_overwritten(kernel)),
        poisoned=sight.poisoned,
        tracked=sight.tracked,
    )


def look_at_shared(cores: tuple[Kernel, Kernel], pairs: list[tuple[Storage, Storage]]) -> Sharing:
    """Return what two cores read or return of shared tensors although neither of them writes it.

    An element counts as written where the core itself has written it before, or the other one writes it at any time:
    what orders the two is looked at elsewhere. `pairs` are the shared tensors, as (of core 0, of core 1).
    """
    findings: list[Finding] = []
    tracked: list[set[int]] = []
    if not pairs:
        return Sharing([], (frozenset(), frozenset()))
    for at, (core, other) in enumerate((cores, cores[::-1])):
        same = {pair[1 - at].id: pair[at] for pair in pairs}
        sight = _look_at(core, _elsewhere(other, same))
        findings += sight.findings
        tracked.append({*sight.tracked})
    for a, b in pairs:  # a run has one mask for both
        if a.id in tracked[0] or b.id in tracked[1]:
            tracked[0].add(a.id)
            tracked[1].add(b.id)
    unique = {(f.message, f.stack): f for f in findings}
    return Sharing(list(unique.values()), (frozenset(tracked[0]), frozenset(tracked[1])))


class Sharing(NamedTuple):
    """What two cores leave unwritten of shared tensors: findings, and per core the storages that only a run decides."""

    findings: list[Finding]
    tracked: tuple[frozenset[int], frozenset[int]]


def _elsewhere(kernel: Kernel, same: dict[int, Storage]) -> dict[int, _Elsewhere]:
    """Return what a core writes of shared tensors, by the other core's id; `same` gives the other's storage."""
    loops = _Loops(kernel)
    elsewhere = {storage.id: _Elsewhere([], False) for storage in same.values()}
    for n, i in enumerate(kernel.instructions):
        for position in i.form.writes if not loops.never(n) else ():
            value = i.args[position]
            for view in value if type(value) is tuple else (value,):
                storage = same.get(view.storage.id)
                if storage is None or _only_ordered(i, view.storage):
                    continue
                part = _facts(i.form).written.get(position)
                keeps = position in _facts(i.form).keeping
                if view.dynamic is not None or keeps or not loops.certain(n, view.storage):
                    elsewhere[storage.id] = elsewhere[storage.id]._replace(uncertain=True)
                    continue
                view = view if part is None else part(i, view)
                moved = NkiTensor._make(storage, view.shape, view.strides, view.offset, view.dtype)
                elsewhere[storage.id].views.append(moved)
    return elsewhere


def _look_at(kernel: Kernel, elsewhere: dict[int, _Elsewhere] | None = None) -> _Sight:
    """Look at what a program reads and returns; with `elsewhere`, only at those tensors, which another core shares."""
    coverage: dict[int, Coverage] = {}
    poisoned: set[int] = set()
    tracked: set[int] = set()
    findings = FindingsByPlace(())
    set_states: set[State] = set()
    shared = elsewhere or {}
    uncertain = {key for key, other in shared.items() if other.uncertain}
    loops, looped = _Loops(kernel), kernel.has_loops
    filled = _filled(kernel, loops).tolist()
    carried = _carried(kernel)
    for key in carried:
        filled[key] = False
    if elsewhere is not None:
        filled = [done or key not in elsewhere for key, done in enumerate(filled)]

    def covered(storage: Storage) -> Coverage:
        seen = coverage.get(storage.id)
        if seen is None:
            seen = coverage[storage.id] = Coverage(storage)
            for view in shared[storage.id].views if storage.id in shared else ():
                seen.write(view)
        return seen

    for n in _touching(kernel, filled):
        i = kernel.instructions[n]
        form = i.form
        facts = _facts(form)
        if looped and loops.never(n):
            continue
        unset: list[tuple[int, NkiTensor, Coverage]] = []
        for position, view in _reads(i, facts.read):
            storage = view.storage
            if storage.origin != "temporary" or filled[storage.id]:
                continue
            seen = coverage.get(storage.id) or covered(storage)
            if seen.whole:
                continue
            # Which elements it touches may be known only while running: then all must be written.
            sought = view if view.dynamic is None else whole_view(storage)
            if seen.written(sought) is Written.ALL:
                continue
            poisoned.add(storage.id)
            if position in facts.updated and not old_value_is_read(i, position, UPDATE):
                continue
            if elsewhere is None and _others_write(kernel, storage):
                continue
            if storage.id in carried and facts.carries and not form.dynamic:
                unset.append((position, view, seen))
                continue
            chosen = position in facts.chosen
            if view.dynamic is not None or storage.id in uncertain or chosen:
                tracked.add(storage.id)
                continue
            findings.add(position, i.stack, partial(_finding, i, position, view, seen))
        for state, role in form.state if elsewhere is None else ():
            if role in (READ, UPDATE) and state.is_accumulator and state not in set_states:
                findings.add(state, i.stack, partial(unset_state, i, state))
            if role == WRITE:
                set_states.add(state)
            elif role == SPOIL:
                set_states.discard(state)
        for position in form.writes:
            value = i.args[position]
            for view in value if type(value) is tuple else (value,):
                storage = view.storage
                if filled[storage.id] or _only_ordered(i, storage):
                    continue
                seen = coverage.get(storage.id) or covered(storage)
                if unset:
                    seen.assign(view, _passed_on(i, unset, position, view))
                    continue
                if seen.whole:
                    continue
                if view.dynamic is not None or (looped and not loops.certain(n, storage)):
                    # A view placed by a value, or a loop that may not run at all: some of it may stay unwritten.
                    uncertain.add(storage.id)
                elif position in facts.keeping:
                    if seen.written(view) is not Written.ALL:
                        uncertain.add(storage.id)
                else:
                    part = facts.written.get(position)
                    seen.write(view if part is None else part(i, view))
    empty: list[NkiTensor] = []
    for view in kernel.outputs:
        storage = view.storage
        if storage.origin != "temporary" or filled[storage.id]:
            continue
        seen = covered(storage)
        if seen.written(view) is Written.ALL:
            continue
        poisoned.add(storage.id)
        if elsewhere is None and _others_write(kernel, storage):
            continue
        if storage.id in uncertain:
            tracked.add(storage.id)
            continue
        make = partial(unwritten_result, view, seen.missing(view))
        findings.add("result", storage.stack, make)
        if seen.missing(view) == view.size:
            empty.append(view)
    return _Sight(findings.all(), frozenset(poisoned), frozenset(tracked), empty)


class _Loops:
    """Tells which instructions a run certainly executes as far as its device loops decide."""

    def __init__(self, kernel: Kernel) -> None:
        self._numbers = kernel.loop_numbers
        self._outer: dict[int, int] = {}
        self._least: dict[
            int, int
        ] = {}  # passes of a loop that run in any case; -1: none in any case
        for loop, first, _ in kernel.loops:
            fixed = loop.kind == "for" and all(type(bound) is int for bound in loop.bounds)
            passes = (len(range(*loop.bounds)) or -1) if fixed else 0
            self._least[loop.number] = passes
            inner = next((r for r in reversed(kernel.loops) if _around(r, first, loop)), None)
            self._outer[loop.number] = inner.loop.number if inner else 0

    def never(self, n: int) -> bool:
        """Tell whether an instruction stands in a loop that runs no pass, whatever the values."""
        number = self._numbers[n]
        while number:
            if self._least[number] < 0:
                return True
            number = self._outer[number]
        return False

    def certain(self, n: int, storage: Storage) -> bool:
        """Tell whether an instruction runs whenever the place is passed where a tensor is made."""
        number = self._numbers[n]
        while number and number != storage.loop:
            if self._least[number] <= 0:
                return False
            number = self._outer[number]
        return True


def _around(outer: LoopRange, first: int, loop: Loop) -> bool:
    return outer.loop is not loop and loop.number in outer.loop.numbers


class _Facts(NamedTuple):
    """What all instructions of one form do, by the position of their operands.

    Attributes:
        updated: operands that are updated.
        chosen: operands of which only some elements are used, which a run decides.
        keeping: those of which some elements may keep their values.
        by_row: what is written to a partition depends on the same partition of what is read, and on nothing else.
        by_axes: an element that is written depends on those of the operands that agree with it in the axes they name.
        read, written: functions that give the part of an operand that is touched, where that is not all of it.
    """

    updated: frozenset[int]
    chosen: frozenset[int]
    keeping: frozenset[int]
    by_row: bool
    by_axes: bool
    read: dict[int, Part]
    written: dict[int, Part]

    @property
    def carries(self) -> bool:
        """It is known which elements of results are computed from which of the operands."""
        return self.by_row or self.by_axes


def _facts(form: Form) -> _Facts:
    facts: _Facts | None = form.cache.get(find_uninitialized)
    if facts is None:
        facts = form.cache[find_uninitialized] = _facts_of(form.example)
    return facts


def _facts_of(i: Instruction) -> _Facts:
    read: dict[int, Part] = {}
    written: dict[int, Part] = {}
    for name, operand in i.definition.operands.items():
        if operand.part is not None:
            position = i.definition.position[name]
            read[position] = operand.part
            written[position] = operand.part_written or operand.part
    roles = i.definition.roles(i)
    updated = frozenset(position for position, role in roles if role == UPDATE)
    keeping = frozenset(p for p, role in roles if may_keep_elements(i, p, role))
    operands = i.definition.operands.items()
    chosen = frozenset(i.definition.position[name] for name, o in operands if o.chosen)
    return _Facts(updated, chosen, keeping, _is_by_row(i), _is_by_axes(i), read, written)


def _is_by_row(i: Instruction) -> bool:
    """Tell whether an instruction computes each partition of its results from the same partition of its operands."""
    listed = [
        i.definition.operands[i.definition.params[p]] for p in (*i.form.reads, *i.form.writes)
    ]
    views = [i.args[p] for p in (*i.form.reads, *i.form.writes)]
    return (
        bool(i.form.writes)
        and i.definition.order in (None, Order.STREAM, Order.LAST)
        and all(isinstance(o.role, str) and o.role != UPDATE and not o.axes[0] for o in listed)
        and all(type(v) is NkiTensor and v.storage.on_chip for v in views)
        and len({v.shape[0] for v in views}) == 1
    )


def _is_by_axes(i: Instruction) -> bool:
    """Tell whether all operands are matrices that name their axes, as those of a product and of a transpose do."""
    listed = [_operand(i, p) for p in (*i.form.reads, *i.form.writes)]
    views = [i.args[p] for p in (*i.form.reads, *i.form.writes)]
    return bool(i.form.writes) and all(
        type(v) is NkiTensor and o.shape is Shape.FLAT and len(o.axes) == 2 and all(o.axes)
        for v, o in zip(views, listed, strict=True)
    )


def _operand(i: Instruction, position: int) -> Operand:
    return i.definition.operands[i.definition.params[position]]


def _carried(kernel: Kernel) -> frozenset[int]:
    """Return the storages of which a mask leaves elements unset, and those computed from them row by row.

    That they are read is no mistake as long as what they give reaches no result. Products and transposes count as well.
    """
    keys = {s.id for s in kernel.storages if s.masked}
    if not keys:
        return frozenset()
    for i in kernel.instructions:
        if _facts(i.form).carries and any(i.args[p].storage.id in keys for p in i.form.reads):
            keys.update(i.args[p].storage.id for p in i.form.writes)
    return frozenset(keys)


def _passed_on(
    i: Instruction, unset: list[tuple[int, NkiTensor, Coverage]], position: int, written: NkiTensor
) -> np.ndarray:
    """Return which elements of a view that is written are computed from elements that have been written.

    By named axes where operands name them; element by element where all are streams or one value per partition; else
    by partition.
    """
    if _facts(i.form).by_axes:
        return _along_axes(i, unset, position, written)

    def shape(p: int) -> Shape:
        return _operand(i, p).shape

    marks = np.ones((written.shape[0], 1), bool)
    single = all(shape(p) in (Shape.STREAM, Shape.VECTOR) for p in (*i.form.reads, position))
    for read, view, seen in unset:
        part = seen.elements(view).reshape(view.shape[0], -1)
        by_element = single and shape(read) is shape(position) is Shape.STREAM
        marks = marks & (part if by_element else part.all(axis=1, keepdims=True))
    count = written.size // written.shape[0]
    return np.broadcast_to(marks, (written.shape[0], count)).reshape(written.shape)


def _along_axes(
    i: Instruction, unset: list[tuple[int, NkiTensor, Coverage]], position: int, written: NkiTensor
) -> np.ndarray:
    """Return the same of matrices with named axes: an axis that the result does not have is gone through as a whole."""
    rows = written.shape[0]
    marks = np.ones((rows, written.size // rows), bool)
    named = _operand(i, position).axes
    for read, view, seen in unset:
        axes = _operand(i, read).axes
        part: Any = seen.elements(view).reshape(view.shape[0], -1)
        part = part.all(axis=tuple(n for n in (0, 1) if axes[n] not in named), keepdims=True)
        part = part if axes[0] == named[0] or axes[1] == named[1] else part.T
        # Two rows at a time are read as one: then all of it counts.
        fits = all(n in (1, size) for n, size in zip(part.shape, marks.shape, strict=True))
        marks = marks & (part if fits else part.all())
    return marks.reshape(written.shape)


def _filled(kernel: Kernel, loops: _Loops) -> np.ndarray:
    """Return, per storage id, whether it is written as a whole before anything reads it, as most tiles are."""
    touches = kernel.touches
    first = touches.first()
    begins = np.flatnonzero(touches.writes & (touches.at == first[touches.storage]))
    filled = np.zeros(len(kernel.storages), bool)
    filled[touches.storage[begins]] = True
    for access, n in zip(begins.tolist(), touches.at[begins].tolist(), strict=True):
        i, view = kernel.instructions[n], touches.views[access]
        storage = view.storage
        in_parts = not loops.certain(n, storage) or not is_whole(view) or _facts(i.form).written
        if in_parts or _only_ordered(i, storage):
            filled[storage.id] = False
    filled[: touches.storages] &= touches.first(touches.reads) > first
    return filled


def _touching(kernel: Kernel, filled: list[bool]) -> list[int]:
    """Return the instructions, in order, that use a hidden register or touch a storage that is not `filled`.

    Reading an argument, which nothing leaves unwritten, does not count.
    """
    touches = kernel.touches
    temporary = np.array([s.origin == "temporary" for s in kernel.storages], bool)
    chosen = touches.per_form(lambda form: bool(form.state))
    matters = ~np.array(filled, bool)[touches.storage] & (
        touches.writes | temporary[touches.storage]
    )
    chosen[touches.at[matters]] = True
    at: list[int] = np.flatnonzero(chosen).tolist()
    return at


def _only_ordered(i: Instruction, storage: Storage) -> bool:
    """Tell whether an instruction orders uses of a tensor, as a barrier does, and puts nothing into it."""
    return i.definition.meets and storage.buffer is SHARED_HBM


def _others_write(kernel: Kernel, storage: Storage) -> bool:
    """Tell whether another core may write a tensor: what this core leaves unwritten says nothing then."""
    return kernel.program[1] > 1 and storage.buffer is SHARED_HBM


def _reads(i: Instruction, parts: dict[int, Part]) -> Iterator[tuple[int, NkiTensor]]:
    """Yield what is really read: operands with their position, and the tiles of indices that address them."""
    for position in i.form.reads:
        value = i.args[position]
        for view in value if type(value) is tuple else (value,):
            whole = position not in parts or view.dynamic is not None
            yield position, view if whole else parts[position](i, view)
    if i.form.dynamic:
        for position in {*i.form.reads, *i.form.writes}:
            value = i.args[position]
            for view in value if type(value) is tuple else (value,):
                if view.dynamic is not None and type(view.dynamic.index) is NkiTensor:
                    yield position, view.dynamic.index


def _finding(i: Instruction, position: int, view: NkiTensor, seen: Coverage) -> Finding:
    return unwritten_read(i, position, view, seen.missing(view), seen.first_missing(view))


def _no_result(kernel: Kernel, unwritten: list[NkiTensor]) -> KernelResult:
    return KernelResult(
        f"{kernel.name} computes nothing: no element of what it returns is ever written",
        stack=unwritten[0].storage.stack,
        notes=[f"returned: {view.describe()}" for view in unwritten],
        help="write the result with nisa.dma_copy(dst=result, src=tile) before the kernel returns",
    )
