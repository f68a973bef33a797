"""Shows tests of views the bytes behind a tensor."""

import numpy as np
from numpy.lib.stride_tricks import as_strided

from nki_lab.dtypes import float32
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import whole_view
from nki_lab.targets.spaces import SBUF


def tensor(shape, buffer=SBUF, dtype=float32):
    return whole_view(Storage(0, "t", tuple(shape), dtype, buffer))


def elements(view, memory):
    """Read a view from the bytes of its storage, by nothing but its shape, strides and offset."""
    flat = memory.reshape(-1).view(np.uint8).view(view.dtype.np)
    steps = [s * view.dtype.itemsize for s in view.strides]
    return as_strided(flat[view.offset :], view.shape, steps)


def memory_of(shape, dtype):
    count = int(np.prod(shape)) * dtype.itemsize
    return np.random.default_rng(count).integers(0, 256, count, np.uint8).view(dtype.np).reshape(shape)  # fmt: skip
