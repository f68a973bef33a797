"""Tests that nl.rand, nl.random_seed and nl.dropout make random numbers that a seed decides."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.errors import NkiError, RuleBroken, WrongOperand
from tests.language.evaluate import evaluate, run_kernel, stored

TARGETS = ("trn1", "trn2", "trn3")
X = np.random.default_rng(0).standard_normal((128, 200)).astype(np.float32)


def seeded(seed, make):
    """Return a kernel that seeds the generator and makes a tile twice."""

    def kernel(x):
        nl.random_seed(nl.full((1, 1), seed, dtype=nl.int32))
        return stored(make()), stored(make())

    return kernel


def draw(seed, target, dtype=nl.float32, shape=(128, 256), buffer=nl.sbuf):
    (first, second), _ = run_kernel(
        seeded(seed, lambda: nl.rand(shape, dtype, buffer)), X, target=target
    )
    return first, second


@pytest.mark.parametrize("target", TARGETS)
def test_uniform_and_decided_by_the_seed(target):
    first, second = draw(42, target)
    again, _ = draw(42, target)
    other, _ = draw(43, target)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, second) and not np.array_equal(first, other)
    values = np.concatenate([first, second], axis=None).astype(float)
    assert values.min() >= 0 and values.max() < 1
    assert abs(values.mean() - 0.5) < 4 / np.sqrt(12 * values.size)
    assert abs(values.var() - 1 / 12) < 4 / np.sqrt(180 * values.size)
    assert np.histogram(values, 64, (0, 1))[0].min() > 0.8 * values.size / 64


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [nl.bfloat16, nl.float16, nl.float8_e4m3fn, nl.int32])
def test_other_dtypes_are_rounded(target, dtype):
    exact, _ = draw(7, target)
    narrow, _ = draw(7, target, dtype)
    assert narrow.dtype == dtype.np
    rounded = np.rint(exact) if dtype.is_integer else exact.astype(dtype.np)
    assert np.array_equal(narrow.astype(float), rounded.astype(float))


@pytest.mark.parametrize("target", TARGETS)
def test_in_psum(target):
    assert np.array_equal(draw(5, target, buffer=nl.psum)[0], draw(5, target)[0])


@pytest.mark.parametrize("shape", [(3,), (7, 5), (300, 700), (2, 130, 33)])
def test_in_hbm(shape):
    def kernel(x):
        return nl.rand(shape, nl.float32, nl.shared_hbm)

    (values,), _ = run_kernel(kernel, X)
    assert values.shape == shape
    assert values.min() >= 0 and values.max() < 1
    assert len(np.unique(values)) > 0.95 * values.size  # no piece is a copy of another


@pytest.mark.parametrize("target", TARGETS)
def test_dropout(target):
    result = evaluate(lambda t: nl.dropout(t, 0.25), X, target=target)
    kept = result != 0
    assert np.array_equal(result[kept], X[kept])
    assert abs(kept.mean() - 0.75) < 4 * np.sqrt(0.25 * 0.75 / X.size)


def test_dropout_by_partition_and_dtype():
    rate = np.linspace(0, 1, 128, dtype=np.float32)[:, None]
    result = evaluate(lambda t, r: nl.dropout(t, r, dtype=nl.bfloat16), X, rate)
    assert result.dtype == nl.bfloat16.np
    assert np.array_equal(result[0], X[0].astype(result.dtype)) and not result[-1].any()
    assert abs((result != 0).mean() - 0.5) < 0.02


def test_the_seed_decides_dropout():
    def kernel(x):
        t = nl.load(x)
        nl.random_seed(nl.full((1, 1), 3, dtype=nl.int32))
        first = nl.dropout(t, 0.5)
        nl.random_seed(nl.full((1, 1), 3, dtype=nl.int32))
        return stored(first), stored(nl.dropout(t, 0.5))

    (first, again), _ = run_kernel(kernel, X)
    assert np.array_equal(first, again)


def test_a_call_without_a_seed_repeats_itself():
    kernel = lambda x: stored(nl.rand((16, 16), nl.float32))  # noqa: E731
    (first,), _ = run_kernel(kernel, X)
    (again,), _ = run_kernel(kernel, X)
    assert np.array_equal(first, again)


def test_seeding_before_trn3_is_not_portable():
    for target in TARGETS:
        _, compiled = run_kernel(seeded(1, lambda: nl.rand((4, 4), nl.float32)), X, target=target)
        found = [f for f in compiled.findings if "random_seed" in f.message]
        assert [f.kind for f in found] == ([] if target == "trn3" else ["portability"])


def test_a_seed_is_a_tile():
    with pytest.raises(WrongOperand, match=r"(?s)found int 42.*nl\.full\(\(1, 1\), 42"):
        evaluate(lambda t: nl.random_seed(42), X)
    with pytest.raises(NkiError, match=r"\[1, 1\]"):
        evaluate(lambda t: nl.random_seed(nl.full((2, 1), 42, nl.int32)) or t, X)
    with pytest.raises(RuleBroken, match="`prob` must be one value per partition"):
        evaluate(lambda t: nl.dropout(t, t), X)
