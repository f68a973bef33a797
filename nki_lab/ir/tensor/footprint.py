"""Says which bytes a view touches.

A footprint is a rectangle: rows of `pitch` bytes and a range of bytes within the rows. On chip a row is a partition;
in HBM it is one step of the view's outermost axis. It never leaves out a byte; it may hold bytes a strided view skips.
`share_bytes` decides exactly whether two views meet, which takes longer.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from math import gcd
from typing import NamedTuple

from nki_lab.ir.tensor.view import NkiTensor


class Footprint(NamedTuple):
    """Rows `first_row` to `end_row` and bytes `first_byte` to `end_byte` (exclusive) of each row of `pitch` bytes."""

    pitch: int
    first_row: int
    end_row: int
    first_byte: int
    end_byte: int


def footprint(view: NkiTensor) -> Footprint:
    """Return the rectangle a view lies in, relative to its storage; computed once per view."""
    if view.box is None:
        object.__setattr__(view, "box", _footprint(view))
    return view.box


def _footprint(view: NkiTensor) -> Footprint:
    storage = view.storage
    size = view.dtype.itemsize
    if view.dynamic is not None:  # anywhere in its partitions, or anywhere in HBM
        first = view.start_partition
        end = first + view.shape[0] if storage.on_chip else 1
        return Footprint(storage.row_bytes, first, end, 0, storage.row_bytes)
    pitch = storage.row_bytes if storage.on_chip else 0
    return _rectangle(view.shape, view.strides, view.offset * size, size, pitch, storage.nbytes)


@lru_cache(maxsize=1 << 14)  # loops take the same few parts of very many tiles
def _rectangle(
    shape: tuple[int, ...], strides: tuple[int, ...], start: int, size: int, pitch: int, nbytes: int
) -> Footprint:
    """Return the rectangle of elements of `size` bytes, the first at byte `start`; a `pitch` of 0 is that of HBM."""
    if not pitch:
        widest = max((abs(s) for n, s in zip(shape, strides, strict=True) if n > 1), default=0)
        pitch = widest * size or nbytes
    rows = inner = 0
    for count, stride in zip(shape, strides, strict=True):
        step = stride * size
        if step < 0:
            start += (count - 1) * step
            step = -step
        if step >= pitch and step % pitch == 0:
            rows += (count - 1) * (step // pitch)
        else:
            inner += (count - 1) * step
    first_row, first_byte = divmod(start, pitch)
    if first_byte + inner + size > pitch:  # runs over the end of a row: one long row instead
        end = start + rows * pitch + inner + size
        return Footprint(nbytes, 0, 1, start, end)
    return Footprint(pitch, first_row, first_row + rows + 1, first_byte, first_byte + inner + size)


def overlap(a: Footprint, b: Footprint) -> bool:
    """Tell whether two footprints of one storage may share a byte."""
    if a.pitch == b.pitch:
        return (
            a.first_byte < b.end_byte
            and b.first_byte < a.end_byte
            and a.first_row < b.end_row
            and b.first_row < a.end_row
        )
    a_low, a_high = flat_range(a)
    b_low, b_high = flat_range(b)
    return a_low < b_high and b_low < a_high


def covers(a: Footprint, b: Footprint) -> bool:
    """Tell whether rectangle `a` holds all of rectangle `b`."""
    if a.pitch != b.pitch:
        return False
    return (
        a.first_byte <= b.first_byte
        and b.end_byte <= a.end_byte
        and a.first_row <= b.first_row
        and b.end_row <= a.end_row
    )


def flat_range(a: Footprint) -> tuple[int, int]:
    """Return first and end byte of a footprint as one range."""
    return a.first_row * a.pitch + a.first_byte, (a.end_row - 1) * a.pitch + a.end_byte


def byte_range(view: NkiTensor) -> tuple[int, int]:
    """Return the first byte of its storage that a view at a fixed place touches, and the end of the last."""
    size = view.dtype.itemsize
    steps = [(n - 1) * s for n, s in zip(view.shape, view.strides, strict=True)]
    low = view.offset + sum(step for step in steps if step < 0)
    high = view.offset + sum(step for step in steps if step > 0)
    return low * size, (high + 1) * size


def share_bytes(a: NkiTensor, b: NkiTensor) -> bool:
    """Tell whether two views of one storage, both at fixed places, have a byte in common."""
    distance = b.offset * b.dtype.itemsize - a.offset * a.dtype.itemsize
    return _share(
        distance, (a.shape, a.strides, a.dtype.itemsize), (b.shape, b.strides, b.dtype.itemsize)
    )


#: Sums that are tried one by one before all of them are marked.
_TRIES = 4096
_Pattern = tuple[tuple[int, ...], tuple[int, ...], int]


@lru_cache(maxsize=1 << 14)  # loops ask about the same few pairs of patterns
def _share(distance: int, a: _Pattern, b: _Pattern) -> bool:
    """Tell whether two patterns (shape, strides, bytes of an element) meet; `b` begins `distance` bytes behind `a`.

    A byte of `a` lies at a sum of its steps, one of `b` at `distance` and a sum of its steps. So they meet where
    `distance` is a sum of steps of `a` less steps of `b`.
    """
    times: dict[int, int] = {}  # step -> how often it may be taken

    def take(step: int, count: int) -> None:
        nonlocal distance
        if step < 0:  # counted from its other end
            distance -= step * (count - 1)
        if step and count > 1:
            times[abs(step)] = times.get(abs(step), 0) + count - 1

    for (shape, strides, size), sign in ((a, 1), (b, -1)):
        if 0 in shape:
            return False
        for count, stride in zip(shape, strides, strict=True):
            take(sign * stride * size, count)
    if a[2] != b[2]:  # else elements meet as a whole or not at all
        take(1, a[2])
        take(-1, b[2])
    return _is_sum(distance, times)


def _is_sum(target: int, times: dict[int, int]) -> bool:
    """Tell whether `target` is a sum of steps, each taken at most as often as `times` says."""
    unit = gcd(*times)
    if not times or target % unit:
        return target == 0
    merged: list[tuple[int, int]] = []
    for step, count in sorted((step // unit, count) for step, count in times.items()):
        smaller, often = merged[-1] if merged else (0, 0)
        if smaller and step % smaller == 0 and step <= smaller * (often + 1):
            merged[-1] = smaller, often + count * (step // smaller)
        else:
            merged.append((step, count))
    sums = _Sums(merged)
    try:
        return sums.reach(len(merged), target // unit)
    except _TooMany:
        return _is_marked(target // unit, merged, sums.most[-1])


class _Sums:
    """Sums of steps, each taken at most some times, tried one by one.

    Attributes:
        steps: (step, how often) in growing order.
        most: the largest sum of the first n steps, by n.
    """

    def __init__(self, steps: list[tuple[int, int]]) -> None:
        self.steps = steps
        self.most = [0, *accumulate(step * count for step, count in steps)]
        self._units = [0, *accumulate((step for step, _ in steps), gcd)]
        self._tries = 0
        self._seen: set[tuple[int, int]] = set()

    def reach(self, kinds: int, rest: int) -> bool:
        """Tell whether `rest` is a sum of the first `kinds` steps; raise _TooMany past _TRIES."""
        below = self.most[kinds]
        if not 0 <= rest <= below or rest % self._units[kinds] or (kinds, rest) in self._seen:
            return False
        if kinds == 1:
            return True
        self._seen.add((kinds, rest))
        step, count = self.steps[kinds - 1]
        first = max(0, -((self.most[kinds - 1] - rest) // step))
        last = min(count, rest // step)
        self._tries += 1 + last - first
        if self._tries > _TRIES:
            raise _TooMany
        return any(self.reach(kinds - 1, rest - often * step) for often in range(first, last + 1))


class _TooMany(Exception):
    """There are too many sums to try them one by one."""


def _is_marked(target: int, steps: list[tuple[int, int]], reach: int) -> bool:
    """Tell the same by marking every sum up to the target, each as one bit of a number."""
    target = min(target, reach - target)  # the sums lie in the same way from both ends
    inside = (1 << (target + 1)) - 1
    sums = 1
    for step, count in steps:
        taken = 0
        while taken < count and step <= target:
            more = min(taken + 1, count - taken)
            sums |= (sums << (more * step)) & inside
            taken += more
    return bool(sums >> target & 1)
