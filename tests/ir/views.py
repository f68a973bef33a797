"""Views for property tests of the IR, and the bytes that each one touches.

Views come from chains of slices, selections, splits, merges, permutations, repetitions, reinterpretations and explicit
patterns. Their bytes are enumerated one by one, from nothing but shape, strides and offset.
"""

import numpy as np
from hypothesis import strategies as st

from nki_lab.dtypes import bfloat16, float32, uint8
from nki_lab.errors import NkiError
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF


def byte_numbers(view):
    """Return the numbers of the bytes of every element: the view's shape and one axis more."""
    size = view.dtype.itemsize
    numbers = np.full((*view.shape, size), view.offset * size) + np.arange(size)
    for axis, (count, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        steps = np.arange(count) * stride * size
        numbers = numbers + steps.reshape([-1 if a == axis else 1 for a in range(view.ndim + 1)])
    return numbers


def touched(view):
    """Return a mask over the bytes of the view's storage: True where the view has an element."""
    mask = np.zeros(view.storage.nbytes, bool)
    mask[byte_numbers(view).reshape(-1)] = True
    return mask


@st.composite
def storages(draw):
    """Draw a small storage of any memory."""
    buffer = draw(st.sampled_from((SBUF, PSUM, PRIVATE_HBM)))
    shape = draw(st.lists(st.sampled_from((1, 2, 3, 4, 6)), min_size=2, max_size=3))
    dtype = draw(st.sampled_from((float32, bfloat16, uint8)))
    return Storage(0, "t", tuple(shape), dtype, buffer)


@st.composite
def views(draw, storage):
    """Draw a view of `storage`: a chain of up to four steps, those that its layout refuses left out."""
    view = whole_view(storage)
    for step in draw(st.lists(st.sampled_from(STEPS), max_size=4)):
        try:
            moved = step(draw, view)
        except NkiError:
            continue
        if (
            type(moved) is NkiTensor
        ):  # a pattern that leaves its storage is an error where it is used
            view = moved
    return view


def _axis(draw, view):
    return draw(st.integers(0, view.ndim - 1))


def _slice(draw, view):
    axis = _axis(draw, view)
    size = view.shape[axis]
    start = draw(st.integers(0, size - 1))
    stop = draw(st.integers(start + 1, size))
    return view.slice(axis, start, stop, draw(st.sampled_from((1, 1, 2, 3))))


def _select(draw, view):
    axis = _axis(draw, view)
    return view.select(axis, draw(st.integers(0, view.shape[axis] - 1)))


def _permute(draw, view):
    return view.permute(draw(st.permutations(range(view.ndim))))


def _split(draw, view):
    return view.reshape_dim(_axis(draw, view), (draw(st.sampled_from((2, 3))), -1))


def _merge(draw, view):
    start = _axis(draw, view)
    return view.flatten_dims(start, draw(st.integers(start, view.ndim - 1)))


def _repeat(draw, view):
    return view.broadcast(_axis(draw, view), draw(st.integers(2, 3)))


def _reinterpret(draw, view):
    return view.view(draw(st.sampled_from((float32, bfloat16, uint8))))


def _pattern(draw, view):
    inner = st.tuples(st.integers(-3, 6), st.integers(1, 4))
    free = draw(st.lists(inner, min_size=1, max_size=2))
    row = view.storage.row_bytes // view.dtype.itemsize
    outer = [(row, draw(st.integers(1, view.storage.partitions)))] if view.storage.on_chip else []
    return view.ap([*outer, *free], offset=draw(st.integers(0, 8)))


STEPS = (
    _slice,
    _slice,
    _select,
    _permute,
    _split,
    _merge,
    _repeat,
    _reinterpret,
    _reinterpret,
    _pattern,
)
