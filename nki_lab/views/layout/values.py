"""Shows the values of a tensor: each element or a coarse picture, their spread, NaN and infinities."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from nki_lab.views.layout.model import grid_of
from nki_lab.views.run import ViewData
from nki_lab.widgets.packing import pack, smallest

#: Tensors up to this size are sent element by element; of larger ones a picture with this number of rows and columns.
EXACT_ELEMENTS = 1 << 17
PICTURE_ROWS, PICTURE_COLUMNS = 256, 512
_CHUNK = 1 << 20
#: Bars of the histogram.
BARS = 40
#: Marks of cells in which there is a NaN, an infinity.
NAN, INFINITE = 1, 2


def values_parts(data: ViewData, number: int, position: int | None, after: bool) -> bytes:
    """Return what a tensor holds at a moment, or why that is not known, packed."""
    tensor = data.tensors[number]
    held = data.held(number, position, after)
    meta: dict[str, Any] = {
        "number": number,
        "name": tensor.name,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "note": held.note,
        "known": held.values is not None,
    }
    if held.values is None:
        return pack(meta)
    rows, columns = grid_of(tensor)
    try:
        held.values.reshape(-1)[:1].astype(np.float64)
    except (TypeError, ValueError):  # packed types
        note = f"elements of {tensor.dtype} are not single numbers"
        return pack(meta | {"known": False, "note": note})
    values = held.values.reshape(rows, columns)
    meta |= {"rows": rows, "columns": columns} | statistics(values)
    counts, meta["edges"] = histogram(values)
    meta["exact"] = values.size <= EXACT_ELEMENTS
    cells, marks = coarse(values)
    if meta["exact"]:
        cells = values.astype(np.float64)
        marks = marks_of(cells)
    meta["picture"] = list(cells.shape)
    finite = np.nan_to_num(cells, nan=0.0, posinf=0.0, neginf=0.0)
    arrays = {
        "cells": finite.astype("f8" if _needs_double(finite) else "f4").reshape(-1),
        "marks": marks.astype("u1").reshape(-1),
        "counts": smallest(counts),
    }
    return pack(meta, arrays)


def _chunks(values: np.ndarray) -> Iterator[np.ndarray]:
    """Yield all values as float64, some at a time: a tensor may be much larger than what there is room for twice."""
    flat = values.reshape(-1)
    for first in range(0, flat.size, _CHUNK):
        yield flat[first : first + _CHUNK].astype(np.float64)


def statistics(values: np.ndarray) -> dict[str, Any]:
    """Return smallest, largest, mean and deviation of the finite values, and how many are none."""
    numbers: dict[str, Any] = {"count": int(values.size), "nan": 0, "inf": 0, "zero": 0}
    count, mean, spread = 0, 0.0, 0.0
    least, most = np.inf, -np.inf
    for part in _chunks(values):
        numbers["nan"] += int(np.isnan(part).sum())
        numbers["inf"] += int(np.isinf(part).sum())
        numbers["zero"] += int((part == 0).sum())
        finite = part[np.isfinite(part)]
        if not finite.size:
            continue
        least, most = min(least, float(finite.min())), max(most, float(finite.max()))
        # Means and squares of two parts become those of both (Chan, Golub and LeVeque, 1979).
        own = float(finite.mean())
        apart, both = own - mean, count + finite.size
        spread += float(((finite - own) ** 2).sum()) + apart**2 * count * finite.size / both
        mean += apart * finite.size / both
        count = both
    if count:
        numbers |= {
            "least": least,
            "most": most,
            "mean": mean,
            "deviation": (spread / count) ** 0.5,
        }
    return {k: _bounded(v) for k, v in numbers.items()}


def _bounded(value: float) -> float:
    """Return a number that JSON has: what is beyond float64 stays at its end."""
    return value if isinstance(value, int) else float(np.nan_to_num(value))


def histogram(values: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Return how many finite values fall into each of equal steps, and the ends of the steps."""
    ends = [(p.min(), p.max()) for part in _chunks(values) if (p := part[np.isfinite(part)]).size]
    if not ends:
        return np.zeros(0, dtype=np.int64), []
    low, high = float(min(e[0] for e in ends)), float(max(e[1] for e in ends))
    # The distance between the ends must be a number as well.
    scale = 0.25 if max(abs(low), abs(high)) > 4e307 else 1.0
    if low == high:
        return np.array([sum(int(np.isfinite(p).sum()) for p in _chunks(values))]), [low, high]
    counts = np.zeros(BARS, dtype=np.int64)
    for part in _chunks(values):
        finite = part[np.isfinite(part)] * scale
        counts += np.histogram(finite, BARS, (low * scale, high * scale))[0]
    edges = np.linspace(low * scale, high * scale, BARS + 1) / scale
    return counts, edges.clip(-1.7e308, 1.7e308).tolist()


def marks_of(values: np.ndarray) -> np.ndarray:
    """Return per value NAN, INFINITE or 0."""
    return np.isnan(values) * NAN + np.isinf(values) * INFINITE


def coarse(grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the finite values and the marks of equal blocks of a grid, at most as many as are drawn."""
    rows, columns = grid.shape
    down, across = _edges(rows, PICTURE_ROWS), _edges(columns, PICTURE_COLUMNS)
    means = np.zeros((len(down), len(across)))
    marks = np.zeros((len(down), len(across)), dtype=np.uint8)
    for k, (first, end) in enumerate(pairwise([*down.tolist(), rows])):
        part = grid[first:end].astype(np.float64)
        finite = np.isfinite(part)

        def added(numbers: np.ndarray) -> np.ndarray:
            return np.add.reduceat(numbers.sum(0), across)

        means[k] = added(np.where(finite, part, 0.0)) / np.maximum(added(finite), 1)
        marks[k] = (added(np.isnan(part)) > 0) * NAN + (added(np.isinf(part)) > 0) * INFINITE
    return means, marks


def _edges(count: int, most: int) -> np.ndarray:
    """Return the first of every block, where `count` things fall into at most `most` blocks."""
    blocks = min(count, most)
    return (np.arange(blocks) * count) // blocks


def _needs_double(values: np.ndarray) -> bool:
    """Whether float32 would show other numbers: large whole numbers, or what it cannot hold."""
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return bool((finite.astype(np.float32).astype(np.float64) != finite).any())
