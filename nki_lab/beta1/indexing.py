"""What `t[...]` selects.

`positions(tile, key)` is what tile.py asks for. It reads `tile.shape` and `tile.on_chip` only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nki_lab.beta1.index import Index, common_shape
from nki_lab.errors import NotModelled, OutOfBounds, ViewError
from nki_lab.ir.tensor.view import DynamicSlice


class By(NamedTuple):
    """A tile of indices: `kind` is "scalar" for one value, "vector" for one per row; `axis` of the tensor selected."""

    kind: str
    axis: int
    tile: Any


class Moved:
    """An index expression plus the value of a tile."""

    __array_ufunc__ = None

    def __init__(self, tile: Any, index: Any) -> None:
        self.tile, self.index = tile, index

    def __add__(self, other: Any) -> Moved:
        return Moved(self.tile, self.index + other)

    __radd__ = __add__


def moved(tile: Any, other: Any) -> Moved:
    """Return a tile as an index, plus an index expression."""
    return Moved(tile, other)


class Positions(NamedTuple):
    """What a key selects.

    Attributes:
        indices: for each axis of the tile that is indexed, its position over the grid of the result. They may lie
            outside the tile: what a mask leaves is checked when it is accessed.
        shape: of the result.
        by: the tile of indices among them, whose values are added, or None.
    """

    indices: tuple[Index, ...]
    shape: tuple[int, ...]
    by: By | None


def positions(tile: Any, key: Any) -> Positions:
    """Return what `tile[key]` selects."""
    entries = list(key if isinstance(key, tuple) else (key,))
    rank = len(tile.shape)
    if any(k is Ellipsis for k in entries):
        at = next(n for n, k in enumerate(entries) if k is Ellipsis)
        more = rank - sum(k is not None for k in entries) + 1
        entries[at : at + 1] = [slice(None)] * more
    real = [k for k in entries if k is not None]
    if len(real) > rank:
        raise OutOfBounds(f"{len(real)} indices for {tile!r}")
    if any(isinstance(k, (Index, Moved)) or hasattr(k, "base") for k in real):
        return _advanced(tile, [*real, *[slice(None)] * (rank - len(real))])
    return _basic(tile, entries)


def _advanced(tile: Any, entries: list[Any]) -> Positions:
    if any(isinstance(k, (slice, DynamicSlice)) for k in entries):
        raise NotModelled("slices beside index expressions")
    by = None
    indices: list[Index] = []
    expressions = [k for k in entries if isinstance(k, Index)]
    expressions += [k.index for k in entries if isinstance(k, Moved)]
    rows = [k.shape[0] for k in entries if hasattr(k, "base")]
    shape = common_shape(*[k.shape for k in expressions]) if expressions else (*rows, 1)
    for axis, k in enumerate(entries):
        if isinstance(k, Moved):
            by = By("scalar", axis, k.tile)
            k = k.index
        if isinstance(k, Index):
            indices.append(k.lifted(len(shape)))
        elif hasattr(k, "base"):
            coef = [0] * len(shape)
            if k.size == 1:
                by = By("scalar", axis, k)
            else:
                by = By("vector", axis, k)
                coef[0] = 1
            sizes = tuple(n if c else 1 for n, c in zip(shape, coef, strict=True))
            indices.append(Index(sizes, tuple(coef), 0))
        else:
            indices.append(_constant(len(shape), _element(tile, k, axis)))
    return Positions(tuple(indices), shape, by)


def _basic(tile: Any, entries: list[Any]) -> Positions:
    shape: list[int] = []
    plan: list[tuple[Any, int | None]] = []  # (position, axis of the result)
    by = None
    axis = 0
    rank = len(tile.shape)
    entries = [*entries, *[slice(None)] * (rank - sum(k is not None for k in entries))]
    kept = sum(k is None or isinstance(k, (slice, DynamicSlice)) for k in entries)
    for k in entries:
        if k is None:
            shape.append(1)
            continue
        n = tile.shape[axis]
        if isinstance(k, slice):
            start = 0 if k.start is None else int(k.start)
            stop = n if k.stop is None else int(k.stop)
            step = 1 if k.step is None else int(k.step)
            start, stop = (start + n if start < 0 else start), (stop + n if stop < 0 else stop)
            if step < 1 or stop <= start:
                raise OutOfBounds(f"slice {k} of axis {axis} of {tile!r}")
            plan.append(((start, step), len(shape)))
            shape.append(-(-(stop - start) // step))
        elif isinstance(k, DynamicSlice):
            start = k.start
            if hasattr(start, "base"):
                by, start = By("scalar", axis, start), 0
            plan.append(((int(start), 1), len(shape)))
            shape.append(int(k.size))
        elif tile.on_chip and (axis == 0 or kept < 2):
            plan.append(((_element(tile, k, axis), 1), len(shape)))
            shape.append(1)
            kept += axis != 0
        else:
            plan.append(((_element(tile, k, axis), 0), None))
        axis += 1
    if not shape:
        shape = [1]
    indices = []
    for (start, step), d in plan:
        if d is None:
            indices.append(_constant(len(shape), start))
        else:
            sizes, coef = [1] * len(shape), [0] * len(shape)
            sizes[d], coef[d] = shape[d], step
            indices.append(Index(tuple(sizes), tuple(coef), start))
    return Positions(tuple(indices), tuple(shape), by)


def _constant(rank: int, value: int) -> Index:
    return Index((1,) * rank, (0,) * rank, value)


def _element(tile: Any, k: Any, axis: int) -> int:
    if isinstance(k, np.ndarray) and k.ndim:
        raise ViewError(f"an array of NumPy as an index of {tile!r}")
    k = int(k)
    return k + tile.shape[axis] if k < 0 else k
