"""Tests floor, ceil, trunc and the trigonometric functions for elements of any size."""

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from tests.language.evaluate import error_against, evaluate

RNG = np.random.default_rng(3)
SPECIAL = [0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 0.0, 2.0**22 + 0.5, 2.0**23 - 0.5, 2.0**23 + 1,
           -(2.0**23) - 1, 2.0**31, -(2.0**31), 3e38, -3e38, np.inf, -np.inf, np.nan]  # fmt: skip
WIDE = (RNG.standard_normal((30, 64)) * np.logspace(-3, 12, 64)).astype(np.float32)
WIDE[0, : len(SPECIAL)] = SPECIAL


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_rounding(name, dtype):
    with np.errstate(over="ignore", invalid="ignore"):
        x = WIDE.astype(dtype)
        expected = getattr(np, name)(x.astype(np.float64)).astype(np.float32).astype(dtype)
    result = evaluate(getattr(nl, name), x)
    assert result.dtype == dtype
    assert np.array_equal(result.astype(np.float32), expected.astype(np.float32), equal_nan=True)


def test_floor_to_integers():
    x = (100 * RNG.standard_normal((20, 30))).astype(np.float32)
    result = evaluate(lambda t: nl.floor(t, dtype=nl.int32), x)
    assert np.array_equal(result, np.floor(x.astype(np.float64)).astype(np.int32))


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_angles_of_any_size(name):
    angles = (RNG.standard_normal((32, 48)) * np.logspace(-2, 4, 48)).astype(np.float32)
    angles[0, :5] = [np.pi, -np.pi, np.pi / 2, 2 * np.pi, -7 * np.pi]
    expected = getattr(np, name)(angles.astype(np.float64))
    assert error_against(evaluate(getattr(nl, name), angles), expected) < 1e-6


def test_tangent_away_from_its_poles():
    angles = (RNG.standard_normal((32, 48)) * 20).astype(np.float32)
    exact = angles.astype(np.float64)
    angles[np.abs(np.cos(exact)) < 0.05] = 0.75
    expected = np.tan(angles.astype(np.float64))
    assert error_against(evaluate(nl.tan, angles), expected) < 1e-5
