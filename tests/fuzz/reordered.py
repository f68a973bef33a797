"""Runs a kernel in every order that its waits and the engines allow: it must compute the same.

Each engine starts its instructions in order, transfers in any, and an instruction begins when those it waits for are
done. Two proofs: the program is run in random orders of that kind, on memory in which tiles share bytes as their
addresses say; and every two instructions that touch a byte, one of them writing it, are looked at one by one.

Loops go trip by trip: all before a second or later trip, and before what follows a loop without a trip, is done.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from nki_lab.choices import Choices
from nki_lab.ir.definition.instruction import READ, Instruction
from nki_lab.ir.program.nodes import Kernel, Loop
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.simulator import Program
from nki_lab.simulator.bind import run_steps
from nki_lab.simulator.machine import one_blas_thread
from nki_lab.targets.engines import DMA, SYNC
from tests.compiler.check_schedule import check_schedule
from tests.fuzz.kernels import Written
from tests.fuzz.stages import compare

ORDERS = 3


@dataclass
class _Entry:
    """Something that is executed: an instruction, a barrier, or the start of a trip."""

    waits: set[int]
    queue: Any = None
    steps: Sequence[Any] = ()
    followers: list[int] = field(default_factory=list)


class _ByInstruction(Program):
    """A program whose calls are kept by instruction; unwritten memory is not filled."""

    def __init__(self, kernel: Kernel) -> None:
        self.calls: list[list[Any]] = []
        self.clears: dict[int, list[Any]] = {}
        super().__init__(kernel, Choices(shared_bytes=True))

    def _bind_instruction(self, i: Instruction, steps: list[Any]) -> None:
        calls: list[Any] = []
        super()._bind_instruction(i, calls)
        self.calls.append(calls)
        steps += calls

    def _renew_storage(self, storage: Any, steps: list[Any]) -> None:
        if storage.id in self._undecided:
            mask = self._binder.written[storage.id]
            self.clears.setdefault(storage.loop, []).append(partial(mask.fill, False))


class Reordered:
    """Runs a compiled kernel in orders that its waits allow.

    Args:
        kernel: after all passes.
        trips: how often its loops run, in the order they are entered.
    """

    def __init__(self, kernel: Kernel, trips: Sequence[int]) -> None:
        self.kernel = kernel
        self.program = _ByInstruction(kernel)
        self.entries: list[_Entry] = []
        self._latest: dict[int, int] = {}
        self._last: dict[Any, int] = {}
        self._since: list[int] = []  # entries that a barrier must wait for
        self._barrier: int | None = None
        self._trips = iter(trips)
        assert kernel.waits is not None
        self._add([_clear(self.program, 0)], None, ())
        self._cut()
        self._walk(kernel.body, 0)
        for n, entry in enumerate(self.entries):
            for w in entry.waits:
                self.entries[w].followers.append(n)

    # -- what is executed ----------------------------------------------------------------------------------------

    def _add(self, steps: Sequence[Any], queue: Any, waits: Sequence[int]) -> int:
        n = len(self.entries)
        found = set(waits)
        if self._barrier is not None:
            found.add(self._barrier)
        if queue is not None and queue is not DMA and queue in self._last:
            found.add(self._last[queue])
        self._last[queue] = n
        self.entries.append(_Entry(found, queue, steps))
        self._since.append(n)
        return n

    def _cut(self) -> None:
        """Let all that follows wait for all before."""
        before = self._since
        self._since, self._last = [], {}
        self._barrier = self._add((), None, before)

    def _walk(self, body: Any, at: int, begin: int | None = None) -> int:
        for node in body:
            if isinstance(node, Loop):
                at = self._loop(node, at, begin)
                continue
            found = [self._latest[w] for w in self.kernel.waits[at] if w in self._latest]  # type: ignore[index]
            if begin is not None:
                found.append(begin)
            self._latest[at] = self._add(self.program.calls[at], node.form.engine, found)
            at += 1
        return at

    def _loop(self, loop: Loop, at: int, begin: int | None) -> int:
        count = next(self._trips)
        bounds: dict[str, int] = {}
        end = at
        for trip in range(count):
            if trip:
                self._cut()
            control = [n for n in range(len(self.entries)) if self.entries[n].queue is SYNC]
            step = partial(self._begin_trip, loop, trip, bounds)
            first = self._add(
                (step, _clear(self.program, loop.number)),
                None,
                [*control, *([begin] if begin is not None else [])],
            )
            end = self._walk(loop.body, at, first)
        if not count:
            self._cut()
            return at + _size(loop.body)
        return end

    def _begin_trip(self, loop: Loop, trip: int, bounds: dict[str, int]) -> None:
        if loop.kind != "for":
            return
        registers = self.program.register_file
        start, _, stride = (registers.get(b) if isinstance(b, Register) else b for b in loop.bounds)
        if trip == 0:
            bounds["start"] = start
        registers.set(loop.register, bounds["start"] + trip * stride)

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, arrays: Sequence[np.ndarray], pick: random.Random) -> list[np.ndarray]:
        """Run once in a random order; return the results, and the arguments as they are afterwards."""
        held = [a.copy() for a in arrays]
        self.program.begin(held)
        left = [len(e.waits) for e in self.entries]
        ready = [n for n, count in enumerate(left) if not count]
        # Now and then one engine is far ahead of the others.
        queues = sorted({str(e.queue) for e in self.entries})
        eager = pick.choice((None, *queues))
        done = 0
        with np.errstate(all="ignore"), one_blas_thread():
            while ready:
                ahead = [k for k, n in enumerate(ready) if str(self.entries[n].queue) == eager]
                k = (
                    pick.choice(ahead)
                    if ahead and eager is not None
                    else pick.randrange(len(ready))
                )
                ready[k], ready[-1] = ready[-1], ready[k]
                entry = self.entries[ready.pop()]
                run_steps(entry.steps)
                done += 1
                for follower in entry.followers:
                    left[follower] -= 1
                    if not left[follower]:
                        ready.append(follower)
        assert done == len(self.entries), "an instruction waits for a later one"
        return [*self.program.end(held), *held]


def _clear(program: _ByInstruction, loop: int) -> Any:
    return lambda: run_steps(program.clears.get(loop, ()))


def _size(body: Any) -> int:
    return sum(_size(n.body) if isinstance(n, Loop) else 1 for n in body)


# -- pair by pair ------------------------------------------------------------------------------------------------


def unordered(kernel: Kernel) -> list[str]:
    """Return the pairs of instructions that touch a byte or a register in no certain order, one of them writing."""
    instructions = kernel.instructions
    before = _orders(kernel)
    found = []
    touched = [_touches(kernel, i) for i in instructions]
    for n, (reads, writes) in enumerate(touched):
        for m in range(n):
            if before[n] >> m & 1:
                continue
            earlier_reads, earlier_writes = touched[m]
            for how, a, b in (
                ("reads what is written by", reads, earlier_writes),
                ("writes over what is read by", writes, earlier_reads),
                ("writes over what is written by", writes, earlier_writes),
            ):
                if _meet(a, b):
                    one, other = instructions[n].definition.name, instructions[m].definition.name
                    found.append(f"#{n} {one} {how} #{m} {other}, and does not wait for it")
    return found


def _orders(kernel: Kernel) -> list[int]:
    """Return, per instruction, a bit for each earlier one that is surely done before it begins."""
    assert kernel.waits is not None
    latest: dict[Any, int] = {}
    before: list[int] = []
    for n, i in enumerate(kernel.instructions):
        engine = i.form.engine
        mask = 0
        for w in kernel.waits[n]:
            mask |= before[w] | 1 << w
        if engine is not DMA and engine in latest:
            mask |= before[latest[engine]] | 1 << latest[engine]
        latest[engine] = n
        before.append(mask)
    return before


# Per memory, register or state: which rows, and a bit for every byte of them; a register or state is one byte.
_Touches = dict[Any, list[tuple[int, int, int]]]
_WHOLE = (0, 1, 1)


def _touches(kernel: Kernel, i: Instruction) -> tuple[_Touches, _Touches]:
    reads: _Touches = {}
    writes: _Touches = {}
    for views, found in ((i.read(), reads), (i.written(), writes)):
        for view in views:
            key, place = _bytes(kernel, view)
            found.setdefault(key, []).append(place)
    for register in i.registers_read():
        reads["register", register.id] = [_WHOLE]
    for register in i.registers_written():
        writes["register", register.id] = [_WHOLE]
    for state, role in i.form.state:
        reads[state] = [_WHOLE]
        if role != READ:
            writes[state] = [_WHOLE]
    return reads, writes


def _meet(a: _Touches, b: _Touches) -> bool:
    return any(
        x & y and low < other_high and other_low < high
        for key in a.keys() & b.keys()
        for low, high, x in a[key]
        for other_low, other_high, y in b[key]
    )


def _bytes(kernel: Kernel, view: NkiTensor) -> tuple[Any, tuple[int, int, int]]:
    """Return the memory of a view, its rows, and a bit for every byte of a row that it shows.

    On chip rows are partitions, and a view has the same bytes of each. In HBM there is one row. Where a view may move,
    it has all bytes.
    """
    storage, size = view.storage, view.dtype.itemsize
    shape, strides, offset = view.shape, view.strides, view.offset * size
    rows = 1
    if storage.on_chip:
        rows, shape, strides = shape[0], shape[1:], strides[1:]
    first, offset = divmod(offset, storage.row_bytes)
    marks = np.zeros(storage.row_bytes, bool)
    if view.dynamic is not None:
        marks[...] = True
    else:
        at = np.array(offset)
        for n, step in zip(shape, strides, strict=True):
            at = np.add.outer(at, np.arange(n) * step * size)
        for byte in range(size):
            marks[at + byte] = True
    bits = int.from_bytes(np.packbits(marks, bitorder="little").tobytes(), "little")
    if not storage.on_chip:
        return storage.id, (0, 1, bits)
    assert kernel.addresses is not None
    address = kernel.addresses[storage.id]
    first += address.partition
    return storage.buffer, (first, first + rows, bits << address.byte)


def check_orders(w: Written, kernel: Kernel, pick: random.Random) -> None:
    """Check that the waits of a compiled kernel are enough."""
    wrong = unordered(kernel)
    assert not wrong, wrong[0]
    broken = check_schedule(w.kernel, kernel)
    assert not broken, broken[0]
    check_random_orders(w, kernel, pick)


def check_random_orders(w: Written, kernel: Kernel, pick: random.Random) -> None:
    """Run a kernel in random orders that its waits allow and compare."""
    if w.choices.raw:  # what is read unwritten is nothing that an order could change, on a device
        return
    program = Program(kernel)
    program.run([a.copy() for a in w.arrays])
    reordered = Reordered(kernel, program.trips)
    for n in range(ORDERS):
        compare(reordered.run(w.arrays, pick), w.outputs, f"in the random order {n}")
