"""Steps through a run: shows each operand before and after an instruction, forward and back.

A program is run again on copies of its inputs, one instruction at a time. To go back, the state of a moment before is
taken from a snapshot and the instructions since are run again, so that every value is exactly the run's own. Snapshots
take a bounded amount of memory; where one of them alone would take more, going back starts from the beginning.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nki_lab.choices import Choices
from nki_lab.errors import NkiError, NotModelled
from nki_lab.ir.definition.instruction import READ, WRITE, Instruction
from nki_lab.ir.program.nodes import Finding, Kernel, Loop
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.simulator.arguments import elements_of
from nki_lab.simulator.bind import run_steps
from nki_lab.simulator.machine import Program, one_blas_thread
from nki_lab.simulator.rendezvous import DeviceLoop
from nki_lab.simulator.snapshots import Frame, Snapshots, changing

#: Bytes that all snapshots of one stepper take together.
SNAPSHOT_BYTES = 128 << 20
#: Instructions that are asked which elements of a tensor they have written; of more, all count as written.
_WRITERS_LOOKED_AT = 2_000
_UNKNOWN, _FINITE, _NOT_FINITE = 0, 1, 2


class OperandValues(NamedTuple):
    """What an instruction does with one operand.

    Attributes:
        name: of the parameter; of a list with its number: "srcs[1]".
        role: READ, WRITE or UPDATE.
        view: as the program has it.
        before, after: copies of its values; None where nothing had written it yet, or where the instruction failed.
            Of rows whose index is out of range and skipped there are none.
        unwritten: which elements of `before` nothing had written, where that holds for some of them; else None.
    """

    name: str
    role: Any
    view: NkiTensor
    before: np.ndarray | None
    after: np.ndarray | None
    unwritten: np.ndarray | None = None


class LoopPass(NamedTuple):
    """One pass of a device loop: number `number` of `total`, counted from 0, and the value of its register."""

    loop: Loop
    number: int
    total: int
    value: int | None


class Around(NamedTuple):
    """An executed instruction with the values around it.

    Attributes:
        number: how many instructions ran before it.
        position: in `kernel.instructions`.
        operands: in the order of its parameters.
        passes: of the device loops around it, the outermost first.
        registers: values by name before it runs.
        registers_set: values by name of those that it sets.
        printed: what it prints.
        error: what ends the run here, or None.
    """

    number: int
    position: int
    operands: tuple[OperandValues, ...]
    passes: tuple[LoopPass, ...]
    registers: dict[str, int]
    registers_set: dict[str, int]
    printed: str
    error: NkiError | None


@dataclass
class _Bound:
    """The calls of one instruction."""

    position: int
    i: Instruction
    steps: list[Any]


class _StepProgram(Program):
    """A program whose steps are whole instructions, and what lies between them."""

    _bound = 0

    def _bind_instruction(self, i: Instruction, steps: list[Any]) -> None:
        calls: list[Any] = []
        super()._bind_instruction(i, calls)
        steps.append(_Bound(self._bound, i, calls))
        self._bound += 1

    def _new_array(self, storage: Storage) -> np.ndarray:
        array = super()._new_array(storage)
        array.reshape(-1).view(np.uint8).fill(0xFF)  # unwritten results look alike in every run
        return array


class Stepper:
    """A run that can be looked at around each of its instructions.

    Args:
        kernel: what to run, for one core that meets nobody.
        arrays: its inputs, which are copied.
        options: choices of the simulation.
        snapshot_bytes: how much memory snapshots may take together, beside the memories of the program themselves.

    Attributes:
        order: position of every executed instruction; where one fails, it is the last.
        error: what ended the run, or None.
        outputs: what it returned; empty where it failed.
        trips: how often each device loop ran, in the order they were entered.
        noticed: findings that only the values of the run show; empty where it failed.
    """

    def __init__(
        self,
        kernel: Kernel,
        arrays: Sequence[np.ndarray],
        options: Choices | None = None,
        snapshot_bytes: int = SNAPSHOT_BYTES,
    ) -> None:
        _check_alone(kernel)
        self.kernel = kernel
        self.error: NkiError | None = None
        self.outputs: list[np.ndarray] = []
        self.noticed: tuple[Finding, ...] = ()
        self._program = _StepProgram(kernel, options)
        held = [np.array(a, order="C") for a in elements_of(kernel.name, kernel.inputs, arrays)]
        self._given = held
        self._kept = Snapshots(self._program, snapshot_bytes)
        self._frames: list[Frame] = []
        self._done = -1  # how many instructions have run; -1 where a run broke off
        self._restart()
        self._run_all()

    @property
    def count(self) -> int:
        """Number of executed instructions."""
        return len(self.order)

    @property
    def snapshot_bytes(self) -> int:
        """Bytes that snapshots take now."""
        return self._kept.bytes

    # -- looking -------------------------------------------------------------------------------------------------

    def around(self, number: int) -> Around:
        """Return an executed instruction with the values around it."""
        if not 0 <= number < self.count:
            raise IndexError(f"{self.count} instructions ran, there is no number {number}")
        with self._running():
            self._go(number)
            bound = self._next()
            assert bound is not None
            i = bound.i
            fails = number == self._fails
            passes = self._passes()
            registers = self._register_values()
            readers = list(self._readers(i, fails))
            written = [self._written(number, role, view) for _, role, view, _ in readers]
            before = [
                None if read is None or is_written is False else read()
                for (_, _, _, read), is_written in zip(readers, written, strict=True)
            ]
            printed = "" if fails else self._perform(bound)
            after = [None if read is None or fails else read() for _, _, _, read in readers]
            operands = [
                OperandValues(name, role, view, old, new, None if type(mask) is bool else ~mask)
                for (name, role, view, _), old, new, mask in zip(
                    readers, before, after, written, strict=True
                )
            ]
            now = self._register_values()
            names = {i.args[p].name for p in i.form.registers_set}
            if fails:
                self._done = -1
        return Around(
            number, bound.position, tuple(operands), passes, registers,
            {name: value for name, value in now.items() if name in names},
            printed, self.error if fails else None,
        )  # fmt: skip

    def values(self, number: int, storage: Storage) -> np.ndarray | None:
        """Return what a tensor holds after `number` instructions; None where nothing has written it, or no longer."""
        life = self.kernel.lifetimes.get(storage.id)
        with self._running():
            self._go(number)
            position = int(self.order[number - 1]) if number else 0
            if life is None or (storage.on_chip and not life.first <= position <= life.last):
                return None
            if self._written(number, WRITE, whole_view(storage)) is False:
                return None
            return self._program.memory.array(whole_view(storage)).copy()

    def next_not_finite(self, start: int, stop: int | None = None) -> int | None:
        """Return the first executed instruction from `start` on, before `stop`, that writes a NaN or an infinity."""
        finite = self._finite
        last = self.count if self._fails is None else self._fails
        last = last if stop is None else min(last, stop)
        with self._running():
            for number in range(start, last):
                if finite[number] == _UNKNOWN:
                    self._go(number)
                    bound = self._next()
                    assert bound is not None
                    written = [
                        read
                        for _, role, view, read in self._readers(bound.i, False)
                        if role != READ and view.dtype.is_float and read is not None
                    ]
                    self._perform(bound)
                    is_finite = all(bool(np.isfinite(read()).all()) for read in written)
                    finite[number] = _FINITE if is_finite else _NOT_FINITE
                if finite[number] == _NOT_FINITE:
                    return number
        return None

    def touching(self, storage: Storage, writes: bool, reads: bool) -> np.ndarray:
        """Return the executed instructions that write or read a tensor, in order."""
        touches = np.array(
            [
                (writes and any(v.storage is storage for v in i.written()))
                or (reads and any(v.storage is storage for v in i.read()))
                for i in self.kernel.instructions
            ],
            dtype=bool,
        )
        return np.flatnonzero(touches[self.order]) if len(self.order) else np.zeros(0, np.int64)

    # -- running -------------------------------------------------------------------------------------------------

    def _run_all(self) -> None:
        """Run once from beginning to end, noting the order and keeping snapshots."""
        order = array("I")
        bound = None
        try:
            with self._running():
                while (bound := self._next()) is not None:
                    order.append(bound.position)
                    self._perform(bound)
                    bound = None
        except NkiError as error:
            self.error = error.with_traceback(None)  # whose frames hold the stepper
        self._fails = len(order) - 1 if bound is not None else None
        self.order = np.frombuffer(order, dtype=np.uint32) if order else np.zeros(0, np.uint32)
        self.trips = tuple(self._program.trips)
        self._finite = np.zeros(self.count, np.uint8)
        if self.error is None:
            self.outputs = [np.array(o) for o in self._program.end(self._inputs)]
            self.noticed = self._program.noticed()

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Run with NumPy as the simulator has it; what breaks off leaves memories that are used no more."""
        try:
            with np.errstate(all="ignore"), one_blas_thread():
                yield
        except BaseException:
            self._done = -1
            raise

    def _restart(self) -> None:
        program = self._program
        inputs = self.kernel.inputs
        self._inputs = [
            a.copy() if s.id in program.writes else a
            for s, a in zip(inputs, self._given, strict=True)
        ]
        for key, held in changing(program).items():
            if key not in program.memory.outside and self.kernel.storages[key].data is None:
                held.fill(0xFF)  # what an earlier run has left looks like nothing
        program.begin(self._inputs)
        self._frames = [Frame(program._steps)]
        self._done = 0

    def _go(self, done: int) -> None:
        """Bring the memories to the state after `done` instructions."""
        nearest = self._kept.nearest(done)
        if not nearest <= self._done <= done:
            if nearest:
                self._frames = self._kept.restore(nearest)
                self._done = nearest
            else:
                self._restart()
        while self._done < done:
            bound = self._next()
            assert bound is not None
            self._perform(bound)

    def _next(self) -> _Bound | None:
        """Run what comes before the next instruction and return that; None at the end."""
        while True:
            frame = self._frames[-1]
            if frame.at < len(frame.steps):
                step = frame.steps[frame.at]
                frame.at += 1
                if isinstance(step, _Bound):
                    return step
                if isinstance(step, DeviceLoop):
                    self._frames.append(
                        Frame(step.steps, step, step.enter(), len(step.steps), self._done)
                    )
                else:
                    run_steps((step,))
            elif frame.loop is None or frame.passes is None:
                return None
            elif frame.loop.begins(frame.passes):
                frame.at, frame.began = 0, self._done
            else:
                self._frames.pop()

    def _perform(self, bound: _Bound) -> str:
        """Run an instruction and return what it prints."""
        printed = ""
        if bound.i.definition.observes:  # it has been printed when the kernel ran
            with redirect_stdout(io.StringIO()) as out:
                run_steps(bound.steps)
            printed = out.getvalue()
        else:
            run_steps(bound.steps)
        self._done += 1
        self._kept.offer(self._done, self._frames)
        return printed

    # -- facts of a moment ---------------------------------------------------------------------------------------

    def _passes(self) -> tuple[LoopPass, ...]:
        passes = []
        for frame in self._frames[1:]:
            assert frame.loop is not None and frame.passes is not None
            number = self._program.trips[frame.passes.place] - 1
            values = frame.passes.values
            value = None if values is None else values[number]
            passes.append(LoopPass(frame.loop.loop, number, self.trips[frame.passes.place], value))
        return tuple(passes)

    def _register_values(self) -> dict[str, int]:
        names = self.kernel.registers
        values = self._program.register_file.values
        return {names[key]: value for key, value in sorted(values.items()) if key < len(names)}

    def _readers(
        self, i: Instruction, fails: bool
    ) -> Iterator[tuple[str, Any, NkiTensor, Callable[[], np.ndarray] | None]]:
        """Yield name, role, view of each operand, and what reads it at the address it has now."""
        for position, role in i.definition.roles(i):
            name, value = i.definition.params[position], i.args[position]
            views = value if type(value) is tuple else (value,)
            for k, view in enumerate(views):
                if type(view) is not NkiTensor:
                    continue
                label = f"{name}[{k}]" if type(value) is tuple else name
                try:
                    yield label, role, view, self._program._late.reader(view, i)
                except NkiError:
                    if not fails:  # else it may be the very address that ends the run
                        raise
                    yield label, role, view, None

    def _written(self, number: int, role: Any, view: NkiTensor) -> Any:
        """Tell which elements of a view have been given values before executed instruction `number`.

        True is all of them, False none. What is read counts as written: its values are what the instruction gets.
        """
        storage = view.storage
        if role != WRITE or storage.origin != "temporary" or storage.data is not None:
            return True
        began = next(
            (f.began for f in self._frames[1:] if f.loop and f.loop.loop.number == storage.loop), 0
        )
        writers = self._writers[storage.id]
        ran = np.intersect1d(self.order[began:number], writers)
        size = storage.nbytes // storage.dtype.itemsize
        views = [
            v
            for position in ran[:_WRITERS_LOOKED_AT].tolist()
            for v in self.kernel.instructions[position].written()
            if v.storage is storage
        ]
        if not views:
            return False
        is_written = all(
            v.dynamic is None and v.dtype.itemsize == storage.dtype.itemsize for v in (*views, view)
        )
        if not is_written or len(ran) > _WRITERS_LOOKED_AT or any(v.size == size for v in views):
            return True
        mask = np.zeros(size, bool)
        for v in views:
            np.ndarray(v.shape, bool, mask, v.offset, v.strides)[...] = True
        written = np.ndarray(view.shape, bool, mask, view.offset, view.strides).copy()
        return bool(written.all()) if written.all() or not written.any() else written

    @cached_property
    def _writers(self) -> dict[int, list[int]]:
        """Per storage, the positions of the instructions that write it."""
        writers: dict[int, list[int]] = {s.id: [] for s in self.kernel.storages}
        for position, i in enumerate(self.kernel.instructions):
            for key in {v.storage.id for v in i.written()}:
                writers[key].append(position)
        return writers


def _check_alone(kernel: Kernel) -> None:
    _, cores = kernel.program
    if cores > 1:
        raise NotModelled(
            f"{kernel.name} runs on {cores} cores, which exchange data while they run: a stepper follows one core",
            help="launch it on one core to step through it: kernel[1](...)",
        )
