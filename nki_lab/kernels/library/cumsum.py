"""Running sums of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.dtypes import DTYPES
from nki_lab.kernels.prebuilt import Prebuilt, Step
from nki_lab.kernels.rows import check_rows, register_of, tiles_of_rows

# Blocks of 128 columns that are transposed together.
_TURNED = 4
# Each tile of PSUM has a bank of its own, of 512 float32: Vector and Scalar delay each other in one bank.
_BANK = 512


@nki.jit
def cumsum(x):
    """Return the sums of each row up to each of its elements, summed in float32.

    In bfloat16 infinities, NaN, and sums that float32 cannot hold are right, too, but take more than twice as long.

    Args:
        x: [rows, width], float32 or bfloat16; width at most 8192.
    """
    rows, width = check_rows("cumsum", x, 8192)
    out = nl.ndarray((rows, width), dtype=x.dtype, buffer=nl.shared_hbm)
    if x.dtype != nl.bfloat16:
        _scan(x, out)
        return out
    pmax = nl.tile_size.pmax
    flags = nl.ndarray((pmax, (rows + pmax - 1) // pmax), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=flags, value=0.0)
    triangle = _triangle()
    for part, size, tile in tiles_of_rows(x, split=True):
        result = nl.ndarray((size, width), dtype=x.dtype, buffer=nl.sbuf)
        total = _multiply(tile, triangle, result)
        nisa.dma_copy(dst=out[part], src=result)
        # 0 times a sum is not 0 where the sum is not finite.
        number = part.start // pmax
        nisa.tensor_scalar(
            dst=flags[:size, number : number + 1], data=total, op0=nl.multiply, operand0=0.0,
            op1=nl.not_equal, operand1=0.0,
        )  # fmt: skip
    flag = nl.ndarray((pmax, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=flag, op=nl.maximum, data=flags, axis=1)
    nl.fori_loop(0, register_of(flag), lambda _: _scan(x, out))
    return out


def _scan(x, out):
    """Compute the sums one after the other."""
    width = x.shape[1]
    ones = nl.ndarray((nl.tile_size.pmax, width), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    for part, size, tile in tiles_of_rows(x, split=True):
        result = nl.ndarray((size, width), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor_scan(
            dst=result, data0=ones[:size], data1=tile, initial=0.0, op0=nl.multiply, op1=nl.add
        )
        nisa.dma_copy(dst=out[part], src=result)


def _triangle():
    """Return a tile [128, 256] of ones where the column is not before the row, and else of zeros."""
    tile = nl.ndarray((nl.tile_size.pmax, 2 * nl.tile_size.pmax), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=1.0)
    nisa.affine_select(
        dst=tile, pattern=[[1, tile.shape[1]]], channel_multiplier=-1, on_true_tile=tile,
        on_false_value=0.0, cmp_op=nl.greater_equal,
    )  # fmt: skip
    return tile


def _multiply(tile, triangle, result):
    """Compute the sums of 256 columns at a time by products with ones; return the sums of the rows, [rows, 1]."""
    (size, width), pmax = tile.shape, nl.tile_size.pmax
    total: Any = None
    for start in range(0, width, _TURNED * pmax):
        stop = min(start + _TURNED * pmax, width)
        blocks = [(n, min(pmax, stop - n)) for n in range(start, stop, pmax)]
        bank = nl.ndarray((pmax, 2 * _BANK // pmax, pmax), dtype=tile.dtype, buffer=nl.psum)
        turned = bank[:, : len(blocks), :size]
        for n, (first, wide) in enumerate(blocks):
            part = tile[:, first : first + wide]
            nisa.nc_transpose(dst=turned[:wide, n], data=part, engine=nisa.engine.tensor)
        columns = nl.ndarray(turned.shape, dtype=tile.dtype, buffer=nl.sbuf)
        whole = (stop - start) // pmax
        if whole:
            nisa.tensor_copy(dst=columns[:, :whole], src=turned[:, :whole])
        if whole < len(blocks):
            rest = blocks[-1][1]
            nisa.tensor_copy(dst=columns[:rest, whole], src=turned[:rest, whole])
        for n in range(0, len(blocks), 2):
            first, pair = blocks[n][0], blocks[n : n + 2]
            wide = sum(size_of for _, size_of in pair)
            sums = nl.ndarray((size, _BANK), dtype=nl.float32, buffer=nl.psum)[:, :wide]
            for m, (_, depth) in enumerate(pair):
                nisa.nc_matmul(
                    dst=sums[:, m * pmax :], stationary=columns[:depth, n + m],
                    moving=triangle[:depth, : wide - m * pmax],
                )  # fmt: skip
            before, total = total, nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=total, op=nl.copy, data=sums[:, wide - 1 :], bias=before)
            nisa.activation(dst=result[:, first : first + wide], op=nl.copy, data=sums, bias=before)
    return total


def _arguments(rng: np.random.Generator, dtype: Any, rows: int, width: int) -> dict[str, Any]:
    return {"x": rng.standard_normal((rows, width)).astype(dtype)}


def _reference(x: Any) -> np.ndarray:
    result: np.ndarray = np.cumsum(x.astype(np.float64), axis=1)
    return result


def _infinite(rng: np.random.Generator) -> dict[str, Any]:
    x = rng.standard_normal((140, 300)).astype(DTYPES["bfloat16"].np)
    x[3, 200], x[100, 7], x[139, 290] = np.inf, np.nan, -np.inf
    return {"x": x}


KERNEL = Prebuilt(
    kernel=cumsum,
    arguments=_arguments,
    reference=_reference,
    tested=({"rows": 128, "width": 96}, {"rows": 130, "width": 2500}, {"rows": 1, "width": 1}),
    ranges={"rows": range(1, 200), "width": range(1, 2200)},
    timed=({"rows": 512, "width": 2048}, {"rows": 4096, "width": 8192}),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    cores=(1, 2),
    edges={"infinity and NaN": _infinite},
    steps=(
        Step(
            "128 rows lie in the partitions, and the width in the free axis.",
            "for part, size, tile in tiles_of_rows",
        ),
        Step("In float32 the Vector engine scans each row: sum = sum * 1 + x.", "_scan"),
        "In bfloat16, where the transfers take half the time, that would be too slow.",
        Step(
            "There the Tensor engine transposes 128 columns at a time, and multiplies them by a triangle of ones.",
            "_multiply",
        ),
        Step(
            "The Scalar engine adds the sum of the columns before, and rounds.",
            "nisa.activation(dst=result",
        ),
        Step(
            "A sum that is not finite has spoiled those before it: a loop of the device then scans all rows.",
            "nl.fori_loop(",
        ),
    ),
    sources=("NKI Library, cumsum",),
)
