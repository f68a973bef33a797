"""Tests reductions, softmax and RMS norm against NumPy, and that other axes are refused."""

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.errors import RuleBroken, WrongOperand
from tests.language.evaluate import error_against, evaluate

RNG = np.random.default_rng(11)
X = RNG.standard_normal((24, 6, 10)).astype(np.float32)
X64 = X.astype(np.float64)
AXES = [2, -1, (2,), (1, 2), [2, 1], (-2, -1)]


def as_tile(expected):
    """Give a result that lost all free axes the one a tile keeps."""
    return expected[:, None] if expected.ndim == 1 else expected


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "prod"])
def test_reduction(name, axis, keepdims):
    plain = tuple(axis) if isinstance(axis, list) else axis
    expected = as_tile(getattr(np, name)(X64, axis=plain, keepdims=keepdims))
    result = evaluate(lambda t: getattr(nl, name)(t, axis, keepdims=keepdims), X)
    assert error_against(result, expected) < 1e-6


@pytest.mark.parametrize("axis", [2, (1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_variance_keeps_its_axes(axis, keepdims):
    result = evaluate(lambda t: nl.var(t, axis, keepdims=keepdims), X + 100)
    expected = (X + 100).astype(np.float64).var(axis=axis, keepdims=True)
    assert error_against(result, expected) < 1e-5


@pytest.mark.parametrize("axis", [2, (1, 2)])
def test_all(axis):
    x = (X > -1.9).astype(np.float32)
    expected = as_tile(x.all(axis=axis).astype(np.float64))
    assert 0 < expected.sum() < expected.size
    assert error_against(evaluate(lambda t: nl.all(t, axis), x), expected) == 0


def test_sums_are_kept_in_float32():
    x = np.full((8, 4096), 1.0, ml_dtypes.bfloat16)  # a bfloat16 sum would stop at 256
    assert np.array_equal(evaluate(lambda t: nl.sum(t, 1), x), np.full((8, 1), 4096.0))
    assert np.array_equal(evaluate(lambda t: nl.mean(t, 1), x), np.full((8, 1), 1.0))


@pytest.mark.parametrize("axis", [-1, 2, (1, 2)])
def test_softmax(axis):
    x = X.copy()
    x[:, 2, 3] += 200  # overflows float32 unless the maximum is taken away
    powers = np.exp(x.astype(np.float64) - x.max(axis=axis, keepdims=True))
    expected = powers / powers.sum(axis=axis, keepdims=True)
    assert error_against(evaluate(lambda t: nl.softmax(t, axis), x), expected) < 1e-6


def test_softmax_of_a_matrix_by_default():
    x = X.reshape(24, 60)
    powers = np.exp(x.astype(np.float64))
    result = evaluate(lambda t: nl.softmax(t, dtype=nl.bfloat16), x)
    assert result.dtype == ml_dtypes.bfloat16
    assert error_against(result, powers / powers.sum(1, keepdims=True)) < 2**-9


@pytest.mark.parametrize(("axis", "n"), [(1, 60), (1, 240)])
def test_rms_norm(axis, n):
    x, w = X.reshape(24, 60), RNG.standard_normal((24, 60)).astype(np.float32)
    exact = x.astype(np.float64)
    expected = exact / np.sqrt((exact**2).sum(1, keepdims=True) / n + 0.125) * w
    result = evaluate(lambda a, b: nl.rms_norm(a, b, axis, n, epsilon=0.125), x, w)
    assert error_against(result, expected) < 1e-6


def test_rms_norm_over_the_last_of_two_free_axes():
    w = RNG.standard_normal(X.shape).astype(np.float32)
    expected = X64 / np.sqrt((X64**2).mean(2, keepdims=True) + 1e-6) * w
    assert error_against(evaluate(lambda a, b: nl.rms_norm(a, b, 2, 10), X, w), expected) < 1e-6


@pytest.mark.parametrize(
    ("axis", "help"),
    [
        (0, "nisa.nc_matmul"),
        ((0, 1, 2), "nisa.nc_matmul"),
        (1, r"reduce the last free axes: \[2\], \[1, 2\]"),
        (3, "reduce the last free axes"),
        (-4, "reduce the last free axes"),
        (None, "reduce the last free axes"),
        ((), "reduce the last free axes"),
        (1.0, "reduce the last free axes"),
    ],
)
def test_other_axes_are_refused(axis, help):
    with pytest.raises(RuleBroken, match=f"(?s)nl.sum: axis=.*{help}"):
        evaluate(lambda t: nl.sum(t, axis), X)


def test_a_tensor_in_hbm_is_refused():
    with pytest.raises(WrongOperand, match="load it first"):
        evaluate(lambda t: nl.sum(nl.ndarray((4, 4), nl.float32, buffer=nl.hbm), 1), X)
