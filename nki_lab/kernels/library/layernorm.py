"""Layer normalisation of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt
from nki_lab.kernels.rows import check_rows, per_column, tiles_of_rows


@nki.jit
def layernorm(x, gamma, beta, eps=1e-5):
    """Return (x - mean(x)) / sqrt(var(x) + eps) * gamma + beta, with mean and variance of each row.

    Args:
        x: [rows, width], float32 or bfloat16; width at most 6144.
        gamma, beta: [width].
        eps: added to the variance.
    """
    rows, width = check_rows("layernorm", x, 6144, gamma=gamma, beta=beta)
    out = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    scales, shifts = per_column(gamma), per_column(beta)
    added = nl.ndarray((nl.tile_size.pmax, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=added, value=eps)
    # bn_stats reads at most this many elements, and gives six numbers for them.
    most = nl.tile_size.bn_stats_fmax
    groups = range(0, width, most)
    for part, size, tile in tiles_of_rows(x):
        stats = nl.ndarray((size, 6 * len(groups)), dtype=nl.float32, buffer=nl.sbuf)
        for n, start in enumerate(groups):
            nisa.bn_stats(
                dst=stats[:, 6 * n : 6 * n + 6], data=tile[:, start : min(start + most, width)]
            )
        moments = nl.ndarray((size, 2), dtype=nl.float32, buffer=nl.sbuf)
        nisa.bn_aggr(dst=moments, data=stats)
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
        nisa.tensor_tensor(
            dst=result, data1=result, data2=shifts[:size], op=nl.add, engine=nisa.engine.gpsimd
        )
        nisa.dma_copy(dst=out[part], src=result)
    return out


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
    tested=({"rows": 128, "width": 96}, {"rows": 200, "width": 1025}, {"rows": 1, "width": 2}),
    ranges={"rows": range(1, 200), "width": range(1, 1100)},
    timed=({"rows": 512, "width": 2048}, {"rows": 4096, "width": 6144}),
    tolerance={"float32": 1e-5, "bfloat16": 2e-2},
    steps=(
        "128 rows lie in the partitions, and the width in the free axis.",
        "bn_stats gives mean and variance of up to 512 elements of each row, bn_aggr those of the row.",
        "The Scalar engine multiplies by 1 / sqrt(variance + eps) and adds -mean / sqrt(variance + eps).",
        "The Vector engine multiplies by gamma; GpSimd adds beta.",
    ),
    sources=("NKI Library, LayerNorm",),
    falls_short={
        "bfloat16": "bn_stats reads bfloat16 no faster than float32, and takes longer than the transfers"
    },
)
