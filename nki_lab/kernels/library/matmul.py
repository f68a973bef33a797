"""Matrix product in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded, of_this_core

# A block of the result, and how many bytes of one row or column of the operands stay in SBUF with it. Each operand is
# then read once for 1024 rows or columns of the result, so that the Tensor engine binds and not the DMA engines.
_BLOCK, _DEEP_BYTES = 1024, 2048


@nki.jit
def matmul(lhs_t, rhs):
    """Return lhs_t.T @ rhs, summed in float32.

    Args:
        lhs_t: [depth, rows], float32 or bfloat16: the left operand, transposed.
        rhs: [depth, columns], of the same dtype.
    """
    _check(lhs_t, rhs)
    (depth, rows), columns = lhs_t.shape, rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    deep = _DEEP_BYTES // (4 if lhs_t.dtype == nl.float32 else 2)
    blocks = [(top, left) for top in range(0, rows, _BLOCK) for left in range(0, columns, _BLOCK)]
    for block, (top, left) in enumerate(blocks):
        if not of_this_core(block):
            continue
        high, wide = min(_BLOCK, rows - top), min(_BLOCK, columns - left)
        sums: dict[int, Any] = {}
        for start in range(0, depth, deep):
            steps = range(start, min(start + deep, depth), nl.tile_size.pmax)
            stationary = [_loaded(lhs_t, depth, k, top, high) for k in steps]
            moving = [_loaded(rhs, depth, k, left, wide) for k in steps]
            for m in range(0, high, nl.tile_size.pmax):
                sums[m] = _added(sums.get(m), stationary, moving, m, high, wide)
        for m, total in sums.items():
            result = nl.ndarray(total.shape, dtype=out.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=total)
            nisa.dma_copy(
                dst=out[top + m : top + m + total.shape[0], left : left + wide], src=result
            )
    return out


def _check(lhs_t, rhs):
    for name, operand, axes in (("lhs_t", lhs_t, "rows"), ("rhs", rhs, "columns")):
        require(
            len(operand.shape) == 2,
            f"matmul: `{name}` has shape {list(operand.shape)}; expected [depth, {axes}]",
            "multiply one matrix after the other",
        )
    require(
        lhs_t.shape[0] == rhs.shape[0],
        f"matmul: `lhs_t` is {list(lhs_t.shape)} and `rhs` {list(rhs.shape)}; both begin with the depth",
        "transpose the left operand: matmul(np.ascontiguousarray(lhs.T), rhs)",
    )
    require(
        lhs_t.dtype == rhs.dtype,
        f"matmul: `lhs_t` is {lhs_t.dtype}, and `rhs` {rhs.dtype}",
        "cast one of them: both have one dtype",
    )
    check_floats("matmul", lhs_t=lhs_t)


def _loaded(tensor, depth, k, start, extent):
    """Return rows k to k + 128 of some columns, in SBUF."""
    size = min(nl.tile_size.pmax, depth - k)
    return loaded(tensor[k : k + size, start : start + extent])


def _added(total, stationary, moving, m, high, wide):
    """Return the sums of 128 rows of a block, with the products of these steps added."""
    size = min(nl.tile_size.pmax, high - m)
    first = total is None
    if first:
        total = nl.ndarray((size, wide), dtype=nl.float32, buffer=nl.sbuf)
    for n in range(0, wide, nl.tile_size.gemm_moving_fmax):
        part = slice(n, min(n + nl.tile_size.gemm_moving_fmax, wide))
        product = nl.ndarray((size, part.stop - n), dtype=nl.float32, buffer=nl.psum)
        for a, b in zip(stationary, moving, strict=True):
            nisa.nc_matmul(dst=product, stationary=a[:, m : m + size], moving=b[:, part])
        if first:
            nisa.tensor_copy(dst=total[:, part], src=product)
        else:
            nisa.tensor_tensor(dst=total[:, part], data1=total[:, part], data2=product, op=nl.add)
    return total


def _arguments(
    rng: np.random.Generator, dtype: Any, depth: int, rows: int, columns: int
) -> dict[str, Any]:
    return {
        "lhs_t": rng.standard_normal((depth, rows)).astype(dtype),
        "rhs": rng.standard_normal((depth, columns)).astype(dtype),
    }


def _reference(lhs_t: Any, rhs: Any) -> np.ndarray:
    result: np.ndarray = lhs_t.astype(np.float64).T @ rhs.astype(np.float64)
    return result


KERNEL = Prebuilt(
    kernel=matmul,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"depth": 128, "rows": 64, "columns": 96},
        {"depth": 1100, "rows": 130, "columns": 600},
        {"depth": 1, "rows": 1, "columns": 1},
    ),
    ranges={name: range(1, 700) for name in ("depth", "rows", "columns")},
    timed=(
        {"depth": 1024, "rows": 1024, "columns": 1024},
        {"depth": 4096, "rows": 2048, "columns": 2048},
    ),
    multiplies=lambda depth, rows, columns: 2 * depth * rows * columns,
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    cores=(1, 2),
    operator={"backward": "auto"},
    steps=(
        "The depth lies in the partitions of both operands; a block of the result is 1024 x 1024.",
        Step(
            "128 rows of the depth at a time are loaded, as wide as the block; a row is at least 2 KiB.",
            "_loaded",
        ),
        Step(
            "The Tensor engine multiplies 128 x 128 by 128 x 512, and adds up to 2 KiB of depth in PSUM.",
            "for a, b in zip(stationary, moving",
        ),
        Step(
            "The Vector engine adds PSUM to the float32 sums of the block in SBUF.",
            "nisa.tensor_tensor(dst=total",
        ),
        Step(
            "At the end of the depth the sums are cast and stored.", "for m, total in sums.items()"
        ),
    ),
    sources=("NKI documentation, matrix multiplication tutorial",),
    refused=(
        Refused(
            {"lhs_t": np.ones((8, 16), np.int32), "rhs": np.ones((8, 4), np.int32)},
            "`lhs_t` is int32",
            "cast it",
        ),
        Refused(
            {"lhs_t": (8, 16), "rhs": (16, 4)},
            "both begin with the depth",
            "transpose",
        ),
    ),
)
