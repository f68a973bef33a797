"""Finds elements that an instruction reads after it may have overwritten them itself.

A definition states the order in which its elements are read and written (`Order`). The simulator reads everything
first, so where the order lets a write come before a read of the same bytes it shows values that a device does not
promise. The compiler asks where addresses are fixed, the simulator where values of the device decide.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np

from nki_lab.ir.definition.instruction import READ, WRITE, Instruction, Order
from nki_lab.ir.program.nodes import Finding
from nki_lab.ir.tensor.fields import Addressing, identity
from nki_lab.ir.tensor.footprint import footprint, overlap
from nki_lab.ir.tensor.view import NkiTensor

# Views of more elements are not looked at element by element.
MOST_ELEMENTS = 1 << 24
_NEVER = np.iinfo(np.int64).max


class Pair(NamedTuple):
    """Positions of an operand that is written and one that is read, and the order that holds between them."""

    dst: int
    src: int
    order: Order


def pairs_of(i: Instruction) -> tuple[Pair, ...]:
    """Return the operands that instructions of one form may overwrite before they are read."""
    pairs: tuple[Pair, ...] | None = i.form.cache.get(pairs_of)
    if pairs is None:
        pairs = i.form.cache[pairs_of] = tuple(_pairs(i))
    return pairs


def _pairs(i: Instruction) -> Iterator[Pair]:
    definition = i.definition
    roles = definition.roles(i)
    for dst, wrote in roles:
        for src, read in roles:
            if wrote != READ and read != WRITE and dst != src:
                yield Pair(dst, src, definition.order_of(definition.params[dst]))


def touched(i: Instruction, position: int, written: bool) -> list[tuple[NkiTensor, NkiTensor]]:
    """Return the tensors of an operand as the program has them, each with the part that is read or written."""
    value = i.args[position]
    operand = i.definition.operands[i.definition.params[position]]
    part = (operand.part_written if written else None) or operand.part
    views = value if type(value) is tuple else (value,)
    return [
        (v, v if part is None or v.dynamic is not None else part(i, v))
        for v in views
        if type(v) is NkiTensor
    ]


class BytePlaces(NamedTuple):
    """Where the elements of an operand lie.

    Attributes:
        first: first byte of each element, in the order of the view: [partitions, elements per partition].
        size: bytes of an element.
    """

    first: np.ndarray
    size: int

    def units(self, unit: int) -> np.ndarray:
        """Return the places in units of some bytes; those of an element are a last axis."""
        return np.asarray(self.first[..., None] // unit + np.arange(self.size // unit))


def places_of(view: NkiTensor, at: tuple[np.ndarray, ...] | None = None) -> BytePlaces:
    """Return where the elements of a view at a fixed place lie, or those of them at indices `at`."""
    place: np.ndarray = np.asarray(view.offset)
    for count, stride in zip(view.shape, view.strides, strict=True):
        place = np.add.outer(place, np.arange(count, dtype=np.int64) * stride)
    if at is not None:
        place = place[at]
    rows = len(place) if place.ndim else 1
    return BytePlaces(place.reshape(rows, -1) * view.dtype.itemsize, view.dtype.itemsize)


def reads_too_late(order: Order, dst: BytePlaces, src: BytePlaces) -> bool:
    """Tell whether a byte of `src` may be read after a write of `dst` to it."""
    if order is Order.LAST or not dst.first.size or not src.first.size:
        return False
    reads, results = src.first.shape[1], dst.first.shape[1]
    if order is Order.STREAM and reads < results:
        return False  # a value per partition, or a short list: read before the stream begins
    unit = min(dst.size, src.size)
    written, read = dst.units(unit), src.units(unit)
    low, high = int(written.min()), int(written.max())
    inside = (read >= low) & (read <= high)
    if not inside.any():
        return False
    if order is Order.STREAM:
        # Result k follows the elements that it takes; where they do not divide, all.
        taken = reads // results if reads % results == 0 else reads
        ends = np.minimum((np.arange(results) + 1) * taken, reads) - 1
        write_steps = np.broadcast_to(ends[None, :, None], written.shape)
        read_steps = np.broadcast_to(np.arange(reads)[None, :, None], read.shape)
    else:
        write_steps, read_steps = (
            np.broadcast_to(np.arange(p.first.size).reshape(*p.first.shape, 1), places.shape)
            for p, places in ((dst, written), (src, read))
        )
    met, steps = _first_steps(written, write_steps, read[inside]), read_steps[inside]
    if order is Order.STREAM:
        return bool((met < steps).any())
    if order is Order.MOVES:  # only the element that is written from it may lie there
        last = -_first_steps(written, -write_steps, read[inside])
        return bool(((met != _NEVER) & ((met != steps) | (last != steps))).any())
    return bool((met != _NEVER).any())


def _first_steps(written: np.ndarray, steps: np.ndarray, sought: np.ndarray) -> np.ndarray:
    """Return the first step that writes each of the places `sought`; _NEVER where none does."""
    places, steps = written.reshape(-1), steps.reshape(-1)
    low, high = int(places.min()), int(places.max())
    if high - low < 8 * places.size:
        first = np.full(high - low + 1, _NEVER, np.int64)
        order = np.argsort(steps, kind="stable")[::-1]
        first[places[order] - low] = steps[order]  # of several the first one stays
        return np.asarray(first[sought - low])
    order = np.lexsort((steps, places))
    places, steps = places[order], steps[order]
    at = np.searchsorted(places, sought)
    at[at == len(places)] = 0
    return np.where(places[at] == sought, steps[at], _NEVER)


def lie_on_each_other(view: NkiTensor) -> bool:
    """Tell whether elements of a view that have places of their own by its steps share a place.

    A step of 0 asks for one place, in which the last element stays.
    """
    axes = [(n, abs(s)) for n, s in zip(view.shape, view.strides, strict=True) if n > 1 and s]
    by_rows = view.dynamic is not None and view.dynamic.kind is Addressing.VECTOR
    if by_rows and view.shape[0] > 1 and view.strides[0]:  # indices choose the rows
        axes = axes[1:]
    reach = 0
    for count, stride in sorted(axes, key=lambda axis: axis[1]):
        if stride <= reach:
            break
        reach += (count - 1) * stride
    else:
        return False
    places: np.ndarray = np.asarray(0)
    for count, stride in axes:
        places = np.add.outer(places, np.arange(count, dtype=np.int64) * stride)
    return len(np.unique(places)) < places.size


def may_meet(dst: NkiTensor, src: NkiTensor) -> bool:
    """Tell whether two views at fixed places may share a byte of one storage."""
    return dst.storage is src.storage and overlap(footprint(dst), footprint(src))


def is_same(dst: NkiTensor, src: NkiTensor) -> bool:
    """Tell whether two views have the same elements in the same order."""
    return identity(dst) == identity(src)


def place_key(view: NkiTensor, start: NkiTensor) -> tuple[Hashable, ...]:
    """Return where the elements of a view lie, counted from the first element of another view of its storage."""
    first = view.offset * view.dtype.itemsize - start.offset * start.dtype.itemsize
    return first, view.shape, view.strides, view.dtype


def is_large(*views: NkiTensor) -> bool:
    """Tell whether views have too many elements to be looked at one by one."""
    return max(view.size for view in views) > MOST_ELEMENTS


def overwritten(i: Instruction, pair: Pair, dst: NkiTensor, src: NkiTensor) -> Finding:
    """Return the finding on elements of `src` that are read after they may have been overwritten."""
    params = i.definition.params
    help = "write into another tile, or into exactly the place that is read"
    if pair.order is Order.NONE:
        help = "write into another tile: this instruction does not promise in which order it reads and writes"
    return Finding(
        "hazard",
        f"{i.definition.name}: {params[pair.dst]} = {dst.describe()} overlaps elements of {params[pair.src]} ="
        f" {src.describe()} that are read after they may have been overwritten",
        i.stack,
        help=help,
    )


def written_twice(i: Instruction, position: int, view: NkiTensor) -> Finding:
    """Return the finding on elements of a destination that lie on each other."""
    return Finding(
        "hazard",
        f"{i.definition.name}: elements of {i.definition.params[position]} = {view.describe()} overlap, and the order"
        " of writing decides which of them stays",
        i.stack,
        help="choose steps that give every element its own place, or slice off those that you do not need",
    )


def results_meet(
    i: Instruction, positions: tuple[int, int], views: tuple[NkiTensor, NkiTensor]
) -> Finding:
    """Return the finding on two results of one instruction that lie on each other."""
    first, second = (
        f"{i.definition.params[at]} = {view.describe()}"
        for at, view in zip(positions, views, strict=True)
    )
    return Finding(
        "hazard",
        f"{i.definition.name}: {first} and {second} overlap, and it is undefined which of them stays",
        i.stack,
        help="give each result its own place",
    )


def not_looked_at(i: Instruction, pair: Pair, dst: NkiTensor, src: NkiTensor) -> Finding:
    """Return the finding that a check was too large to be made."""
    params = i.definition.params
    return Finding(
        "advice",
        f"not checked: {i.definition.name} may overwrite elements of {params[pair.src]} = {src.describe()} by"
        f" {params[pair.dst]} = {dst.describe()} before they are read; these are more than {MOST_ELEMENTS:,} elements",
        i.stack,
        help="write into another tensor",
    )
