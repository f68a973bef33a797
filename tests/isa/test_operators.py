"""Tests that operators mean what the documents say, and are objects that survive copying and calling."""

from __future__ import annotations

import copy
import inspect
import math
import pickle

import numpy as np
import pytest

from nki_lab.errors import OutsideKernel, SimulationError
from nki_lab.isa.operators import ALU, OPS, Op, OpClass, suggested_name

VALUES = [-3.0, -1.5, -0.0, 0.0, 0.25, 2.0, 7.0]
PAIRS = np.array([(a, b) for a in VALUES for b in VALUES], np.float32)
LEFT, RIGHT = PAIRS[:, :1], PAIRS[:, 1:]


def by_magnitude(keep_left):
    return lambda a, b: a if keep_left(abs(a), abs(b)) else b


MEANINGS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": min,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
    "greater_equal": lambda a, b: a >= b,
    "greater": lambda a, b: a > b,
    "less_equal": lambda a, b: a <= b,
    "less": lambda a, b: a < b,
    "logical_and": lambda a, b: bool(a) and bool(b),
    "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_xor": lambda a, b: bool(a) != bool(b),
    "abs_max": by_magnitude(lambda a, b: a > b),
    "abs_min": by_magnitude(lambda a, b: a < b),
}
PATTERNS = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "left_shift": lambda a, b: (a << b) % 2**8,
    "right_shift": lambda a, b: a >> b,
}
SINGLE = {
    "abs": abs,
    "square": lambda a: a * a,
    "relu": lambda a: max(a, 0),
    "reciprocal": lambda a: 1 / a,
    "rsqrt": lambda a: 1 / math.sqrt(a),
}


@pytest.mark.parametrize("name", [n for n, row in ALU.items() if row.identity is not None])
def test_the_identity_changes_no_value(name):
    values = np.array(VALUES, np.float32)
    start = np.full_like(values, ALU[name].identity)
    result = np.empty_like(values)
    ALU[name].apply(values, start, result)
    np.testing.assert_array_equal(result, values)


def test_every_row_has_a_meaning_here():
    assert ALU.keys() == {*MEANINGS, *PATTERNS, *SINGLE, "power", "invert"}


@pytest.mark.parametrize("name", MEANINGS)
def test_two_float_operands(name):
    expected = [[float(MEANINGS[name](float(a), float(b)))] for a, b in PAIRS]
    out = np.empty_like(LEFT)
    OPS[name].apply(LEFT, RIGHT, out)
    assert out.tolist() == expected
    # In place, and against a number on either side.
    held = LEFT.copy()
    OPS[name].apply(held, RIGHT, held)
    assert held.tolist() == expected
    held = RIGHT.copy()
    OPS[name].apply(LEFT, held, held)
    assert held.tolist() == expected
    OPS[name].apply(LEFT, 2.0, out)
    assert out.tolist() == [[float(MEANINGS[name](float(a), 2.0))] for a in LEFT[:, 0]]
    OPS[name].apply(2.0, RIGHT, out)
    assert out.tolist() == [[float(MEANINGS[name](2.0, float(b)))] for b in RIGHT[:, 0]]


@pytest.mark.parametrize("name", PATTERNS)
def test_bit_patterns(name):
    a = np.arange(256, dtype=np.uint8).reshape(16, 16)
    b = ((a.astype(int) * 7) % 11).astype(np.uint8)  # shifts of 8 and more give 0
    out = np.empty_like(a)
    OPS[name].apply(a, b, out)
    assert out.tolist() == [
        [PATTERNS[name](int(x), int(y)) for x, y in zip(p, q, strict=True)]
        for p, q in zip(a, b, strict=True)
    ]
    OPS[name].apply(a, -1, out)  # a number counts modulo its width: all ones
    assert out.tolist() == [[PATTERNS[name](int(x), 255) for x in row] for row in a]


def test_invert():
    a = np.arange(16, dtype=np.uint32).reshape(2, 8)
    out = np.empty_like(a)
    OPS["invert"].apply_unary(a, out)
    assert out.tolist() == [[2**32 - 1 - int(v) for v in row] for row in a]


@pytest.mark.parametrize("name", SINGLE)
def test_one_operand(name):
    a = np.array([[0.25, 2.0, 7.5]], np.float32)
    if name in ("abs", "square", "relu"):
        a = np.hstack([a, -a])
    out = np.empty_like(a)
    OPS[name].apply_unary(a, out)
    np.testing.assert_allclose(out, [[SINGLE[name](float(v)) for v in a[0]]], rtol=1e-7)


def test_power():
    a, b = np.array([[2.0, 9.0]], np.float32), np.array([[10.0, 0.5]], np.float32)
    out = np.empty_like(a)
    OPS["power"].apply(a, b, out)
    assert out.tolist() == [[1024.0, 3.0]]
    with pytest.raises(SimulationError, match="negative exponent"):
        OPS["power"].apply(a.astype(int), -b.astype(int), np.empty((1, 2), int))


@pytest.mark.parametrize("name", ["maximum", "minimum", "add", "max", "min"])
def test_nan_wins(name):
    row = np.array([[1.0, np.nan, -np.inf]], np.float32)
    out = np.empty((1,), np.float32)
    OPS[name].reduce(row, (1,), out)
    assert np.isnan(out[0])
    both = np.empty_like(row)
    OPS[name].apply(row, 0.0, both)
    assert np.isnan(both[0, 1])


REDUCTIONS = {
    "add": 15.0, "subtract": 0.0 - 15.0, "multiply": 0.0, "maximum": 5.0, "minimum": 0.0, "logical_and": 0.0,
    "logical_or": 1.0, "logical_xor": 1.0,
}  # fmt: skip


def test_reductions_are_the_documented_ones():
    # nki/api/nki.api.shared.rst, column "Legal Reduction op".
    legal = {*REDUCTIONS, "bitwise_and", "bitwise_or", "bitwise_xor"}
    assert {n for n in ALU if OPS[n].can_reduce} == legal


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduction(name):
    rows = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    out = np.empty((1,), np.float32)
    OPS[name].reduce(rows, (1, 2), out)
    assert out[0] == REDUCTIONS[name]


def test_classes():
    assert OPS["bitwise_or"].is_bitvec and not OPS["add"].is_bitvec and not OPS["exp"].is_bitvec
    assert OPS["abs"].is_unary and not OPS["add"].is_unary and not OPS["divide"].is_unary
    assert {n for n, row in ALU.items() if row.kind is OpClass.COMPARE} == {
        "equal", "not_equal", "greater", "greater_equal", "less", "less_equal",
    }  # fmt: skip


def test_an_operator_is_one_object():
    for op in OPS.values():
        assert copy.deepcopy(op) is op
        assert pickle.loads(pickle.dumps(op)) is op
        assert repr(op) == f"nl.{op.name}" and op.__name__ == op.name


def test_calling_an_operator():
    op = Op("example")
    with pytest.raises(OutsideKernel, match="only a value for `op=`"):
        op(1, 2)

    def example(x, y, dtype=None):
        """Add two tiles."""
        return x, y, dtype

    op.expand = example
    assert op(1, 2, dtype="d") == (1, 2, "d")
    assert str(inspect.signature(op)) == "(x, y, dtype=None)"
    assert op.__doc__ == "Add two tiles."


@pytest.mark.parametrize(
    ("value", "name"),
    [(np.add, "add"), (np.max, "max"), (np.sum, "add"), ("nl.multiply", "multiply"), ("exp", "exp"), (None, None),
     (np.gcd, None), (3, None)],
)  # fmt: skip
def test_suggestions(value, name):
    assert suggested_name(value) == name
