"""Compares the gradients that a backward kernel gives with central differences of a formula in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lab.autodiff import BackwardKernel, backward

_STEP = 1e-5


def differences(
    formula: Callable[..., Any], inputs: dict[str, Any], name: str, gradients: list[np.ndarray]
) -> np.ndarray:
    """Return the gradient of one input, element by element."""
    wide = {k: v.astype(np.float64) if _is_float(v) else v for k, v in inputs.items()}

    def loss(values: np.ndarray) -> float:
        results = formula(*(wide | {name: values}).values())
        results = results if isinstance(results, tuple) else (results,)
        return sum(np.sum(r * g) for r, g in zip(results, gradients, strict=True))

    slopes = np.zeros_like(wide[name])
    for place in np.ndindex(slopes.shape):
        step = np.zeros_like(slopes)
        step[place] = _STEP
        slopes[place] = (loss(wide[name] + step) - loss(wide[name] - step)) / (2 * _STEP)
    return slopes


def check_gradients(
    kernel: Any,
    formula: Callable[..., Any],
    seed: int = 0,
    tolerance: float = 2e-4,
    **inputs: Any,
) -> BackwardKernel:
    """Compare all gradients of a kernel with differences, and return its backward kernel.

    The gradients of the results are random; those of the inputs are compared up to `tolerance` of the largest.
    """
    rng = np.random.default_rng(seed)
    derived = backward(kernel, **inputs)
    results = formula(*inputs.values())
    results = results if isinstance(results, tuple) else (results,)
    gradients = [rng.standard_normal(r.shape).astype(np.float32) for r in results]
    arrays = [v for v in inputs.values() if isinstance(v, np.ndarray)]
    found = derived(*arrays, *gradients)
    for name, gradient in zip(derived.gradients_of, found, strict=True):
        expected = differences(formula, inputs, name, gradients)
        assert np.abs(expected).max() > 0, f"{name} has no gradient to compare"
        error = np.abs(gradient - expected).max() / np.abs(expected).max()
        assert error < tolerance, f"{name}: {error:.1e}\n{gradient}\n{expected}"
    return derived


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float32
