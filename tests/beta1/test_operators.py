"""Operators that only the older dialect has, against NumPy and exact fractions; functions as operators."""

import copy
from fractions import Fraction

import numpy as np
import pytest

from nki_lab import language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.beta1.operators import OPERATORS, operator_of
from nki_lab.errors import SimulationError, WrongOperand
from nki_lab.ir.text.printer import print_kernel
from nki_lab.isa.operators import OPS
from nki_lab.isa.reading import read_kernel

DIVIDE, MOD, POWER = OPERATORS["divide"], OPERATORS["mod"], OPERATORS["power"]
FMOD, NOT = OPERATORS["fmod"], OPERATORS["logical_not"]
LARGEST = 2**31 - 1


@pytest.fixture
def floats(rng):
    signs = rng.choice([-1, 1], (64, 24))
    a, b = (rng.uniform(0.1, 40, (2, 64, 24)) * signs).astype(np.float32)
    return a, b[::-1]


def applied(op, a, b, dtype=np.float32):
    out = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b)), dtype)
    with np.errstate(all="ignore"):
        op.apply(a, b, out)
    return out


def nearest(exact: Fraction) -> np.float32:
    """Return the float32 nearest to a fraction, by comparing the candidates."""
    guess = np.float32(exact)
    around = [guess, np.nextafter(guess, np.float32(-np.inf)), np.nextafter(guess, np.float32(np.inf))]  # fmt: skip
    return min(around, key=lambda c: abs(Fraction(float(c)) - exact))


def test_a_quotient_is_the_nearest_float32(floats):
    a, b = (x[:8, :8] for x in floats)
    expected = [
        [nearest(Fraction(float(p)) / Fraction(float(q))) for p, q in zip(*rows, strict=True)]
        for rows in zip(a, b, strict=True)
    ]
    np.testing.assert_array_equal(applied(DIVIDE, a, b), expected)
    by_reciprocal = a * (np.float32(1) / b)
    assert (by_reciprocal != expected).any(), "the values must tell a product from a quotient"


@pytest.mark.parametrize("exponent", [-0.5, 0.5, 2.0, 3.0, -1.0, 0.1, 1 / 3])
def test_a_power_is_rounded_once(rng, exponent):
    x = rng.uniform(0.01, 9, (32, 16)).astype(np.float32)
    expected = np.power(x.astype(np.float64), np.float64(np.float32(exponent))).astype(np.float32)
    np.testing.assert_array_equal(applied(POWER, x, exponent), expected)
    held = x.copy()
    POWER.apply(held, np.full_like(x, exponent), held)
    np.testing.assert_array_equal(held, expected)


def test_remainders_have_the_signs_of_numpy(floats):
    a, b = floats
    np.testing.assert_array_equal(applied(MOD, a, b), np.mod(a, b))
    np.testing.assert_array_equal(applied(FMOD, a, b), np.fmod(a, b))
    assert (np.sign(np.mod(a, b)) != np.sign(np.fmod(a, b))).any()
    assert applied(MOD, np.float32([-7.0]), 3.0) == 2
    assert applied(FMOD, np.float32([-7.0]), 3.0) == -1


def test_integers(rng):
    a = rng.integers(-(2**30), 2**30, (16, 9)).astype(np.int32)
    b = rng.integers(1, 50, (16, 9)).astype(np.int32) * rng.choice([-1, 1], (16, 9)).astype(
        np.int32
    )
    np.testing.assert_array_equal(applied(MOD, a, b, np.int32), np.mod(a, b))
    quotient = np.rint((a.astype(np.float32) / b.astype(np.float32)).astype(np.float64))
    np.testing.assert_array_equal(applied(DIVIDE, a, b, np.int32), quotient.astype(np.int32))
    np.testing.assert_array_equal(applied(DIVIDE, a, b, np.int64), quotient.astype(np.int64))
    assert applied(DIVIDE, np.int32([5, -5, 0]), np.int32([0, 0, 0]), np.int32).tolist() == [
        LARGEST,
        -LARGEST - 1,
        0,
    ]
    np.testing.assert_array_equal(applied(POWER, b, np.int32(3), np.int32), b**3)
    with pytest.raises(SimulationError, match="negative exponent"):
        applied(POWER, b, np.int32(-1), np.int32)


def test_a_number_is_not_its_negation():
    out = np.empty(4, np.float32)
    NOT.apply_unary(np.float32([0, -2, 0.5, 0]), out)
    assert out.tolist() == [1, 0, 0, 1]


@nki.jit
def computed(x, y):
    rows = x.shape[0]
    a, b = nl.load(x), nl.load(y)
    out = nl.ndarray((4, *x.shape), x.dtype, buffer=nl.shared_hbm)
    for k, op in enumerate((DIVIDE, MOD, POWER)):
        t = nl.ndarray(x.shape, x.dtype)
        nisa.tensor_tensor(dst=t, data1=a, data2=b, op=op)
        nl.store(out[k, 0:rows], t)
    t = nl.ndarray(x.shape, x.dtype)
    nisa.tensor_scalar(dst=t, data=a, op0=nl.add, operand0=1e-3, op1=POWER, operand1=-0.5)
    nl.store(out[3, 0:rows], t)
    return out


def test_instructions_take_them_and_their_text_is_read_back(rng):
    x, y = rng.uniform(0.5, 4, (2, 32, 40)).astype(np.float32)
    q, m, p, r = computed(x, y)
    np.testing.assert_array_equal(q, x / y)
    np.testing.assert_array_equal(m, np.mod(x, y))
    np.testing.assert_array_equal(p, np.power(x.astype(np.float64), y).astype(np.float32))
    shifted = (x + np.float32(1e-3)).astype(np.float64)
    np.testing.assert_array_equal(r, np.power(shifted, -0.5).astype(np.float32))
    text = print_kernel(computed.compile(x, y).compiled.kernel)
    assert "op=beta1.divide" in text and "op1=beta1.power" in text
    ops = [i.op for i in read_kernel(text).body if i.definition.name == "tensor_tensor"]
    assert ops == [DIVIDE, MOD, POWER]
    assert copy.deepcopy(DIVIDE) is DIVIDE


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.add, "add"), (np.divide, "divide"), (np.true_divide, "divide"), (np.mod, "mod"), (np.power, "power"),
        (np.max, "maximum"), (np.amin, "minimum"), (np.sum, "add"), (np.prod, "multiply"), (np.abs, "abs"),
        (np.exp, "exp"), (np.square, "square"), (np.copy, "copy"), (np.logical_not, "logical_not"),
        (np.any, "logical_or"), (np.less_equal, "less_equal"), (np.bitwise_and, "bitwise_and"),
    ],
)  # fmt: skip
def test_a_numpy_function_stands_for_an_operator(value, name):
    assert operator_of(value, "activation") is OPERATORS[name]


def test_todays_operators_stay_as_they_are():
    assert operator_of(OPS["add"], "tensor_tensor") is OPS["add"]
    assert operator_of(OPS["divide"], "tensor_tensor") is DIVIDE is not OPS["divide"]
    assert OPS["divide"].refusal and not DIVIDE.refusal


@pytest.mark.parametrize("value", ["add", np.linalg.norm, 3, np.sort, lambda a, b: a + b])
def test_what_stands_for_none_is_named(value):
    with pytest.raises(WrongOperand, match=r"tensor_reduce: op=.* stands for no operator"):
        operator_of(value, "tensor_reduce")
