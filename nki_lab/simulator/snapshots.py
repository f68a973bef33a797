"""Keeps states of a run in a bounded amount of memory, so that a stepper can go back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from nki_lab.simulator.machine import Program
from nki_lab.simulator.rendezvous import DeviceLoop, EnteredLoop

#: Instructions between two snapshots at first; it doubles whenever they would take too much.
_FIRST_INTERVAL = 32


@dataclass
class Frame:
    """A list of steps that is being run: the program, or one pass of a device loop.

    Attributes:
        at: the next step.
        began: how many instructions had run when the pass began.
    """

    steps: list[Any]
    loop: DeviceLoop | None = None
    passes: EnteredLoop | None = None
    at: int = 0
    began: int = 0


#: Those that live, by identity, the one used last at the end.
_living: WeakValueDictionary[int, Snapshots] = WeakValueDictionary()


class _Snapshot(NamedTuple):
    frames: list[Frame]
    trips: list[int]
    arrays: dict[int, np.ndarray]
    masks: dict[Any, np.ndarray]
    states: dict[Any, np.ndarray]
    registers: dict[int, int]


class Snapshots:
    """States of a program, at most `limit` bytes of them; where one alone takes half of that there are none.

    All that live share the limit: what was used longest ago gives up its states, which a run makes again.

    Attributes:
        interval: instructions from one to the next.
    """

    def __init__(self, program: Program, limit: int) -> None:
        self._program = program
        self._limit = limit
        self.interval = _FIRST_INTERVAL
        self._kept: dict[int, _Snapshot] = {}
        self._use()

    @property
    def bytes(self) -> int:
        """Bytes that they take now."""
        return sum(_size(s.arrays) + _size(s.masks) for s in self._kept.values())

    def _use(self) -> None:
        """Count as the one that was used last."""
        _living.pop(id(self), None)
        _living[id(self)] = self

    def _make_room(self, size: int) -> None:
        """Let others give up their states until `size` bytes more are within the limit, the longest unused first."""
        others = [s for s in _living.values() if s is not self and s._kept]
        total = size + self.bytes + sum(s.bytes for s in others)
        for other in others:
            if total <= self._limit:
                return
            total -= other.bytes
            other._kept.clear()

    def nearest(self, done: int) -> int:
        """Return the latest one at `done` executed instructions or before; 0 where there is none."""
        return max((n for n in self._kept if n <= done), default=0)

    def offer(self, done: int, frames: list[Frame]) -> None:
        """Keep the present state if one is due, after `done` instructions."""
        if done % self.interval or done in self._kept:
            return
        program = self._program
        arrays, masks = changing(program), program.written_masks
        size = _size(arrays) + _size(masks)
        if 2 * size > self._limit:
            return
        while (len(self._kept) + 1) * size > self._limit:
            self.interval *= 2
            self._kept = {n: s for n, s in self._kept.items() if n % self.interval == 0}
            if done % self.interval:
                return
        self._make_room(size)
        self._kept[done] = _Snapshot(
            [replace(frame) for frame in frames],
            list(program.trips),
            {key: held.copy() for key, held in arrays.items()},
            {key: mask.copy() for key, mask in masks.items()},
            {state: values.copy() for state, values in program.registers.items()},
            dict(program.register_file.values),
        )

    def restore(self, done: int) -> list[Frame]:
        """Bring the program to the state that was kept after `done` instructions; return where it is in its steps."""
        self._use()
        kept, program = self._kept[done], self._program
        program.trips[:] = kept.trips
        program.trips_made = sum(kept.trips)
        held = program.memory.held()
        for key, values in kept.arrays.items():
            np.copyto(held[key], values)
        masks = program.written_masks
        for name, mask in kept.masks.items():
            np.copyto(masks[name], mask)
        program.restored()
        for state, values in kept.states.items():
            np.copyto(program.registers[state], values)
        program.register_file.values = dict(kept.registers)
        return [replace(frame) for frame in kept.frames]


def changing(program: Program) -> dict[int, np.ndarray]:
    """Return the arrays that a run may change, each once, by the id of a storage that has it."""
    changing_storages: dict[int, tuple[int, np.ndarray]] = {}
    for key, held in program.memory.held().items():
        if program.kernel.storages[key].on_chip or key in program.writes:
            changing_storages[id(held)] = (key, held)
    return dict(changing_storages.values())


def _size(arrays: dict[Any, np.ndarray]) -> int:
    return sum(array.nbytes for array in arrays.values())
