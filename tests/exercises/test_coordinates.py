"""Tests that the elements that a slice or a kernel touches are found, and a difference is described and drawn."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nki_lab.api.install import aliases
from nki_lab.choices import use_target
from nki_lab.errors import NotModelled
from nki_lab.exercises.coordinates import judge_places
from nki_lab.exercises.judge import judge
from nki_lab.exercises.problem import Places, Task
from nki_lab.exercises.touches import touched
from nki_lab.runtime import run

with aliases():
    import nki
    import nki.isa as nisa
    import nki.language as nl

ODD_ROWS = Places(
    id="99.2",
    title="Odd rows",
    statement="",
    hints=("", "", ""),
    sizes=({"rows": 4, "columns": 5}, {"rows": 7, "columns": 3}),
    shape=lambda rows, columns: (rows, columns),
    wanted=lambda rows, columns: np.s_[1::2],
)


@pytest.mark.parametrize(
    "right",
    [
        np.s_[1::2],
        np.s_[1::2, :],
        lambda rows, columns: np.s_[1:rows:2, 0:columns],
        (slice(1, None, 2), ...),
    ],
)
def test_every_way_to_write_it_is_right(right):
    verdict = judge_places(ODD_ROWS, right)
    assert verdict.reason is None
    assert verdict.rows == [
        ("rows=4, columns=5", "10 elements", ""),
        ("rows=7, columns=3", "9 elements", ""),
    ]


PICTURE = """\
# right, o missing, x too many:
    . . . . .
    # # # # o
    . . . . .
    # # # # o"""


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        (np.s_[0::2], "other", "10 elements are not touched and should be, the first at [1, 0]"),
        (
            np.s_[1::2, :4],
            "missing",
            "2 elements are not touched and should be, the first at [1, 4] (with rows=4",
        ),
        (np.s_[:], "extra", "10 elements are touched and should not be, the first at [0, 0]"),
        (
            np.s_[1:4:2],
            "missing",
            "3 elements are not touched and should be, the first at [5, 0] (with rows=7",
        ),
        (np.s_[1:8:2], "bounds", "axis 0 has 4 elements, and the answer goes to 8"),
        (np.s_[9], "bounds", "axis 0 has 4 elements"),
        (np.s_[0, 0, 0], "bounds", "does not fit shape [4, 5]"),
        ("1::2", "answer", "expected a slice"),
        (np.ones((4, 5), bool), "answer", "expected a slice"),
        (..., "answer", "expected a slice"),
    ],
)
def test_a_wrong_slice_is_told_with_its_first_difference(wrong, kind: str, words: str):
    reason = judge_places(ODD_ROWS, wrong).reason
    assert reason is not None
    assert (reason.kind, words in reason.message) == (kind, True), reason


@nki.jit
def odd_rows(x):
    rows, columns = x.shape
    tile = nl.ndarray((rows // 2, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[1::2])
    out = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[0 : rows // 2, 1:], src=tile[:, 1:])
    return out


COLUMNS_FIRST = Places(
    id="99.3",
    title="Column by column",
    statement="",
    hints=("", "", ""),
    sizes=({"rows": 3, "columns": 4}, {"rows": 2, "columns": 5}),
    shape=lambda rows, columns: (rows, columns),
    wanted=lambda rows, columns: np.arange(rows * columns).reshape(rows, columns).T,
)


def test_a_pattern_is_known_by_its_elements_in_their_order():
    right = judge_places(
        COLUMNS_FIRST, lambda rows, columns: {"pattern": [[1, columns], [columns, rows]]}
    )
    assert right.reason is None
    assert [text for _, text, _ in right.rows] == ["12 elements", "10 elements"]


@pytest.mark.parametrize(
    ("wrong", "kind", "words"),
    [
        ({"pattern": [[4, 3], [1, 4]]}, "order", "number 1 is [0, 1], expected [1, 0]"),
        (np.s_[:], "order", "number 1 is [0, 1], expected [1, 0]"),
        (
            {"pattern": [[1, 4], [4, 3]]},
            "bounds",
            "the pattern comes to element 10, and shape [2, 5]",
        ),
        ({"pattern": [[1, 4], [-1, 2]]}, "bounds", "the pattern comes to element -1"),
        ({"pattern": [[1, 3], [4, 3]]}, "missing", "3 elements are not touched and should be"),
        ({"pattern": [[0, 2], [1, 12]]}, "count", "are 24 in all, expected 12"),
        ({"pattern": [[1, 4], [4, 3]], "start": 0}, "answer", "expected a pattern"),
        ({"pattern": [1, 4]}, "answer", "expected a pattern"),
        ([[1, 4], [4, 3]], "answer", "expected a pattern (with rows=3, columns=4)"),
        (odd_rows, "answer", "the answer is a kernel, expected a pattern"),
    ],
)
def test_a_wrong_pattern_is_told(wrong, kind: str, words: str):
    reason = judge_places(COLUMNS_FIRST, wrong).reason
    assert reason is not None
    assert (reason.kind, words in reason.message) == (kind, True), reason


def test_small_tensors_are_drawn():
    reason = judge_places(ODD_ROWS, np.s_[1::2, :4]).reason
    assert reason is not None
    assert reason.help == PICTURE


@nki.jit
def odd_rows_one_by_one(x):
    rows, columns = x.shape
    out = nl.ndarray((rows // 2, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(1, rows, 2):
        tile = nl.ndarray((1, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[row : row + 1])
        nisa.dma_copy(dst=out[row // 2 : row // 2 + 1], src=tile)
    return out


@pytest.mark.parametrize("kernel", [odd_rows, odd_rows_one_by_one])
def test_a_kernel_is_known_by_what_it_reads(kernel):
    assert judge_places(ODD_ROWS, kernel).reason is None


@nki.jit
def even_rows(x):
    tile = nl.load(x[0::2])
    out = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def test_a_kernel_that_reads_something_else_is_told():
    reason = judge_places(ODD_ROWS, even_rows).reason
    assert reason is not None
    assert reason.kind == "other"


@nki.jit
def window(x):
    tile = nl.load(x)
    out = nl.ndarray((6, 8), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out.ap([[16, 3], [3, 2]], offset=9), src=tile[:, 0:2])
    return out


def test_strides_of_any_pattern_are_followed():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    with use_target("trn2"):
        result = run(window, x)
    found = touched(result, result.kernel.outputs[0].storage, "writes")
    expected = np.zeros(48, bool)
    expected[[9 + 16 * i + 3 * j for i in range(3) for j in range(2)]] = True
    np.testing.assert_array_equal(found, expected.reshape(6, 8))
    np.testing.assert_array_equal(
        touched(result, result.kernel.inputs[0], "reads"), np.ones((3, 4), bool)
    )
    assert not touched(result, result.kernel.inputs[0], "writes").any()


@nki.jit
def by_value(x, rows):
    index = nl.load(rows)
    tile = nl.ndarray((4, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(
        dst=tile, src=x.ap([[x.shape[1], 4], [1, x.shape[1]]], vector_offset=index, indirect_dim=0)
    )
    out = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def test_addresses_that_only_values_know_are_refused():
    x = np.ones((8, 3), np.float32)
    with use_target("trn2"):
        result = run(by_value, x, np.array([[1], [5], [2], [0]], np.int32))
    with pytest.raises(NotModelled, match="addressed by values"):
        touched(result, result.kernel.inputs[0], "reads")


PICTURE_OF_READS = """\
# right, o missing, x too many:
    . . . .
    x # # #
    . . . .
    x # # #"""


def test_what_a_task_reads_without_need_is_told_and_drawn():
    task = Task(
        id="99.4",
        title="Odd rows",
        statement="",
        hints=("", "", ""),
        signature="odd_rows_one_by_one(x)",
        inputs=lambda draw, rows, columns: (draw(rows, columns),),
        reference=lambda x: x[1::2],
        cases=({"rows": 4, "columns": 4},),
        reads=lambda rows, columns: np.s_[1::2, 1:],
    )
    reason = judge(task, odd_rows_one_by_one, seed=1).reason
    assert reason is not None
    assert (reason.kind, reason.help) == ("reads", PICTURE_OF_READS)
    assert reason.message.startswith("right, but of `x` 2 elements are touched and should not be")
    exact = dataclasses.replace(task, reads=lambda rows, columns: np.s_[1::2])
    assert judge(exact, odd_rows_one_by_one, seed=1).reason is None
