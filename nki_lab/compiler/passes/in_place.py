"""Finds results that may take the place of an operand which their instruction reads last.

A tile that dies in the instruction that begins another one can hand its place over where the instruction never reads
an element after it may have written there (`Order`). Which values a device shows is then the same as with two places.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from nki_lab.ir.definition.instruction import Instruction, Order
from nki_lab.ir.program.lifetimes import Lifetime
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.program.overwritten import (
    BytePlaces,
    pairs_of,
    places_of,
    reads_too_late,
    touched,
)
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.spaces import MemoryRegion


def heirs(kernel: Kernel, space: MemoryRegion) -> dict[int, int]:
    """Return, by id, the tiles that may take the place of another one, and which: each place is handed over once.

    Tiles whose address the author chose hand it over where it is the same. One that is filled before use (`poisoned`)
    would fill what is still read, and one that a loop carries from pass to pass is read again.
    """
    given: dict[int, int] = {}
    verdicts: dict[object, bool] = {}  # unrolled loops ask the same again and again
    begins, ends = defaultdict(list), defaultdict(list)
    for key, life in kernel.lifetimes.items():
        storage = kernel.storages[key]
        if storage.buffer is space and key not in kernel.poisoned:
            begins[life.first].append(storage)
            ends[life.last].append(storage)
    for n in sorted(begins.keys() & ends.keys()):
        i = kernel.instructions[n]
        ending = [
            s for s in ends[n] if kernel.lifetimes[s.id].first < n and _is_fresh(kernel, n, s)
        ]
        for result in sorted(begins[n], key=lambda s: -s.row_bytes):
            if not _is_fresh(kernel, n, result):
                continue
            for operand in sorted(ending, key=lambda s: s.row_bytes):
                if (
                    operand.row_bytes >= result.row_bytes
                    and operand.address == result.address
                    and _in_place(i, result, operand, verdicts)
                ):
                    given[result.id] = operand.id
                    ending.remove(operand)
                    break
    return given


def with_heirs(lives: Mapping[int, Lifetime], heirs: Mapping[int, int]) -> Mapping[int, Lifetime]:
    """Return lifetimes that count a place once while it is handed over."""
    if not heirs:
        return lives
    return {k: Lifetime(life.first + (k in heirs), life.last) for k, life in lives.items()}


def _is_fresh(kernel: Kernel, n: int, storage: Storage) -> bool:
    """Tell whether each pass of the loops around an instruction has a tile of its own."""
    around = (loop.loop for loop in kernel.loops if loop.first <= n < loop.end)
    return all(kernel.starts_anew(storage) and storage.loop in loop.numbers for loop in around)


def _in_place(
    i: Instruction, result: Storage, operand: Storage, verdicts: dict[object, bool]
) -> bool:
    """Tell whether an instruction gives the same values when two tiles begin at the same byte."""
    accesses = sum(view.storage is operand for view in i.read())
    if any(view.storage is operand for view in i.written()):
        return False
    for order, written, read in _accesses(i, result, operand):
        accesses -= 1
        key = (order, *(_key(view) for view in (written, read)))
        if key not in verdicts:
            verdicts[key] = _keeps(order, written, read)
        if not verdicts[key]:
            return False
    return not accesses  # one of a tile of indices, or one by several results, is not looked at


def _accesses(
    i: Instruction, result: Storage, operand: Storage
) -> Iterator[tuple[Order, NkiTensor, NkiTensor]]:
    for pair in pairs_of(i):
        for _, written in touched(i, pair.dst, written=True):
            for _, read in touched(i, pair.src, written=False):
                if written.storage is result and read.storage is operand:
                    yield pair.order, written, read


def _key(view: NkiTensor) -> object:
    return view.dtype, view.shape, view.strides, view.offset, view.storage.row_bytes, view.dynamic


def _keeps(order: Order, written: NkiTensor, read: NkiTensor) -> bool:
    views = written, read
    if order is Order.NONE or any(view.dynamic for view in views):
        return False
    if len({(view.start_partition, view.shape[0]) for view in views}) > 1:
        return False
    if any(
        view.shape[0] > 1 and view.strides[0] * view.dtype.itemsize != view.storage.row_bytes
        for view in views
    ):
        return False
    return not reads_too_late(order, *(_places_in_a_row(view) for view in views))


def _places_in_a_row(view: NkiTensor) -> BytePlaces:
    """Return where the elements of one partition lie, from the first byte of the tile's row on."""
    places = places_of(view[0:1])
    return places._replace(first=places.first - view.start_partition * view.storage.row_bytes)
