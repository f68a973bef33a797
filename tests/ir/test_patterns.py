"""Tests that explicit patterns, and rearrangements that split and merge, address what NumPy's strides do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from nki_lab.dtypes import bfloat16, float32, uint8
from nki_lab.errors import OutOfBounds, ViewError
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF
from tests.ir.memory import elements, memory_of, tensor
from tests.thorough import examples

DTYPES = st.sampled_from([float32, bfloat16, uint8])


def addresses(pattern, offset):
    """Return the place of every element of a pattern, by the definition of strides."""
    found = np.array(offset)
    for stride, count in pattern:
        found = np.add.outer(found, np.arange(count) * stride)
    return found


@given(st.data())
@settings(max_examples=examples(300))
def test_a_pattern_in_hbm_is_as_strided_over_the_storage(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    held, asked = data.draw(DTYPES), data.draw(DTYPES)
    memory = memory_of(shape, held)
    pairs = st.tuples(st.integers(-4, 8), st.integers(1, 4)).map(list)
    pattern = data.draw(st.lists(pairs, min_size=1, max_size=4))
    base = tensor(shape, PRIVATE_HBM, held)
    view = base[data.draw(st.integers(0, shape[0] - 1)) :]
    offset = data.draw(st.none() | st.integers(-3, 12))
    size, whole = memory.size * held.itemsize // asked.itemsize, memory.nbytes
    start = view.offset * held.itemsize
    if start % asked.itemsize or whole % asked.itemsize:
        return  # the start of the view is between two elements; that error has its own test
    places = addresses(pattern, start // asked.itemsize + (offset or 0))
    if places.min() < 0 or places.max() >= size:
        with pytest.raises(OutOfBounds):
            view.ap(pattern, offset=offset, dtype=asked)
        return
    found = view.ap(pattern, offset=offset, dtype=asked)
    flat = memory.reshape(-1).view(np.uint8).view(asked.np)
    assert found.shape == tuple(count for _, count in pattern)
    assert elements(found, memory).tobytes() == flat[places].tobytes()
    steps = [stride * asked.itemsize for stride, _ in pattern]
    at = start // asked.itemsize + (offset or 0)
    assert as_strided(flat[at:], found.shape, steps).tobytes() == flat[places].tobytes()


@given(st.data())
@settings(max_examples=examples(300))
def test_a_pattern_on_chip_stays_within_each_partition(data):
    rows, row = data.draw(st.sampled_from([2, 8])), data.draw(st.integers(1, 9))
    memory = memory_of((rows, row), float32)
    view = tensor((rows, row), data.draw(st.sampled_from([SBUF, PSUM])))
    first = data.draw(st.integers(0, rows - 1))
    count = data.draw(st.integers(1, rows))
    pairs = st.tuples(st.integers(-3, 5), st.integers(1, 4)).map(list)
    free = data.draw(st.lists(pairs, min_size=1, max_size=3))
    column = data.draw(st.integers(0, row - 1))
    pattern, offset = [[row, count], *free], first * row + column
    columns = addresses(free, column)
    if columns.min() < 0 or columns.max() >= row or first + count > rows:
        with pytest.raises(OutOfBounds):
            view.ap(pattern, offset=offset)
        return
    found = view.ap(pattern, offset=offset)
    wanted = memory[first : first + count][:, columns]
    assert elements(found, memory).tobytes() == wanted.tobytes()


def grouped(data, names):
    """Draw the names in groups, as einops writes them: a name alone, or a tuple of names."""
    groups = []
    while names:
        size = data.draw(st.integers(1, len(names)))
        taken, names = names[:size], names[size:]
        alone = size == 1 and data.draw(st.booleans())
        groups.append(taken[0] if alone else tuple(taken))
    return tuple(groups)


def sizes_of(groups, sizes):
    return tuple(
        int(np.prod([sizes[n] for n in ((g,) if isinstance(g, str) else g)])) for g in groups
    )


@given(st.data())
@settings(max_examples=examples(300))
def test_rearrange_is_reshape_transpose_reshape(data):
    names = [f"n{k}" for k in range(data.draw(st.integers(1, 4)))]
    sizes = {n: data.draw(st.integers(1, 4)) for n in names}
    source = grouped(data, names)
    order = data.draw(st.permutations(names))
    target = grouped(data, list(order))
    memory = memory_of(sizes_of(source, sizes), float32)
    view = tensor(memory.shape, PRIVATE_HBM)
    # One size of each group may be left to be found.
    fixed = {}
    for group in source:
        inside = () if isinstance(group, str) else group
        left_out = data.draw(st.integers(0, len(inside))) if inside else 0
        fixed |= {n: sizes[n] for k, n in enumerate(inside) if k != left_out}
    split = memory.reshape([sizes[n] for n in names])
    moved = split.transpose([names.index(n) for n in order])
    try:
        wanted = np.reshape(moved, sizes_of(target, sizes), copy=False)
    except ValueError:
        with pytest.raises(ViewError, match="not contiguous"):
            view.rearrange(source, target, fixed)
        return
    found = view.rearrange(source, target, fixed)
    assert found.shape == wanted.shape
    assert elements(found, memory).tobytes() == wanted.tobytes()


@given(st.data())
@settings(max_examples=examples(200))
def test_an_ellipsis_stands_for_the_axes_between(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)))
    memory = memory_of(shape, float32)
    view = tensor(shape, PRIVATE_HBM)
    before = data.draw(st.integers(0, len(shape) - 1))
    after = data.draw(st.integers(0, len(shape) - 1 - before))
    front = [data.draw(st.integers(-n, n - 1)) for n in shape[:before]]
    back = [slice(0, data.draw(st.integers(1, n))) for n in shape[len(shape) - after :]]
    key = (*front, ..., *back)
    wanted = memory[key]
    found = view[key]
    assert found.shape == wanted.shape
    assert elements(found, memory).tobytes() == wanted.tobytes()


def test_an_axis_may_be_counted_from_the_end():
    t = tensor((4, 2, 3, 5), PRIVATE_HBM)
    assert t.select(-1, 2).shape == t.select(3, 2).shape == (4, 2, 3)
    assert t.slice(-2, 0, 2).shape == (4, 2, 2, 5)
    assert t.flatten_dims(-3, -2).shape == (4, 6, 5)
    assert t.reshape_dim(-1, (5, 1)).shape == (4, 2, 3, 5, 1)
    with pytest.raises(
        ViewError, match="need each of 0 to 3 once"
    ):  # a permutation of range(ndim), says the page
        t.permute((0, -1, 1, 2))
