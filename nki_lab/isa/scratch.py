"""Where does an instruction put intermediate arrays without allocating them anew each time?

A new 128x512 array costs many times the addition that fills it, so temporaries come from a pool: one flat array per
element type and use, grown to the largest size asked for, one pool per thread (two cores run in two threads).
"""

from __future__ import annotations

import threading
from math import prod

import numpy as np


class _Pool(threading.local):
    def __init__(self) -> None:
        self.arrays: dict[tuple[np.dtype, str], np.ndarray] = {}


_pool = _Pool()


def scratch(shape: tuple[int, ...], dtype: np.dtype, use: str) -> np.ndarray:
    """Return an array of `shape` with unspecified contents, valid until the same `use` asks again."""
    size = prod(shape)
    key = (dtype, use)
    flat = _pool.arrays.get(key)
    if flat is None or flat.size < size:
        flat = _pool.arrays[key] = np.empty(size, dtype)
    return flat[:size].reshape(shape)
