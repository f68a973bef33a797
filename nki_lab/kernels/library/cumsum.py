"""Running sums of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt
from nki_lab.kernels.rows import check_rows, tiles_of_rows


@nki.jit
def cumsum(x):
    """Return the sums of each row up to each of its elements, summed in float32.

    Args:
        x: [rows, width], float32 or bfloat16; width at most 8192.
    """
    rows, width = check_rows("cumsum", x, 8192)
    out = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    ones = nl.ndarray((nl.tile_size.pmax, width), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    for part, size, tile in tiles_of_rows(x, split=True):
        result = nl.ndarray((size, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor_scan(
            dst=result, data0=ones[:size], data1=tile, initial=0.0, op0=nl.multiply, op1=nl.add
        )
        nisa.dma_copy(dst=out[part], src=result)
    return out


def _arguments(rng: np.random.Generator, dtype: Any, rows: int, width: int) -> dict[str, Any]:
    return {"x": rng.standard_normal((rows, width)).astype(dtype)}


def _reference(x: Any) -> np.ndarray:
    result: np.ndarray = np.cumsum(x.astype(np.float64), axis=1)
    return result


KERNEL = Prebuilt(
    kernel=cumsum,
    arguments=_arguments,
    reference=_reference,
    tested=({"rows": 128, "width": 96}, {"rows": 130, "width": 2500}, {"rows": 1, "width": 1}),
    ranges={"rows": range(1, 200), "width": range(1, 2200)},
    timed=({"rows": 512, "width": 2048}, {"rows": 4096, "width": 8192}),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    cores=(1, 2),
    steps=(
        "128 rows lie in the partitions, and the width in the free axis.",
        "The Vector engine scans each row: sum = sum * 1 + x, in float32; what it writes is rounded.",
    ),
    sources=("NKI Library, cumsum",),
    falls_short={
        "bfloat16": "a scan takes the Vector engine two cycles an element, 546 us at the large size, where transfers"
        " take 370; no other engine scans, and products with a triangle of ones spread infinities to sums before them",
    },
)
