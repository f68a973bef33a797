"""Which bytes may a view touch?

A footprint is a rectangle: rows of `pitch` bytes and a range of bytes within the rows. On chip a row is a partition;
in HBM it is one step of the view's outermost axis. It never leaves out a byte; it may hold bytes a strided view skips.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from nki_lab.ir.tensor import NkiTensor


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
