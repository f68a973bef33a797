"""Compares what random keys and masks select of a tensor with what NumPy selects of an array.

`make fuzz` looks at many more of them: FUZZ_EXAMPLES says how many, FUZZ_SEED which.
"""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from nki_lab.beta1.index import arange, mgrid
from nki_lab.beta1.indexing import accessed, part_of, positions
from nki_lab.beta1.masks import boxes
from nki_lab.dtypes import float32
from nki_lab.errors.beta1 import BadIndexing, OutsideTensor
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor, whole_view
from nki_lab.targets.spaces import SBUF, SHARED_HBM
from tests.beta1.expressions import Pair, axes, expression, mask
from tests.beta1.test_random_index import many

SHAPES = st.lists(st.integers(1, 6), min_size=2, max_size=4).map(tuple)


@dataclass
class Whole:
    """All of a tensor, as tiles are indexed."""

    view: NkiTensor
    block_axes: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def on_chip(self) -> bool:
        return self.view.storage.on_chip

    def describe(self) -> str:
        return self.view.describe()


def tensor(shape: tuple[int, ...], buffer=SHARED_HBM) -> Whole:
    return Whole(whole_view(Storage(0, "t", shape, float32, buffer)))


def elements(view: NkiTensor) -> np.ndarray:
    """Return the number of each element of a view, counted through its tensor."""
    place = np.array(view.offset)
    for d, (n, stride) in enumerate(zip(view.shape, view.strides, strict=True)):
        place = place + (np.arange(n) * stride).reshape((-1,) + (1,) * (view.ndim - d - 1))
    return place


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape)


def whole(shape):
    return tuple((0, n) for n in shape)


@st.composite
def basic_keys(draw, shape):
    key: list = []
    for n in shape[: draw(st.integers(1, len(shape)))]:
        if draw(st.integers(0, 5)) == 0:
            key.append(None)
        if draw(st.booleans()):
            key.append(draw(st.integers(-n, n - 1)))
            continue
        first = draw(st.integers(0, n - 1))
        stop = draw(st.integers(first + 1, n))
        ends = [None if first == 0 else first, None if stop == n else stop]
        if draw(st.booleans()) and first:
            ends[0] = first - n
        if draw(st.booleans()) and stop < n:
            ends[1] = stop - n
        key.append(slice(*ends, draw(st.sampled_from([None, 1, 2]))))
    if draw(st.integers(0, 3)) == 0:
        missing = len(shape) - sum(k is not None for k in key)
        cut = draw(st.integers(0, len(key)))
        if missing and all(k is None for k in key[cut:]):
            key.insert(cut, Ellipsis)
    return tuple(key) if len(key) != 1 or draw(st.booleans()) else key[0]


@many
@given(st.data())
def test_basic_indices_select_what_numpy_selects(data):
    shape = data.draw(SHAPES)
    buffer = data.draw(st.sampled_from([SHARED_HBM, SBUF]))
    tile = tensor(shape, buffer)
    key = data.draw(basic_keys(shape))
    note(f"{shape} in {buffer.name}: {key}")
    expected = numbered(shape)[key]
    indices, grid, by = positions(tile, key)
    assert by is None
    for axis, index in enumerate(indices):
        places = np.indices(shape)[axis][key]
        np.testing.assert_array_equal(np.broadcast_to(index.values(), grid).ravel(), places.ravel())
    entries = key if isinstance(key, tuple) else (key,)
    if tile.on_chip and entries[0] is None:
        return  # an axis before the partitions
    if tile.on_chip and indices[0].coef[0] > 1:
        with pytest.raises(BadIndexing, match="its partitions are taken in steps of 2"):
            accessed(tile.view, indices, whole(grid))
        return
    for _ in range(2):  # made anew, and remembered
        part = part_of(tile, tile.view, key)
        assert part is not None or Ellipsis in entries
        part = part or accessed(tile.view, indices, whole(grid))
        np.testing.assert_array_equal(elements(part).ravel(), expected.ravel())
        if tile.on_chip:
            assert part.ndim >= 2
            assert (
                part.strides[0] in (tile.view.strides[0], tile.view.strides[0] * 2)
                or part.shape[0] == 1
            )
        elif expected.ndim:
            assert part.shape == expected.shape


def selection(
    draw, shape: tuple[int, ...], rank: int, on_chip: bool
) -> tuple[list[Pair], tuple[int, ...]]:
    """Return index tensors for each axis of a tensor, none of them negative, and the shape that they reach."""
    pairs = axes(draw, shape)
    picked = []
    for axis in range(rank):
        if on_chip and axis == 0:  # adjacent partitions
            line = arange(shape[0])[(slice(None),) + (None,) * (len(shape) - 1)]
            pair = Pair(line, line.values(), "rows")
        elif draw(st.integers(0, 4)) == 0:
            number = draw(st.integers(0, 3))
            pair = Pair(number, np.array(number), str(number))
        else:
            pair = expression(draw, shape, pairs[1:] if on_chip else pairs)
            pair = pair.with_(lambda a, b: a - b, int(pair.array.min()), "({} - {})")
        picked.append(pair)
    return picked, tuple(int(p.array.max()) + 1 for p in picked)


@many
@given(st.data())
def test_index_tensors_select_what_numpy_selects(data):
    shape = data.draw(SHAPES)
    on_chip = data.draw(st.booleans())
    picked, reach = selection(data.draw, shape, data.draw(st.integers(2, 3)), on_chip)
    if all(isinstance(p.ours, int) for p in picked) or np.prod(reach) > 10**6:
        return
    note(" , ".join(p.text for p in picked))
    size = tuple(n + data.draw(st.integers(0, 2)) for n in reach)
    tile = tensor(size, SBUF if on_chip else SHARED_HBM)
    key = tuple(p.ours for p in picked)
    arrays = tuple(p.array for p in picked)
    expected = numbered(size)[arrays]
    indices, grid, _ = positions(tile, key)
    assert grid == expected.shape
    view = accessed(tile.view, indices, whole(grid))
    np.testing.assert_array_equal(elements(view), expected)
    for _ in range(2):
        part = part_of(tile, tile.view, key)
        assert part is not None
        np.testing.assert_array_equal(elements(part), expected)


@many
@given(st.data())
def test_a_mask_keeps_the_accesses_that_numpy_keeps(data):
    """Positions outside the tensor are an error only where the mask holds."""
    shape = data.draw(SHAPES)
    picked, reach = selection(data.draw, shape, 2, False)
    if all(isinstance(p.ours, int) for p in picked) or np.prod(reach) > 10**6:
        return
    size = tuple(data.draw(st.integers(max(1, n - 3), n)) for n in reach)
    tile = tensor(size)
    arrays = np.broadcast_arrays(*[p.array for p in picked])
    indices, grid, _ = positions(tile, tuple(p.ours for p in picked))
    condition = mask(data.draw, shape, axes(data.draw, shape))
    if len(grid) != len(condition.array.shape) or grid != shape:
        return
    note(condition.text)
    wanted = np.broadcast_to(condition.array, grid)
    inside = np.logical_and.reduce([(a >= 0) & (a < n) for a, n in zip(arrays, size, strict=True)])
    seen = np.full(grid, -1)
    try:
        for box in boxes(condition.ours, grid, limit=10_000):
            seen[tuple(slice(*ends) for ends in box)] = elements(accessed(tile.view, indices, box))
    except OutsideTensor:
        refused = True
    else:
        refused = False
    assert refused == (wanted & ~inside).any()
    if refused:
        return
    expected = np.where(wanted, numbered(size)[tuple(np.where(inside, a, 0) for a in arrays)], -1)
    np.testing.assert_array_equal(seen, expected)


def test_the_range_that_an_error_names_is_that_of_the_access():
    """(nki/api/nki.errors.rst, err_tensor_access_out_of_bound)"""
    tile = tensor((128, 4000))
    grid = mgrid[0:128, 0:512]
    indices, shape, _ = positions(tile, (grid.p, 7 * 512 + grid.x))
    with pytest.raises(OutsideTensor) as raised:
        accessed(tile.view, indices, whole(shape))
    assert raised.value.message == (
        "out-of-bound access for tensor `t` on dimension 1: index range [3584, 4095] exceed dimension size of 4000"
    )
    assert "err_tensor_access_out_of_bound" in raised.value.notes[1]
    (box,) = boxes(7 * 512 + grid.x < 4000, shape)
    assert accessed(tile.view, indices, box).shape == (128, 416)
