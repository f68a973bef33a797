"""The Tensor engine, a systolic array of 128 x 128 multipliers: what it takes in, and how long a pass lasts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from nki_lab.dtypes import (
    bfloat16,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    tfloat32,
)
from nki_lab.ir.definition.cost import MicroOp, Stage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.arrays import scratch
from nki_lab.targets.spec import Target

#: 8-bit floats the array multiplies (nki/api/nki/isa/__init__.py:576); float8_e4m3fn only where the target has it.
FP8 = frozenset((float8_e4m3, float8_e4m3fn, float8_e5m2))
#: Types that only go together.
WIDE = frozenset((float32, tfloat32))
#: Types of the operands of a matmul.
INPUTS = FP8 | WIDE | {bfloat16, float16}
#: Name of the ability to move bits instead of multiplying by an identity matrix.
TRANSPOSE_MODE = "tensor_transpose_mode"


@cache
def identity(size: int, dtype: np.dtype) -> np.ndarray:
    """Return the identity matrix that transposes are made with; callers must not change it."""
    matrix = np.eye(size).astype(dtype)
    matrix.setflags(write=False)
    return matrix


def put_product(
    out: np.ndarray,
    dst: Any,
    accumulate: bool | None,
    written: Any,
    multiply: Callable[[np.ndarray], None],
) -> None:
    """Let `multiply(into)` write a product, and add the earlier contents of the destination on demand.

    Args:
        out: where the result goes; may share memory with `dst`.
        dst: what the destination holds; None where nothing is added.
        accumulate: True adds, False overwrites, None adds where something was written before.
        written: for None: whether all of the destination was written before, or booleans per element.
        multiply: writes the product to the array it is given.
    """
    partly = accumulate is None and isinstance(written, np.ndarray)
    adds = partly or accumulate or (accumulate is None and written)
    if not adds:
        multiply(out)
        return
    product = scratch(out.shape, out.dtype, "product")
    multiply(product)
    if partly:
        np.add(dst, product, out=product, where=written.reshape(out.shape))
        np.copyto(out, product)
    else:
        np.add(dst, product, out=out)


def array_passes(
    hw: Target,
    stationary: NkiTensor,
    dst: NkiTensor,
    *,
    columns: int,
    stream: int,
    depth: int,
    moving_bytes: int,
    full_float32: bool,
    half_float32: bool = False,
    part: tuple[int, int, int, int] | None = None,
) -> Iterator[MicroOp]:
    """Yield the load of `stationary` and the passes that stream the moving operand against it.

    trainium_inferentia2_arch.rst:267: max(N, 64) cycles, four times that for float32; :299: a load is up to four
    times as fast as streaming as many columns. A trn2 profile shows float32 as two passes of two cycles per column;
    its faster forms are taken as one such pass.

    Args:
        hw: the target.
        stationary: the operand that is loaded.
        dst: where the product goes.
        columns: columns of `stationary`.
        stream: columns of the moving operand.
        depth: rows that are contracted; 0 for a transpose, which multiplies nothing of interest.
        moving_bytes: bytes of the moving operand.
        full_float32: the operands are float32.
        half_float32: float32 in half the time: an operand of ones and zeros (isa/__init__.py:666), or a transpose
            in transpose mode (trainium2_arch.rst:201).
        part: (first row, first column, rows, columns) of the array where a part of it is used.
    """
    cycles, passes = 1.0, 1
    if full_float32:
        cycles, passes = hw.matmul_fp32_cycle_factor, hw.matmul_fp32_passes
        if half_float32:
            cycles, passes = cycles / 2, max(1, passes // 2)
    yield MicroOp(
        "LDWEIGHTS",
        cycles=columns * cycles / hw.load_stationary_columns_per_cycle,
        stage=Stage.LOAD_STATIONARY,
        bytes_read=stationary.size * stationary.dtype.itemsize,
    )
    for step in range(passes):
        yield MicroOp(
            "MATMUL",
            cycles=max(stream, hw.matmul_min_cycles) * cycles / passes,
            stage=Stage.MULTIPLY_MOVING,
            part=part,
            macs=depth * columns * stream if step == 0 else 0,
            bytes_read=moving_bytes,
            bytes_written=dst.size * dst.dtype.itemsize,
        )
