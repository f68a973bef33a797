"""How are elements along the free axes worked through one after the other, in all partitions at once?

A step sees one element of every partition. Blocks of columns are copied to rows first, so that steps run over adjacent
memory that stays in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lab.isa.scratch import scratch

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
