"""Tests the mathematical value, the valid range and the table of every activation function."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nki_lab.isa.activations import ACTIVATIONS
from nki_lab.isa.operators import OPS


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def normal(x):
    return math.erfc(-x / math.sqrt(2)) / 2


def softplus(x):
    return x + math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x))


FORMULAS = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": sigmoid,
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * normal(x),
    "gelu_dx": lambda x: normal(x) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    "gelu_apprx_tanh": lambda x: x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "gelu_apprx_sigmoid_dx": lambda x: sigmoid(1.702 * x) * (1 + 1.702 * x * (1 - sigmoid(1.702 * x))),
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))),
    "tanh": math.tanh,
    "softplus": softplus,
    "mish": lambda x: x * math.tanh(softplus(x)),
    "erf": math.erf,
    "erf_dx": lambda x: 2 / math.sqrt(math.pi) * math.exp(-x * x),
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "arctan": math.atan,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sign": lambda x: float(x > 0) - float(x < 0),
    "abs": abs,
}  # fmt: skip

# nki/api/nki.api.shared.rst, "Valid Input Range" where it is not all numbers.
RANGES = {
    "log": (2.0**-64, 2.0**64),
    "sin": (-math.pi, math.pi),
    "arctan": (-math.pi / 2, math.pi / 2),
    "sqrt": (2.0**-116, 2.0**118),
    "rsqrt": (2.0**-87, 2.0**97),
    "reciprocal": (2.0**-42, 2.0**42),
}


def points(name):
    low, high = RANGES.get(name, (-12.0, 12.0))
    if high > 1e6:  # many powers of two
        return np.exp2(np.linspace(math.log2(low), math.log2(high), 4001)).astype(np.float32)[None]
    inside = np.nextafter(np.float32(high), np.float32(0))
    return np.clip(np.linspace(low, high, 4001), -inside, inside).astype(np.float32)[None]


def apply(name, x):
    x = np.asarray(x, np.float32)
    out = np.empty_like(x)
    with np.errstate(all="ignore"):
        OPS[name].activation.apply(x, out)
    return out


def test_the_table_is_the_documented_one():
    assert ACTIVATIONS.keys() == {*FORMULAS, "prelu"}
    assert {n for n, a in ACTIVATIONS.items() if a.is_limited} == RANGES.keys()
    for name, (low, high) in RANGES.items():
        assert (ACTIVATIONS[name].low, ACTIVATIONS[name].high) == (low, high)


@pytest.mark.parametrize("name", FORMULAS)
def test_value(name):
    x = points(name)
    expected = [[FORMULAS[name](float(v)) for v in x[0]]]
    np.testing.assert_allclose(apply(name, x), expected, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("name", FORMULAS)
def test_in_place_is_the_same(name):
    x = points(name)
    expected = apply(name, x)
    with np.errstate(all="ignore"):
        OPS[name].activation.apply(x, x)
    np.testing.assert_array_equal(x, expected)


LIMITS = {  # value at -inf, value at +inf
    "sigmoid": (0, 1), "relu": (0, np.inf), "gelu": (0, np.inf), "gelu_dx": (0, 1), "gelu_apprx_tanh": (0, np.inf),
    "gelu_apprx_sigmoid": (0, np.inf), "gelu_apprx_sigmoid_dx": (0, 1), "silu": (0, np.inf), "silu_dx": (0, 1),
    "tanh": (-1, 1), "softplus": (0, np.inf), "mish": (0, np.inf), "erf": (-1, 1), "erf_dx": (0, 0),
    "exp": (0, np.inf), "square": (np.inf, np.inf), "abs": (np.inf, np.inf), "copy": (-np.inf, np.inf),
    "sign": (-1, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_infinities_and_nan(name):
    found = apply(name, [[-np.inf, np.inf, np.nan]])[0]
    np.testing.assert_array_equal(found[:2], LIMITS[name])
    assert np.isnan(found[2])
    # Far out, where factors overflow, a finite limit is reached already.
    if np.isfinite(LIMITS[name][0]):
        np.testing.assert_allclose(apply(name, [[-200.0]]), LIMITS[name][0], atol=1e-6)


def test_erf_is_close_near_zero():
    x = np.float32(2.0) ** np.arange(-30, 2, dtype=np.float32)[None]
    np.testing.assert_allclose(apply("erf", x), [[math.erf(float(v)) for v in x[0]]], rtol=5e-7)


def test_sin_continues_as_a_cubic():
    # nki/api/nki.api.shared.rst: sin(9.0) returns ~27.65, not ~0.41.
    found = apply("sin", [[9.0, -9.0, 3.0, 4.0]])[0]
    assert round(float(found[0]), 2) == 27.65 and found[1] == -found[0]
    assert found[2] == pytest.approx(math.sin(3.0), rel=1e-6)
    assert found[3] == pytest.approx(math.pi - 4 + (4 - math.pi) ** 3 / 6, rel=1e-5)


@pytest.mark.parametrize("name", sorted(RANGES.keys() - {"reciprocal"}))
def test_inputs_outside_the_valid_range_are_counted(name):
    low, high = RANGES[name]
    inside = np.array([[low, high, (low + high) / 2, np.nan]])
    assert ACTIVATIONS[name].outside(inside) == 0
    outside = np.array([[low - abs(low) / 8, high * 1.25, -np.inf, np.inf, (low + high) / 2]])
    assert ACTIVATIONS[name].outside(outside) == 4


def test_the_range_of_the_reciprocal_is_one_of_magnitudes():
    x = np.array([[2.0**-43, -(2.0**-42), 1.0, -(2.0**43), np.nan, 0.0]], np.float32)
    assert ACTIVATIONS["reciprocal"].outside(x) == 3


def test_tables():
    free = {n for n, a in ACTIVATIONS.items() if a.table is None}
    assert free == {"copy", "square", "relu", "prelu", "sign", "abs"}
    named = [a.table for a in ACTIVATIONS.values() if a.table is not None]
    assert len(named) == len(set(named))
