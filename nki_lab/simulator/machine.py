"""Runs a program on one core.

On-chip addresses are fixed, so a program is bound once to a list of calls and then run any number of times. Only what
lies outside, the caller's arrays and the results, is put in anew before each run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from nki_lab.choices import Choices
from nki_lab.errors import KernelArgument
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Finding, Kernel, Loop
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import whole_view
from nki_lab.progress import counted, grown, phase
from nki_lab.simulator.accesses import Checker, Observer, fixed_accesses
from nki_lab.simulator.arguments import check_writable, elements_of, output_of
from nki_lab.simulator.bind import Binder, Step, run_steps
from nki_lab.simulator.late import Late, RegisterFile
from nki_lab.simulator.meetings import CoreMeeting, RankMeeting
from nki_lab.simulator.memory import Memory, fill_unwritten, new_registers, reset_registers
from nki_lab.simulator.overwriting import Overwriting
from nki_lab.simulator.rendezvous import (
    CorePlace,
    DeviceLoop,
    Meeting,
    World,
    run_to_meetings,
    run_together,
)
from nki_lab.simulator.unwritten import Unwritten


class _Outside(NamedTuple):
    """An argument of a bound call that is a window on a caller's array or a result.

    `position` counts within a list of tensors; it is None for an argument that is one tensor.
    """

    keywords: dict[str, Any]
    name: str
    position: int | None
    storage: int
    shape: tuple[int, ...]
    dtype: np.dtype
    offset: int
    strides: tuple[int, ...]


class Program:
    """A compiled kernel bound to memories; `run` computes its results.

    A program holds one set of on-chip memories, so one thread at a time may run it.

    Args:
        kernel: what to run.
        options: choices of the simulation.
        rank: which rank it runs as, among `ranks`.
        ranks: how many run together.
        observers: what follows what it touches.
        checks: observers that report what they have seen.
    """

    def __init__(
        self,
        kernel: Kernel,
        options: Choices | None = None,
        rank: int = 0,
        ranks: int = 1,
        observers: Sequence[Observer] = (),
        checks: Sequence[Checker] = (),
    ) -> None:
        self.kernel = kernel
        self.options = options or Choices()
        self.place = CorePlace(rank, kernel.program[0])
        self.world = World(ranks, kernel.program[1])
        self.memory = Memory.of(kernel, self.options)
        self.registers = new_registers(kernel.target)
        self.writes = {
            v.storage.id for i in kernel.instructions if not i.definition.meets for v in i.written()
        }
        self.arrays: dict[int, np.ndarray] = {}  # what arguments and results are held in
        self._copied_back: list[tuple[np.ndarray, np.ndarray]] = []
        self.register_file = RegisterFile()
        # How often each device loop of the last run ran, in the order they were entered.
        self.trips: list[int] = []
        self.trips_made = 0
        self._binder = Binder(self.memory, self.registers, rank, ranks)
        self.notice = self._binder.notice
        self._late = Late(self.memory, self._binder, self.register_file)
        self.unwritten = Unwritten(self._late, kernel)
        observers_of_run = (self.unwritten,) if self.unwritten.has_work else ()
        self._checks: tuple[Checker, ...] = (Overwriting(), *checks)
        self.observers: tuple[Observer, ...] = (*observers, *self._checks, *observers_of_run)
        self._steps: list[Any] = []
        self._outside: list[_Outside] = []
        self._starting: dict[int, list[Storage]] = {}
        self._ending: dict[int, list[Storage]] = {}
        self._begun: set[int] = set()
        self._undecided = _undecided(kernel)
        self._stand_ins: dict[int, np.ndarray] = {}
        self.taken = counted(())  # how far a run that meets others is
        with phase("binding", grown(self._steps), len(kernel.instructions)):
            self._bind_all()

    # -- binding -------------------------------------------------------------------------------------------------

    def _bind_all(self) -> None:
        kernel, memory = self.kernel, self.memory
        for key, life in kernel.lifetimes.items():
            storage = kernel.storages[key]
            self._starting.setdefault(life.first, []).append(storage)
            if storage.on_chip:
                self._ending.setdefault(life.last, []).append(storage)
        for storage in kernel.storages:
            if storage.id in memory.outside:
                self._stand_ins[storage.id] = self._new_array(storage)
                memory.bind(storage, self._stand_ins[storage.id])
        self._bind_body(kernel.body, 0, self._steps)
        self._stand_ins = {}

    def _bind_body(self, body: tuple[Instruction | Loop, ...], at: int, steps: list[Any]) -> int:
        """Append the calls of a body whose first instruction is at position `at`; return its end."""
        for node in body:
            if isinstance(node, Loop):
                # What a loop touches is in use during all of it, or begins in its body, anew in each pass.
                self._start(at, steps, opening=node.numbers)
                passes: list[Any] = []
                self._renew(node, passes)
                at = self._bind_body(node.body, at, passes)
                steps.append(DeviceLoop(self, node, passes, tells=steps is self._steps))
            else:
                self._start(at, steps)
                self._bind_instruction(node, steps)
                at += 1
            for storage in self._ending.pop(at - 1, ()):
                self.memory.give_back(storage)
        return at

    def _start(self, at: int, steps: list[Any], opening: Collection[int] = ()) -> None:
        """Prepare the tensors whose use begins at a position, where loops of some numbers may begin.

        What is made in those loops is made anew in each of their passes (`_renew`).
        """
        for storage in self._starting.pop(at, ()):
            self._begun.add(storage.id)
            if storage.id in self._undecided:
                size = storage.nbytes // storage.dtype.itemsize
                self._binder.written[storage.id] = np.zeros(size, bool)
            if storage.loop not in opening:
                self._renew_storage(storage, steps)

    def _renew(self, loop: Loop, steps: list[Any]) -> None:
        for storage in self.kernel.storages:
            if storage.loop == loop.number and storage.id in self._begun:
                self._renew_storage(storage, steps)

    def _renew_storage(self, storage: Storage, steps: list[Any]) -> None:
        if storage.id in self.kernel.poisoned and storage.id not in self.memory.outside:
            array = self.memory.array(whole_view(storage))
            steps.append(partial(fill_unwritten, array=array, dtype=storage.dtype))
        if storage.loop and storage.id in self.unwritten.masks:
            steps.append(partial(self.unwritten.renew, storage.id))
        if storage.id in self._undecided:
            steps.append(partial(_clear, mask=self._binder.written[storage.id]))

    def _bind_instruction(self, i: Instruction, steps: list[Any]) -> None:
        form = i.form
        views = (*i.read(), *i.written())
        self._observe(i, steps)
        if i.definition.waits_for_others:
            for view in views:
                self.memory.base(view.storage)
            steps.append((CoreMeeting if i.definition.meets else RankMeeting)(i, self, self._late))
            return
        if form.dynamic or form.registers or form.registers_set:
            for view in views:  # its arrays are taken now, while they are free
                self.memory.base(view.storage)
            steps.append(partial(self._late.run, i=i))
            return
        touches_outside = [v.storage.id for v in views if v.storage.id in self.memory.outside]
        for step in self._binder.bind(i):
            steps.append(step)
            if touches_outside:
                self._note_outside(step, touches_outside, self._stand_ins)

    def _observe(self, i: Instruction, steps: list[Any]) -> None:
        """Let those who follow the run take note of what an instruction is about to touch."""
        observers = [o for o in self.observers if o.wants(i)]
        if not observers:
            return
        if i.form.dynamic:
            steps.append(partial(_tell, self._late, observers, i))
        else:
            accesses = fixed_accesses(i)
            steps += [partial(o.before, i, accesses) for o in observers]

    def _note_outside(
        self, step: Step, candidates: list[int], stand_ins: dict[int, np.ndarray]
    ) -> None:
        for name, value in step.keywords.items():
            arrays = value if type(value) is tuple else (value,)
            for position, array in enumerate(arrays):
                if not isinstance(array, np.ndarray):
                    continue
                for key in candidates:
                    stand_in = stand_ins[key]
                    offset = array.ctypes.data - stand_in.ctypes.data
                    if 0 <= offset < stand_in.nbytes and np.may_share_memory(array, stand_in):
                        self._outside.append(
                            _Outside(
                                step.keywords,
                                name,
                                position if type(value) is tuple else None,
                                key,
                                array.shape,
                                array.dtype,
                                offset,
                                array.strides,
                            )
                        )
                        break

    def _new_array(self, storage: Storage) -> np.ndarray:
        return np.empty(storage.shape, self.memory.held_as(storage.dtype).np)

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Run once and return the outputs, in the order of `kernel.outputs`.

        Args:
            arrays: one per input of the kernel, in order, with its shape and dtype. An array the kernel writes is
                updated in place; a read-only one that it writes is an error.
        """
        self.begin(arrays)
        steps = counted(self._steps)
        with (
            # Where the device runs loops, the passes of these tell more than the steps outside.
            phase("simulating", steps.done, 0 if self.kernel.has_loops else steps.total),
            np.errstate(all="ignore"),
            one_blas_thread(),
        ):
            run_steps(steps)
        return self.end(arrays)

    def begin(
        self, arrays: Sequence[np.ndarray], shared: Mapping[int, np.ndarray] | None = None
    ) -> None:
        """Take the caller's arrays and make new ones for results, before the steps run.

        Args:
            arrays: the inputs.
            shared: arrays of storages that another core has made, by id.
        """
        kernel, memory = self.kernel, self.memory
        self._copied_back = self._bind_inputs(arrays, shared or {})
        for key in memory.outside:
            storage = kernel.storages[key]
            if storage.origin != "temporary":
                continue
            array = (shared or {}).get(key)
            if array is None:
                array = self._new_array(storage)
                if key in kernel.poisoned:
                    fill_unwritten(array, storage.dtype)
            self.arrays[key] = array
            memory.bind(storage, array)
        self._put_outside()
        reset_registers(self.registers)
        self.register_file.clear()
        self.trips.clear()
        self.trips_made = 0
        self._binder.notices.clear()
        self.unwritten.begin()
        for check in self._checks:
            check.begin()

    def meetings(self) -> Iterator[Meeting]:
        """Run the steps, stopping at each place where it meets another core or rank."""
        self.taken = counted(self._steps)
        return run_to_meetings(self.taken)

    def end(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Write copies of inputs back and return the outputs."""
        for array, held in self._copied_back:
            array[...] = held
        self.unwritten.check_results(self.kernel)
        return [
            output_of(self.kernel, view, arrays, self.memory.array(view))
            for view in self.kernel.outputs
        ]

    def release(self) -> None:
        """Let go of the caller's arrays and of the results, which the next run puts in anew."""
        self.arrays.clear()
        self._copied_back = []
        for check in self._checks:
            check.begin()
        for key in self.memory.outside:
            self.memory.drop(key)
        for outside in self._outside:
            window: Any = None
            if outside.position is not None:
                held = outside.keywords[outside.name]
                window = (*held[: outside.position], None, *held[outside.position + 1 :])
            outside.keywords[outside.name] = window

    @property
    def written_masks(self) -> dict[Any, np.ndarray]:
        """What a run notes about which elements have been written, by name."""
        masks: dict[Any, np.ndarray] = dict(self._binder.written)
        masks.update((("tracked", k), m.written) for k, m in self.unwritten.masks.items())
        return masks

    def restored(self) -> None:
        """Go on from a state of memories and masks that was put back."""
        self.unwritten.restored()

    def noticed(self) -> tuple[Finding, ...]:
        """Return what only the values of the last run could show."""
        shown = (finding for check in self._checks for finding in check.noticed())
        unwritten = self.unwritten.findings(self.kernel, self.trips)
        return (*self._binder.noticed(), *unwritten, *shown)

    def _bind_inputs(
        self, arrays: Sequence[np.ndarray], shared: Mapping[int, np.ndarray]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Make the caller's arrays the inputs; return (array, copy) pairs to write back after the run."""
        kernel = self.kernel
        elements = elements_of(kernel.name, kernel.inputs, arrays)
        copied_back = []
        for storage, array in zip(kernel.inputs, elements, strict=True):
            written = storage.id in self.writes
            if written:
                check_writable(kernel, storage, arrays)
            if storage.id in shared:  # core 0 writes its copy back
                self.memory.bind(storage, shared[storage.id])
                continue
            held = np.ascontiguousarray(array, self.memory.held_as(storage.dtype).np)
            if held.ndim != array.ndim:  # ascontiguousarray makes 0-d arrays 1-d
                held = held.reshape(array.shape)
            if written and not np.shares_memory(held, array):
                copied_back.append((array, held))
            self.arrays[storage.id] = held
            self.memory.bind(storage, held)
        return copied_back

    def _put_outside(self) -> None:
        bases = {
            key: self.memory.base(self.kernel.storages[key]).bytes for key in self.memory.outside
        }
        for keywords, name, position, key, shape, dtype, offset, strides in self._outside:
            window: Any = np.ndarray(shape, dtype, bases[key], offset, strides)
            if position is not None:
                window = (*keywords[name][:position], window, *keywords[name][position + 1 :])
            keywords[name] = window


def _tell(late: Late, observers: Sequence[Observer], i: Instruction) -> None:
    """Tell observers what an instruction is about to touch, with the values that addresses have now."""
    accesses = late.accesses(i)
    for observer in observers:
        observer.before(i, accesses)


def simulate(
    kernel: Kernel, arrays: Sequence[np.ndarray], options: Choices | None = None
) -> list[np.ndarray]:
    """Run a compiled kernel once on NumPy arrays and return its outputs."""
    return Program(kernel, options).run(arrays)


def _undecided(kernel: Kernel) -> set[int]:
    """Return the storages with a product whose first write is decided per element while running."""
    return {i.dst.storage.id for i in kernel.instructions if i.accumulate_is_open}


def _clear(mask: np.ndarray) -> None:
    mask[...] = False


_controller: ThreadpoolController | None = None


def one_blas_thread() -> Any:
    """Return a context in which NumPy's products use one thread."""
    # Tiles are too small to split; two BLAS threads on a busy machine make a run many times slower.
    global _controller
    if _controller is None:
        _controller = ThreadpoolController()
    return _controller.limit(limits=1, user_api="blas")


# -- several cores and ranks -------------------------------------------------------------------------------------

Pairs = Sequence[tuple[Storage, Storage]]


def run_ranks(
    programs: Sequence[Sequence[Program]],
    arrays: Sequence[Sequence[np.ndarray]],
    pairs: Pairs = (),
) -> list[list[np.ndarray]]:
    """Run ranks, each with one core or two, and return the outputs of each.

    Args:
        programs: per rank, those of its cores.
        arrays: per rank, the inputs, which its cores share.
        pairs: shared HBM tensors, as (of core 0, of core 1).
    """
    for cores in programs:
        written = {k for p in cores for k in p.writes if k < len(p.kernel.inputs)}
        for program in cores:
            program.writes |= written
    _check_own(programs, arrays)
    for rank, (cores, inputs) in enumerate(zip(programs, arrays, strict=True)):
        first, *others = cores
        try:
            first.begin(inputs)
        except KernelArgument as error:
            raise of_rank(rank, error) if len(programs) > 1 else error from None
        shared = {b.id: first.arrays[a.id] for a, b in pairs}
        shared.update({s.id: first.arrays[s.id] for s in first.kernel.inputs})
        for other in others:
            first.unwritten.share(other.unwritten, pairs)
            other.begin(inputs, shared)
    running = [p for cores in programs for p in cores]
    meetings = {p.place: p.meetings() for p in running}
    together = phase(
        "simulating",
        lambda: sum(p.taken.done() for p in running),
        sum(p.taken.total for p in running),
    )
    with together, np.errstate(all="ignore"), one_blas_thread():
        run_together(meetings, running[0].world)
    return [cores[0].end(inputs) for cores, inputs in zip(programs, arrays, strict=True)]


def of_rank(rank: int, error: KernelArgument) -> KernelArgument:
    """Return the error of an argument with the rank that got it."""
    return KernelArgument(
        f"rank {rank}: {error.message}",
        notes=error.notes,
        help="give every rank arrays of one shape and dtype, and the same constants: one program runs on all",
    )


def _check_own(
    programs: Sequence[Sequence[Program]], arrays: Sequence[Sequence[np.ndarray]]
) -> None:
    """Refuse an array that a rank writes and another rank has, too: each has its own memory."""
    if len(programs) == 1:
        return
    first = programs[0][0]
    written = [k for k, s in enumerate(first.kernel.inputs) if s.id in first.writes]
    for rank, inputs in enumerate(arrays):
        for k in written:
            for other, theirs in enumerate(arrays):
                if other != rank and any(np.may_share_memory(inputs[k], a) for a in theirs):
                    raise KernelArgument(
                        f"{first.kernel.name} writes its argument `{first.kernel.inputs[k].name}`, and that of rank"
                        f" {rank} shares memory with an argument of rank {other}",
                        help="give each rank its own array: array.copy()",
                    )
