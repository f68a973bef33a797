"""Coverage: which elements of a tensor have been written.

Most tiles are written whole and read whole, which costs a flag; only a tile written in parts gets a mask.
"""

from __future__ import annotations

from enum import Enum
from math import prod

import numpy as np

from nki_lab.ir.tensor.layout import contiguous_strides, merge_axes
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor


class Written(Enum):
    """How much of a region has been written."""

    NOTHING = "nothing"
    SOME = "some"
    ALL = "all"


class Coverage:
    """Written elements of one storage, in bytes where a view reinterprets it."""

    __slots__ = ("storage", "whole", "_mask", "_unit", "_pending", "_seen")

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.whole = False
        self._mask: np.ndarray | None = None
        self._unit = storage.dtype.itemsize
        self._pending: list[NkiTensor] = []
        self._seen: set[tuple] = set()

    def write(self, view: NkiTensor) -> None:
        """Note that every element of `view` was written."""
        if self.whole:
            return
        if view.size * view.dtype.itemsize == self.storage.nbytes and covers_once(view):
            self.whole = True
            self._mask = None
            self._pending = []
            return
        key = (view.offset, view.shape, view.strides, view.dtype)
        if key not in self._seen:
            self._seen.add(key)
            self._pending.append(view)

    def assign(self, view: NkiTensor, marks: np.ndarray) -> None:
        """Note that the elements of `view` with a mark were written, and that the others hold nothing from now on."""
        if marks.all():
            self.write(view)
            return
        if self.whole:
            self._mask = np.ones(self.storage.nbytes // self._unit, bool)
            self.whole = False
        region = self._region(view)
        region[...] = marks[..., None] if region.ndim > marks.ndim else marks
        self._seen = {()}  # views that were written whole may have lost elements

    def written(self, view: NkiTensor) -> Written:
        """Tell how much of `view` has been written."""
        if self.whole:
            return Written.ALL
        if (view.offset, view.shape, view.strides, view.dtype) in self._seen:
            return Written.ALL
        if not self._seen:
            return Written.NOTHING
        if view.size * view.dtype.itemsize == self.storage.nbytes and self._is_tiled():
            self.whole, self._pending = True, []
            return Written.ALL
        region = self._region(view)
        if region.all():
            return Written.ALL
        return Written.SOME if region.any() else Written.NOTHING

    def _is_tiled(self) -> bool:
        """Tell, without a mask of every element, whether the blocks written make up the storage.

        False may also mean that it takes a mask to tell.
        """
        shape = self.storage.shape
        width, size = shape[-1], prod(shape)
        if self._mask is not None or any(v.dtype is not self.storage.dtype for v in self._pending):
            return False
        found = [_block(view, width) for view in self._pending]
        blocks = [block for block in found if block is not None]
        rows = sorted({edge for top, bottom, _, _ in blocks for edge in (top, bottom)})
        columns = sorted({edge for _, _, left, right in blocks for edge in (left, right)})
        if len(blocks) < len(found) or len(rows) * len(columns) > size:
            return False
        if (rows[0], rows[-1], columns[0], columns[-1]) != (0, size // width, 0, width):
            return False
        row, column = ({edge: n for n, edge in enumerate(edges)} for edges in (rows, columns))
        cells = np.zeros((len(rows) - 1, len(columns) - 1), bool)
        for top, bottom, left, right in blocks:
            cells[row[top] : row[bottom], column[left] : column[right]] = True
        return bool(cells.all())

    def missing(self, view: NkiTensor) -> int:
        """Return how many elements of `view` have not been written."""
        if self.whole:
            return 0
        region = self.elements(view)
        return int(region.size - np.count_nonzero(region))

    def first_missing(self, view: NkiTensor) -> tuple[int, ...]:
        """Return the index in `view` of the first element not written."""
        region = self.elements(view)
        return tuple(int(n) for n in np.unravel_index(int(np.argmin(region)), region.shape))

    def elements(self, view: NkiTensor) -> np.ndarray:
        """Return, in the shape of `view`, which elements have been written."""
        if self.whole:
            return np.ones(view.shape, bool)
        region = self._region(view)
        return np.asarray(region.all(axis=-1)) if region.ndim > view.ndim else region

    def _region(self, view: NkiTensor) -> np.ndarray:
        if self._mask is None:
            self._mask = np.zeros(self.storage.nbytes // self._unit, bool)
        if self._unit > 1 and any(v.dtype.itemsize != self._unit for v in (view, *self._pending)):
            self._mask = np.repeat(self._mask, self._unit)
            self._unit = 1
        for pending in self._pending:
            self._mapped(pending)[...] = True
        self._pending = []
        return self._mapped(view)

    def _mapped(self, view: NkiTensor) -> np.ndarray:
        assert self._mask is not None
        return part_of(self._mask, self._unit, view)


def part_of(marks: np.ndarray, unit: int, view: NkiTensor) -> np.ndarray:
    """Return the part of a storage's marks, one per `unit` bytes, that belongs to a view at a fixed place.

    It is a view of `marks` in the shape of `view`; where an element has several units, they are a last axis.
    """
    scale = view.dtype.itemsize // unit
    step = marks.itemsize
    shape, strides = view.shape, tuple(s * scale * step for s in view.strides)
    if scale > 1:
        shape, strides = (*shape, scale), (*strides, step)
    return np.ndarray(shape, marks.dtype, marks, view.offset * scale * step, strides)


def _block(view: NkiTensor, width: int) -> tuple[int, int, int, int] | None:
    """Return first and end row, first and end column of a view that is a block of rows of `width` elements."""
    rows = merge_axes(view.shape[:-1], view.strides[:-1]) if len(view.shape) > 1 else (1, width)
    count = view.shape[-1]
    if rows is None or (rows[0] > 1 and rows[1] != width) or (count > 1 and view.strides[-1] != 1):
        return None
    top, left = divmod(view.offset, width)
    return (top, top + rows[0], left, left + count) if left + count <= width else None


def is_whole(view: NkiTensor) -> bool:
    """Tell whether a view has all elements of its storage, in row-major order and at a fixed place."""
    shape = view.storage.shape
    return (
        view.shape == shape
        and view.strides == contiguous_strides(shape)
        and view.dtype == view.storage.dtype
        and view.dynamic is None
    )


def covers_once(view: NkiTensor) -> bool:
    """Tell whether a view walks every element of its range exactly once (dense, in any order of axes)."""
    expected = 1
    for stride, size in sorted(
        (s, n) for n, s in zip(view.shape, view.strides, strict=True) if n > 1
    ):
        if stride != expected:
            return False
        expected *= size
    return True
