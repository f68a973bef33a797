"""Tests that replays compute what the programs they stand for compute."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from benchmarks.replay import Program
from benchmarks.replays import (
    autocomp_attention,
    autocomp_attention_hbm,
    autocomp_conv1d,
    autocomp_gemm,
    fused_mamba,
    matmul_ladder,
)
from benchmarks.running import run

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def computed(function: Any, arrays: list[np.ndarray], **constants: Any) -> np.ndarray:
    result = nki_lab.run(function, *arrays, target="trn1", **constants)
    (value,) = result.outputs
    return np.asarray(value, dtype=np.float64)


def names(versions: Any) -> list[str]:
    return [str(line) for line, *_ in versions]


def normal(seed: int, *shapes: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def product(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return lhs.astype(np.float64).T @ rhs.astype(np.float64)


@pytest.mark.parametrize("step", matmul_ladder.LADDER, ids=lambda step: step.__name__)
def test_steps_of_the_matmul_tutorial(step: Any) -> None:
    blocks = {"deep": 2, "high": 1, "wide": 2} if step is matmul_ladder.blocked else {}
    arrays = normal(1, (256, 256), (256, 2048), dtype=BFLOAT16)
    result = computed(step, arrays, **blocks)
    np.testing.assert_allclose(result, product(*arrays), rtol=0.01, atol=0.2)


@pytest.mark.parametrize(
    ("line", "function", "constants"), autocomp_gemm.VERSIONS, ids=names(autocomp_gemm.VERSIONS)
)
def test_products_of_autocomp(line: int, function: Any, constants: dict[str, Any]) -> None:
    arrays = normal(line, (256, 512), (256, 2048), dtype=BFLOAT16)
    result = computed(function, arrays, **constants)
    np.testing.assert_allclose(result, product(*arrays), rtol=0.01, atol=0.2)


@pytest.mark.parametrize("version", [fused_mamba.v1, fused_mamba.v2, fused_mamba.v3])
def test_versions_of_mamba(version: Any) -> None:
    channels, length, states = 256, 1024, 3
    delta, u, b, c = normal(
        2, (channels, length), (channels, length), (states, length), (states, length)
    )
    delta = 0.1 * np.abs(delta)
    (a,) = normal(3, (channels, states))
    a = -np.abs(a)
    result = computed(version, [delta, u, a, b, c])

    held = np.zeros((channels, states))
    expected = np.zeros((channels, length))
    for t in range(length):
        step = delta[:, t : t + 1].astype(np.float64)
        held = np.exp(step * a) * held + step * u[:, t : t + 1] * b[:, t]
        expected[:, t] = held @ c[:, t]
    np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)


ATTENTION = autocomp_attention_hbm.VERSIONS + autocomp_attention.VERSIONS


@pytest.mark.parametrize(("line", "function"), ATTENTION, ids=names(ATTENTION))
def test_attention_of_autocomp(line: int, function: Any) -> None:
    q, k, v = normal(4, (128, 1024), (128, 1024), (128, 1024), dtype=BFLOAT16)
    q = (q * BFLOAT16.type(0.125)).astype(BFLOAT16)  # one version keeps scores as bfloat16
    result = computed(function, [q, k, v])
    scores = product(q, k)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights @ v.astype(np.float64).T / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(result, expected, atol=0.02)


CONVOLUTIONS = {function.__name__: function for _, function in autocomp_conv1d.VERSIONS}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_autocomp(name: str) -> None:
    image, weights = normal(5, (2, 256, 1, 96), (256, 1, 1, 3))
    result = computed(CONVOLUTIONS[name], [image, weights])
    expected = np.zeros(image.shape)
    for batch, channel in np.ndindex(2, 256):
        line, window = image[batch, channel, 0], weights[channel, 0, 0]
        expected[batch, channel, 0] = np.correlate(line.astype(np.float64), window, "same")
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("arch", ["v2", "v3"])
def test_each_step_of_the_matmul_tutorial_is_faster(arch: str) -> None:
    # Published for trn1: 51.8, 42.96 and 22.07 ms (the last step's time is not among the rows that are scored).
    matrices = ((1024, 2048), "bfloat16"), ((1024, 2048), "bfloat16")
    times = [run(Program(step, matrices), arch).total_ns for step in matmul_ladder.LADDER]
    for slower, faster in itertools.pairwise(times):
        assert faster < 0.9 * slower
