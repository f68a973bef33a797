"""Tests matrix products, transposes, repeated axes and choices between tiles against NumPy."""

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.errors import RuleBroken, ViewError, WrongOperand
from tests.language.evaluate import error_against, evaluate, run_kernel, stored

RNG = np.random.default_rng(5)
A = RNG.standard_normal((48, 72)).astype(np.float32)
B = RNG.standard_normal((72, 200)).astype(np.float32)
C = RNG.standard_normal((48, 200)).astype(np.float32)


def test_matmul_of_a_transposed_operand_is_one_instruction():
    result = evaluate(lambda x, y: nl.matmul(x, y, transpose_x=True), A, C)
    assert error_against(result, A.T.astype(np.float64) @ C) < 1e-5

    def kernel(a, c):
        return stored(nl.matmul(nl.load(a), nl.load(c), transpose_x=True))

    names = [i.definition.name for i in run_kernel(kernel, A, C)[1].instructions]
    assert names == ["dma_copy", "dma_copy", "nc_matmul", "tensor_copy", "dma_copy"]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_matmul_transposes_first(dtype):
    a, b = A.astype(dtype), B.astype(dtype)
    result = evaluate(nl.matmul, a, b)
    assert result.dtype == np.float32  # PSUM accumulates in float32
    assert error_against(result, a.astype(np.float64) @ b.astype(np.float64)) < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_transpose(dtype):
    result = evaluate(nl.transpose, A.astype(dtype))
    assert np.array_equal(result, A.astype(dtype).T)
    assert result.dtype == dtype


def test_transpose_with_a_cast():
    result = evaluate(lambda x: nl.transpose(x, dtype=nl.float32), A.astype(ml_dtypes.bfloat16))
    assert result.dtype == np.float32
    assert np.array_equal(result, A.astype(ml_dtypes.bfloat16).T.astype(np.float32))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda a, b: nl.matmul(a, b, transpose_x=True), RuleBroken, "axis 0 of both tiles"),
        (lambda a, b: nl.matmul(b, a), RuleBroken, "pass transpose_x=True"),
        (lambda a, b: nl.matmul(nl.transpose(a), b, transpose_x=True), WrongOperand, "nl.copy"),
        (lambda a, b: nl.transpose(nl.expand_dims(a, 1)), WrongOperand, "must have two axes"),
        (lambda a, b: nl.expand_dims(a, 0), ViewError, "expand_dim"),
        (lambda a, b: nl.broadcast_to(a, (48, 200)), RuleBroken, r"cannot be repeated to \[48, 200\]"),
        (lambda a, b: nl.broadcast_to(a, (48, 1, 72)), RuleBroken, "as many axes"),
        (lambda a, b: nl.where(a, a, b), RuleBroken, "`condition` and `y`"),
        (lambda a, b: nl.where(a, a[:, 0:1], a), RuleBroken, "`condition` and `x`"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(function, error, message):
    with pytest.raises(error, match=f"(?s){message}"):
        evaluate(function, A, B)


SHAPES = [
    ((24, 1), (24, 30)),
    ((24, 1, 7), (24, 5, 7)),
    ((24, 5, 1), (24, 5, 7)),
    ((24, 1, 1), (24, 5, 7)),
    ((1, 7), (24, 7)),
    ((1, 1), (24, 7)),
    ((1, 1300), (128, 1300)),
    ((1, 5, 1), (24, 5, 7)),
]


@pytest.mark.parametrize(("shape", "wanted"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_broadcast_to(shape, wanted, dtype):
    x = RNG.standard_normal(shape).astype(dtype)
    result = evaluate(lambda t: nl.broadcast_to(t, wanted), x)
    assert result.dtype == dtype
    assert np.array_equal(result, np.broadcast_to(x, wanted))


def test_broadcast_to_the_same_shape_is_the_tile_itself():
    same = []

    def kernel(a):
        tile = nl.load(a)
        same.append(nl.broadcast_to(tile, (48, 72)) is tile)
        return stored(nl.broadcast_to(tile, (48, 72), dtype=nl.bfloat16))

    (result,), _ = run_kernel(kernel, A)
    assert same == [True]
    assert np.array_equal(result, A.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(("shape", "wanted"), SHAPES, ids=str)
@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint32, ml_dtypes.float8_e5m2]
)
def test_broadcast_to_keeps_every_bit(shape, wanted, dtype):
    x = RNG.integers(0, 256, (*shape, np.dtype(dtype).itemsize), np.uint8).view(dtype)[..., 0]
    result = evaluate(lambda t: nl.broadcast_to(t, wanted), x)
    assert result.dtype == dtype
    assert np.array_equal(result.view(np.uint8), np.broadcast_to(x, wanted).copy().view(np.uint8))


def test_broadcast_to_casts_integers_after_repeating_them():
    x = RNG.integers(-100, 100, (24, 40), np.int32)
    result = evaluate(lambda t: nl.broadcast_to(t[0:1, 3:9], (24, 6), dtype=nl.float32), x)
    assert np.array_equal(result, np.broadcast_to(x[0:1, 3:9], (24, 6)).astype(np.float32))


def test_where_chooses_and_is_not_arithmetic():
    x, y = A.copy(), A[::-1].copy()
    x[0, :4], y[1, :4] = np.nan, np.inf
    expected = np.where(A > 0, x, y)
    result = evaluate(lambda a, b, c: nl.where(nl.greater(a, 0), b, c), A, x, y)
    assert np.array_equal(result, expected, equal_nan=True)


def test_where_takes_numbers_and_casts():
    first = evaluate(lambda a: nl.where(nl.less(a, 0), -2, a), A)
    second = evaluate(lambda a: nl.where(nl.less(a, 0), a, 0.5), A)
    assert np.array_equal(first, np.where(A < 0, np.float32(-2), A))
    assert np.array_equal(second, np.where(A < 0, A, np.float32(0.5)))
    narrow = A.astype(ml_dtypes.bfloat16)
    result = evaluate(lambda a, b: nl.where(a, b, a, dtype=nl.float32), A, narrow)
    assert np.array_equal(result, narrow.astype(np.float32))


def test_where_keeps_32_bit_integers_exact():
    x = RNG.integers(-(2**31), 2**31, (2, 24, 40), np.int32)
    condition = (RNG.random((24, 40)) < 0.5).astype(np.float32)
    assert np.array_equal(evaluate(nl.where, condition, *x), np.where(condition, *x))
