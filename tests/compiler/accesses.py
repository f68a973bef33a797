"""Finds the bytes that each operand of a program touches, and the operands that meet there.

The plain answer, by enumeration: the checker of schedules relies on it. The passes have a faster one of their own
(ir/tensor/footprint.py, compiler/passes/uses.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.storage import Address
from nki_lab.ir.tensor.view import NkiTensor

_PITCH = 1 << 32  # more than any partition holds


@dataclass(frozen=True)
class Access:
    """One use of memory.

    Attributes:
        n: position of the instruction.
        view: what it touches.
        address: where the storage lies on chip; None where it has a memory of its own.
        reads, writes: what it does there.
        updates: it reads to add something at the end, so the value is not needed when it begins.
    """

    n: int
    view: NkiTensor
    address: Address | None
    reads: bool
    writes: bool
    updates: bool

    @property
    def rectangle(self) -> tuple[int, int, int, int]:
        """First row, end row, first byte, end byte: no byte of the view lies outside."""
        storage, view = self.view.storage, self.view
        pitch = storage.row_bytes if storage.on_chip else storage.shape[-1] * storage.dtype.itemsize
        if view.dynamic is not None:
            rows, columns = _anywhere(view)
            if not storage.on_chip:
                columns = (0, pitch)
                rows = (0, -(-storage.nbytes // pitch))
        else:
            rows, columns = _bounds(view, pitch)
        partition, byte = self.address or (0, 0)
        return rows[0] + partition, rows[1] + partition, columns[0] + byte, columns[1] + byte

    def bytes(self) -> np.ndarray:
        """Return the number of every byte it may touch, in order and once each."""
        storage, view = self.view.storage, self.view
        if view.dynamic is not None:
            (first, end), (low, high) = _anywhere(view)
            numbers = (
                np.arange(first, end)[:, None] * storage.row_bytes + np.arange(low, high)
            ).reshape(-1)
        else:
            size = view.dtype.itemsize
            numbers = np.array([view.offset * size])
            for count, stride in zip(view.shape, view.strides, strict=True):
                numbers = (numbers[:, None] + np.arange(count) * (stride * size)).reshape(-1)
            numbers = np.unique(numbers[:, None] + np.arange(size))
        if self.address is None:
            return numbers
        rows, columns = np.divmod(numbers, storage.row_bytes)
        return (rows + self.address.partition) * _PITCH + columns + self.address.byte


def by_memory(kernel: Kernel, addresses: Mapping[int, Address]) -> Iterator[list[Access]]:
    """Yield the accesses of each memory in program order: SBUF, PSUM, and each tensor that has no address."""
    memories: dict[object, list[Access]] = {}
    for n, i in enumerate(kernel.instructions):
        form = i.form
        operands = [
            (view, k in form.reads, k in form.writes)
            for k in sorted({*form.reads, *form.writes})
            for view in (i.args[k] if type(i.args[k]) is tuple else (i.args[k],))
        ]
        indices = [d.index for d in i.dynamic()] if form.dynamic else []
        operands += [(index, True, False) for index in indices if isinstance(index, NkiTensor)]
        for view, reads, writes in operands:
            storage = view.storage
            address = addresses.get(storage.id)
            memory = storage.buffer.name if address is not None else storage.id
            access = Access(n, view, address, reads, writes, reads and writes)
            memories.setdefault(memory, []).append(access)
    yield from memories.values()


def meeting(accesses: list[Access]) -> Iterator[tuple[int, np.ndarray]]:
    """Yield for each access the earlier ones whose rectangle meets its own, one of the two being a write."""
    boxes = np.array([a.rectangle for a in accesses], np.int64).reshape(-1, 4).T
    writes = np.array([a.writes for a in accesses])
    if not writes.any():
        return
    for b in range(1, len(accesses)):
        row, end_row, byte, end_byte = boxes[:, b]
        hit = (boxes[0, :b] < end_row) & (boxes[1, :b] > row)
        hit &= (boxes[2, :b] < end_byte) & (boxes[3, :b] > byte)
        if not writes[b]:
            hit &= writes[:b]
        candidates = np.flatnonzero(hit)
        if candidates.size:
            yield b, candidates


def share_bytes(a: Access, b: Access) -> bool:
    """Tell whether two accesses to one memory may touch the same byte."""
    if a.view is b.view:
        return True
    return bool(shared_bytes(a, b).size)


def shared_bytes(a: Access, b: Access) -> np.ndarray:
    """Return the numbers of the bytes that both may touch."""
    return np.intersect1d(a.bytes(), b.bytes(), assume_unique=True)


def _anywhere(view: NkiTensor) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return rows and bytes of a view addressed while running: its partitions, or all of its tensor in HBM."""
    if not view.storage.on_chip:
        return (0, 1), (0, view.storage.nbytes)
    first = view.offset * view.dtype.itemsize // view.storage.row_bytes
    return (first, first + view.shape[0]), (0, view.storage.row_bytes)


def _bounds(view: NkiTensor, pitch: int) -> tuple[tuple[int, int], tuple[int, int]]:
    size = view.dtype.itemsize
    low = high = view.offset * size
    column_low = column_high = low % pitch
    for count, stride in zip(view.shape, view.strides, strict=True):
        step = (count - 1) * stride * size
        low, high = low + min(step, 0), high + max(step, 0)
        if stride * size % pitch:  # else it only changes the row
            column_low, column_high = column_low + min(step, 0), column_high + max(step, 0)
    rows = (low // pitch, (high + size - 1) // pitch + 1)
    if column_low < 0 or column_high + size > pitch:
        return rows, (0, pitch)
    return rows, (column_low, column_high + size)
