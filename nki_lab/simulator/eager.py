"""Runs a kernel while it is traced, so that `print` and a debugger see values.

Each instruction runs when the trace appends it. Of a device loop the first pass runs while its body is traced and the
others when it ends. Nothing has an address yet that the author did not give, so tensors have their own bytes; those
with an address share the bytes of the memory they lie in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nki_lab.choices import Choices
from nki_lab.errors import NotModelled
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Finding, Kernel, Loop
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.observing import values_text
from nki_lab.simulator.arguments import check_writable, elements_of, output_of
from nki_lab.simulator.bind import Binder
from nki_lab.simulator.late import Late, RegisterFile
from nki_lab.simulator.machine import one_blas_thread
from nki_lab.simulator.memory import Base, Memory, new_registers
from nki_lab.simulator.overwriting import Overwriting
from nki_lab.simulator.rendezvous import DeviceLoop
from nki_lab.simulator.unwritten import Unwritten
from nki_lab.targets.spaces import PSUM
from nki_lab.targets.spec import Target


class _GrowingMemory(Memory):
    """Arrays of storages that are made while a kernel is traced."""

    def base(self, storage: Storage) -> Base:
        """Return the bytes of a storage; on first use they are what unwritten memory reads as."""
        base = self._bases.get(storage.id)
        if base is not None:
            return base
        if storage.address is not None:
            self.place(storage, storage.address)
            self.share(storage)
        base = self._bases[storage.id] = self._take(storage)
        if storage.data is None and storage.address is None:
            self.fill_unwritten(storage)
        return base

    def _new_chip(self, space: Any) -> tuple[np.ndarray, int]:
        chip, pitch = super()._new_chip(space)
        chip.fill(
            0xFF
        )  # NaN in every float dtype; filling at first use would spoil a tensor that is still read
        return chip, pitch


class EagerRun:
    """Runs instructions while they are traced (a `Watch`).

    Attributes:
        trips: how often each device loop ran, in the order they were entered.
    """

    def __init__(
        self, target: Target, arrays: Sequence[np.ndarray], options: Choices | None = None
    ) -> None:
        self.options = options or Choices()
        self.trips: list[int] = []
        self.trips_made = 0
        self.register_file = RegisterFile()
        self.memory = _GrowingMemory(target, self.options)
        self._binder = Binder(self.memory, new_registers(target))
        self._late = Late(self.memory, self._binder, self.register_file)
        self._unwritten = Unwritten(self._late, None)
        self._overwriting = Overwriting()
        self._noticed: tuple[Finding, ...] = ()
        self._arrays = arrays
        self._held: list[np.ndarray] = []
        self._builder: Builder | None = None
        self._open: list[Iterator[None] | None] = []  # passes of open loops; None where none is run
        # PSUM tensors written as another dtype: which elements were written is not known one by one.
        self._unknown: set[int] = set()

    # -- following the trace -------------------------------------------------------------------------------------

    def begin(self, builder: Builder) -> None:
        """Take the builder, which holds the kernel's arguments and nothing else yet."""
        self._builder = builder
        inputs = [s for s in builder.storages if s.origin == "input"]
        for storage, array in zip(inputs, elements_of("", inputs, self._arrays), strict=True):
            held = np.array(array, self.memory.held_as(storage.dtype).np, order="C")
            self._held.append(held)
            self.memory.bind(storage, held)

    def emitted(self, i: Instruction) -> None:
        """Run an instruction, unless it stands in a loop that runs no pass."""
        if all(passes is not None for passes in self._open):
            self._run(i)

    def opened(self, loop: Loop) -> None:
        """Begin the first pass of a device loop, if it has one."""
        passes = None
        if all(p is not None for p in self._open):
            passes = DeviceLoop(self, loop, []).passes()
            if next(passes, self) is self:
                passes = None
        self._open.append(passes)

    def closed(self, loop: Loop) -> None:
        """Run what is left of a device loop."""
        passes = self._open.pop()
        if passes is None:
            return
        steps = self._steps(loop)
        for _ in passes:
            for step in steps:
                step()

    def values(self, tensor: NkiTensor) -> np.ndarray:
        """Return a copy of what a view holds now."""
        return self._late.values(tensor)

    def shown(self, tensor: NkiTensor) -> str:
        """Return what a view holds now, as text."""
        return values_text(self.values(tensor), tensor.dtype)

    def value(self, register: Register) -> int | None:
        """Return what a register holds now; None where it was never set."""
        return self.register_file.values.get(register.id)

    def noticed(self) -> tuple[Finding, ...]:
        """Return what only the values of the run could show."""
        return (*self._binder.noticed(), *self._overwriting.noticed(), *self._noticed)

    # -- running -------------------------------------------------------------------------------------------------

    def _steps(self, loop: Loop) -> list[Any]:
        """Return the calls of one pass of a loop."""
        assert self._builder is not None
        storages = [s for s in self._builder.storages if s.loop == loop.number]
        steps: list[Any] = [lambda: self._renew(storages)]
        for node in loop.body:
            if isinstance(node, Loop):
                steps.append(DeviceLoop(self, node, self._steps(node)))
            else:
                steps.append(lambda i=node: self._run(i))
        return steps

    def _renew(self, storages: list[Storage]) -> None:
        """Let tensors made in a loop's body start anew."""
        for storage in storages:
            self._unwritten.renew(storage.id)
            if storage.address is None and storage.data is None:
                self.memory.fill_unwritten(storage)
            mask = self._binder.written.get(storage.id)
            if mask is not None:
                mask[...] = False

    def _run(self, i: Instruction) -> None:
        if i.definition.waits_for_others:
            raise NotModelled(
                f"{i.definition.name}: a debug run has no other core or rank to wait for",
                stack=i.stack,
                help="run it without debug",
            )
        self._note_written(i)
        with np.errstate(all="ignore"), one_blas_thread():
            accesses = self._late.accesses(i)
            self._unwritten.before(i, accesses)
            if self._overwriting.wants(i):
                self._overwriting.before(i, accesses)
            self._late.run(i)

    def _note_written(self, i: Instruction) -> None:
        """Keep which elements of PSUM were written, for products that add to what is there."""
        for view in i.written():
            storage = view.storage
            if storage.buffer is not PSUM:
                continue
            written = self._binder.written
            if view.dtype.itemsize != storage.dtype.itemsize:
                written.pop(storage.id, None)
                self._unknown.add(storage.id)
            elif storage.id not in self._unknown and storage.id not in written:
                written[storage.id] = np.zeros(storage.nbytes // storage.dtype.itemsize, bool)
            if storage.id in self._unknown and i.accumulate_is_open:
                raise NotModelled(
                    f"{storage.describe()} is written as {view.dtype} while a product is to decide per element whether"
                    " to add to it",
                    stack=i.stack,
                    help="write the accumulator in its own dtype, or say accumulate=True or False",
                )

    # -- results -------------------------------------------------------------------------------------------------

    def end(self, kernel: Kernel) -> list[np.ndarray]:
        """Write inputs the kernel changed back to the caller's arrays and return the outputs of the compiled kernel."""
        self._unwritten.check_results(kernel)
        self._noticed = self._unwritten.findings(kernel, self.trips)
        elements = elements_of(kernel.name, kernel.inputs, self._arrays)
        for storage, array, held in zip(kernel.inputs, elements, self._held, strict=True):
            if storage.id in kernel.written_inputs:
                check_writable(kernel, storage, self._arrays)
                array[...] = held
            if (
                array.flags.c_contiguous and array.dtype == held.dtype
            ):  # a part of it is a view of it
                self.memory.bind(storage, array)
        return [
            output_of(kernel, view, self._arrays, self.memory.array(view))
            for view in kernel.outputs
        ]
