"""Finds parts of tensors that overlap without being the same, by marking the elements of each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise, product
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


#: The most boxes of one cell that are compared with each other.
_MOST = 64

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
        if not _apart(owned, read[storage]):
            pair = _first(owned, read[storage])
            if pair is not None:
                yield pair


def _apart(written: list[Owned], read: list[Owned]) -> bool:
    """Tell whether places are seen to share no elements without marking any, but for places that are the same.

    Counted in the strides of the places, as in digits of a number, each place is a box. Boxes are compared with those
    in the same cells of a grid, whose cells are as large as the largest of them.
    """
    places = dict.fromkeys(place for place, _ in (*written, *read))
    if len(places) < 2:
        return True
    patterns = {(place.shape, place.strides) for place in places}
    axes_of = {p: {s: n for n, s in zip(*p, strict=True) if n > 1} for p in patterns}
    largest: dict[int, int] = {}
    for (shape, _), axes in axes_of.items():
        if len(axes) < sum([n > 1 for n in shape]) or any(s <= 0 for s in axes):
            return False
        for s, n in axes.items():
            largest[s] = max(n, largest.get(s, 1))
    steps = sorted(largest, reverse=True)
    limits = [0, *[outer // inner for outer, inner in pairwise(steps)]][: len(steps)]
    if any(outer % inner for outer, inner in pairwise(steps)):
        return False
    digits = {
        p: [(s, axes.get(s, 1), largest[s], limit) for s, limit in zip(steps, limits, strict=True)]
        for p, axes in axes_of.items()
    }
    cells: dict[tuple[int, ...], list[list[tuple[int, int]]]] = {}
    for place in places:
        rest, box, near = place.offset, [], []
        for step, n, most, limit in digits[place.shape, place.strides]:
            first, rest = divmod(rest, step)
            if limit and first + n > limit:
                return False
            box.append((first, first + n))
            near.append((first // most, (first + n - 1) // most))
        spans = [range(a, b + 1) for a, b in near]
        for cell in product(*spans):
            others = cells.setdefault((*cell, rest), [])
            if len(others) > _MOST:
                return False
            for other in others:
                if all(a < d and c < b for (a, b), (c, d) in zip(box, other, strict=True)):
                    return False
            others.append(box)
    return True


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
