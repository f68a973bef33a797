"""RMS normalisation of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step
from nki_lab.kernels.rows import check_rows, per_column, tiles_of_rows


@nki.jit
def rmsnorm(x, gamma, eps=1e-6):
    """Return x / sqrt(mean(x ** 2) + eps) * gamma, with the mean of each row.

    Args:
        x: [rows, width], float32 or bfloat16; width at most 8192.
        gamma: [width].
        eps: added to the mean.
    """
    rows, width = check_rows("rmsnorm", x, 8192, gamma=gamma)
    out = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    weights = per_column(gamma)
    added = nl.ndarray((nl.tile_size.pmax, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=added, value=eps)
    for part, size, tile in tiles_of_rows(x, split=True):
        # The squares themselves are not used: they go where the result will be.
        result = nl.ndarray((size, width), dtype=x.dtype, buffer=nl.sbuf)
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=result, op=nl.square, data=tile, reduce_op=nl.add, reduce_res=total
        )
        scale = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=scale, op=nl.rsqrt, data=total, scale=1.0 / width, bias=added[:size])
        nisa.scalar_tensor_tensor(
            dst=result, data=tile, op0=nl.multiply, operand0=scale,
            op1=nl.multiply, operand1=weights[:size],
        )  # fmt: skip
        nisa.dma_copy(dst=out[part], src=result)
    return out


def _arguments(rng: np.random.Generator, dtype: Any, rows: int, width: int) -> dict[str, Any]:
    return {
        "x": rng.standard_normal((rows, width)).astype(dtype),
        "gamma": rng.uniform(0.5, 1.5, width).astype(dtype),
    }


def _reference(x: Any, gamma: Any, eps: float = 1e-6) -> np.ndarray:
    x, gamma = x.astype(np.float64), gamma.astype(np.float64)
    return x / np.sqrt(np.mean(x**2, axis=1, keepdims=True) + eps) * gamma


KERNEL = Prebuilt(
    kernel=rmsnorm,
    arguments=_arguments,
    reference=_reference,
    tested=({"rows": 128, "width": 96}, {"rows": 200, "width": 513}, {"rows": 1, "width": 1}),
    ranges={"rows": range(1, 200), "width": range(1, 600)},
    timed=({"rows": 512, "width": 2048}, {"rows": 4096, "width": 8192}),
    tolerance={"float32": 1e-5, "bfloat16": 2e-2},
    cores=(1, 2),
    operator={"backward": "auto"},
    steps=(
        Step(
            "128 rows lie in the partitions, and the width in the free axis.",
            "for part, size, tile in tiles_of_rows",
        ),
        Step(
            "The Scalar engine squares a tile and adds up each row in one instruction.",
            "nisa.activation_reduce(",
        ),
        Step("It takes 1 / sqrt of the mean: one number for each partition.", "nisa.activation("),
        Step(
            "The Vector engine multiplies the tile by that number and by gamma, in one instruction.",
            "nisa.scalar_tensor_tensor(",
        ),
    ),
    sources=("NKI Library, RMSNorm",),
    refused=(
        Refused(
            {"x": (2, 3, 4), "gamma": (4,)},
            "expected [rows, width]",
            "reshape",
        ),
        Refused(
            {"x": (2, 4), "gamma": (5,)},
            "`gamma` has shape [5]",
            "4 columns",
        ),
    ),
)
