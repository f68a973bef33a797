"""Normalizes the rows of a tile."""

from __future__ import annotations

from typing import Any

from nki_lab.dtypes import DType
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.activation import activation
from nki_lab.isa.elementwise import reciprocal, tensor_scalar, tensor_tensor
from nki_lab.isa.operators import OPS
from nki_lab.language.operands import (
    FLOAT32,
    new_tile,
    on_chip,
    reduced_shape,
    result_like,
    same_shape,
    trailing_axes,
)
from nki_lab.language.reductions import combine_rows, reduce_rows


def softmax(x: NkiTensor, axis: Any = -1, dtype: DType | None = None) -> NkiTensor:
    """Return exp(x) divided by its sum over the last free axes, in a new SBUF tile.

    The largest element of each row is taken away first, so nothing overflows. Computed in float32.

    Args:
        x: a tile.
        axis: one axis or several; the last free ones, without a gap.
        dtype: of the result; by default that of `x`.
    """
    on_chip("softmax", "x", x)
    axes = trailing_axes("softmax", x, axis)
    result = result_like(x, dtype)
    rows = reduced_shape(x, axes, True)
    largest = new_tile(rows, FLOAT32, name="softmax_max")
    reduce_rows(largest, "maximum", x, axes)
    powers = new_tile(x.shape, FLOAT32, name="softmax_exp")
    combine_rows(powers, "subtract", x, largest, axes)
    activation(dst=powers, op=OPS["exp"], data=powers)
    total = new_tile(rows, FLOAT32, name="softmax_sum")
    reduce_rows(total, "add", powers, axes)
    reciprocal(dst=total, data=total)
    combine_rows(result, "multiply", powers, total, axes)
    return result


def rms_norm(
    x: NkiTensor,
    w: NkiTensor,
    axis: Any,
    n: int,
    epsilon: float = 1e-06,
    dtype: DType | None = None,
    compute_dtype: DType | None = None,
) -> NkiTensor:
    """Return x / sqrt(sum(x * x) / n + epsilon) * w, in a new SBUF tile.

    Args:
        x: a tile.
        w: weights, a tile of the shape of `x`.
        axis: axes of the sum; the last free ones, without a gap.
        n: what the sum is divided by; larger than the row when a row is spread over several tiles.
        epsilon: keeps the root away from 0.
        dtype: of the result; by default that of `x`.
        compute_dtype: of intermediate tiles; by default float32.
    """
    on_chip("rms_norm", "x", x)
    on_chip("rms_norm", "w", w)
    same_shape("rms_norm", "x", x, "w", w)
    axes = trailing_axes("rms_norm", x, axis)
    result = result_like(x, dtype)
    compute = FLOAT32 if compute_dtype is None else compute_dtype
    work = new_tile(x.shape, compute, name="rms_norm_work")
    tensor_tensor(dst=work, data1=x, data2=x, op=OPS["multiply"])
    scale = new_tile(reduced_shape(x, axes, True), FLOAT32, name="rms_norm_scale")
    reduce_rows(scale, "add", work, axes)
    tensor_scalar(dst=scale, data=scale, op0=OPS["multiply"], operand0=1 / n,
                  op1=OPS["add"], operand1=float(epsilon))  # fmt: skip
    tensor_scalar(dst=scale, data=scale, op0=OPS["rsqrt"], operand0=0.0)
    combine_rows(work, "multiply", x, scale, axes)
    tensor_tensor(dst=result, data1=work, data2=w, op=OPS["multiply"])
    return result
