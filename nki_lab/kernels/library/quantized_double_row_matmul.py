"""Matrix product of 8-bit floats, of which the array contracts two rows at a time."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import check_dtypes
from nki_lab.kernels.rows import loaded

# The largest float8_e4m3, and what stands for the largest magnitude of zeros.
_LARGEST, _SMALLEST = 240.0, 1e-30
# Tiles of 128 x 128 that one bank of PSUM holds when they are transposed: 8-bit elements take two bytes there.
_TURNED = 8


@nki.jit
def quantized_double_row_matmul(
    lhs, rhs_quantized, rhs_scale, TILES_IN_BLOCK_M, TILES_IN_BLOCK_N, TILES_IN_BLOCK_K
):
    """Return lhs @ rhs, with the columns of rhs quantised before, and the rows of lhs in the kernel.

    A row of lhs is quantised to float8_e4m3 in pieces of 128 * TILES_IN_BLOCK_K elements: each is divided by its scale,
    its largest magnitude / 240. Products are summed in float32.

    Args:
        lhs: [rows, depth], float32, bfloat16 or float16; rows a multiple of 128 * TILES_IN_BLOCK_M, depth one of
            128 * TILES_IN_BLOCK_K.
        rhs_quantized: [depth / 2, 2 * columns] float8_e4m3, as `double_rows` lays out [depth, columns]; columns a
            multiple of 512 * TILES_IN_BLOCK_N.
        rhs_scale: [128, columns], of the dtype of lhs: the scale of each column, 128 times.
        TILES_IN_BLOCK_M, TILES_IN_BLOCK_N, TILES_IN_BLOCK_K: tiles of 128 rows, 512 columns and 128 of the depth in a
            block; TILES_IN_BLOCK_K is even.

    Returns:
        [rows, columns], of the dtype of lhs.
    """
    tiles = TILES_IN_BLOCK_M, TILES_IN_BLOCK_N, TILES_IN_BLOCK_K
    _check(lhs, rhs_quantized, rhs_scale, *tiles)
    (rows, depth), columns = lhs.shape, rhs_scale.shape[1]
    pmax, wide = nl.tile_size.pmax, nl.tile_size.gemm_moving_fmax
    out = nl.ndarray((rows, columns), dtype=lhs.dtype, buffer=nl.shared_hbm)
    scales = loaded(rhs_scale)
    high, broad, deep = pmax * tiles[0], wide * tiles[1], pmax * tiles[2]
    for top in range(0, rows, high):
        sums: dict[tuple[int, int], Any] = {}
        for start in range(0, depth, deep):
            stationary = [
                _quantised(loaded(lhs[m : m + pmax, start : start + deep]))
                for m in range(top, top + high, pmax)
            ]
            for left in range(0, columns, broad):
                moving = [
                    loaded(rhs_quantized[k : k + pmax, 2 * left : 2 * (left + broad)])
                    for k in range(start // 2, (start + deep) // 2, pmax)
                ]
                for m, (turned, scale) in enumerate(stationary):
                    result = nl.ndarray((pmax, broad), dtype=out.dtype, buffer=nl.sbuf)
                    for n in range(0, broad, wide):
                        pieces = [t[:, 2 * n : 2 * (n + wide)] for t in moving]
                        key = m, left + n
                        sums[key] = _added(sums.get(key), _product(turned, pieces), scale)
                        if start + deep == depth:
                            nisa.tensor_tensor(
                                dst=result[:, n : n + wide], data1=sums[key],
                                data2=scales[:, left + n : left + n + wide], op=nl.multiply,
                            )  # fmt: skip
                    if start + deep == depth:
                        first = top + m * pmax
                        nisa.dma_copy(
                            dst=out[first : first + pmax, left : left + broad], src=result
                        )
    return out


def double_rows(rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the kernel takes for rhs [depth, columns]: its quantised columns, laid out, and their scales.

    Tiles of 128 x 512 that lie below each other, the first and second, the third and fourth, come beside each other.
    """
    depth, columns = rhs.shape
    scale = np.maximum(np.abs(rhs.astype(np.float64)).max(axis=0), _SMALLEST) / _LARGEST
    codes = (rhs.astype(np.float64) / scale).astype(ml_dtypes.float8_e4m3)
    tiles = codes.reshape((depth // 256, 2, 128, columns // 512, 512)).transpose((0, 2, 3, 1, 4))
    return tiles.reshape((depth // 2, 2 * columns)), np.broadcast_to(scale, (128, columns))


def _check(lhs, rhs_quantized, rhs_scale, m, n, k):
    name = "quantized_double_row_matmul"
    require(
        all(isinstance(tiles, int) and tiles > 0 for tiles in (m, n, k)) and k % 2 == 0,
        f"{name}: TILES_IN_BLOCK_M={m}, TILES_IN_BLOCK_N={n}, TILES_IN_BLOCK_K={k}",
        "give whole numbers above 0, the last one even: two tiles of the depth are multiplied at once",
    )
    require(
        len(lhs.shape) == 2 and lhs.shape[0] % (128 * m) == 0 and lhs.shape[1] % (128 * k) == 0,
        f"{name}: `lhs` has shape {list(lhs.shape)}; expected multiples of [{128 * m}, {128 * k}]",
        "fill it up with zeros, or give smaller blocks",
    )
    depth = lhs.shape[1]
    require(
        len(rhs_scale.shape) == 2
        and rhs_scale.shape[0] == 128
        and rhs_scale.shape[1] % (512 * n) == 0,
        f"{name}: `rhs_scale` has shape {list(rhs_scale.shape)}; expected [128, columns],"
        f" columns a multiple of {512 * n}",
        "repeat the scales for each partition, as double_rows(rhs) does; fill up columns with zeros",
    )
    columns = rhs_scale.shape[1]
    require(
        list(rhs_quantized.shape) == [depth // 2, 2 * columns]
        and rhs_quantized.dtype == nl.float8_e4m3,
        f"{name}: `rhs_quantized` is {list(rhs_quantized.shape)} {rhs_quantized.dtype};"
        f" expected {[depth // 2, 2 * columns]} float8_e4m3",
        "make it with nki_lab.kernels.library.quantized_double_row_matmul.double_rows(rhs)",
    )
    check_dtypes(name, lhs=lhs, rhs_scale=rhs_scale)


def _quantised(tile):
    """Return a tile [128, depth] quantised and transposed, [128, depth / 128, 128], and the scale of each row."""
    (rows, depth), pmax = tile.shape, nl.tile_size.pmax
    scale, factor = (nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2))
    # The magnitudes themselves are not used.
    magnitudes = nl.ndarray((rows, depth), dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_scalar_reduce(
        dst=magnitudes, data=tile, op0=nl.abs, operand0=0.0, reduce_op=nl.maximum, reduce_res=scale
    )
    nisa.tensor_scalar(
        dst=scale, data=scale, op0=nl.maximum, operand0=_SMALLEST,
        op1=nl.multiply, operand1=1 / _LARGEST,
    )  # fmt: skip
    nisa.reciprocal(dst=factor, data=scale)
    codes = nl.ndarray((rows, depth), dtype=nl.float8_e4m3, buffer=nl.sbuf)
    nisa.activation(dst=codes, op=nl.copy, data=tile, scale=factor)
    result = nl.ndarray((pmax, depth // pmax, rows), dtype=codes.dtype, buffer=nl.sbuf)
    for first in range(0, depth // pmax, _TURNED):
        count = min(_TURNED, depth // pmax - first)
        turned = nl.ndarray((pmax, count, 2 * rows), dtype=codes.dtype, buffer=nl.psum)[:, :, ::2]
        for n in range(count):
            part = codes[:, (first + n) * pmax : (first + n + 1) * pmax]
            nisa.nc_transpose(dst=turned[:, n], data=part, engine=nisa.engine.tensor)
        nisa.tensor_copy(dst=result[:, first : first + count], src=turned)
    return result, scale


def _product(turned, pieces):
    """Return the product of a quantised tile with pieces [128, 2 * 512] of the depth, in PSUM."""
    wide = pieces[0].shape[1] // 2
    product = nl.ndarray((turned.shape[2], wide), dtype=nl.float32, buffer=nl.psum)
    for k, piece in enumerate(pieces):
        nisa.nc_matmul(
            dst=product, stationary=turned[:, 2 * k : 2 * k + 2], moving=piece.reshape((piece.shape[0], 2, wide)),
            perf_mode=nisa.matmul_perf_mode.double_row,
        )  # fmt: skip
    return product


def _added(total, product, scale):
    """Return a product times the scale of each row, with what was summed before."""
    result = total
    if total is None:
        result = nl.ndarray(product.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=result, op=nl.copy, data=product, scale=scale)
    else:
        nisa.scalar_tensor_tensor(
            dst=result, data=product, op0=nl.multiply, operand0=scale, op1=nl.add, operand1=total
        )
    return result


def _arguments(
    rng: np.random.Generator,
    dtype: Any,
    rows: int,
    depth: int,
    columns: int,
    m: int,
    n: int,
    k: int,
) -> dict[str, Any]:
    codes, scale = double_rows(rng.standard_normal((depth, columns)))
    return {
        "lhs": rng.standard_normal((rows, depth)).astype(dtype),
        "rhs_quantized": codes,
        "rhs_scale": scale.astype(dtype),
        "TILES_IN_BLOCK_M": m,
        "TILES_IN_BLOCK_N": n,
        "TILES_IN_BLOCK_K": k,
    }


def _reference(
    lhs: Any,
    rhs_quantized: Any,
    rhs_scale: Any,
    TILES_IN_BLOCK_M: int,
    TILES_IN_BLOCK_N: int,
    TILES_IN_BLOCK_K: int,
) -> np.ndarray:
    (rows, depth), columns = lhs.shape, rhs_scale.shape[1]
    pieces = lhs.astype(np.float64).reshape((rows, -1, 128 * TILES_IN_BLOCK_K))
    scale = np.maximum(np.abs(pieces).max(axis=2, keepdims=True), _SMALLEST) / _LARGEST
    quantised = (pieces / scale).astype(ml_dtypes.float8_e4m3).astype(np.float64) * scale
    tiles = rhs_quantized.astype(np.float64).reshape((depth // 256, 128, columns // 512, 2, 512))
    rhs = tiles.transpose((0, 3, 1, 2, 4)).reshape((depth, columns))
    result: np.ndarray = quantised.reshape((rows, depth)) @ rhs * rhs_scale[0].astype(np.float64)
    return result


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float32, 128, 512, 512, 1, 1, 2)
    arguments["lhs"][3, 7] = np.nan
    arguments["lhs"][5, 300] = -np.inf
    arguments["lhs"][9] = 0
    return arguments


KERNEL = Prebuilt(
    kernel=quantized_double_row_matmul,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"rows": 128, "depth": 256, "columns": 512, "m": 1, "n": 1, "k": 2},
        {"rows": 256, "depth": 512, "columns": 512, "m": 2, "n": 1, "k": 2},
        {"rows": 128, "depth": 512, "columns": 1024, "m": 1, "n": 2, "k": 4},
    ),
    ranges={
        "rows": range(128, 257, 128),
        "depth": range(256, 513, 256),
        "columns": range(512, 1025, 512),
        "m": range(1, 3),
        "n": range(1, 3),
        "k": range(2, 5, 2),
    },
    legal=lambda rows, depth, columns, m, n, k: (
        rows % (128 * m) == depth % (128 * k) == columns % (512 * n) == 0
    ),
    timed=(
        {"rows": 256, "depth": 2048, "columns": 1024, "m": 2, "n": 2, "k": 16},
        {"rows": 512, "depth": 8192, "columns": 4096, "m": 4, "n": 2, "k": 16},
    ),
    edges={"not finite": _not_finite},
    refused=(
        Refused(
            {"lhs": (128, 256), "rhs_quantized": (128, 1024), "rhs_scale": (128, 512)}
            | {"TILES_IN_BLOCK_M": 1, "TILES_IN_BLOCK_N": 1, "TILES_IN_BLOCK_K": 1},
            "TILES_IN_BLOCK_K=1",
            "even",
        ),
        Refused(
            {"lhs": (130, 256), "rhs_quantized": (128, 1024), "rhs_scale": (128, 512)}
            | {"TILES_IN_BLOCK_M": 1, "TILES_IN_BLOCK_N": 1, "TILES_IN_BLOCK_K": 2},
            "`lhs` has shape [130, 256]; expected multiples of [128, 256]",
            "zeros",
        ),
        Refused(
            {"lhs": (128, 256), "rhs_quantized": (128, 1024), "rhs_scale": (1, 512)}
            | {"TILES_IN_BLOCK_M": 1, "TILES_IN_BLOCK_N": 1, "TILES_IN_BLOCK_K": 2},
            "`rhs_scale` has shape [1, 512]; expected [128, columns]",
            "repeat",
        ),
        Refused(
            {"lhs": (128, 256), "rhs_quantized": (256, 512), "rhs_scale": (128, 512)}
            | {"TILES_IN_BLOCK_M": 1, "TILES_IN_BLOCK_N": 1, "TILES_IN_BLOCK_K": 2},
            "`rhs_quantized` is [256, 512] float32; expected [128, 1024] float8_e4m3",
            "double_rows(rhs)",
        ),
    ),
    multiplies=lambda rows, depth, columns, m, n, k: 2 * rows * depth * columns,
    # An element of lhs that lies between two 8-bit numbers may be rounded to the other one.
    tolerance={"float32": 2e-3, "bfloat16": 4e-2, "float16": 4e-2},
    chips=("trn2", "trn3"),
    official={
        "neuronxcc.nki.kernels.double_row_matmul.quantized_double_row_matmul": quantized_double_row_matmul
    },
    steps=(
        Step(
            "128 rows of lhs and a block of the depth are loaded; the Vector engine finds the largest magnitudes.",
            "nisa.tensor_scalar_reduce(",
        ),
        Step(
            "The Scalar engine divides by the scale and rounds to 8 bits; the Tensor engine transposes.",
            "nisa.activation(dst=codes",
        ),
        Step(
            "Two tiles of the depth lie in each partition: the array contracts 256 rows at once, in half the time.",
            "_product",
        ),
        Step(
            "A product of a block of the depth, summed in PSUM, is multiplied by its scales and added in float32.",
            "_added",
        ),
        Step(
            "At the end the sums are multiplied by the scales of the columns, cast and stored.",
            "nisa.tensor_tensor(",
        ),
    ),
    sources=("nki-samples, double row matmul",),
)
