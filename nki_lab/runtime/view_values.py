"""The values of a tensor at some moment of a run, in the words of the views.

A run keeps what it was given and what came out. Everything in between is computed again, by the run's steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nki_lab.errors import NkiError
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.runtime.view_operands import operand_views
from nki_lab.simulator.places import places_of
from nki_lab.views.run import Held, Steps

#: Programs up to this size are computed again to look into their tiles.
REPLAYED_INSTRUCTIONS = 20_000


class RunValues:
    """The values of one run.

    Args:
        kernel: the program.
        inputs, outputs: its arrays; what the caller changes in them is seen.
        steps: gives the run instruction by instruction.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        steps: Callable[[], Steps],
    ) -> None:
        self._kernel = kernel
        self._steps = steps
        self._ends: dict[int, np.ndarray] = {}
        if len(kernel.inputs) == len(inputs):
            self._ends = {s.id: a for s, a in zip(kernel.inputs, inputs, strict=True)}
        for view, array in zip(kernel.outputs, outputs, strict=False):
            storage = view.storage
            if view.shape == storage.shape and view.dtype is storage.dtype and not view.offset:
                self._ends[storage.id] = array

    def held(self, number: int, position: int | None, after: bool) -> Held:
        """Return what a tensor holds at the end of the run, or before or after an instruction."""
        storage = self._kernel.storages[number]
        if position is None:
            return self._at_the_end(storage)
        return self._around(storage, position, after, last=False)

    def places(self, position: int, k: int) -> np.ndarray | None:
        """Return the elements behind operand `k` of an instruction whose address the device computes.

        An index that is out of range gives -1. In a loop they are those of the first pass.
        """
        i = self._kernel.instructions[position]
        views = operand_views(i)
        steps, runs = self._runs(position)
        if not 0 <= k < len(views) or steps is None or not len(runs):
            return None
        view = views[k][3]
        dynamic = view.dynamic
        if dynamic is None:
            return None
        step = steps.at(int(runs[0]))
        if isinstance(dynamic.index, NkiTensor):
            array = steps.values(step.number, dynamic.index.storage.id)
            if array is None:
                return None
            held = array.reshape(-1)[pattern(dynamic.index, dynamic.index.offset)]
        elif dynamic.index.name in step.registers:
            held = np.array([step.registers[dynamic.index.name]])
        else:
            return None
        if dynamic.kind is Addressing.SCALAR:
            return pattern(view, view.offset + int(held.reshape(-1)[0]) * dynamic.step)
        try:
            places = places_of(i, view, held)
        except NkiError:
            return None
        elements = pattern(places.window, places.window.offset)[places.at]
        valid = places.valid.reshape(
            *places.valid.shape, *(1,) * (elements.ndim - places.valid.ndim)
        )
        return np.where(valid, elements, -1)

    def _around(self, storage: Storage, position: int, after: bool, last: bool) -> Held:
        steps, runs = self._runs(position)
        if steps is None or steps.problem:
            return Held(None, steps.problem if steps is not None else self._too_long())
        when = f"{'after' if after else 'before'} instruction {position}"
        if not len(runs):
            return Held(None, f"instruction {position} did not run")
        if len(runs) > 1:
            when += f", in the {'last' if last else 'first'} of its {len(runs):,} passes"
        values = steps.values(int(runs[-1 if last else 0]) + after, storage.id)
        if values is None:
            return Held(None, f"{storage.name} holds nothing {when}")
        return Held(values, f"{when}, computed again")

    def _runs(self, position: int) -> tuple[Steps | None, np.ndarray]:
        """Return the steps of the run, and which of them execute an instruction; None where there are too many."""
        if len(self._kernel.instructions) > REPLAYED_INSTRUCTIONS:
            return None, np.zeros(0, dtype=np.int64)
        steps = self._steps()
        return steps, np.flatnonzero(steps.order == position)

    def _too_long(self) -> str:
        return f"the program has more than {REPLAYED_INSTRUCTIONS:,} instructions, which are not computed again"

    def _at_the_end(self, storage: Storage) -> Held:
        array = self._ends.get(storage.id)
        if array is not None:
            what = "the argument" if storage.origin == "input" else "the result"
            return Held(array, f"{what}, as it is now")
        if storage.data is not None:
            return Held(storage.data, "the constant")
        life = self._kernel.lifetimes.get(storage.id)
        if life is None:
            return Held(None, "no instruction touches it")
        return self._around(storage, life.last, after=True, last=True)


def pattern(view: NkiTensor, start: int) -> np.ndarray:
    """Return the number of every element of a view within its storage, as if it began at element `start`."""
    numbers = np.full(view.shape, start, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        shape = [1] * view.ndim
        shape[axis] = size
        numbers += (np.arange(size, dtype=np.int64) * stride).reshape(shape)
    return numbers
