"""Layer normalisation of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Step
from nki_lab.kernels.rows import check_rows, per_column, tiles_of_rows

# Columns that GpSimd adds at a time.
_PART = 2048


@nki.jit
def layernorm(x, gamma, beta, eps=1e-5):
    """Return (x - mean(x)) / sqrt(var(x) + eps) * gamma + beta, with mean and variance of each row.

    The mean is a float32: where all of a row is the same number far from 0, its last digit is divided by sqrt(eps).

    Args:
        x: [rows, width], float32 or bfloat16; width at most 6144.
        gamma, beta: [width].
        eps: added to the variance.
    """
    rows, width = check_rows("layernorm", x, 6144, gamma=gamma, beta=beta)
    out = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    scales: Any = None
    added = nl.ndarray((nl.tile_size.pmax, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=added, value=eps)
    for number, (part, size, tile) in enumerate(tiles_of_rows(x, split=True)):
        if scales is None:  # after the first rows, which are of use at once
            scales, shifts = per_column(gamma), per_column(beta)
        # bfloat16 comes in twice as fast: the Scalar engine helps, with the moments of every third tile.
        by_scalar = x.dtype == nl.bfloat16 and number % 3 == 2
        moments = (_moments_by_scalar if by_scalar else _moments)(tile)
        scale = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=moments[:, 1:2], bias=added[:size])

        shift = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=shift, data=moments[:, 0:1], op0=nl.multiply, operand0=-1.0,
            op1=nl.multiply, operand1=scale,
        )  # fmt: skip
        result = nl.ndarray((size, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.copy, data=tile, scale=scale, bias=shift)
        nisa.tensor_tensor(dst=result, data1=result, data2=scales[:size], op=nl.multiply)
        # In parts, as the Vector engine waits for the end of one before it multiplies in its fastest mode.
        for start in range(0, width, _PART):
            columns = slice(start, min(start + _PART, width))
            nisa.tensor_tensor(
                dst=result[:, columns],
                data1=result[:, columns],
                data2=shifts[:size, columns],
                op=nl.add,
                engine=nisa.engine.gpsimd,
            )
            nisa.dma_copy(dst=out[part, columns], src=result[:, columns])
    return out


def _moments(tile):
    """Return mean and variance of each row, [rows, 2], by the Vector engine."""
    # bn_stats reads at most this many elements, and gives six numbers for them.
    (size, width), most = tile.shape, nl.tile_size.bn_stats_fmax
    groups = range(0, width, most)
    stats = nl.ndarray((size, 6 * len(groups)), dtype=nl.float32, buffer=nl.sbuf)
    for n, start in enumerate(groups):
        nisa.bn_stats(
            dst=stats[:, 6 * n : 6 * n + 6], data=tile[:, start : min(start + most, width)]
        )
    moments = nl.ndarray((size, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_aggr(dst=moments, data=stats)
    return moments


def _moments_by_scalar(tile):
    """Return the same by the Scalar engine: it goes over the row for the mean, and again for the variance."""
    size, width = tile.shape
    moments = nl.ndarray((size, 2), dtype=nl.float32, buffer=nl.sbuf)
    less = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    unused = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.sbuf)
    mean, variance = moments[:, 0:1], moments[:, 1:2]
    for op, bias, total in ((nl.copy, None, mean), (nl.square, less, variance)):
        nisa.activation_reduce(
            dst=unused, op=op, data=tile, bias=bias, reduce_op=nl.add, reduce_res=total
        )
        nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1.0 / width)
        if total is mean:
            nisa.tensor_scalar(dst=less, data=mean, op0=nl.multiply, operand0=-1.0)
    return moments


def _arguments(rng: np.random.Generator, dtype: Any, rows: int, width: int) -> dict[str, Any]:
    return {
        "x": (2 * rng.standard_normal((rows, width)) + 0.5).astype(dtype),
        "gamma": rng.uniform(0.5, 1.5, width).astype(dtype),
        "beta": rng.standard_normal(width).astype(dtype),
    }


def _reference(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> np.ndarray:
    x, gamma, beta = (a.astype(np.float64) for a in (x, gamma, beta))
    mean, var = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    result: np.ndarray = (x - mean) / np.sqrt(var + eps) * gamma + beta
    return result


KERNEL = Prebuilt(
    kernel=layernorm,
    arguments=_arguments,
    reference=_reference,
    tested=({"rows": 330, "width": 96}, {"rows": 200, "width": 1025}, {"rows": 1, "width": 2}),
    ranges={"rows": range(1, 200), "width": range(1, 1100)},
    timed=({"rows": 512, "width": 2048}, {"rows": 4096, "width": 6144}),
    tolerance={"float32": 1e-5, "bfloat16": 2e-2},
    cores=(1, 2),
    operator={"backward": "auto"},
    steps=(
        Step(
            "128 rows lie in the partitions, and the width in the free axis.",
            "for number, (part, size, tile) in enumerate",
        ),
        Step(
            "bn_stats gives mean and variance of up to 512 elements of each row, bn_aggr those of the row.",
            "_moments",
        ),
        Step(
            "The Scalar engine multiplies by 1 / sqrt(variance + eps) and adds -mean / sqrt(variance + eps).",
            "nisa.activation(dst=result",
        ),
        Step(
            "The Vector engine multiplies by gamma; GpSimd adds beta.",
            "nisa.tensor_tensor(dst=result, data1=result, data2=scales",
        ),
        Step(
            "In bfloat16 the Scalar engine computes mean and variance of every third tile, so that engines are even.",
            "_moments_by_scalar",
        ),
    ),
    sources=("NKI Library, LayerNorm",),
)
