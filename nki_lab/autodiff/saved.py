"""Values of the forward program that the reverse pass needs: where they are kept until then.

A value is what a view held after some number of instructions. It stays in its tile in SBUF where nothing overwrites it
and SBUF has room for it; otherwise it is copied to HBM when it is there, and loaded when it is needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from typing import Any, NamedTuple

from nki_lab.autodiff.shadows import covers, moved
from nki_lab.autodiff.tile import empty
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.footprint import share_bytes
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.dma import dma_copy
from nki_lab.targets.spaces import PRIVATE_HBM, SBUF


class Value(NamedTuple):
    """What a view holds from the instruction of a position on; 0 is before the first one."""

    storage: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: Any
    since: int


class Values:
    """The values that one reverse pass asks for.

    Attributes:
        asked: every value with one of its views.
    """

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self.asked: dict[Value, NkiTensor] = {}
        self._instructions = instructions
        self._writes: dict[int, list[tuple[int, NkiTensor]]] = defaultdict(list)
        for position, i in enumerate(instructions):
            for view in i.written():
                self._writes[view.storage.id].append((position, view))

    def of(self, view: NkiTensor, position: int) -> Value:
        """Return the value of a view before the instruction of a position, and note that it is needed."""
        earlier = (
            n + 1
            for n, written in reversed(self._writes[view.storage.id])
            if n < position and share_bytes(written, view)
        )
        since = next(earlier, 0)
        value = Value(view.storage.id, view.shape, view.strides, view.offset, view.dtype, since)
        self.asked.setdefault(value, view)
        return value

    def stays(self, value: Value) -> bool:
        """Tell whether nothing overwrites a value."""
        view = self.asked[value]
        return not any(
            n >= value.since and share_bytes(written, view)
            for n, written in self._writes[value.storage]
        )

    def given(self) -> dict[Value, NkiTensor]:
        """Return the values that were loaded from an argument of the kernel, each with the view of the argument."""
        views = ((value, self._loaded_from(value)) for value in self.asked)
        return {value: view for value, view in views if view is not None}

    def _loaded_from(self, value: Value) -> NkiTensor | None:
        if value.since == 0 or len(value.shape) < 2:
            return None
        i = self._instructions[value.since - 1]
        if i.definition is not dma_copy or i.dst.storage.id != value.storage or not covers(i.dst):
            return None
        src, row = i.src, i.dst.free_size
        plain = src.storage.origin == "input" and src.dynamic is None and src.dtype is value.dtype
        if not plain or src.shape != (i.dst.shape[0], row) or i.dst.dtype is not value.dtype:
            return None
        (down, along), (partition, element) = src.strides, divmod(value.offset, row)
        strides = (down * (value.strides[0] // row), *(along * s for s in value.strides[1:]))
        offset = src.offset + partition * down + element * along
        return NkiTensor._make(src.storage, value.shape, strides, offset, src.dtype)

    def in_sbuf(self, room: int) -> frozenset[Value]:
        """Return the values that stay in their tiles: those that nothing overwrites, in `room` bytes per partition."""
        kept: set[Value] = set()
        tiles: set[int] = set()
        for value, view in self.asked.items():
            storage = view.storage
            if storage.buffer is not SBUF or not self.stays(value):
                continue
            if storage.id not in tiles:
                if storage.row_bytes > room:
                    continue
                room -= storage.row_bytes
                tiles.add(storage.id)
            kept.add(value)
        return frozenset(kept)

    def needed(self, elsewhere: Set[Value]) -> frozenset[int]:
        """Return the positions of the instructions that the values depend on, except those that are elsewhere."""
        instructions = self._instructions
        until: dict[int, int] = {}
        for value in self.asked.keys() - elsewhere:
            until[value.storage] = max(until.get(value.storage, 0), value.since)
        live: set[Any] = set()
        needed = set()
        for position in range(len(instructions) - 1, -1, -1):
            i = instructions[position]
            state = [s for s, _ in i.form.state]
            written = {view.storage.id for view in i.written()}
            asked = any(until.get(s, -1) > position for s in written)
            if asked or live & {*written, *state}:
                needed.add(position)
                live |= {view.storage.id for view in i.read()} | {*state}
        return frozenset(needed)


class Kept:
    """Saves values while the forward program is emitted again, and gives them back.

    Args:
        builder: what the instructions are emitted to.
        tensors: the tensor that stands for each one of the forward program, by id.
        values: the values to save, with the views that hold them.
        given: those that are in arguments of the kernel, with the views of these.
    """

    def __init__(
        self,
        builder: Builder,
        tensors: dict[int, NkiTensor],
        values: dict[Value, NkiTensor],
        given: dict[Value, NkiTensor],
    ) -> None:
        self._builder, self._tensors = builder, tensors
        self._views = values
        self._copies = {
            value: moved(view, tensors[view.storage.id]) for value, view in given.items()
        }
        self._since: dict[int, list[Value]] = defaultdict(list)
        for value in values:
            self._since[value.since].append(value)

    def save(self, position: int) -> None:
        """Copy the values that are there from the instruction of this position on."""
        for value in self._since[position]:
            source = moved(self._views[value], self._tensors[value.storage])
            if source.storage.buffer is not SBUF:
                tile = empty(self._builder, source.shape, source.dtype)
                tensor_copy(dst=tile, src=source)
                source = tile
            copy = empty(self._builder, source.shape, source.dtype, PRIVATE_HBM, "kept")
            dma_copy(dst=copy, src=source)
            self._copies[value] = copy

    def give(self, view: NkiTensor, value: Value) -> NkiTensor:
        """Return a tile in SBUF that holds a value."""
        copy = self._copies.get(value)
        if copy is None:  # in its tile, or in a rehearsal, where no value matters
            held = moved(view, self._tensors[value.storage])
            if held.storage.buffer is SBUF:
                return held
            tile = empty(self._builder, view.shape, view.dtype)
            tensor_copy(dst=tile, src=held)
            return tile
        tile = empty(self._builder, copy.shape, copy.dtype)
        dma_copy(dst=tile, src=copy)
        return tile
