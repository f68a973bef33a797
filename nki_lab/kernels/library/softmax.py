"""Softmax of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step
from nki_lab.kernels.rows import check_rows, tiles_of_rows


@nki.jit
def softmax(x):
    """Return exp(x - max(x)) / sum(exp(x - max(x))), with the maximum and the sum of each row.

    -inf is allowed, for elements that are masked; a row of -inf alone gives NaN, as the formula does.

    Args:
        x: [rows, width], float32 or bfloat16; width at most 8192.
    """
    rows, width = check_rows("softmax", x, 8192)
    out = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    for part, size, tile in tiles_of_rows(x, split=True):
        # One of the elements, and so of their dtype: Vector reduces bfloat16 to bfloat16 in half the time.
        largest = nl.ndarray((size, 1), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=1, negate=True)
        powers = nl.ndarray((size, width), dtype=x.dtype, buffer=nl.sbuf)
        total = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            dst=powers, op=nl.exp, data=tile, bias=largest, reduce_op=nl.add, reduce_res=total
        )
        share = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=share, data=total)
        nisa.tensor_scalar(dst=powers, data=powers, op0=nl.multiply, operand0=share)
        nisa.dma_copy(dst=out[part], src=powers)
    return out


def _arguments(rng: np.random.Generator, dtype: Any, rows: int, width: int) -> dict[str, Any]:
    return {"x": (3 * rng.standard_normal((rows, width))).astype(dtype)}


def _reference(x: Any) -> np.ndarray:
    x = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(x - x.max(axis=1, keepdims=True))
    result: np.ndarray = powers / powers.sum(axis=1, keepdims=True)
    return result


def _masked(rng: np.random.Generator) -> dict[str, Any]:
    x = rng.standard_normal((4, 9)).astype(np.float32)
    x[1, 3:] = -np.inf
    x[2] = -np.inf
    x[3, 5] = np.nan
    return {"x": x}


KERNEL = Prebuilt(
    kernel=softmax,
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
        Step("The Vector engine finds the maximum of each row, negated.", "nisa.tensor_reduce("),
        Step(
            "The Scalar engine computes exp(x - maximum) and adds up each row in one instruction.",
            "nisa.activation_reduce(",
        ),
        Step("The Vector engine multiplies the powers by 1 / sum.", "nisa.tensor_scalar("),
    ),
    sources=("NKI Library, softmax", "M. Milakov and N. Gimelshein, arXiv:1805.02867"),
    edges={"masked": _masked},
    refused=(
        Refused(
            {"x": np.ones((2, 3), np.int32)},
            "`x` is int32; expected float32 or bfloat16",
            "x.astype(np.float32)",
        ),
        Refused(
            {"x": (1, 9000)},
            "9000 elements; a tile holds 8192",
            "8192",
        ),
    ),
)
