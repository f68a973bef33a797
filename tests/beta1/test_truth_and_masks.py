"""Truth values joined by operators, `//`, and masks of functions that are several instructions."""

import numpy as np
import pytest

from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki

X = (3 * np.random.default_rng(9).standard_normal((60, 21))).astype(np.float32)
WHOLE = np.random.default_rng(10).integers(-999, 999, (60, 21)).astype(np.int32)


def computed(x, function, dtype=None):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, dtype or a.dtype, buffer=nl.shared_hbm)
        nl.store(out, function(nl.load(a)))
        return out

    return kernel(x)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda t: (t > 0) & (t < 2), (X > 0) & (X < 2)),
        (lambda t: (t < -1) | (t > 2), (X < -1) | (X > 2)),
        (lambda t: (t < 1) ^ (t > -1), (X < 1) ^ (X > -1)),
        (lambda t: ~(t > 0), X <= 0),
        (lambda t: nl.invert(t > 0), X <= 0),
    ],
    ids=["and", "or", "xor", "not", "invert"],
)
def test_operators_of_bits_join_truth_values(function, expected):
    np.testing.assert_array_equal(computed(X, function), expected.astype(np.float32))


def test_bits_of_integers_stay_bits():
    np.testing.assert_array_equal(computed(WHOLE, lambda t: ~t), ~WHOLE)
    np.testing.assert_array_equal(computed(WHOLE, lambda t: (t & 12) ^ 5), (WHOLE & 12) ^ 5)


@pytest.mark.parametrize(
    ("data", "function", "expected"),
    [
        (WHOLE, lambda t: t // 7, WHOLE // 7),
        (WHOLE, lambda t: 5000 // t, 5000 // np.where(WHOLE == 0, 1, WHOLE)),
        (X, lambda t: t // 0.75, np.floor(X / np.float32(0.75))),
        (X, lambda t: t // t[:, 0:1], np.floor(X / X[:, :1])),
    ],
    ids=["integers", "of a number", "floats", "by a column"],
)
def test_a_floor_division_rounds_down(data, function, expected):
    data = np.where(data == 0, 1, data).astype(data.dtype)
    np.testing.assert_array_equal(computed(data, function), expected)


def test_a_floor_division_in_place():
    def halved(t):
        t //= 2.0
        return t

    np.testing.assert_array_equal(computed(X, halved), np.floor(X / 2))


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "cos", "sin", "tan"])
def test_a_mask_cuts_functions_of_several_instructions(name):
    def some(t):
        i_p, i_f = nl.mgrid[0:60, 0:21]
        t[i_p, i_f] = getattr(nl, name)(t, mask=(i_p < 32) & (i_f > 3))
        return t

    expected = X.copy()
    expected[:32, 4:] = getattr(np, name)(X[:32, 4:])
    np.testing.assert_allclose(computed(X, some), expected, rtol=2e-4, atol=2e-5)
