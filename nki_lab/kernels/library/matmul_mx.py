"""Matrix product of block-scaled (MX) numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.dtypes import dtype_of
from nki_lab.kernels import mx
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.projections import row_tiles

# Bytes of a partition for a block of the rows of lhs, and for columns of rhs; the most rows and columns of a block.
_LHS_BYTES, _RHS_BYTES = 64 * 1024, 32 * 1024
_MOST_ROWS, _MOST_COLUMNS = 1024, 512
# The depth of one product, and how many of them share a tile of scales: each takes 4 of 32 partitions.
_STEP, _SHARED = 512, 4
_QUADRANT, _SCALES = 32, 4


@nki.jit
def matmul_mx(lhs, lhs_scales, rhs, rhs_scales, output_dtype=nl.float32):
    """Return lhs @ rhs.T of block-scaled numbers, summed in float32.

    Each operand is data and scales, as the prebuilt quantize_mx and `nki_lab.kernels.mx.quantised` make them; lhs and
    rhs may be of different dtypes.

    Args:
        lhs: [depth / 4, rows], float8_e4m3fn_x4, float8_e5m2_x4 or float4_e2m1fn_x4; depth a multiple of 128 up to
            16384, rows even.
        lhs_scales: [depth / 32, rows] uint8.
        rhs: [depth / 4, columns], of one of these dtypes.
        rhs_scales: [depth / 32, columns] uint8.
        output_dtype: float32 or bfloat16.

    Returns:
        [rows, columns].
    """
    _check(lhs, lhs_scales, rhs, rhs_scales, output_dtype)
    depth, rows, columns = mx.LANES * lhs.shape[0], lhs.shape[1], rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=output_dtype, buffer=nl.shared_hbm)
    pmax, steps = nl.tile_size.pmax, -(-depth // _STEP)
    high = min(_LHS_BYTES // (steps * lhs.dtype.itemsize) // pmax * pmax, _MOST_ROWS)
    wide = min(_RHS_BYTES // (steps * rhs.dtype.itemsize), _MOST_COLUMNS)
    for top in range(0, rows, high):
        stationary = _loaded(lhs, lhs_scales, top, min(high, rows - top))
        for start in range(0, columns, wide):
            extent = min(wide, columns - start)
            moving = _loaded(rhs, rhs_scales, start, extent)
            for m in range(top, min(top + high, rows), pmax):
                size = min(pmax, rows - m)
                part = slice(m - top, m - top + size)
                product = nl.ndarray((size, extent), dtype=nl.float32, buffer=nl.psum)
                for k, ((a, a_scale), (b, b_scale)) in enumerate(
                    zip(stationary, moving, strict=True)
                ):
                    nisa.nc_matmul_mx(
                        dst=product, stationary=a[:, part], moving=b,
                        stationary_scale=a_scale[:, part], moving_scale=b_scale, accumulate=k > 0,
                    )  # fmt: skip
                result = nl.ndarray((size, extent), dtype=out.dtype, buffer=nl.sbuf)
                nisa.tensor_copy(dst=result, src=product)
                nisa.dma_copy(dst=out[m : m + size, start : start + extent], src=result)
    return out


def _check(lhs, lhs_scales, rhs, rhs_scales, output_dtype):
    packed = (nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4)
    for name, data, scales in (("lhs", lhs, lhs_scales), ("rhs", rhs, rhs_scales)):
        require(
            len(data.shape) == 2 and data.dtype in packed,
            f"matmul_mx: `{name}` is {list(data.shape)} {data.dtype}; expected [depth / 4, n] float8_e4m3fn_x4,"
            " float8_e5m2_x4 or float4_e2m1fn_x4",
            "quantise it: nki_lab.kernels.quantize_mx(x), or nki_lab.kernels.mx.quantised(x, dtype); words of an"
            " array become one by data.view([(dtype, data.dtype)])",
        )
        expected = [data.shape[0] // 8, data.shape[1]]
        require(
            list(scales.shape) == expected and scales.dtype == nl.uint8,
            f"matmul_mx: `{name}_scales` is {list(scales.shape)} {scales.dtype}; expected {expected} uint8",
            "give the scales that were made with the data: one for 32 numbers of the depth",
        )
    require(
        lhs.shape[0] == rhs.shape[0] and lhs.shape[0] % _QUADRANT == 0 and lhs.shape[0] <= 4096,
        f"matmul_mx: `lhs` is {list(lhs.shape)} and `rhs` {list(rhs.shape)}; both begin with depth / 4,"
        " a multiple of 32 up to 4096",
        "fill up the depth with zeros; split a longer one, and add the products",
    )
    require(
        lhs.shape[1] % 2 == 0,
        f"matmul_mx: `lhs` has {lhs.shape[1]} rows; the chip multiplies an even number",
        "fill up `lhs` with a row of zeros",
    )
    require(
        output_dtype in (nl.float32, nl.bfloat16),
        f"matmul_mx: `output_dtype` is {output_dtype}",
        "give nl.float32 or nl.bfloat16",
    )


def _loaded(data, scales, start, extent):
    """Return data and scales of each step of the depth, for some rows or columns: tiles of up to 128 partitions."""
    tiles = list(row_tiles(data, start, extent))
    pmax, per_step, columns = nl.tile_size.pmax, _STEP // mx.GROUP, scales.shape[1]
    steps = []
    for first in range(0, len(tiles), _SHARED):
        group = tiles[first : first + _SHARED]
        scale = nl.ndarray((pmax, extent), dtype=nl.uint8, buffer=nl.sbuf)
        whole = sum(tile.shape[0] == pmax for tile in group)
        for quadrant in range(pmax // _QUADRANT):
            low, top = quadrant * _QUADRANT, first * per_step + quadrant * _SCALES
            if whole:
                pattern = [[per_step * columns, whole], [columns, _SCALES], [1, extent]]
                source = scales.ap(pattern, offset=top * columns + start)
                nisa.dma_copy(dst=scale[low : low + whole * _SCALES], src=source)
            if whole < len(group) and low < group[-1].shape[0]:
                low, top = low + whole * _SCALES, top + whole * per_step
                source = scales[top : top + _SCALES, start : start + extent]
                nisa.dma_copy(dst=scale[low : low + _SCALES], src=source)
        for n, tile in enumerate(group):
            end = tile.shape[0] - _QUADRANT + _SCALES * (n + 1)
            steps.append((tile, scale[_SCALES * n : end]))
    return steps


def _arguments(
    rng: np.random.Generator, dtype: Any, rows: int, depth: int, columns: int, mixed: int
) -> dict[str, Any]:
    packed = mx.packed_dtype(dtype_of(dtype))
    lhs = mx.quantised(rng.standard_normal((rows, depth)), packed)
    other = nl.float8_e5m2_x4 if mixed else packed
    rhs = mx.quantised(rng.standard_normal((columns, depth)), other)
    return {"lhs": lhs[0], "lhs_scales": lhs[1], "rhs": rhs[0], "rhs_scales": rhs[1]}


def _reference(
    lhs: Any, lhs_scales: Any, rhs: Any, rhs_scales: Any, output_dtype: Any = nl.float32
) -> np.ndarray:
    result: np.ndarray = mx.numbers(lhs, lhs_scales) @ mx.numbers(rhs, rhs_scales).T
    return result


def _not_finite(rng: np.random.Generator) -> dict[str, Any]:
    """Return arguments with a scale that is NaN, and a large one."""
    arguments = _arguments(rng, nl.float8_e4m3fn_x4, 6, 128, 10, 0)
    arguments["lhs_scales"][2, 3], arguments["rhs_scales"][1, 4] = 255, 200
    return arguments


def _refused(message: str, help: str, **changed: Any) -> Refused:
    """Return arguments that are refused for what is changed in right ones."""
    data, scales = mx.quantised(np.ones((2, 128)), nl.float8_e5m2_x4)
    right = {"lhs": data, "lhs_scales": scales, "rhs": data, "rhs_scales": scales}
    return Refused(right | changed, message, help)


KERNEL = Prebuilt(
    kernel=matmul_mx,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"rows": 130, "depth": 640, "columns": 96, "mixed": 0},
        {"rows": 20, "depth": 2432, "columns": 130, "mixed": 1},
        {"rows": 2, "depth": 128, "columns": 1, "mixed": 0},
    ),
    ranges={
        "rows": range(2, 200, 2),
        "depth": range(128, 769, 128),
        "columns": range(1, 200),
        "mixed": range(2),
    },
    timed=(
        {"rows": 512, "depth": 2048, "columns": 1024, "mixed": 0},
        {"rows": 2048, "depth": 4096, "columns": 4096, "mixed": 0},
    ),
    multiplies=lambda rows, depth, columns, mixed: 2 * rows * depth * columns,
    tolerance={"float8_e4m3fn_x4": 1e-5, "float8_e5m2_x4": 1e-5, "float4_e2m1fn_x4": 1e-5},
    chips=("trn3",),
    edges={"not finite": _not_finite},
    refused=(
        _refused(
            "`lhs` is [32, 2] float32; expected [depth / 4, n] float8_e4m3fn_x4",
            "quantise it",
            lhs=np.ones((32, 2), np.float32),
        ),
        _refused(
            "`rhs_scales` is [4, 3] uint8; expected [4, 2] uint8",
            "one for 32 numbers",
            rhs_scales=np.ones((4, 3), np.uint8),
        ),
        _refused(
            "both begin with depth / 4",
            "zeros",
            lhs=np.zeros((64, 2), nl.float8_e5m2_x4.host),
            lhs_scales=np.ones((8, 2), np.uint8),
        ),
        _refused(
            "`lhs` has 3 rows; the chip multiplies an even number",
            "a row of zeros",
            lhs=np.zeros((32, 3), nl.float8_e5m2_x4.host),
            lhs_scales=np.ones((4, 3), np.uint8),
        ),
        _refused("`output_dtype` is int32", "nl.bfloat16", output_dtype=nl.int32),
    ),
    steps=(
        "Four numbers of the depth lie in one element, so that 128 partitions hold 512 of the depth.",
        Step(
            "Up to 1024 rows of lhs stay in SBUF, and 512 columns of rhs at a time are loaded for them.",
            "_loaded",
        ),
        Step(
            "The scales of four steps share a tile: each takes 4 of every 32 partitions, as the array expects them.",
            "nisa.dma_copy(dst=scale[",
        ),
        Step(
            "The Tensor engine multiplies 128 rows by 512 columns over a depth of 512: four times what bfloat16 does.",
            "nisa.nc_matmul_mx(",
        ),
        Step(
            "All steps are summed in PSUM; the Vector engine casts, and the result is stored.",
            "nisa.tensor_copy(",
        ),
    ),
    sources=("NKI documentation, MXFP matmul", "OCP Microscaling Formats (MX) 1.0"),
)
