"""What values does a tensor hold: each element or a coarse picture, their spread, and what is no number?"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.profiler.view_data import ViewData
from nki_lab.widgets.layout_model import grid_of
from nki_lab.widgets.packing import pack, smallest

#: Tensors up to this size are sent element by element; of larger ones a picture of so many rows and columns.
EXACT_ELEMENTS = 1 << 17
PICTURE_ROWS, PICTURE_COLUMNS = 256, 512
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
    try:
        numbers = held.values.astype(np.float64)
    except (TypeError, ValueError):
        return pack(
            meta | {"known": False, "note": f"elements of {tensor.dtype} are no single numbers"}
        )
    rows, columns = grid_of(tensor)
    grid = numbers.reshape(rows, columns)
    meta |= {"rows": rows, "columns": columns} | statistics(grid)
    counts, edges = histogram(grid)
    meta["edges"] = edges
    if grid.size <= EXACT_ELEMENTS:
        cells, marks, meta["picture"] = grid, marks_of(grid), [rows, columns]
    else:
        cells, marks = coarse(grid)
        meta["picture"] = list(cells.shape)
    meta["exact"] = grid.size <= EXACT_ELEMENTS
    finite = np.nan_to_num(cells, nan=0.0, posinf=0.0, neginf=0.0)
    arrays = {
        "cells": finite.astype("f8" if _needs_double(finite) else "f4").reshape(-1),
        "marks": marks.astype("u1").reshape(-1),
        "counts": smallest(counts),
    }
    return pack(meta, arrays)


def statistics(values: np.ndarray) -> dict[str, Any]:
    """Return smallest, largest, mean and deviation of the finite values, and how many are none."""
    finite = values[np.isfinite(values)]
    found: dict[str, Any] = {
        "count": int(values.size),
        "nan": int(np.isnan(values).sum()),
        "inf": int(np.isinf(values).sum()),
        "zero": int((values == 0).sum()),
    }
    if finite.size:
        found |= {
            "least": float(finite.min()),
            "most": float(finite.max()),
            "mean": float(finite.mean()),
            "deviation": float(finite.std()),
        }
    return found


def histogram(values: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Return how many finite values fall into each of equal steps, and the ends of the steps."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.zeros(0, dtype=np.int64), []
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return np.array([finite.size]), [low, high]
    with np.errstate(over="ignore"):
        if not np.isfinite(high - low):  # steps between the ends of float64 itself
            finite, low, high = finite / 2, low / 2, high / 2
            counts, edges = np.histogram(finite, BARS, (low, high))
            return counts, (2 * edges).clip(-1.7e308, 1.7e308).tolist()
    counts, edges = np.histogram(finite, BARS, (low, high))
    return counts, edges.tolist()


def marks_of(values: np.ndarray) -> np.ndarray:
    """Return per value NAN, INFINITE or 0."""
    return np.isnan(values) * NAN + np.isinf(values) * INFINITE


def coarse(grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the finite values and the marks of equal blocks of a grid, at most as many as are drawn."""
    rows, columns = grid.shape
    down = _edges(rows, PICTURE_ROWS)
    across = _edges(columns, PICTURE_COLUMNS)
    finite = np.isfinite(grid)

    def added(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.add.reduceat(values, down, 0), across, 1)

    total, count = added(np.where(finite, grid, 0.0)), added(finite.astype(np.int64))
    marks = (added(np.isnan(grid).astype(np.int64)) > 0) * NAN
    marks = marks + (added(np.isinf(grid).astype(np.int64)) > 0) * INFINITE
    return total / np.maximum(count, 1), marks


def _edges(count: int, most: int) -> np.ndarray:
    """Return the first of every block, where `count` things fall into at most `most` blocks."""
    blocks = min(count, most)
    return (np.arange(blocks) * count) // blocks


def _needs_double(values: np.ndarray) -> bool:
    """Whether float32 would show other numbers: large whole numbers, or what it cannot hold."""
    finite = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        return bool((finite.astype(np.float32).astype(np.float64) != finite).any())
