"""Tests masks: the boxes that they leave, `and` of masks, and what is refused."""

import numpy as np
import pytest

from nki_lab.beta1.index import arange, mgrid
from nki_lab.beta1.masks import boxes
from nki_lab.errors.beta1 import BadMask

rows, cols = arange(128)[:, None], arange(512)[None, :]
SHAPE = (128, 512)


def test_the_mask_of_the_documentation_is_one_box():
    """(nki/api/nki.api.shared.rst, NKI API Masking)"""
    assert boxes((rows < 64) & (cols < 256), SHAPE) == [((0, 64), (0, 256))]


def test_truth_values_take_all_or_nothing():
    for mask in (None, True, np.True_):
        assert boxes(mask, (3, 5)) == [((0, 3), (0, 5))]
    for mask in (False, np.False_):
        assert boxes(mask, (3, 5)) == []
    assert (
        boxes(True & (rows < 4), (128, 1))
        == boxes((rows < 4) | False, (128, 1))
        == [((0, 4), (0, 1))]
    )
    assert boxes((rows < 4) & np.False_, (128, 1)) == []
    assert boxes((rows < 4) | True, (128, 1)) == [((0, 128), (0, 1))]


def test_a_triangle_is_a_box_for_each_row_and_one_where_all_of_it_holds():
    i, f = arange(4)[:, None], arange(6)[None, :]
    assert boxes(f <= i, (4, 6)) == [((n, n + 1), (0, n + 1)) for n in range(4)]
    assert boxes(f <= i + 6, (4, 6)) == [((0, 4), (0, 6))]
    assert boxes(f <= i - 4, (4, 6)) == []
    assert boxes(f // 1 < 2 * i, (4, 6)) == [((1, 2), (0, 2)), ((2, 3), (0, 4)), ((3, 4), (0, 6))]
    # Along the axis with fewer positions, and equal rows together.
    assert boxes(i <= 100 * f, (4, 6)) == [((0, 1), (0, 6)), ((1, 4), (1, 6))]


def test_the_predicate_of_affine_select_is_one_comparison():
    assert (cols < rows).relation[0] == "greater_equal"
    np.testing.assert_array_equal(
        (cols < rows).relation[1].values() >= 0, np.arange(512)[None, :] < np.arange(128)[:, None]
    )
    for mask, name in ((cols == rows, "equal"), (cols != rows, "not_equal")):
        assert mask.relation[0] == name
        np.testing.assert_array_equal(mask.relation[1].values() == 0, (cols - rows).values() == 0)
    assert (~(cols < rows)).relation[0] == "greater_equal"
    np.testing.assert_array_equal(
        (~(cols < rows)).relation[1].values() >= 0, (cols - rows).values() >= 0
    )
    assert ((cols < rows) & (cols < 3)).relation is None


def test_a_mask_of_another_rank_than_the_access_is_refused():
    """NumPy lines up the last axes, so the mask of partitions would be one of axis 1."""
    with pytest.raises(
        BadMask, match=r"a mask over a grid with 2 axes, \[128, 1\], on an access of"
    ):
        boxes(rows < 32, (128, 128, 1))
    with pytest.raises(BadMask, match=r"a grid with 3 axes"):
        boxes(arange(4)[:, None, None] < 2, (4, 5))


def test_a_mask_of_another_size_than_the_access_is_refused():
    with pytest.raises(
        BadMask, match=r"a mask over a grid of \[128, 1\] on an access of \[64, 1\]"
    ):
        boxes(rows < 32, (64, 1))
    # Along an axis it does not depend on, a dense grid may be larger.
    assert boxes(mgrid[0:128, 0:512].p < 5, (128, 1)) == [((0, 5), (0, 1))]


def test_a_mask_of_too_many_boxes_is_refused():
    i, f = arange(400)[:, None], arange(500)[None, :]
    assert len(boxes(i < f, (400, 500), limit=400)) == 400
    with pytest.raises(BadMask, match="leaves more than 300 boxes"):
        boxes(i < f, (400, 500))


@pytest.mark.parametrize("mask", [1, "i < 3", np.ones((128, 512), dtype=bool), rows])
def test_what_is_no_mask_is_refused(mask):
    with pytest.raises(BadMask, match="a mask joins comparisons of index tensors") as raised:
        boxes(mask, SHAPE)
    assert "err_unsupported_expression_in_mask" in raised.value.notes[0]


# -- `a and b` ---------------------------------------------------------------------------------------------------------


def test_and_joins_comparisons():
    """(test_nki_isa_nc_match_replace8.py: `mask=(ix < n // 2 and iy < m // 2)`)"""
    n, m = 64, 100  # the masks stand outside the assertions, whose text pytest rewrites
    one_line = rows < n // 2 and cols < m // 2
    two_lines = (
        rows < n // 2
        and cols < m // 2
    )  # fmt: skip
    joined = rows < 90 and (cols < m // 2) & (rows < 32)
    opposite = rows < 32 and ~(cols >= 50)
    for mask in (one_line, two_lines, joined, opposite):
        assert boxes(mask, SHAPE) == [((0, 32), (0, 50))]


def test_and_joins_many():
    few, yes = rows < 40, True
    by_name = rows >= 8 and few and cols < 9
    beside_values = yes and rows >= 8 and yes and cols < 9
    assert boxes(by_name, SHAPE) == [((8, 40), (0, 9))]
    assert boxes(beside_values, SHAPE) == [((8, 128), (0, 9))]

    def mask(n):
        return rows < n and cols < (3 if n > 1 and n < 9 else 7)

    for n in (1, 5, 20):
        assert boxes(mask(n), SHAPE) == [((0, n), (0, 3 if n == 5 else 7))]


def test_and_that_is_false_is_false():
    mask = len("ab") > 2 and rows < 3
    assert boxes(mask, SHAPE) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda few: rows < 3 and few, "`and` gives the mask on its right only"),
        (lambda few: rows < 3 or cols < 4, "`or` and `not` ask for the truth of a mask"),
        (lambda few: not rows < 3, "`or` and `not` ask for the truth of a mask"),
        (lambda few: 2 <= rows < 3, "a chain of comparisons"),
        (lambda few: 1 if rows < 3 else 2, "control flow depends on a comparison"),
        (lambda few: 1 if rows < 3 and cols < 2 else 2, "control flow depends on a comparison"),
        (lambda few: bool(few), "control flow depends on a comparison"),
    ],
)
def test_other_truth_values_of_masks_are_refused(wrong, message):
    with pytest.raises(BadMask) as raised:
        wrong(rows < 5)
    assert raised.value.message.startswith(message)
    assert raised.value.notes[0].split("calls this ")[1] in (
        "err_ambiguous_tensor_truth_value",
        "err_control_flow_condition_depending_on_arange",
    )


def test_and_with_a_comparison_of_integers_never_loses_a_mask():
    n = 5
    mask = rows < 3 and n > 2
    with pytest.raises(BadMask, match="the mask before it was lost"):
        boxes(mask, SHAPE)
    assert boxes(rows < 3, SHAPE) == [((0, 3), (0, 512))]  # it is told once
