"""Tests what authors write with nl.arange and nl.mgrid, and what is refused of it."""

import operator

import numpy as np
import pytest

from nki_lab.beta1.index import arange, mgrid
from nki_lab.errors.beta1 import BadMask, IndexExpression

rows, cols = arange(6)[:, None], arange(4)[None, :]


def test_arange_takes_what_range_takes():
    np.testing.assert_array_equal(arange(3).values(), [0, 1, 2])
    np.testing.assert_array_equal(arange(5, 8).values(), [5, 6, 7])
    np.testing.assert_array_equal(arange(5, 12, 3).values(), [5, 8, 11])
    np.testing.assert_array_equal(arange(np.int32(2), np.int64(4)).values(), [2, 3])


def test_mgrid_is_dense_as_that_of_numpy():
    """(nki/language/__init__.py, mgrid: "Same as NumPy mgrid")"""
    p, x = mgrid[2:8, 0:12:3]
    expected = np.mgrid[2:8, 0:12:3]
    np.testing.assert_array_equal(p.values(), expected[0])
    np.testing.assert_array_equal(x.values(), expected[1])
    grid = mgrid[:2, :3, :4, :5]
    for ours, array in zip((grid.p, grid.x, grid.y, grid.z), np.mgrid[:2, :3, :4, :5], strict=True):
        np.testing.assert_array_equal(ours.values(), array)
    assert len(mgrid[0:2, 0:3, 0:1, 0:1, 0:4]) == 5


def test_the_documented_reach_of_an_expression():
    """(nki/api/nki.errors.rst, err_tensor_access_out_of_bound: index range [0, 4095])"""
    tile = mgrid[0:128, 0:512]
    reached = [(i * 512 + tile.x).range(((0, 128), (0, 512))) for i in range(8)]
    assert (reached[0][0], reached[-1][1]) == (0, 4095)


def test_quotients_and_remainders_are_exact_where_they_are_affine():
    np.testing.assert_array_equal(((4 * rows + 7) // 4).values(), (4 * rows.values() + 7) // 4)
    np.testing.assert_array_equal(((4 * rows + 7) % 4).values(), (4 * rows.values() + 7) % 4)
    assert ((rows + 8) // 16).range(((0, 6), (0, 1))) == (0, 0)
    np.testing.assert_array_equal(((rows - 9) % 16).values(), (rows.values() - 9) % 16)
    assert ((-4 * rows) // -2).values()[3, 0] == 6


def test_the_element_of_an_index_tensor_is_an_integer():
    assert type(arange(3, 9)[2]) is int
    assert arange(3, 9)[2] == 5
    assert arange(3, 9)[-1] == 8


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: arange(), "nl.arange takes 1 to 3 integers; found 0 arguments"),
        (lambda: arange(0), "nl.arange from 0 to 0 in steps of 1 has no elements"),
        (lambda: arange(3, 9, 0), "nl.arange from 3 to 9 in steps of 0 has no elements"),
        (lambda: arange(2.0), "nl.arange takes integers known while the kernel is traced; found float 2.0"),
        (lambda: mgrid[0:128, 5], "nl.mgrid takes slices with an end; found 5"),
        (lambda: mgrid[0:128, 3:], "nl.mgrid takes slices with an end; found 3:"),
        (lambda: mgrid[0:2, 0:3].y, "field y of an nl.mgrid with 2 axes"),
        (lambda: rows * cols, "the product of two index tensors is not affine"),
        (lambda: rows // 4, "an index tensor // 4 is not affine"),
        (lambda: (rows + cols) % 5, "an index tensor % 5 is not affine"),
        (lambda: rows // 0, "an index tensor divided by 0"),
        (lambda: rows % 0, "an index tensor divided by 0"),
        (lambda: rows / 2, "this operation of an index tensor is not affine"),
        (lambda: 2**rows, "this operation of an index tensor is not affine"),
        (lambda: rows + 0.5, "an index tensor takes integers as operands of `+`; found float 0.5"),
        (lambda: rows - "a", "an index tensor takes integers as operands of `-`; found str 'a'"),
        (lambda: rows + np.arange(6), "an index tensor takes integers as operands of `+`; found ndarray"),
        (lambda: arange(3)[:, None] + arange(4)[:, None], "index tensors of shapes [3, 1] and [4, 1] do not broadcast"),
        (lambda: rows[4:4], "4:4 selects nothing of 6 positions"),
        (lambda: rows[6, 0], "position 6 of an index tensor with 6 along axis 0"),
        (lambda: rows[0, 0, 0], "an index tensor of shape [6, 1] is indexed with more than 2 positions"),
        (lambda: bool(rows), "control flow depends on an index tensor of nl.arange or nl.mgrid"),
        (lambda: list(rows), "an index tensor cannot be the range of a loop"),
        (lambda: operator.setitem(rows, (0, 0), 3), "an index tensor does not support item assignment"),
        (lambda: operator.setitem(rows < 3, (0, 0), 3), "a mask does not support item assignment"),
    ],
)  # fmt: skip
def test_what_is_no_affine_expression_is_refused(wrong, message):
    with pytest.raises(IndexExpression) as raised:
        wrong()
    assert raised.value.message.startswith(message)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: rows & cols, "`&`, `|` and `^` join masks, not index tensors"),
        (lambda: rows == 0.5, "an index tensor never equals 0.5"),
        (lambda: float("nan") > rows, "an index tensor is compared with < to a value that is not a finite number"),
        (lambda: (rows < 3) & 7, "a mask joins comparisons of index tensors; found 7"),
        (lambda: (rows < 3) | None, "a mask joins comparisons of index tensors; found None"),
    ],
)  # fmt: skip
def test_what_is_no_mask_is_refused(wrong, message):
    with pytest.raises(BadMask) as raised:
        wrong()
    assert raised.value.message.startswith(message)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda: bool(rows), "err_control_flow_condition_depending_on_arange"),
        (lambda: operator.setitem(rows, (0, 0), 3), "err_cannot_assign_to_index"),
        (lambda: operator.setitem(rows < 3, (0, 0), 3), "err_cannot_assign_to_index"),
        (lambda: rows % 4, "err_unsupported_expression_in_mask"),
    ],
)
def test_errors_name_the_code_of_the_older_compiler(wrong, code):
    with pytest.raises(IndexExpression) as raised:
        wrong()
    assert f"the compiler of the older dialect calls this {code}" in raised.value.notes


def test_an_index_tensor_is_compared_with_none():
    assert operator.eq(rows, None) is False
    assert operator.ne(rows, None) is True


def test_numbers_on_the_left_are_compared_as_on_the_right():
    expected = (rows < 3).relation[1].values().tolist()
    for number in (3, np.int64(3), 3.0):
        assert operator.gt(number, rows).relation[1].values().tolist() == expected
