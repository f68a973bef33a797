"""Tests that the programs that stand for NKIBench compute what its kernels compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nki_lab
from benchmarks.replay import Program
from benchmarks.replays import nkibench, nkibench_fused, nkibench_matmul
from benchmarks.running import run


def computed(function: Any, *arrays: np.ndarray) -> np.ndarray:
    outputs = nki_lab.run(function, *arrays, target="trn1").outputs
    return np.concatenate([np.asarray(o, dtype=np.float64) for o in outputs])


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [(scale * rng.standard_normal(shape)).astype(np.float32) for shape in shapes]


def wide(*arrays: np.ndarray) -> list[np.ndarray]:
    return [a.astype(np.float64) for a in arrays]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    grown = np.exp(x - x.max(axis=-1, keepdims=True))
    return grown / grown.sum(axis=-1, keepdims=True)


def normalised(x: np.ndarray, weight: Any, small: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + small) * weight


def check(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(
        found.reshape(expected.shape), expected, rtol=2e-3, atol=2e-4 * np.abs(expected).max()
    )


def test_silu() -> None:
    (x,) = normal((128, 3, 1024))
    (w,) = wide(x)
    check(computed(nkibench.silu, x), w * sigmoid(w))


def test_adamw_with_a_short_last_tile() -> None:
    theta, gradient, mean, variance = normal(*[(200, 1024)] * 4)
    variance = np.abs(variance)
    t, g, m, v = wide(theta, gradient, mean, variance)
    step = 0.01 * (0.9 * m + 0.1 * g)
    root = np.sqrt(1000 * (0.999 * v + 0.001 * g * g)) + 1e-8
    found = computed(nkibench.adamw, theta, gradient, mean, variance)
    check(found, t - 1e-5 * t - step / root)


def test_rope() -> None:
    x, cosines, sines = normal((128, 1024), (64, 1024), (64, 1024))
    w, c, s = wide(x, cosines, sines)
    upper, lower = w[:64], w[64:]
    expected = np.concatenate((upper * c - lower * s, lower * c + upper * s))
    check(computed(nkibench.rope, x, cosines, sines), expected)


def test_bmm() -> None:
    lhs, rhs = normal((2, 1024, 64), (2, 64, 1024))
    check(computed(nkibench_matmul.bmm, lhs, rhs), np.matmul(*wide(lhs, rhs)))


def test_matmul() -> None:
    lhs, rhs = normal((256, 1024), (1024, 1024))
    check(computed(nkibench_matmul.matmul, lhs, rhs), np.matmul(*wide(lhs, rhs)))


def test_transpose_matmul_with_a_short_last_block() -> None:
    lhs, rhs = normal((128, 2, 1024), (128, 2, 1216))
    a, b = wide(lhs, rhs)
    found = computed(nkibench_matmul.transpose_matmul, lhs, rhs)
    check(found, np.einsum("pkm,pkn->mn", a, b))


def test_rmsnorm_matmul() -> None:
    x, w = normal((1024, 1024), (1024, 1024))
    a, b = wide(x, w)
    check(computed(nkibench_matmul.rmsnorm_matmul, x, w), normalised(a, 1, 0) @ b)


def test_norms_after_a_sum() -> None:
    x, w, z, g = normal((256, 512), (512, 1024), (256, 512), (1, 512))
    a, b, c, d = wide(x, w, z, g)
    found = computed(nkibench_matmul.add_rmsnorm_matmul, x, w, z, g)
    check(found, normalised(a + c, d, 1e-6) @ b)


def test_norm_of_a_product() -> None:
    x, w, z, g = normal((256, 256), (256, 1024), (256, 1024), (1, 1024))
    a, b, c, d = wide(x, w, z, g)
    found = computed(nkibench_matmul.matmul_add_rmsnorm, x, w, z, g)
    check(found, normalised(a @ b + c, d, 1e-6))


def test_bmm_softmax() -> None:
    lhs, rhs = normal((1, 1024, 64), (1, 64, 1024), scale=0.3)
    check(computed(nkibench_fused.bmm_softmax, lhs, rhs), softmax(np.matmul(*wide(lhs, rhs))))


def test_gqa() -> None:
    q, k, v = normal((512, 4, 128), (2, 512, 128), (512, 2, 128))
    a, b, c = wide(q, k, v)
    expected = np.stack(
        [softmax(a[:, h] @ b[h // 2].T / np.sqrt(128)) @ c[:, h // 2] for h in range(4)]
    )
    check(computed(nkibench_fused.gqa, q, k, v), expected)


def test_swiglu() -> None:
    x, up, down, gate = normal((512, 1024), (1024, 1024), (1024, 1024), (1024, 1024), scale=0.2)
    a, b, c, d = wide(x, up, down, gate)
    gated = a @ d
    found = computed(nkibench_fused.swiglu, x, up, down, gate)
    check(found, (gated * sigmoid(gated) * (a @ b)) @ c)


def test_lora() -> None:
    x, w, a, b = normal((2048, 5120), (5120, 1024), (5120, 128), (128, 1024), scale=0.1)
    p, q, r, s = wide(x, w, a, b)
    check(computed(nkibench_fused.lora, x, w, a, b), p @ q + p @ r @ s)


@pytest.mark.parametrize("repeats", [1, 3])
def test_repeated_programs_take_so_many_times_as_long(repeats: int) -> None:
    tensors = nkibench.float32((128, 2, 1024))
    once = run(Program(nkibench.silu, tensors), "v2")
    found = run(Program(nkibench.silu, tensors, repeats=repeats), "v2")
    start = once.timeline.offset / 1000
    assert found.total_ns - start == pytest.approx(repeats * (once.total_ns - start))
    assert found.hbm_bytes == repeats * once.hbm_bytes == repeats * 2 * 128 * 2 * 1024 * 4
    assert found.busy_ns["dma"] == pytest.approx(repeats * once.busy_ns["dma"])


def test_published_bytes_scale_the_work_of_transfers() -> None:
    tensors = nkibench.float32((128, 2, 1024))
    plain = run(Program(nkibench.silu, tensors), "v2")
    more = run(Program(nkibench.silu, tensors), "v2", hbm_bytes=4 * plain.hbm_bytes)
    assert more.busy_ns["dma"] == pytest.approx(4 * plain.busy_ns["dma"], rel=1e-6)
    assert more.busy_ns["vector"] == plain.busy_ns["vector"]
    assert more.bytes_ns == pytest.approx(4 * plain.bytes_ns)
