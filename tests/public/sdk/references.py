"""Inputs of public kernels, and what must come out, by NumPy in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np


def signed(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return normally distributed numbers of either sign, or integers of the whole range."""
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if kind.kind in "iu":
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        return rng.integers(low, high, shape, endpoint=True).astype(kind)
    return rng.standard_normal(shape).astype(kind)


def moved(argument: Any) -> Any:
    """Return an argument that shares no memory with the reference's."""
    return argument.copy() if isinstance(argument, np.ndarray) else argument


def selective_scan(
    rng: np.random.Generator, batch: int, channels: int, states: int, length: int
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return delta, u, A, B, C of a state-space model, and its output: h = exp(delta A) h + delta u B, y = C h."""
    f4 = "float32"
    delta = np.abs(signed(rng, (batch, channels, length), f4)) * np.float32(0.3)
    u = signed(rng, (batch, channels, length), f4)
    a = -np.abs(signed(rng, (channels, states), f4))
    b, c = signed(rng, (batch, states, length), f4), signed(rng, (batch, states, length), f4)
    wide = [x.astype(np.float64) for x in (delta, u, a, b, c)]
    state = np.zeros((batch, channels, states))
    y = np.empty((batch, channels, length))
    for t in range(length):
        step, given = wide[0][:, :, t, None], wide[1][:, :, t, None]
        state = np.exp(step * wide[2]) * state + step * given * wide[3][:, None, :, t]
        y[:, :, t] = (state * wide[4][:, None, :, t]).sum(axis=-1)
    return (delta, u, a, b, c), y
