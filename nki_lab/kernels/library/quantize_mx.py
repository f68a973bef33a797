"""Quantisation to block-scaled (MX) 8-bit floats."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels import mx
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import row_tiles

# Rows that are quantised together, and how much of the depth: four tiles of 512, whose scales share the partitions.
_ROWS, _STEP, _STEPS = 1024, 512, 4
_QUADRANT, _SCALES = 32, 4
# Tiles of 128 rows whose transposes fill a bank of PSUM.
_PAIR = 2


@nki.jit
def quantize_mx(src, dtype=nl.float8_e4m3fn_x4):
    """Return src as block-scaled floats: 32 numbers that follow each other along the depth share a scale, 2 ** e.

    e is the exponent of the largest magnitude, less 7 for float8_e4m3fn and 14 for float8_e5m2; infinity becomes the
    largest number. `nki_lab.kernels.mx.numbers(data, scales)` reads them.

    Args:
        src: [rows, depth], bfloat16 or float16; depth a multiple of 128.
        dtype: float8_e4m3fn_x4 or float8_e5m2_x4; the chip makes no 4-bit ones.

    Returns:
        data [depth / 4, rows], four numbers of the depth in one element, and scales [depth / 32, rows] uint8, e + 127.
        The data come as words; `data.view(dtype.host)` is what matmul_mx takes.
    """
    packed = _check(src, dtype)
    rows, depth = src.shape
    data = nl.ndarray((depth // mx.LANES, rows), dtype=packed, buffer=nl.shared_hbm)
    scales = nl.ndarray((depth // mx.GROUP, rows), dtype=nl.uint8, buffer=nl.shared_hbm)
    pmax = nl.tile_size.pmax
    for first in range(0, rows, _ROWS):
        columns = slice(first, min(first + _ROWS, rows))
        count = columns.stop - first
        for start in range(0, depth, _STEPS * _STEP):
            stop = min(start + _STEPS * _STEP, depth)
            tiles = list(row_tiles(src[columns], start, stop - start))
            # Partitions, steps of the depth, rows: the last step may have fewer partitions.
            result = nl.ndarray((pmax, _STEPS, count), dtype=packed, buffer=nl.sbuf)
            scale = nl.ndarray((pmax, count), dtype=nl.uint8, buffer=nl.sbuf)
            for step, size in _steps(stop - start):
                gathered = nl.ndarray((size, count, mx.LANES), dtype=src.dtype, buffer=nl.sbuf)
                part = slice(step * _STEP, step * _STEP + size * mx.LANES)
                for n in range(0, len(tiles), _PAIR):
                    pair = [tile[:, part] for tile in tiles[n : n + _PAIR]]
                    _turned(pair, gathered[:, n * pmax : min((n + _PAIR) * pmax, count)], step)
                place = scale[_SCALES * step : size - _QUADRANT + _SCALES * (step + 1)]
                nisa.quantize_mx(dst=result[:size, step], src=gathered, dst_scale=place)
            _store(data[start // mx.LANES : stop // mx.LANES, columns], result)
            _store_scales(scales, start, stop - start, columns, scale)
    return data, scales


def _check(src, dtype):
    packed = mx.packed_dtype(dtype)
    require(
        packed in (nl.float8_e4m3fn_x4, nl.float8_e5m2_x4),
        f"quantize_mx: `dtype` is {packed}; the chip makes float8_e4m3fn_x4 and float8_e5m2_x4",
        "make 4-bit floats on the host: nki_lab.kernels.mx.quantised(src, dtype)",
    )
    require(
        len(src.shape) == 2 and src.shape[1] % 128 == 0,
        f"quantize_mx: `src` has shape {list(src.shape)}; expected [rows, depth], the depth a multiple of 128",
        "reshape it, and fill up the depth with zeros",
    )
    require(
        src.dtype in (nl.bfloat16, nl.float16),
        f"quantize_mx: `src` is {src.dtype}; expected bfloat16 or float16",
        "cast it",
    )
    return packed


def _steps(depth):
    """Return the steps of a depth, 512 each, by number and partitions."""
    return [(n, min(_STEP, depth - n * _STEP) // mx.LANES) for n in range(-(-depth // _STEP))]


def _turned(tiles, into, step):
    """Write tiles [rows, depth] to [depth / 4, rows, 4], four numbers of the depth beside each other."""
    turned = nl.ndarray(into.shape, dtype=into.dtype, buffer=nl.psum)
    for n, tile in enumerate(tiles):
        rows = slice(n * nl.tile_size.pmax, n * nl.tile_size.pmax + tile.shape[0])
        for lane in range(mx.LANES):
            part = tile[:, lane :: mx.LANES]
            nisa.nc_transpose(dst=turned[:, rows, lane], data=part, engine=nisa.engine.tensor)
    if step % 2:
        nisa.tensor_copy(dst=into, src=turned)
    else:
        nisa.activation(dst=into, op=nl.copy, data=turned)


def _store(data, result):
    """Store the data of some steps, with one transfer for those that fill the partitions."""
    pmax, whole = nl.tile_size.pmax, data.shape[0] // nl.tile_size.pmax
    if whole:
        rows = data[: whole * pmax].reshape_dim(0, (whole, pmax)).permute((1, 0, 2))
        nisa.dma_copy(dst=rows, src=result[:, :whole])
    if rest := data.shape[0] % pmax:
        nisa.dma_copy(dst=data[whole * pmax :], src=result[:rest, whole])


def _store_scales(scales, start, depth, columns, tile):
    """Store the scales of some steps: of each 32 partitions the first 16 hold four steps, 4 each."""
    (_, rows), whole, per_step = scales.shape, depth // _STEP, _STEP // mx.GROUP
    for quadrant in range(nl.tile_size.pmax // _QUADRANT):
        low, top = quadrant * _QUADRANT, start // mx.GROUP + quadrant * _SCALES
        if whole:
            pattern = [[per_step * rows, whole], [rows, _SCALES], [1, columns.stop - columns.start]]
            place = scales.ap(pattern, offset=top * rows + columns.start)
            nisa.dma_copy(dst=place, src=tile[low : low + whole * _SCALES])
        if low * mx.LANES < depth % _STEP:
            top, low = top + whole * per_step, low + whole * _SCALES
            nisa.dma_copy(dst=scales[top : top + _SCALES, columns], src=tile[low : low + _SCALES])


def _arguments(
    rng: np.random.Generator, dtype: Any, rows: int, depth: int, e5m2: int
) -> dict[str, Any]:
    return {
        "src": (rng.standard_normal((rows, depth)) * 2.0 ** rng.integers(-9, 9, (rows, 1))).astype(
            dtype
        ),
        "dtype": nl.float8_e5m2_x4 if e5m2 else nl.float8_e4m3fn_x4,
    }


def _reference(src: Any, dtype: Any = nl.float8_e4m3fn_x4) -> tuple[np.ndarray, np.ndarray]:
    data, scales = mx.quantised(src, dtype)
    return mx.numbers(data, scales), scales


def _decoded(results: Any, arguments: Any) -> tuple[np.ndarray, np.ndarray]:
    data, scales = results
    return mx.numbers(data, scales, arguments["dtype"]), scales


def _zeros(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float16, 6, 256, 0)
    arguments["src"][1, 32:64] = 0
    arguments["src"][2, 64:70] = -0.0
    return arguments


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    arguments = _arguments(rng, np.float16, 6, 256, 0)
    arguments["src"][1, 35], arguments["src"][2, 70], arguments["src"][3, 9] = (
        np.inf,
        -np.inf,
        np.nan,
    )
    return arguments


KERNEL = Prebuilt(
    kernel=quantize_mx,
    arguments=_arguments,
    reference=_reference,
    decoded=_decoded,
    tested=(
        {"rows": 130, "depth": 640, "e5m2": 0},
        {"rows": 20, "depth": 2304, "e5m2": 1},
        {"rows": 1, "depth": 128, "e5m2": 0},
    ),
    ranges={"rows": range(1, 300), "depth": range(128, 1025, 128), "e5m2": range(2)},
    timed=(
        {"rows": 512, "depth": 2048, "e5m2": 0},
        {"rows": 4096, "depth": 8192, "e5m2": 0},
    ),
    # The chip rounds to the nearest number of the format, as the definition does.
    tolerance={"bfloat16": 0.0, "float16": 0.0},
    chips=("trn3",),
    edges={"zeros": _zeros, "not finite": _not_finite},
    refused=(
        Refused({"src": (4, 128)}, "`src` is float32; expected bfloat16 or float16", "cast"),
        Refused(
            {"src": np.zeros((4, 100), np.float16)}, "`src` has shape [4, 100]; expected", "zeros"
        ),
        Refused(
            {"src": np.zeros((4, 128), np.float16), "dtype": nl.float4_e2m1fn_x4},
            "`dtype` is float4_e2m1fn_x4; the chip makes float8_e4m3fn_x4",
            "on the host",
        ),
    ),
    steps=(
        Step(
            "512 rows and 2048 of their depth are loaded, with the rows in the partitions.",
            "tiles = list(",
        ),
        Step(
            "The Tensor engine transposes every fourth number of the depth at a time: partition p gets 4p to 4p + 3.",
            "nisa.nc_transpose(",
        ),
        Step(
            "Scalar and Vector engine copy them from PSUM, so that four numbers of the depth lie beside each other.",
            "_turned",
        ),
        Step(
            "The Vector engine finds the scale of 8 partitions by 4 numbers, divides, rounds, packs: one instruction.",
            "nisa.quantize_mx(",
        ),
        Step(
            "Its scales take 4 of each 32 partitions, so four tiles of the depth share a tile of scales.",
            "_store_scales",
        ),
    ),
    falls_short=dict.fromkeys(
        ("bfloat16", "float16"),
        "the scales lie in 16 of each 32 partitions, so that few DMA engines store them, and the first load is awaited",
    ),
    sources=("NKI documentation, MXFP matmul", "OCP Microscaling Formats (MX) 1.0"),
)
