"""Tests what a learner sees who hands in an answer: the right one, a wrong one, or none yet."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from nki_lab.api.install import aliases
from nki_lab.choices import inside, use_target
from nki_lab.errors import ExerciseFailed, NkiError, TensorArgument, UnknownExercise, UsageError
from nki_lab.exercises import answer, check, hint, statement
from nki_lab.exercises.catalog import all_problems
from nki_lab.runtime import run
from tests.exercises.answers import Changed, kernel_of, of_value, part_of, zeros

with aliases():
    import nki
    import nki.language as nl

SUM = all_problems()["01.1"]
ROWS = all_problems()["01.2"]


@nki.jit
def skeleton(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    ...  # noqa: PIE790
    return out


@nki.jit
def begun(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(a))
    ...  # noqa: PIE790
    return out


@nki.jit
def open_square(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ...  # noqa: PIE790
    return out


def function(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.add(nl.load(a), nl.load(b))
    nl.store(out, nl.add(total, total))
    return out


def refused(id: str, given, **facts) -> ExerciseFailed:
    with use_target("trn2"), pytest.raises(ExerciseFailed) as caught:
        check(id, given, **facts)
    return caught.value


TABLE = """\
01.2 Any number of rows, on trn2
rows=512, columns=512   right
rows=1, columns=5       right
rows=128, columns=3     right
rows=129, columns=4     right
drawn anew (1 of 2)     right
drawn anew (2 of 2)     right
findings                0         none
dma_compute             not used  not used
instructions of Vector  4         at most 4
DMA transfers           12        at most 12
modelled time           12.17 us  pass 16 us, star 12.5 us
01.2 is solved, with a star
"""


def test_a_right_answer_prints_a_table_that_is_the_same_every_time(capsys):
    with use_target("trn2"):
        for _ in range(2):
            check("01.2", kernel_of(ROWS))
            assert capsys.readouterr().out == TABLE


def test_a_wrong_answer_prints_how_far_it_came_and_raises(capsys):
    error = refused("01.2", Changed(kernel_of(ROWS), of_value(zeros)))
    assert error.message == "01.2: the result is zero everywhere (with rows=512, columns=512)"
    assert error.notes == ('hint("01.2") helps, in 3 steps',)
    assert isinstance(error, AssertionError)
    table, verdict, where, *_ = capsys.readouterr().out.splitlines()
    assert (table, verdict) == ("01.2 Any number of rows, on trn2", "rows=512, columns=512  wrong")
    assert re.fullmatch(r"the result differs in 262,1\d\d of 262,144 elements", where)


def test_other_numbers_are_drawn_each_time_unless_a_seed_is_given():
    seen = []

    def spy(result, arguments):
        seen.append(arguments[0].copy())
        return result

    kernel = Changed(kernel_of(SUM), spy)
    with use_target("trn2"):
        for seed in (None, None, 3, 3):
            check("01.1", kernel, seed=seed)
    first = seen[:: len(seen) // 4]
    assert not np.array_equal(first[0], first[1])
    np.testing.assert_array_equal(first[2], first[3])


def open_slice(rows, columns, height, width, i, j):
    # Return a slice.
    ...


def test_a_function_that_is_still_to_be_written_is_a_skeleton():
    assert "this is still the skeleton" in refused("10.3", open_slice).message


@pytest.mark.parametrize("given", [skeleton, begun, ...])
def test_a_skeleton_is_told_to_be_one(given):
    error = refused("01.1", given)
    assert "this is still the skeleton" in error.message
    assert error.help == "write scaled_sum(a, b)"


def test_an_error_of_the_kernel_keeps_its_code_and_gets_the_case(capsys):
    with use_target("trn2"), pytest.raises(TensorArgument) as caught:
        check("01.2", kernel_of(SUM))
    assert "exercise 01.2, with rows=512, columns=512" in caught.value.notes
    assert "rows=512, columns=512  error\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ones((2, 2), np.float32), "what was handed in is an array"),
        (3, "what was handed in is of type int"),
        (None, "of type NoneType"),
        (np.add, "of type ufunc"),
    ],
)
def test_what_is_no_kernel_is_refused(given, words: str):
    error = refused("01.1", given)
    assert words in error.message
    assert 'check("01.1", scaled_sum)' in error.help


@pytest.mark.parametrize("given", [function, functools.partial(nki.jit(function))])
def test_a_function_is_made_a_kernel(given, capsys):
    with use_target("trn2"):
        check("01.1", given)
    assert "01.1 is solved\n" in capsys.readouterr().out


def by_numpy(a, b):
    return 2 * (a + b)


def test_numpy_instead_of_a_kernel_is_refused():
    with use_target("trn2"), pytest.raises(NkiError):
        check("01.1", by_numpy)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_it_is_checked_on_the_chip_of_the_notebook(target: str, capsys):
    with use_target(target):
        check("01.2", kernel_of(ROWS))
    out = capsys.readouterr().out
    assert f", on {target}\n" in out
    assert ("modelled time" in out) == (target == "trn2")
    assert ("star" in out) == (target == "trn2")


def run_of_squares():
    return run(part_of("04", "solutions").squares, np.ones((512, 1024), np.float32), target="trn2")


def test_a_number_may_be_off_a_little():
    once = run(
        kernel_of(all_problems()["04.4"]),
        np.ones((512, 1024), np.float32),
        np.ones((1, 1024), np.float32),
        target="trn2",
    )
    for given in (2.25, 2.26, np.float32(2.25)):
        answer("04.1", given, once)
    for given, words in (
        (2.4, "is too much"),
        (2.0, "is too little"),
        ("2.25", "is not a number"),
        (None, "is not a number"),
        (float("nan"), "is not a number"),
        (..., "there is no answer yet"),
    ):
        with pytest.raises(ExerciseFailed, match=words):
            answer("04.1", given, once)


def test_the_answer_is_that_of_the_run_and_not_a_stored_one():
    with pytest.raises(ExerciseFailed, match=r"`waiting` says: .*\. The run does not show that"):
        answer("04.2", "waiting", run_of_squares())
    answer("04.2", "DMA ", run_of_squares())
    tiny = run(kernel_of(SUM), *(np.ones((4, 4), np.float32),) * 2, target="trn2")
    answer("04.2", "waiting", tiny)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: answer("04.2", "dma"), UsageError, "needs a run, but none is named"),
        (lambda: answer("04.2", "dma", function), UsageError, "found function"),
        (
            lambda: answer("04.2", "disk", run_of_squares()),
            ExerciseFailed,
            "not one of the choices",
        ),
        (lambda: answer("01.1", 3), ExerciseFailed, 'write check("01.1", ...)'),
        (lambda: check("04.2", "dma"), ExerciseFailed, 'write answer("04.2", ...)'),
        (lambda: check("1.2", function), UnknownExercise, "notebook 01 has 01.1"),
        (lambda: check("77.1", function), UnknownExercise, "there is no exercise `77.1`"),
        (lambda: check(1.2, function), UnknownExercise, "there is no exercise `1.2`"),
        (lambda: hint("01.1", 4), UsageError, "hints 1 to 3, found 4"),
    ],
)
def test_a_wrong_call_is_told(call, kind, words: str):
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert words in str(caught.value)


def test_a_cause_is_named_before_the_correction_is_looked_at():
    mended = kernel_of(all_problems()["04.5"])
    assert "the cause is not named" in refused("04.5", mended).message
    assert (
        "`slice` says: the slices of two iterations overlap. That is not the cause"
        in refused("04.5", mended, cause="slice").message
    )
    assert "is not one of the causes" in refused("04.5", mended, cause="moon").message
    with use_target("trn2"):
        check("04.5", mended, cause=" Return ")
    assert "this is still the skeleton" in refused("04.5", open_square, cause="return").message


def test_a_statement_says_what_is_asked_and_how_to_answer():
    with inside(progress="none"):
        assert "write scaled_sum(a, b)" in statement("01.1")
        assert 'next: answer("04.2", ...)' in statement("04.2")
        assert "    dma      the transfers" in statement("04.2")
        assert 'next: check("04.5", squares, cause="...")' in statement("04.5")
