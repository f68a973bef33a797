"""Tests that Coverage knows exactly which bytes were written, whatever the views and dtypes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.dtypes import bfloat16, float32, uint8
from nki_lab.ir.tensor.coverage import Coverage, Written, covers_once
from nki_lab.targets.spaces import PRIVATE_HBM
from tests.ir.memory import elements, tensor
from tests.ir.views import byte_numbers, storages, touched, views
from tests.thorough import examples


@st.composite
def histories(draw):
    """Draw a storage and what happens to it: writes, and questions about other views."""
    storage = draw(storages())
    events = draw(st.lists(st.tuples(st.booleans(), views(storage)), min_size=1, max_size=8))
    return storage, events


@settings(max_examples=examples(500))
@given(histories())
def test_coverage_equals_a_mask_of_bytes(history):
    storage, events = history
    coverage = Coverage(storage)
    mask = np.zeros(storage.nbytes, bool)
    for is_write, view in events:
        if is_write:
            coverage.write(view)
            mask |= touched(view)
            continue
        known = mask[byte_numbers(view)].all(axis=-1)
        any_byte = (mask & touched(view)).any()
        expected = Written.ALL if known.all() else Written.SOME if any_byte else Written.NOTHING
        assert coverage.written(view) is expected
        assert coverage.missing(view) == known.size - known.sum()
        if not known.all():
            missing = coverage.first_missing(view)
            assert missing == tuple(np.argwhere(~known)[0])


@settings(max_examples=examples(500))
@given(histories())
def test_covers_once_is_true_only_for_a_dense_walk(history):
    _, events = history
    for _, view in events:
        size = view.dtype.itemsize
        distinct = touched(view).sum() // size
        where = np.flatnonzero(touched(view))
        dense = where[-1] - where[0] + 1 == len(where) == view.size * size
        if covers_once(view):
            assert dense and distinct == view.size


def test_half_written_elements_are_not_written():
    t = tensor((4, 6), PRIVATE_HBM, float32)
    coverage = Coverage(t.storage)
    coverage.write(t.view(bfloat16)[:, 0:3])  # one and a half elements of each row
    assert coverage.written(t[:, 0:1]) is Written.ALL
    assert coverage.written(t[:, 1:2]) is Written.SOME
    assert coverage.written(t[:, 2:]) is Written.NOTHING
    assert coverage.missing(t) == 4 * 5
    assert coverage.first_missing(t) == (0, 1)


def test_parts_that_make_up_the_whole_are_the_whole():
    t = tensor((8, 16))
    coverage = Coverage(t.storage)
    for column in range(0, 16, 2):
        assert coverage.written(t) is (Written.SOME if column else Written.NOTHING)
        coverage.write(t[:, column : column + 2])
    assert coverage.written(t) is Written.ALL
    assert coverage.written(t.view(uint8)) is Written.ALL
    assert coverage.missing(t) == 0


def test_a_repeated_view_is_one_write():
    t = tensor((2, 3, 1))
    coverage = Coverage(t.storage)
    repeated = t[:, :, 0:1].broadcast(2, 2)
    coverage.write(repeated)
    assert coverage.written(t) is Written.ALL
    assert elements(repeated, np.arange(6, dtype=np.float32)).tolist() == [
        [[0, 0], [1, 1], [2, 2]],
        [[3, 3], [4, 4], [5, 5]],
    ]


def grid(shape, rows, columns):
    """Return a tensor of 12 x 20 elements and the blocks it falls into."""
    t = tensor(shape, PRIVATE_HBM, float32)
    leading = [t[b] for b in range(shape[0])] if len(shape) > 2 else [t]
    blocks = [
        part[r : r + rows, c : c + columns]
        for part in leading
        for r in range(0, shape[-2], rows)
        for c in range(0, shape[-1], columns)
    ]
    return t, blocks


@pytest.mark.parametrize("left_out", [None, 0, 3, 7])
@pytest.mark.parametrize("shape", [(12, 20), (2, 6, 20)], ids=str)
def test_blocks_that_make_up_a_tensor_are_told_from_all_but_one(shape, left_out):
    """The result of a tiled kernel is seen to be written without a mask of its elements."""
    t, blocks = grid(shape, 3, 10)
    coverage = Coverage(t.storage)
    for n, block in enumerate(blocks):
        if n != left_out:
            coverage.write(block)
    assert coverage.written(t) is (Written.ALL if left_out is None else Written.SOME)
    assert (coverage._mask is None) == (left_out is None)
    assert coverage.missing(t) == (0 if left_out is None else 30)


def test_blocks_that_overlap_may_leave_some_out():
    t = tensor((4, 6), PRIVATE_HBM, float32)
    coverage = Coverage(t.storage)
    for block in (t[0:3, 0:4], t[0:4, 2:6], t[3:4, 0:1]):
        coverage.write(block)
    assert coverage.written(t) is Written.SOME
    assert coverage.first_missing(t) == (3, 1)


def test_an_assignment_writes_some_elements_and_takes_back_others():
    t = tensor((4, 6))
    coverage = Coverage(t.storage)
    coverage.write(t)
    assert coverage.written(t) is Written.ALL
    marks = np.array([[True, False, True], [False, True, True]])
    coverage.assign(t[1:3, 0:6:2], marks)
    expected = np.ones((4, 6), bool)
    expected[1:3, 0:6:2] = marks
    np.testing.assert_array_equal(coverage.elements(t), expected)
    assert coverage.written(t) is Written.SOME and coverage.missing(t) == 2
    coverage.assign(t[1:3], np.ones((2, 6), bool))
    assert coverage.written(t) is Written.ALL
    np.testing.assert_array_equal(coverage.elements(t), np.ones((4, 6), bool))
