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
        made = self.views[(*key, shape)] = flat[:size].reshape(shape)
        return made


_pool = _Pool()


def scratch(shape: tuple[int, ...], dtype: np.dtype, use: str) -> np.ndarray:
    """Return an array of `shape` with unspecified contents, valid until the same `use` asks again."""
    # By the number of the type, whose hash costs more than all the rest.
    view = _pool.views.get((dtype.num, use, shape))
    return view if view is not None else _pool.view(shape, dtype, use)
