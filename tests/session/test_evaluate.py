"""Tests the value of an expression given as an option, and the place of an error in it."""

import numpy as np
import pytest

from nki_lab.errors import CheckFailed, OutsideKernel, UsageError
from nki_lab.session.evaluate import check_value, evaluate, reference
from nki_lab.session.questions import choice_named


def expression(text: str, option: str = "check"):
    return choice_named(option).parse(text)


def test_names_come_from_the_scope():
    scope = {"a": 3, "b": 4}
    assert evaluate(expression("[a * x for x in (b, 1)]"), scope) == [12, 3]


def test_an_error_shows_the_expression_and_marks_the_place():
    with pytest.raises(UsageError) as caught:
        evaluate(expression("a + missing"), {"a": 1})
    text = str(caught.value)
    assert "NameError: name 'missing' is not defined" in text
    assert "1 | a + missing" in text
    assert "|     ^^^^^^^" in text
    assert isinstance(caught.value.__cause__, NameError)


def test_an_error_below_the_expression_shows_both_places():
    def broken():
        return {}["key"]

    with pytest.raises(UsageError, match="KeyError: 'key'") as caught:
        evaluate(expression("f()"), {"f": broken})
    assert [span.function for span in caught.value.spans] == ["broken", "<module>"]


def test_an_error_of_a_kernel_stays_what_it_is():
    def outside():
        raise OutsideKernel("called outside a kernel")

    with pytest.raises(OutsideKernel):
        evaluate(expression("f()"), {"f": outside})


def test_a_reference_is_taken_before_the_run():
    a = np.arange(6.0, dtype=np.float32)
    expected = reference(expression("a[::-1]"), {"a": a})
    before = a[::-1].copy()
    a[:] = 0
    np.testing.assert_array_equal(expected, before)


def test_a_tuple_is_compared_item_by_item():
    one, other = np.arange(4, dtype=np.int32), np.arange(3, dtype=np.float32)
    assert len(check_value((one, other), [one.copy(), other.copy()])) == 2
    with pytest.raises(CheckFailed, match=r"the result \[1\] differs in 1 of 3 elements"):
        check_value((one, other), [one.copy(), other + np.float32([0, 0, 1])])


def test_a_dict_is_compared_key_by_key_whatever_it_holds():
    found = {"y": np.arange(4, dtype=np.int32), "stats": (np.ones(3, np.float32), np.zeros(2))}
    expected = {"stats": (np.ones(3), np.zeros(2)), "y": np.arange(4)}
    assert len(check_value(found, expected)) == 3
    expected["stats"] = (np.array([1.0, 1, 2]), np.zeros(2))
    with pytest.raises(CheckFailed, match=r"the result \['stats'\]\[0\] differs in 1 of 3"):
        check_value(found, expected)
    with pytest.raises(CheckFailed, match=r"the result \['stats'\] has 2 values, --check gives 1"):
        check_value(found, {**expected, "stats": np.ones(3)})


@pytest.mark.parametrize(
    ("expected", "given"), [(np.zeros(4), "no such dict"), ({"z": np.zeros(4)}, "the keys 'z'")]
)
def test_a_reference_of_a_dict_has_its_keys(expected, given):
    with pytest.raises(CheckFailed, match=f"with the keys 'y', --check gives {given}"):
        check_value({"y": np.zeros(4)}, expected)


def test_the_references_of_a_dict_are_taken_before_the_run():
    a = np.arange(6.0, dtype=np.float32)
    expected = reference(expression("{'y': a[::-1]}"), {"a": a})
    a[:] = 0
    np.testing.assert_array_equal(expected["y"], np.arange(6.0)[::-1])


@pytest.mark.parametrize("expected", [np.zeros(4), [np.zeros(4)], [np.zeros(4)] * 3])
def test_a_reference_has_as_many_parts_as_the_result(expected):
    with pytest.raises(CheckFailed, match="the run returns 2 values"):
        check_value((np.zeros(4), np.zeros(4)), expected)


def test_nothing_cannot_be_compared():
    with pytest.raises(UsageError, match="returns nothing to compare"):
        check_value(None, np.zeros(4))


def test_an_error_that_is_no_number_is_not_called_zero():
    found = np.array([1.0, np.nan, 2.5], np.float32)
    differ = r"NaN or infinite values differ; .* max rel error 0\.25 where both are finite \("
    with pytest.raises(CheckFailed, match=differ):
        check_value(found, np.array([1.0, 2, 2], np.float32))
    with pytest.raises(CheckFailed, match=r"max rel error 0\.25 \("):
        check_value(found, np.array([1.0, np.nan, 2], np.float32))
