"""Functions of nki.language that make a tile: rounding, trigonometry, reductions, normalisation, products.

Page: nki/api/nki/language/__init__.py. No page says in which steps they compute: approximate ones have a tolerance, and
are asked for float32 only, so that no step rounds to less.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.reference.instructions import copy_elements, raw_of, sure
from tests.reference.machine import core
from tests.reference.numbers import EPS, FREE, TYPES, Array, DType, Val, f32, fold, spoilt
from tests.reference.products import _product
from tests.reference.tensors import Tensor, new


def _made(x: Tensor, shape: tuple[int, ...], val: Val, dtype: DType | None) -> Tensor:
    t = new(shape, dtype or x.dtype)
    t.write(val.map(lambda a: a.reshape(shape)))
    return t


def _signless(val: Val) -> Val:
    return Val(val.v, np.where((val.v == 0) & (val.e == 0), 1e-45, val.e))


def _rounding(change: Callable[[Array], Array]) -> Callable[..., Tensor]:
    def apply(x: Tensor, dtype: DType | None = None) -> Tensor:
        val = x.read()
        with np.errstate(all="ignore"):
            return _made(
                x, x.shape, _signless(spoilt(change(val.v), val, leave=~np.isfinite(val.v))), dtype
            )

    return apply


def _wave(change: Callable[[Array], Array]) -> Callable[..., Tensor]:
    def apply(x: Tensor, dtype: DType | None = None) -> Tensor:
        val = x.read()
        with np.errstate(all="ignore"):
            y = change(val.v)
            step = 2e-6 * np.maximum(1, np.abs(val.v))
            apart = np.maximum(np.abs(change(val.v + step) - y), np.abs(change(val.v - step) - y))
            error = apart + 3e-6 * np.maximum(1, np.abs(y))
        leave = ~(np.abs(val.v) < 50) | (np.abs(y) > 100)
        return _made(
            x,
            x.shape,
            spoilt(f32(y), val, error=np.nan_to_num(error, nan=FREE), leave=leave),
            dtype,
        )

    return apply


def negative(x: Tensor, dtype: DType | None = None) -> Tensor:
    val = x.read()
    lowest = (x.dtype.kind in "iu") & (np.abs(val.v) > 2.0**24)
    return _made(x, x.shape, _signless(spoilt(-val.v, val, leave=lowest)), dtype)


def _rows(x: Tensor, axis: Any) -> tuple[Val, tuple[int, ...], tuple[int, ...]]:
    axes = sorted(a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis))
    width = math.prod(x.shape[a] for a in axes)
    kept = tuple(1 if k in axes else m for k, m in enumerate(x.shape))
    dropped = tuple(m for k, m in enumerate(x.shape) if k not in axes)
    return (
        x.read().map(lambda a: a.reshape(-1, width)),
        kept,
        dropped if len(dropped) > 1 else (*dropped, 1),
    )


def _reduction(name: str) -> Callable[..., Tensor]:
    def apply(x: Tensor, axis: Any, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
        val, kept, dropped = _rows(x, axis)
        return _made(x, kept if keepdims else dropped, fold(name, val), dtype)

    return apply


def _moments(val: Val) -> tuple[Array, Array, Array, Array]:
    with np.errstate(all="ignore"):
        mean = val.v.mean(1, keepdims=True)
        spread = ((val.v - mean) ** 2).mean(1, keepdims=True)
        size = np.abs(val.v).max(1, keepdims=True)
    return (
        mean,
        spread,
        size,
        ~np.isfinite(spread) | (size > 1e15) | (val.e.max(1, keepdims=True) > 0),
    )


def mean(x: Tensor, axis: Any, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    val, kept, dropped = _rows(x, axis)
    middle, _, size, leave = _moments(val)
    row = Val(val.v[:, :1], np.zeros((len(val.v), 1)))
    error = size * EPS * 4 * val.v.shape[1] + 1e-40
    return _made(
        x, kept if keepdims else dropped, spoilt(f32(middle), row, error=error, leave=leave), dtype
    )


def var(x: Tensor, axis: Any, dtype: DType | None = None, keepdims: bool = False) -> Tensor:
    val, kept, _ = _rows(x, axis)
    _, spread, size, leave = _moments(val)
    row = Val(val.v[:, :1], np.zeros((len(val.v), 1)))
    return _made(
        x, kept, spoilt(f32(spread), row, error=size**2 * 2e-5 + 1e-38, leave=leave), dtype
    )


def softmax(x: Tensor, axis: Any = -1, dtype: DType | None = None) -> Tensor:
    val, _, _ = _rows(x, axis)
    with np.errstate(all="ignore"):
        power = np.exp(val.v - val.v.max(1, keepdims=True))
        y = power / power.sum(1, keepdims=True)
        error = y * (1e-5 + 4e-7 * np.abs(val.v - val.v.max(1, keepdims=True))) + 1e-30
    leave = ~np.isfinite(val.v).all(1, keepdims=True) | (np.abs(val.v) > 1e5).any(1, keepdims=True)
    return _made(
        x, x.shape, spoilt(f32(y), val, error=np.nan_to_num(error, nan=FREE), leave=leave), dtype
    )


def rms_norm(
    x: Tensor, w: Tensor, axis: Any, n: int, epsilon: float = 1e-6, dtype: DType | None = None
) -> Tensor:
    val, weight = x.read(), w.read()
    with np.errstate(all="ignore"):
        scale = np.sqrt((val.v**2).sum(1, keepdims=True) / n + epsilon)
        y = val.v / scale * weight.v
        # Below the normal numbers nothing is left before the weights multiply it.
        leave = (
            ~np.isfinite(y)
            | (np.abs(val.v) > 1e15).any(1, keepdims=True)
            | (np.abs(val.v / scale) < 2e-38)
            | (val.e > 0).any(1, keepdims=True)
        )
    return _made(
        x, x.shape, spoilt(f32(y), val, weight, error=np.abs(y) * 2e-5 + 1e-36, leave=leave), dtype
    )


def where(condition: Tensor, x: Tensor, y: Tensor, dtype: DType | None = None) -> Tensor:
    take, a, b = sure(condition) != 0, x.read(), y.read()
    return _made(x, x.shape, Val(np.where(take, a.v, b.v), np.where(take, a.e, b.e)), dtype)


def transpose(x: Tensor, dtype: DType | None = None) -> Tensor:
    raw, error = raw_of(x)
    t = new((x.shape[1], x.shape[0]), dtype or x.dtype, "psum")
    if core().chip == 2:
        error = (
            np.full(raw.shape, FREE)
            if not np.isfinite(raw.astype(float)).all()
            else np.where(raw == 0, 1e-45, error)
        )
    t.put(raw.T, error.T)
    return t


def matmul(x: Tensor, y: Tensor, transpose_x: bool = False) -> Tensor:
    t = new((x.shape[1] if transpose_x else x.shape[0], y.shape[1]), TYPES["float32"], "psum")
    left = x.read() if transpose_x else x.read().map(lambda a: a.T)
    _product(t, left, y.read(), False)
    return t


def gather_flattened(
    data: Tensor, indices: Tensor, axis: int = 0, dtype: DType | None = None
) -> Tensor:
    val, ids = data.read(), sure(indices).astype(np.int64)
    return _made(data, indices.shape, val.map(lambda a: np.take_along_axis(a, ids, 1)), dtype)


def broadcast_to(x: Tensor, shape: tuple[int, ...], dtype: DType | None = None) -> Tensor:
    return _made(
        x, shape, x.read().map(lambda a: np.broadcast_to(a.reshape(x.shape), shape)), dtype
    )


def load_transpose2d(src: Tensor, dtype: DType | None = None) -> Tensor:
    t = new((src.shape[1], src.shape[0]), dtype or src.dtype)
    copy_elements(t, src.permute((1, 0)))
    return t


FUNCTIONS: dict[str, Callable[..., Tensor]] = {
    "ceil": _rounding(np.ceil), "floor": _rounding(np.floor), "trunc": _rounding(np.trunc), "negative": negative,
    "sin": _wave(np.sin), "cos": _wave(np.cos), "tan": _wave(np.tan),
    "sum": _reduction("add"), "max": _reduction("max"), "min": _reduction("min"), "prod": _reduction("multiply"),
    "mean": mean, "var": var, "softmax": softmax, "rms_norm": rms_norm, "where": where, "transpose": transpose,
    "matmul": matmul, "gather_flattened": gather_flattened, "broadcast_to": broadcast_to,
    "load_transpose2d": load_transpose2d,
}  # fmt: skip
