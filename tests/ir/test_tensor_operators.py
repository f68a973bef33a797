"""Tests that every Python operator on a tensor says what to write instead, and that presence tests work."""

import operator

import numpy as np
import pytest

from nki_lab.dtypes import float32
from nki_lab.errors import TensorOperator
from nki_lab.ir.building.builder import Builder
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import whole_view
from nki_lab.targets import get_target
from nki_lab.targets.spaces import SBUF


def tensor(name):
    return whole_view(Storage(0, name, (4, 8), float32, SBUF))


X, Y = tensor("x"), tensor("y")

REFUSED = {
    "x + y": (lambda: X + Y, r"nl.add\(x, y\), or nisa.tensor_tensor\(dst, x, y, op=nl.add\)"),
    "x + 2": (lambda: X + 2, r"nl.add\(x, 2\), or nisa.tensor_scalar\(dst, x, operand0=2, op0=nl.add\)"),
    "2 - x": (lambda: 2 - X, r"nl.subtract\(2, x\), or .*reverse0=True, op0=nl.subtract"),
    "x * y": (lambda: X * Y, r"nl.multiply\(x, y\)"),
    "x / y": (lambda: X / Y, r"nl.multiply\(x, nl.reciprocal\(y\)\)"),
    "1.0 / x": (lambda: 1.0 / X, r"nl.multiply\(nl.reciprocal\(x\), 1.0\)"),
    "x // y": (lambda: X // Y, "nl.floor"),
    "x % 2": (lambda: X % 2, "nl.floor"),
    "divmod(x, 2)": (lambda: divmod(X, 2), "nl.floor"),
    "x ** 2": (lambda: X**2, r"nl.square\(tile\)"),
    "x @ y": (lambda: X @ Y, r"nl.matmul\(x, y, transpose_x=True\)"),
    "x & y": (lambda: X & Y, r"nl.bitwise_and\(x, y\)"),
    "x | y": (lambda: X | Y, r"nl.bitwise_or\(x, y\)"),
    "x ^ y": (lambda: X ^ Y, r"nl.bitwise_xor\(x, y\)"),
    "x << 1": (lambda: X << 1, r"nl.left_shift\(x, 1\)"),
    "1 >> x": (lambda: 1 >> X, r"nl.right_shift\(1, x\)"),
    "x < y": (lambda: X < Y, r"nl.less\(x, y\)"),
    "x <= 1": (lambda: X <= 1, r"nl.less_equal\(x, 1\)"),
    "x > y": (lambda: X > Y, r"nl.greater\(x, y\)"),
    "x >= y": (lambda: X >= Y, r"nl.greater_equal\(x, y\)"),
    "x == y": (lambda: X == Y, r"nl.equal\(x, y\), or `x is y`"),
    "x != 0": (lambda: X != 0, r"nl.not_equal\(x, 0\)"),
    "-x": (lambda: -X, r"nl.negative\(x\)"),
    "+x": (lambda: +X, "x alone"),
    "~x": (lambda: ~X, r"nl.invert\(x\)"),
    "abs(x)": (lambda: abs(X), r"nl.abs\(x\)"),
    "round(x)": (lambda: round(X), r"nl.floor\(x\)"),
}  # fmt: skip


@pytest.mark.parametrize("written", REFUSED)
def test_operators_name_the_function(written):
    function, instead = REFUSED[written]
    with pytest.raises(TensorOperator, match=rf"(?s)help: write .*{instead}") as caught:
        function()
    assert f"`{written}`" in str(caught.value)
    assert "`x` [4, 8] float32 in sbuf" in str(caught.value)
    assert isinstance(caught.value, TypeError)


COLUMN = whole_view(Storage(0, "c", (4, 1), float32, SBUF))


@pytest.mark.parametrize(
    ("function", "instead"),
    [
        (lambda: X + COLUMN, "nisa.tensor_scalar(dst, x, op0=nl.add, operand0=c)"),
        (lambda: X - COLUMN, "nisa.tensor_scalar(dst, x, op0=nl.subtract, operand0=c)"),
        (lambda: COLUMN - X, "nisa.tensor_scalar(dst, x, op0=nl.subtract, operand0=c, reverse0=True)"),
        (lambda: COLUMN * X, "nisa.tensor_scalar(dst, x, op0=nl.multiply, operand0=c)"),
        (lambda: X / COLUMN, "nisa.reciprocal(c, c), then nisa.tensor_scalar(dst, x, op0=nl.multiply"),
    ],
)  # fmt: skip
def test_one_value_per_partition_is_not_sent_on_to_a_function_that_refuses_it(function, instead):
    with pytest.raises(TensorOperator) as caught:
        function()
    assert f"help: write {instead}" in str(caught.value)


def test_a_tensor_with_itself_is_described_once():
    with pytest.raises(TensorOperator) as caught:
        X + X
    assert str(caught.value).count("`x` [4, 8] float32 in sbuf") == 1


def test_augmented_assignment_is_refused_too():
    x = X
    with pytest.raises(TensorOperator, match=r"nl\.add"):
        x += Y
    assert x is X


@pytest.mark.parametrize("convert", [int, float, operator.index, range, [0, 1].__getitem__, np.asarray,
                                     np.exp, np.sum, lambda t: np.float32(2) * t, lambda t: 1 in t])  # fmt: skip
def test_values_are_not_known_while_tracing(convert):
    with pytest.raises(TensorOperator, match="not known while the kernel is traced"):
        convert(X)


def test_comparison_with_none_is_a_presence_test():
    assert (X == None) is False  # noqa: E711
    assert (X != None) is True  # noqa: E711
    assert (X == None) is False  # noqa: E711


def test_comparison_with_other_objects_is_false():
    assert X != "x"
    assert not X == (4, 8)  # noqa: SIM201


def test_tensors_are_keys_by_identity():
    view = X[0:4]
    table = {X: "x", Y: "y", view: "view"}
    assert [table[t] for t in (X, Y, view)] == ["x", "y", "view"]
    assert hash(X) != hash(view)


def test_the_truth_value_is_presence_and_a_finding():
    assert bool(X) is True  # outside a kernel nobody is told
    builder = Builder(get_target("trn2"))
    with builder.active():
        assert X
        assert not (not X)  # noqa: SIM208
    findings = list(builder.findings.values())
    assert {f.kind for f in findings} == {"portability"}
    assert {f.code for f in findings} == {TensorOperator.code}
    assert findings[0].help == "write `tensor is not None`"


def test_the_truth_value_is_an_error_under_strict():
    builder = Builder(get_target("trn2"), strict=True)
    with builder.active(), pytest.raises(TensorOperator, match="is not None"):
        bool(X)


def test_a_while_that_only_asks_for_a_tensor_is_refused():
    def never_ends(tile):
        while tile[0:1]:
            abs(1)

    def ends(tile):
        passes = 0
        while tile:
            tile = None if passes else tile
            passes += 1
        while X:
            passes += 1
            if passes > 3:
                break
        while passes < 6 and X:
            passes += 1
        return passes

    for strict in (False, True):
        builder = Builder(get_target("trn2"), strict=strict)
        with builder.active(), pytest.raises(TensorOperator, match="never ends") as caught:
            never_ends(X)
        assert "nl.while_loop" in caught.value.help
    with Builder(get_target("trn2")).active():
        assert ends(X) == 6
