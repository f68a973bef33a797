"""Tests that views whose address the device computes reach the elements that NumPy's strides reach, whatever their
shape.

Each test draws shapes, views and indices, and runs a kernel; the oracle is as_strided over the bytes of the argument.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import AddressOutOfRange, OutOfBounds, ViewError
from nki_lab.runtime import jit, run
from tests.compiler.programs import failing
from tests.ir.test_tensor import STEPS, pattern_step, view_step
from tests.simulator.kernels import in_register, one, read_through
from tests.thorough import examples

DTYPES = st.sampled_from([np.float32, np.int8, np.uint16])
FEW = settings(max_examples=examples(60), deadline=None)


def table(data, least=1, most=3):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=least, max_size=most)))
    dtype = np.dtype(data.draw(DTYPES))
    count = int(np.prod(shape)) * dtype.itemsize
    return np.random.default_rng(count).integers(1, 120, count, np.uint8).view(dtype).reshape(shape)


def place(index, by):
    tile = nl.load(index)
    if by == "tile":
        return tile
    return in_register(tile)


BY = st.sampled_from(["tile", "register"])


@given(st.data())
@FEW
def test_one_value_selects_along_any_axis_of_any_view(data):
    array = table(data, least=2)
    order = data.draw(st.permutations(range(array.ndim)))
    dim = data.draw(st.integers(0, array.ndim - 1))
    moved = array.transpose(order)
    index, by = data.draw(st.integers(0, moved.shape[dim] - 1)), data.draw(BY)
    # Another axis may be cut before and after; the one that is addressed may not.
    other = data.draw(st.integers(0, array.ndim - 1))
    stop = data.draw(st.integers(1, moved.shape[other]))
    key = [slice(None)] * array.ndim
    key[other] = slice(0, stop)
    if other == dim:
        index = min(index, stop - 1)

    def kernel(x, i):
        return read_through(x.permute(order)[tuple(key)].select(dim, place(i, by)))

    wanted = moved[tuple(key)].take(index, axis=dim)
    found = run(jit(kernel), array, one(index)).value
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@given(st.data())
@FEW
def test_a_slice_of_fixed_size_starts_at_a_value(data):
    array = table(data, least=2)
    dim = data.draw(st.integers(0, array.ndim - 1))
    size = data.draw(st.integers(1, array.shape[dim]))
    start, by = data.draw(st.integers(0, array.shape[dim])), data.draw(BY)
    before = [slice(None)] * dim

    def kernel(x, i):
        return read_through(x[(*before, nl.ds(place(i, by), size))])

    if start + size > array.shape[dim]:
        with pytest.raises(AddressOutOfRange, match=f"index {start} is out of range for `x`"):
            run(jit(kernel), array, one(start))
        return
    wanted = array[(*before, slice(start, start + size))]
    found = run(jit(kernel), array, one(start)).value
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def drawn_pattern(data, shape, span):
    """Draw a pattern of non-negative strides that stays below `span` elements."""
    pairs = []
    for _ in range(data.draw(st.integers(1, 3))):
        stride, count = data.draw(st.integers(0, 6)), data.draw(st.integers(1, 4))
        if sum(s * (n - 1) for s, n in [*pairs, (stride, count)]) < span:
            pairs.append((stride, count))
    return [[s, n] for s, n in pairs] or [[1, 1]]


@given(st.data())
@FEW
def test_a_value_moves_a_pattern_by_the_stride_of_an_axis(data):
    array = table(data, least=2)
    dim, by = data.draw(st.integers(0, array.ndim - 1)), data.draw(BY)
    pattern = drawn_pattern(data, array.shape, array.size)
    span = sum(s * (n - 1) for s, n in pattern)
    offset = data.draw(st.integers(0, array.size - 1 - span))
    index = data.draw(st.integers(0, array.shape[dim]))
    step = array.strides[dim] // array.itemsize

    def kernel(x, i):
        return read_through(
            x.ap(pattern, offset=offset, scalar_offset=place(i, by), indirect_dim=dim)
        )

    start = offset + index * step
    if start + span >= array.size:
        with pytest.raises(AddressOutOfRange, match=f"index {index} is out of range for `x`"):
            run(jit(kernel), array, one(index))
        return
    strides = [s * array.itemsize for s, _ in pattern]
    wanted = as_strided(array.reshape(-1)[start:], [n for _, n in pattern], strides)
    found = run(jit(kernel), array, one(index)).value
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


@given(st.data())
@FEW
def test_a_value_moves_a_pattern_on_chip_along_a_free_axis(data):
    rows, free = 8, data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=2))
    array = np.random.default_rng(3).standard_normal((rows, *free)).astype(np.float32)
    row = int(np.prod(free))
    pattern = drawn_pattern(data, array.shape, row)
    span = sum(s * (n - 1) for s, n in pattern)
    column = data.draw(st.integers(0, row - 1 - span))
    dim = data.draw(st.integers(1, len(free)))
    index, by = data.draw(st.integers(0, 4)), data.draw(BY)
    step = array.strides[dim] // array.itemsize
    counts = [n for _, n in pattern]

    def kernel(x, i):
        tile = nl.load(x)
        view = tile.ap(
            [[row, rows], *pattern], offset=column, scalar_offset=place(i, by), indirect_dim=dim
        )
        moved = nl.ndarray((rows, *counts), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(moved, view)
        return read_through(moved)

    start = column + index * step
    if start + span >= row:
        with pytest.raises(AddressOutOfRange, match=f"tensor_copy: index {index} is out of range"):
            run(jit(kernel), array, one(index))
        return
    strides = [row * 4, *(s * 4 for s, _ in pattern)]
    wanted = as_strided(array.reshape(-1)[start:], (rows, *counts), strides)
    np.testing.assert_array_equal(run(jit(kernel), array, one(index)).value, wanted)


@given(st.data())
@FEW
def test_a_tile_of_indices_chooses_the_rows_of_any_view(data):
    array = table(data, least=2)
    order = data.draw(st.permutations(range(array.ndim)))
    moved = array.transpose(order)
    stop = data.draw(st.integers(1, moved.shape[0]))
    cut = moved[:stop]
    count = data.draw(st.integers(1, 12))
    indices = np.array(
        data.draw(st.lists(st.integers(0, stop - 1), min_size=count, max_size=count)), np.int32
    )[:, None]

    def kernel(x, i):
        return read_through(x.permute(order)[0:stop].vector_select(0, nl.load(i)))

    found = run(jit(kernel), array, indices).value
    np.testing.assert_array_equal(found, cut[indices[:, 0]])


@given(st.data())
@FEW
def test_a_pattern_takes_its_rows_from_a_tile_of_indices(data):
    array = table(data, least=2)
    row = array.size // array.shape[0]
    pattern = drawn_pattern(data, array.shape[1:], row)
    span = sum(s * (n - 1) for s, n in pattern)
    offset = data.draw(st.integers(0, row - 1 - span))
    count = data.draw(st.integers(1, 9))
    indices = np.array(
        data.draw(st.lists(st.integers(0, array.shape[0] - 1), min_size=count, max_size=count)),
        np.uint32,
    )[:, None]
    ignored = data.draw(st.integers(0, 9))  # the leading stride: rows of the base tensor count

    def kernel(x, i):
        view = x.ap([[ignored, count], *pattern], offset=offset, vector_offset=nl.load(i))
        return read_through(view)

    strides = [s * array.itemsize for s, _ in pattern]
    flat = array.reshape(-1)
    wanted = np.stack([
        as_strided(flat[k * row + offset :], [n for _, n in pattern], strides)
        for k in indices[:, 0].astype(int)
    ])  # fmt: skip
    np.testing.assert_array_equal(run(jit(kernel), array, indices).value, wanted)


@given(st.data())
@FEW
def test_offsets_gather_and_scatter_elements_of_a_slice(data):
    groups = data.draw(st.integers(1, 3))
    columns = data.draw(st.integers(2, 3))
    width, first = 16 * columns, data.draw(st.integers(0, 5))
    free = first + width + data.draw(st.integers(0, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.standard_normal((16 * groups, free)).astype(np.float32)
    # Of each group the offsets are a permutation, so that a scatter writes no element twice.
    index = np.concatenate(
        [rng.permutation(width).reshape(columns, 16).T for _ in range(groups)]
    ).astype(np.uint16)
    count = data.draw(st.integers(1, width))

    def kernel(x, index):
        part = nl.load(x)[:, first : first + width]
        offsets = nl.load(index)
        gathered = nl.ndarray((16 * groups, count), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(gathered, part.indirect(offsets, count))
        scattered = nl.zeros((16 * groups, free), dtype=x.dtype)
        nisa.tensor_copy(scattered[:, first : first + width].indirect(offsets, count), gathered)
        return read_through(gathered), read_through(scattered)

    # Offset i of a group is index[i % 16, i // 16] of its partitions.
    listed = index.reshape(groups, 16, columns).transpose(0, 2, 1).reshape(groups, -1)[:, :count]
    offsets = np.repeat(listed, 16, axis=0).astype(int)
    wanted = np.take_along_axis(x[:, first : first + width], offsets, axis=1)
    put = np.zeros_like(x)
    np.put_along_axis(put[:, first : first + width], offsets, wanted, axis=1)
    gathered, scattered = run(jit(kernel), x, index, target="trn3").value
    np.testing.assert_array_equal(gathered, wanted)
    np.testing.assert_array_equal(scattered, put)


AFTERWARDS = [s for s in STEPS if s not in (view_step, pattern_step)]


def row_of(view):
    """Copy a view of HBM, whatever its axes, into one row of a result."""
    tile = nl.ndarray((1, view.size), dtype=view.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, view)
    out = nl.ndarray((1, view.size), dtype=view.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def after_steps(data, view, known, may_refuse):
    for step in data.draw(st.lists(st.sampled_from(AFTERWARDS), max_size=4)):
        try:
            view, known = step(data, view, known)
        except ViewError:
            assert may_refuse
        assert view.shape == known.shape
    return view, known


@pytest.mark.parametrize("by", ["tile", "register", "rows"])
@given(data=st.data())
@FEW
def test_views_may_follow_once_the_device_has_chosen(by, data):
    """Each step is taken with NumPy, too; one that axis 0 of chosen rows does not allow is left out."""
    array = table(data, least=2)
    dim = 0 if by == "rows" else data.draw(st.integers(0, array.ndim - 1))
    size = array.shape[dim]
    count = data.draw(st.integers(1, 4)) if by == "rows" else 1
    index = np.array(
        data.draw(st.lists(st.integers(0, size - 1), min_size=count, max_size=count)), np.int32
    )[:, None]
    wanted = []

    def kernel(x, i):
        if by == "rows":
            view, known = x.vector_select(0, nl.load(i)), array[index[:, 0]]
        else:
            view, known = x.select(dim, place(i, by)), array.take(index[0, 0], axis=dim)
        view, known = after_steps(data, view, known, may_refuse=by == "rows")
        wanted.append(known)
        return row_of(view)

    found = run(jit(kernel), array, index).value
    np.testing.assert_array_equal(found[0], wanted[0].reshape(-1))


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t[:, 0:40:2],
        lambda t: t[0:32:2],
        lambda t: t.reshape_dim(1, (4, 10)).permute((0, 2, 1)),
        lambda t: t.reshape_dim(1, (4, 10))[:, :, 0:5],
    ],
)
def test_offsets_into_a_view_with_steps_are_refused(view):
    def kernel(x, index):
        part = view(nl.load(x))
        out = nl.ndarray((part.shape[0], 16), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(out, part.indirect(nl.load(index)[0 : part.shape[0]]))
        return read_through(out)

    x = np.zeros((32, 40), np.float32)
    error = failing(kernel, x, np.zeros((32, 1), np.uint16), error=ViewError)
    assert "this view has a step" in error.message


def test_a_pattern_whose_start_lies_outside_is_refused_while_tracing():
    def kernel(x, i):
        return read_through(x.ap([[1, 4]], offset=22, scalar_offset=nl.load(i)))

    error = failing(kernel, np.zeros((4, 6), np.float32), one(0), error=OutOfBounds)
    assert "offset=22" in error.message
