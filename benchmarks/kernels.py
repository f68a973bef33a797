"""The kernels that are measured, and each of them by hand in NumPy.

A tile loop is the same mathematics over the same tiles with reused buffers and nothing else: the floor of a simulator
that computes with NumPy. Its tile buffers are made once, as the simulator's are; its result is a new array each time,
as a kernel's is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa


@dataclass(frozen=True)
class Measured:
    """A kernel and its tile loop.

    Attributes:
        kernel: the function.
        arrays: makes its arguments.
        tile_loop: arguments -> function of no arguments that computes the result once more and returns it.
        expected: the result by whole arrays in float64.
        bar: the ratio to the tile loop the design is held to.
    """

    kernel: Callable[..., Any]
    arrays: Callable[[np.random.Generator], list[np.ndarray]]
    tile_loop: Callable[..., Callable[[], np.ndarray]]
    expected: Callable[..., np.ndarray]
    bar: float = 1.25


def _normal(*shapes: tuple[int, ...], dtype: Any = np.float32) -> Any:
    return lambda rng: [rng.standard_normal(shape).astype(dtype) for shape in shapes]


# -- matmul -------------------------------------------------------------------------------------------------------


def matmul(lhs, rhs):
    """Multiply lhs.T @ rhs in tiles of 128 x 128 x 512."""
    (k_size, m_size), (_, n_size) = lhs.shape, rhs.shape
    out = nl.ndarray((m_size, n_size), dtype=lhs.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(m_size // 128):
        for n in nl.affine_range(n_size // 512):
            acc = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(k_size // 128):
                a = nl.ndarray((128, 128), dtype=lhs.dtype, buffer=nl.sbuf)
                b = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a, src=lhs[nl.ds(k * 128, 128), nl.ds(m * 128, 128)])
                nisa.dma_copy(dst=b, src=rhs[nl.ds(k * 128, 128), nl.ds(n * 512, 512)])
                nisa.nc_matmul(dst=acc, stationary=a, moving=b)
            result = nl.ndarray((128, 512), dtype=lhs.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=acc)
            nisa.dma_copy(dst=out[nl.ds(m * 128, 128), nl.ds(n * 512, 512)], src=result)
    return out


def _matmul_loop(lhs, rhs):
    (k_size, m_size), (_, n_size) = lhs.shape, rhs.shape
    a, b = np.empty((128, 128), lhs.dtype), np.empty((128, 512), rhs.dtype)
    wide_a, wide_b = np.empty((128, 128), np.float32), np.empty((128, 512), np.float32)
    acc, product = np.empty((128, 512), np.float32), np.empty((128, 512), np.float32)
    result = np.empty((128, 512), lhs.dtype)

    def run():
        out = np.empty((m_size, n_size), lhs.dtype)
        for m in range(0, m_size, 128):
            for n in range(0, n_size, 512):
                for k in range(0, k_size, 128):
                    np.copyto(a, lhs[k : k + 128, m : m + 128])
                    np.copyto(b, rhs[k : k + 128, n : n + 512])
                    np.copyto(wide_a, a, casting="unsafe")
                    np.copyto(wide_b, b, casting="unsafe")
                    if k:
                        np.matmul(wide_a.T, wide_b, out=product)
                        np.add(acc, product, out=acc)
                    else:
                        np.matmul(wide_a.T, wide_b, out=acc)
                np.copyto(result, acc, casting="unsafe")
                np.copyto(out[m : m + 128, n : n + 512], result)
        return out

    return run


# -- row by row ---------------------------------------------------------------------------------------------------


def add(x, y):
    """Add in tiles of 128 rows."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(x.shape[0] // 128):
        rows = nl.ds(r * 128, 128)
        a = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        b = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=a, src=x[rows])
        nisa.dma_copy(dst=b, src=y[rows])
        c = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
        nisa.dma_copy(dst=out[rows], src=c)
    return out


def _add_loop(x, y):
    a, b, c = (np.empty((128, x.shape[1]), x.dtype) for _ in range(3))

    def run():
        out = np.empty_like(x)
        for r in range(0, len(x), 128):
            np.copyto(a, x[r : r + 128])
            np.copyto(b, y[r : r + 128])
            np.add(a, b, out=c)
            np.copyto(out[r : r + 128], c)
        return out

    return run


def softmax(x):
    """Normalize exp(x) along the rows, 128 rows at a time."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range(x.shape[0] // 128):
        rows = nl.ds(r * 128, 128)
        t = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        e = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        largest = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[rows])
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=t, axis=1, negate=True)
        nisa.activation(dst=e, op=nl.exp, data=t, bias=largest)
        nisa.tensor_reduce(dst=total, op=nl.add, data=e, axis=1)
        nisa.reciprocal(dst=scale, data=total)
        nisa.tensor_scalar(dst=t, data=e, op0=nl.multiply, operand0=scale)
        nisa.dma_copy(dst=out[rows], src=t)
    return out


def _softmax_loop(x):
    t, e = np.empty((128, x.shape[1]), np.float32), np.empty((128, x.shape[1]), np.float32)
    largest, total, scale = (np.empty((128, 1), np.float32) for _ in range(3))

    def run():
        out = np.empty_like(x)
        for r in range(0, len(x), 128):
            np.copyto(t, x[r : r + 128])
            np.max(t, axis=1, keepdims=True, out=largest)
            np.subtract(t, largest, out=e)
            np.exp(e, out=e)
            np.sum(e, axis=1, keepdims=True, out=total)
            np.divide(1, total, out=scale)
            np.multiply(e, scale, out=t)
            np.copyto(out[r : r + 128], t)
        return out

    return run


def rmsnorm(x, weight):
    """Divide rows by their root mean square and multiply by a weight per column."""
    columns = x.shape[1]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    w = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=w, src=weight.broadcast(0, 128))
    for r in nl.affine_range(x.shape[0] // 128):
        rows = nl.ds(r * 128, 128)
        t = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        square = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=t, src=x[rows])
        nisa.tensor_tensor(dst=square, data1=t, data2=t, op=nl.multiply)
        nisa.tensor_reduce(dst=total, op=nl.add, data=square, axis=1)
        nisa.tensor_scalar(
            dst=total, data=total, op0=nl.multiply, operand0=1 / columns, op1=nl.add, operand1=1e-6
        )
        nisa.activation(dst=scale, op=nl.rsqrt, data=total)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=scale)
        nisa.tensor_tensor(dst=t, data1=t, data2=w, op=nl.multiply)
        nisa.dma_copy(dst=out[rows], src=t)
    return out


def _rmsnorm_loop(x, weight):
    columns = x.shape[1]
    w = np.empty((128, columns), np.float32)
    t, square = (np.empty((128, columns), np.float32) for _ in range(2))
    total, scale = (np.empty((128, 1), np.float32) for _ in range(2))

    def run():
        out = np.empty_like(x)
        np.copyto(w, weight)
        for r in range(0, len(x), 128):
            np.copyto(t, x[r : r + 128])
            np.multiply(t, t, out=square)
            np.sum(square, axis=1, keepdims=True, out=total)
            np.multiply(total, np.float32(1 / columns), out=total)
            np.add(total, np.float32(1e-6), out=total)
            np.sqrt(total, out=scale)
            np.divide(1, scale, out=scale)
            np.multiply(t, scale, out=t)
            np.multiply(t, w, out=t)
            np.copyto(out[r : r + 128], t)
        return out

    return run


# -- attention ----------------------------------------------------------------------------------------------------


def attention(q, k, v):
    """softmax(q.T @ k) @ v, 128 queries at a time; q and k are [head size, length], v is [length, head size]."""
    size, length = q.shape
    out = nl.ndarray((length, size), dtype=q.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(length // 128):
        queries = nl.ndarray((size, 128), dtype=q.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=queries, src=q[:, nl.ds(m * 128, 128)])
        scores = nl.ndarray((128, length), dtype=nl.float32, buffer=nl.sbuf)
        for n in nl.affine_range(length // 512):
            keys = nl.ndarray((size, 512), dtype=k.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=keys, src=k[:, nl.ds(n * 512, 512)])
            product = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=product, stationary=queries, moving=keys)
            nisa.tensor_copy(dst=scores[:, nl.ds(n * 512, 512)], src=product)
        largest = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        scale = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1, negate=True)
        nisa.activation(dst=scores, op=nl.exp, data=scores, bias=largest)
        nisa.tensor_reduce(dst=total, op=nl.add, data=scores, axis=1)
        nisa.reciprocal(dst=scale, data=total)
        summed = nl.ndarray((128, size), dtype=nl.float32, buffer=nl.psum)
        for n in nl.affine_range(length // 128):
            turned = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
            part = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf)
            values = nl.ndarray((128, size), dtype=v.dtype, buffer=nl.sbuf)
            nisa.nc_transpose(dst=turned, data=scores[:, nl.ds(n * 128, 128)])
            nisa.tensor_copy(dst=part, src=turned)
            nisa.dma_copy(dst=values, src=v[nl.ds(n * 128, 128)])
            nisa.nc_matmul(dst=summed, stationary=part, moving=values)
        result = nl.ndarray((128, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=summed, op0=nl.multiply, operand0=scale)
        nisa.dma_copy(dst=out[nl.ds(m * 128, 128)], src=result)
    return out


def _attention_loop(q, k, v):
    size, length = q.shape
    queries, keys = np.empty((size, 128), np.float32), np.empty((size, 512), np.float32)
    product, scores = np.empty((128, 512), np.float32), np.empty((128, length), np.float32)
    largest, total, scale = (np.empty((128, 1), np.float32) for _ in range(3))
    turned, part = np.empty((128, 128), np.float32), np.empty((128, 128), np.float32)
    values, summed, one, result = (np.empty((128, size), np.float32) for _ in range(4))

    def run():
        out = np.empty((length, size), np.float32)
        for m in range(0, length, 128):
            np.copyto(queries, q[:, m : m + 128])
            for n in range(0, length, 512):
                np.copyto(keys, k[:, n : n + 512])
                np.matmul(queries.T, keys, out=product)
                np.copyto(scores[:, n : n + 512], product)
            np.max(scores, axis=1, keepdims=True, out=largest)
            np.subtract(scores, largest, out=scores)
            np.exp(scores, out=scores)
            np.sum(scores, axis=1, keepdims=True, out=total)
            np.divide(1, total, out=scale)
            for n in range(0, length, 128):
                np.copyto(turned, scores[:, n : n + 128].T)
                np.copyto(part, turned)
                np.copyto(values, v[n : n + 128])
                np.matmul(part.T, values, out=one if n else summed)
                if n:
                    np.add(summed, one, out=summed)
            np.multiply(summed, scale, out=result)
            np.copyto(out[m : m + 128], result)
        return out

    return run


def _softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


KERNELS: dict[str, Measured] = {
    "matmul 1024x1024x1024 bfloat16": Measured(
        matmul, _normal((1024, 1024), (1024, 1024), dtype=ml_dtypes.bfloat16), _matmul_loop, lambda a, b: a.T @ b
    ),
    "matmul 1024x1024x1024 float32": Measured(
        matmul, _normal((1024, 1024), (1024, 1024)), _matmul_loop, lambda a, b: a.T @ b
    ),
    "softmax 4096x2048 float32": Measured(softmax, _normal((4096, 2048)), _softmax_loop, _softmax),
    "rmsnorm 4096x2048 float32": Measured(
        rmsnorm,
        _normal((4096, 2048), (1, 2048)),
        _rmsnorm_loop,
        lambda x, w: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-6) * w,
    ),
    "add 4096x2048 float32": Measured(
        add, _normal((4096, 2048), (4096, 2048)), _add_loop, lambda x, y: x + y
    ),
    "attention 1024x128 float32": Measured(
        attention,
        _normal((128, 1024), (128, 1024), (1024, 128)),
        _attention_loop,
        lambda q, k, v: _softmax(q.T @ k) @ v,
        bar=1.5,
    ),
}  # fmt: skip
