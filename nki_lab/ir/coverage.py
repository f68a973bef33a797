"""Which elements of a tensor has something written yet?

Most tiles are written whole and read whole, which costs a flag; only a tile written in parts gets a mask.
"""

from __future__ import annotations

from enum import Enum

import numpy as np

from nki_lab.ir.layout import contiguous_strides
from nki_lab.ir.storage import Storage
from nki_lab.ir.tensor import NkiTensor


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

    def written(self, view: NkiTensor) -> Written:
        """Tell how much of `view` has been written."""
        if self.whole:
            return Written.ALL
        if (view.offset, view.shape, view.strides, view.dtype) in self._seen:
            return Written.ALL
        if not self._seen:
            return Written.NOTHING
        region = self._region(view)
        if region.all():
            return Written.ALL
        return Written.SOME if region.any() else Written.NOTHING

    def missing(self, view: NkiTensor) -> int:
        """Return how many elements of `view` have not been written."""
        if self.whole:
            return 0
        region = self._elements(view)
        return int(region.size - np.count_nonzero(region))

    def first_missing(self, view: NkiTensor) -> tuple[int, ...]:
        """Return the index in `view` of the first element not written."""
        region = self._elements(view)
        return tuple(int(n) for n in np.unravel_index(int(np.argmin(region)), region.shape))

    def _elements(self, view: NkiTensor) -> np.ndarray:
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
        scale = view.dtype.itemsize // self._unit
        shape, strides = view.shape, tuple(s * scale for s in view.strides)
        if self._unit == 1 and view.dtype.itemsize > 1:
            shape, strides = (*shape, scale), (*strides, 1)
        return np.ndarray(shape, bool, self._mask, view.offset * scale, strides)


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
