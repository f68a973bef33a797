"""Gives a tile that takes several values one after the other a tile for each of them.

An instruction that writes all of a tile and reads nothing of it begins a new value. Between the last read of the old
value and that instruction nobody needs the tile's bytes, but an address is one for the whole program: with a tile for
each value others can have the bytes meanwhile. Compilers know this as renaming.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count

from nki_lab.ir.definition.instruction import WRITE, Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.coverage import is_whole
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.spaces import MemoryRegion


def with_separate_values(kernel: Kernel, space: MemoryRegion) -> Kernel:
    """Return the kernel with a tile for each value of the tiles of a memory, or the kernel where none has several.

    Left alone are tiles whose address the author chose, those that a loop of the device touches, and those of which
    elements may be read that nobody has written: these show what the bytes held before.
    """
    candidates = _candidates(kernel, space)
    storages = list(kernel.storages)
    names = {s.name for s in storages}
    now: dict[int, Storage] = {}  # by id of the author's tile: the one that holds its value here
    begun: set[int] = set()
    moved = _Moved(now)
    instructions = []
    for i in kernel.instructions:
        for storage in _values_begun(i, candidates):
            if storage.id in begun:
                new = now[storage.id] = copy.copy(storage)
                new.id, new.name = len(storages), _unique(storage.name, names)
                storages.append(new)
        begun.update(v.storage.id for v in i.written())
        instructions.append(moved.instruction(i) if now else i)
    if len(storages) == len(kernel.storages):
        return kernel
    return kernel.with_(storages=tuple(storages)).with_instructions(instructions)


def _candidates(kernel: Kernel, space: MemoryRegion) -> set[int]:
    """Return the tiles that may be given several places."""
    left_alone = {*kernel.poisoned, *kernel.tracked}
    for i, loop in zip(kernel.instructions, kernel.loop_numbers, strict=True):
        if loop or i.accumulate_is_open:
            left_alone.update(v.storage.id for v in (*i.read(), *i.written()))
    return {
        s.id
        for s in kernel.storages
        if s.buffer is space and s.address is None and s.id not in left_alone
    }


def _values_begun(i: Instruction, candidates: set[int]) -> Iterator[Storage]:
    """Yield the tiles that an instruction writes as a whole, without reading them."""
    written = [v.storage.id for v in i.written()]
    if candidates.isdisjoint(written):
        return
    read = {v.storage.id for v in i.read()}
    for position, role in i.definition.roles(i):
        view = i.args[position]
        if (
            role == WRITE
            and type(view) is NkiTensor
            and view.storage.id in candidates - read
            and written.count(view.storage.id) == 1
            and is_whole(view)
            and i.definition.operands[i.definition.params[position]].part is None
        ):
            yield view.storage


def _unique(name: str, names: set[str]) -> str:
    """Return a name for another value of a tile that nothing else has, and take it."""
    new = next(each for n in count(1) if (each := f"{name}.{n}") not in names)
    names.add(new)
    return new


class _Moved:
    """Instructions whose tensors lie in the tiles that hold their values now."""

    def __init__(self, now: Mapping[int, Storage]) -> None:
        self._now = now
        self._views: dict[int, NkiTensor] = {}  # by identity of the author's view

    def instruction(self, i: Instruction) -> Instruction:
        changed = i.with_views(self._view)
        changed.form = i.form
        return changed

    def _view(self, view: NkiTensor) -> NkiTensor:
        storage = self._now.get(view.storage.id, view.storage)
        dynamic = view.dynamic
        if dynamic is not None and type(dynamic.index) is NkiTensor:
            index = self._view(dynamic.index)
            dynamic = dynamic if index is dynamic.index else replace(dynamic, index=index)
        if storage is view.storage and dynamic is view.dynamic:
            return view
        made = self._views.get(id(view))
        if made is None or made.storage is not storage or dynamic is not None:
            made = self._views[id(view)] = NkiTensor._make(
                storage, view.shape, view.strides, view.offset, view.dtype, dynamic
            )
        return made
