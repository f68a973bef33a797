"""NumPy helpers of the meanings of instructions: scratch arrays, negation, masked writes, and scans.

Temporaries come from a pool, because a new 128x512 array costs many times the addition that fills it. A pool has one
flat array per element type and use, grown to the largest size asked for; each thread has one pool, and two cores run in
two threads.

np.negative of 32- and 64-bit elements gives wrong values, in NumPy 2.4 at least, where the elements of the array lie 16
or 64 bytes apart and those of the result have a step, too: it takes neighbours from the memory between them. No module
of this package may use it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np


class _Pool(threading.local):
    def __init__(self) -> None:
        self.arrays: dict[tuple[int, str], np.ndarray] = {}
        self.views: dict[tuple[int, str, tuple[int, ...]], np.ndarray] = {}

    def view(self, shape: tuple[int, ...], dtype: np.dtype, use: str) -> np.ndarray:
        """Return the first elements of the array of a use, in a shape not asked for before."""
        size = prod(shape)
        key = (dtype.num, use)
        flat = self.arrays.get(key)
        if flat is None or flat.size < size:
            flat = self.arrays[key] = np.empty(size, dtype)
            self.views = {k: v for k, v in self.views.items() if k[:2] != key}
        array = self.views[(*key, shape)] = flat[:size].reshape(shape)
        return array


_pool = _Pool()


def scratch(shape: tuple[int, ...], dtype: np.dtype, use: str) -> np.ndarray:
    """Return an array of `shape` with unspecified contents, valid until the same `use` asks again."""
    # By the number of the type, whose hash costs more than all the rest.
    view = _pool.views.get((dtype.num, use, shape))
    return view if view is not None else _pool.view(shape, dtype, use)


def change_sign(array: np.ndarray, out: np.ndarray) -> None:
    """Write `-array` into `out`, which may be `array` itself; integers wrap around, NaN stays NaN."""
    if array.dtype.kind in "iu":
        np.subtract(0, array, out=out)
    else:
        np.multiply(array, -1, out=out)  # exact, and -0.0 where `array` is 0.0


def overlay(out: np.ndarray, values: Any, chosen: np.ndarray) -> None:
    """Write `values` into `out` where `chosen`, bit for bit.

    A masked copy branches on every element: on a random mask it takes twenty times as long as these whole-array
    steps. With `keep` all ones where chosen, out ^ ((out ^ values) & keep) is the choice.

    Args:
        out: array to change.
        values: number, or array of `out`'s dtype that broadcasts to it.
        chosen: booleans that broadcast to `out`.
    """
    pattern = np.dtype(f"u{out.itemsize}")
    keep = scratch(out.shape, pattern, "overlay")
    np.copyto(keep, chosen)
    change_sign(keep, keep)
    target = out.view(pattern)
    change = scratch(out.shape, pattern, "overlay2")
    np.bitwise_xor(target, np.asarray(values, out.dtype).view(pattern), out=change)
    np.bitwise_and(change, keep, out=change)
    np.bitwise_xor(target, change, out=target)


# -- elements along the free axes, one after the other, in all partitions at once --------------------------------

# A step sees one element of every partition. Blocks of columns are copied to rows first, so that steps run over
# adjacent memory that stays in cache.
_BLOCK = 128
_PITCH = (
    _BLOCK + 16
)  # columns whose distance is a power of two would meet in a few lines of the cache


def _rows(tile: np.ndarray, first: int, use: str) -> np.ndarray:
    part = tile[:, first : first + _BLOCK]
    block = scratch((len(part), _PITCH), part.dtype, "sequential block")[:, : part.shape[1]]
    np.copyto(block, part)
    rows = scratch(part.shape[::-1], part.dtype, use)
    np.copyto(rows, block.T)
    return rows


def scan(
    step: Callable[..., Any], state: np.ndarray, out: np.ndarray, *tiles: np.ndarray
) -> np.ndarray:
    """Write the states of a recurrence into `out`.

    Args:
        step: `step(state, *elements, result)` writes the next state, from arrays with one value per partition.
        state: [partitions], the state before the first element; it is not changed.
        out: [partitions, n]; may be one of `tiles`.
        tiles: [partitions, n] each.

    Returns:
        The last state, [partitions], valid until the next call.
    """
    last = scratch(state.shape, state.dtype, "scan state")
    np.copyto(last, state)
    for first in range(0, out.shape[1], _BLOCK):
        inputs = [_rows(tile, first, f"scan {k}") for k, tile in enumerate(tiles)]
        results = scratch(inputs[0].shape, state.dtype, "scan results")
        before = last
        for *elements, result in zip(*inputs, results, strict=True):
            step(before, *elements, result)
            before = result
        np.copyto(last, before)
        np.copyto(out[:, first : first + _BLOCK], results.T)
    return last


def fold(step: Callable[..., Any], state: np.ndarray, tile: np.ndarray) -> None:
    """Apply `step(state, element, state)` for every element of `tile`, [partitions, n]; `state` is [partitions, 1]."""
    row = state[:, 0].copy()
    for first in range(0, tile.shape[1], _BLOCK):
        for elements in _rows(tile, first, "fold"):
            step(row, elements, row)
    state[:, 0] = row
