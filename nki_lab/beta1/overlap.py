"""Finds parts of tensors that overlap without being the same, by marking the elements of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nki_lab.ir.tensor.view import NkiTensor


class Place(NamedTuple):
    """The elements of a tensor that an instruction reads or writes."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, view: NkiTensor) -> Place:
        """Return the place of a view."""
        return cls(view.storage.id, view.offset, view.shape, view.strides)

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last element."""
        reach = [s * (n - 1) for n, s in zip(self.shape, self.strides, strict=True)]
        low, high = (sum(r for r in reach if r * sign > 0) for sign in (-1, 1))
        return self.offset + low, self.offset + high

    def of_marks(self, marks: np.ndarray) -> np.ndarray:
        """Return the elements of an array that stand for those of the tensor."""
        size = marks.itemsize
        strides = tuple([s * size for s in self.strides])
        return np.ndarray(self.shape, marks.dtype, marks, self.offset * size, strides)


#: A place, and the number of the trip or program that reads or writes it.
Owned = tuple[Place, int]


def overlaps(writes: Iterable[Owned], reads: Iterable[Owned] = ()) -> Iterator[tuple[Owned, Owned]]:
    """Yield for each tensor the first write or read of a place that overlaps one that another owner writes.

    Args:
        writes: the places that are written, by their owners in order.
        reads: those that are read.
    """
    written, read = defaultdict[int, list[Owned]](list), defaultdict[int, list[Owned]](list)
    for groups, places in ((written, writes), (read, reads)):
        for place, owner in places:
            groups[place.storage].append((place, owner))
    for storage, owned in written.items():
        if read[storage] or not _apart(owned):
            pair = _first(owned, read[storage])
            if pair is not None:
                yield pair


def _apart(owned: list[Owned]) -> bool:
    """Tell whether each place ends before the next one begins."""
    ends = sorted(place.ends for place, _ in owned)
    return all(end < start for (_, end), (start, _) in pairwise(ends))


def _first(written: list[Owned], read: list[Owned]) -> tuple[Owned, Owned] | None:
    marks = np.zeros(1 + max(place.ends[1] for place, _ in (*written, *read)), np.int32)
    for count, (place, owner) in enumerate((*written, *read)):
        region = place.of_marks(marks)
        others = region[(region != 0) & (region != owner + 1)] if region.any() else region[:0]
        for other in np.unique(others):
            earlier = _sharing(place, [p for p, who in written if who == other - 1])
            if earlier is not None:
                return (place, owner), (earlier, int(other) - 1)
        if count < len(written):
            region[...] = owner + 1
    return None


def _sharing(place: Place, others: list[Place]) -> Place | None:
    """Return the first of other places that shares elements with a place, and is not the same."""
    for other in others:
        marks = np.zeros(1 + max(place.ends[1], other.ends[1]), bool)
        other.of_marks(marks)[...] = True
        if other != place and place.of_marks(marks).any():
            return other
    return None
