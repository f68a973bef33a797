"""Reduces the free axes of a tile to one number per row.

Only the last free axes can be reduced, without a gap: [1], [1, 2], ... up to the last one
(nki/api/nki/language/__init__.py, sum). The partition axis is reduced by the Tensor or GpSimd engine.
"""

from __future__ import annotations

import math
from typing import Any

from nki_lab.dtypes import DType
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.elementwise import tensor_scalar, tensor_tensor
from nki_lab.isa.operators import OPS
from nki_lab.isa.reduction import tensor_reduce
from nki_lab.language.operands import (
    FLOAT32,
    new_tile,
    on_chip,
    reduced_shape,
    trailing_axes,
)


def sum(x: NkiTensor, axis: Any, dtype: DType | None = None, keepdims: bool = False) -> NkiTensor:
    """Return the sum over the last free axes, in a new SBUF tile.

    Args:
        x: a tile.
        axis: one axis or several; the last free ones, without a gap.
        dtype: of the result; by default that of `x`. Sums are kept in float32 until they are written.
        keepdims: keep the reduced axes with size 1. A tile keeps at least one free axis in any case.
    """
    return _reduce("sum", "add", x, axis, dtype, keepdims)


def _max(x: NkiTensor, axis: Any, dtype: DType | None = None, keepdims: bool = False) -> NkiTensor:
    """Return the largest element over the last free axes; arguments as nl.sum."""
    return _reduce("max", "maximum", x, axis, dtype, keepdims)


def _min(x: NkiTensor, axis: Any, dtype: DType | None = None, keepdims: bool = False) -> NkiTensor:
    """Return the smallest element over the last free axes; arguments as nl.sum."""
    return _reduce("min", "minimum", x, axis, dtype, keepdims)


def prod(x: NkiTensor, axis: Any, dtype: DType | None = None, keepdims: bool = False) -> NkiTensor:
    """Return the product over the last free axes; arguments as nl.sum."""
    return _reduce("prod", "multiply", x, axis, dtype, keepdims)


def all(x: NkiTensor, axis: Any, dtype: DType | None = None) -> NkiTensor:
    """Return 1 where no element over the last free axes is 0; `axis` as nl.sum."""
    return _reduce("all", "logical_and", x, axis, dtype, False)


def mean(x: NkiTensor, axis: Any, dtype: DType | None = None, keepdims: bool = False) -> NkiTensor:
    """Return the mean over the last free axes; arguments as nl.sum."""
    on_chip("mean", "x", x)
    axes = trailing_axes("mean", x, axis)
    result = new_tile(reduced_shape(x, axes, keepdims), x.dtype if dtype is None else dtype)
    _mean(result, x, axes)
    return result


def var(x: NkiTensor, axis: Any, dtype: DType | None = None, keepdims: bool = False) -> NkiTensor:
    """Return the variance over the last free axes; arguments as nl.sum.

    It is the mean square distance from the mean. The reduced axes always stay with size 1; the documentation says
    that `keepdims` is ignored.
    """
    on_chip("var", "x", x)
    axes = trailing_axes("var", x, axis)
    result = new_tile(reduced_shape(x, axes, True), x.dtype if dtype is None else dtype)
    center = new_tile(result.shape, FLOAT32, name="var_mean")
    _mean(center, x, axes)
    distance = new_tile(x.shape, FLOAT32, name="var_distance")
    combine_rows(distance, "subtract", x, center, axes)
    tensor_tensor(dst=distance, data1=distance, data2=distance, op=OPS["multiply"])
    _mean(result, distance, axes)
    return result


def _reduce(
    name: str, op: str, x: NkiTensor, axis: Any, dtype: DType | None, keepdims: bool
) -> NkiTensor:
    on_chip(name, "x", x)
    axes = trailing_axes(name, x, axis)
    result = new_tile(reduced_shape(x, axes, keepdims), x.dtype if dtype is None else dtype)
    reduce_rows(result, op, x, axes)
    return result


def reduce_rows(dst: NkiTensor, op: str, x: NkiTensor, axes: tuple[int, ...]) -> None:
    """Reduce the trailing `axes` of `x` into `dst`, which holds one number per row."""
    kept = dst.shape == reduced_shape(x, axes, True)
    tensor_reduce(dst=dst, op=OPS[op], data=x, axis=axes, keepdims=kept)


def combine_rows(
    dst: NkiTensor, op: str, x: NkiTensor, rows: NkiTensor, axes: tuple[int, ...]
) -> None:
    """Write `x op rows` into `dst`; float32 `rows` holds one number per row."""
    if axes[0] == 1:  # one number per partition, which costs half the cycles
        tensor_scalar(dst=dst, data=x, op0=OPS[op], operand0=rows.reshape((x.shape[0], 1)))
        return
    repeated = rows.reshape(x.shape[: axes[0]] + (1,) * len(axes))
    for axis in axes:
        repeated = repeated.broadcast(axis, x.shape[axis])
    tensor_tensor(dst=dst, data1=x, data2=repeated, op=OPS[op])


def _mean(dst: NkiTensor, x: NkiTensor, axes: tuple[int, ...]) -> None:
    total = new_tile(dst.shape, FLOAT32, name="total")
    reduce_rows(total, "add", x, axes)
    length = math.prod(x.shape[axis] for axis in axes)
    tensor_scalar(dst=dst, data=total, op0=OPS["multiply"], operand0=1 / length)


max = OPS["max"]
max.expand = _max
min = OPS["min"]
min.expand = _min
