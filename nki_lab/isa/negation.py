"""How does an array change its sign?

np.negative of 32- and 64-bit elements gives wrong values, in NumPy 2.4 at least, where the elements of the array lie 16
or 64 bytes apart and those of the result have a step, too: it takes neighbours from the memory between them. No module
of this package may use it.
"""

from __future__ import annotations

import numpy as np


def change_sign(array: np.ndarray, out: np.ndarray) -> None:
    """Write `-array` into `out`, which may be `array` itself; integers wrap around, NaN stays NaN."""
    if array.dtype.kind in "iu":
        np.subtract(0, array, out=out)
    else:
        np.multiply(array, -1, out=out)  # exact, and -0.0 where `array` is 0.0
