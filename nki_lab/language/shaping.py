"""Multiplies tiles as matrices, transposes and repeats them, and chooses between them."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from nki_lab.dtypes import DType
from nki_lab.errors import RuleBroken, WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.tensor.arguments import shape_of
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import memset, tensor_copy, tensor_copy_predicated
from nki_lab.isa.elementwise import tensor_scalar
from nki_lab.isa.gather import nc_stream_shuffle
from nki_lab.isa.matmul import nc_matmul
from nki_lab.isa.operators import OPS
from nki_lab.isa.transpose import nc_transpose
from nki_lab.language.memory import copy
from nki_lab.language.operands import (
    FLOAT32,
    new_tile,
    on_chip,
    result_like,
    same_shape,
)
from nki_lab.targets.spaces import PSUM, SBUF

# A product with one is exact in these.
_MULTIPLIED = ("float32", "bfloat16", "float16")
# Partitions among which one instruction moves rows (nki/api/nki/isa/__init__.py:2052).
_SHUFFLED = 32


def matmul(x: NkiTensor, y: NkiTensor, transpose_x: bool = False) -> NkiTensor:
    """Multiply two SBUF tiles as matrices; the float32 result is a new PSUM tile.

    Args:
        x: with `transpose_x` [K, M] and the result is x.T @ y: one instruction. Without, [M, K] and the result is
            x @ y; x is transposed first, by one more pass of the Tensor engine and a copy.
        y: [K, N].
        transpose_x: the contracted axis of `x` is already its partition axis.
    """
    for name, tile in (("x", x), ("y", y)):
        _matrix("matmul", name, tile)
    contracted, rows = x.shape if transpose_x else x.shape[::-1]
    if contracted != y.shape[0]:
        raise RuleBroken(
            f"nl.matmul: the contracted axes differ, {contracted} of `x` and {y.shape[0]} of `y`",
            notes=[f"x = {x.describe()}", f"y = {y.describe()}"],
            help=(
                "with transpose_x=True axis 0 of both tiles is contracted"
                if transpose_x
                else "axis 1 of `x` and axis 0 of `y` are contracted; pass transpose_x=True if `x` is [K, M]"
            ),
        )
    result = new_tile((rows, y.shape[1]), FLOAT32, PSUM)
    stationary = x if transpose_x else copy(transpose(x))
    nc_matmul(dst=result, stationary=stationary, moving=y)
    return result


def transpose(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Transpose an SBUF tile into a new PSUM tile, on the Tensor engine.

    The tile is at most 128 by 128. The result has the dtype of `x`, which the engine asks for, unless `dtype` has it
    cast by one more copy.
    """
    _matrix("transpose", "x", x)
    result = new_tile(x.shape[::-1], x.dtype, PSUM)
    nc_transpose(dst=result, data=x)
    if dtype is None or dtype == x.dtype:
        return result
    cast = new_tile(result.shape, dtype, PSUM)
    tensor_copy(dst=cast, src=result)
    return cast


def expand_dims(x: NkiTensor, axis: int) -> NkiTensor:
    """Return a view of a tile with a new axis of size 1 at position `axis`.

    The partition axis stays first, so `axis` is not 0.
    """
    return on_chip("expand_dims", "x", x).expand_dim(axis)


def broadcast_to(x: NkiTensor, shape: Sequence[int], dtype: DType | None = None) -> NkiTensor:
    """Return a tile in which the axes of size 1 of `x` are repeated to `shape`.

    Args:
        x: a tile.
        shape: as many axes as `x`; each equal to that of `x`, or `x` has size 1 there. With the shape of `x` the
            tile itself is returned, or a copy where `dtype` differs. Repeating the partition axis takes a product
            of the Tensor engine for float32, bfloat16 and float16, and shuffles of 32 partitions for other dtypes.
        dtype: of the result; by default that of `x`.
    """
    on_chip("broadcast_to", "x", x)
    wanted = shape_of(shape)
    if len(wanted) != x.ndim or any(a not in (1, b) for a, b in zip(x.shape, wanted, strict=True)):
        raise RuleBroken(
            f"nl.broadcast_to: {x.describe()} cannot be repeated to {list(wanted)}",
            help="give as many axes as the tile has; only axes of size 1 are repeated (nl.expand_dims adds one)",
        )
    if wanted == x.shape:
        return x if dtype is None or dtype == x.dtype else copy(x, dtype)
    view = x
    for axis in range(1, x.ndim):
        if view.shape[axis] != wanted[axis]:
            view = view.broadcast(axis, wanted[axis])
    if wanted[0] == x.shape[0]:
        return copy(view, dtype)
    return _repeat_row(view, wanted, dtype)


def _repeat_row(x: NkiTensor, shape: tuple[int, ...], dtype: DType | None) -> NkiTensor:
    """Repeat the only partition of `x`: a column of ones times the row, or shuffles, which keep all bits."""
    row = copy(x).reshape((1, x.free_size))
    if x.dtype not in _MULTIPLIED:
        repeated = new_tile(shape, x.dtype)
        rows = repeated.reshape((shape[0], x.free_size))
        for start in range(0, shape[0], _SHUFFLED):
            group = rows[start : min(start + _SHUFFLED, shape[0])]
            nc_stream_shuffle(dst=group, src=row, shuffle_mask=[0] * _SHUFFLED)
        return repeated if dtype in (None, x.dtype) else copy(repeated, dtype)
    result = new_tile(shape, x.dtype if dtype is None else dtype)
    ones = new_tile((1, shape[0]), x.dtype, name="ones")
    memset(dst=ones, value=1.0)
    rows = result.reshape((shape[0], x.free_size))
    width = current().target.psum_bank_bytes // 4
    for start in range(0, x.free_size, width):
        part = slice(start, min(start + width, x.free_size))
        product = new_tile((shape[0], part.stop - start), FLOAT32, PSUM, name="repeated")
        nc_matmul(dst=product, stationary=ones, moving=row[:, part])
        tensor_copy(dst=rows[:, part], src=product)
    return result


def where(condition: NkiTensor, x: Any, y: Any, dtype: DType | None = None) -> NkiTensor:
    """Return `x` where `condition` is not 0, else `y`, in a new SBUF tile.

    Args:
        condition: a tile, as comparisons give it: 1 for true, 0 for false.
        x: a tile of the shape of `condition`, or a number.
        y: the same.
        dtype: of the result; by default that of `x`, or of `y` where `x` is a number.
    """
    on_chip("where", "condition", condition)
    for name, value in (("x", x), ("y", y)):
        if isinstance(value, NkiTensor):
            on_chip("where", name, value)
            same_shape("where", "condition", condition, name, value)
        elif not isinstance(value, Real):
            on_chip("where", name, value)
    first = next((v for v in (x, y) if isinstance(v, NkiTensor)), None)
    element = dtype or (first.dtype if first is not None else condition.dtype)
    result = result_like(condition, element)
    _write(result, y)
    chosen = new_tile(condition.shape, "uint8", name="where_condition")
    tensor_scalar(dst=chosen, data=condition, op0=OPS["not_equal"], operand0=0.0)
    source = x
    if isinstance(x, NkiTensor) and x.dtype != result.dtype:
        source = copy(x, result.dtype)  # the predicated copy does not cast
    tensor_copy_predicated(dst=result, src=source, predicate=chosen)
    return result


def _write(dst: NkiTensor, value: Any) -> None:
    if isinstance(value, NkiTensor):
        tensor_copy(dst=dst, src=value)
    else:
        memset(dst=dst, value=float(value) if dst.dtype.is_float else value)


def _matrix(function: str, name: str, tile: Any) -> None:
    on_chip(function, name, tile)
    if tile.buffer is not SBUF:
        raise WrongOperand(
            f"nl.{function}: `{name}` must be in SBUF, found {tile.describe()}",
            help="the Tensor engine reads SBUF only; copy it there first with nl.copy",
        )
    if tile.ndim != 2:
        raise WrongOperand(
            f"nl.{function}: `{name}` must have two axes, found {tile.describe()}",
            help="merge the free axes with .flatten_dims(1, -1)",
        )
