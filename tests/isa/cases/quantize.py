"""Cases of quantize_mx: scales by logarithms, elements by a search for the nearest value of the table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.isa.case import Case, Tile, empty, isa, rounded, sample, tile
from tests.isa.microscaling import codes, spread, words

NEWEST = ("trn3",)
E4, E5 = "float8_e4m3fn_x4", "float8_e5m2_x4"
EMAX = {E4: 8, E5: 15}


def quantized(values: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Quantize [P, F] to words [P, F / 4] and scales [P / 8, F / 4], group by group."""
    values = values.astype(np.float64)
    rows, columns = values.shape[0] // 8, values.shape[1] // 4
    scales, lanes = np.zeros((rows, columns), np.uint8), np.zeros((8 * rows, columns, 4), np.uint8)
    for g in range(rows):
        for c in range(columns):
            group = values[8 * g : 8 * g + 8, 4 * c : 4 * c + 4]
            largest = float(np.abs(group).max())
            exponent = -127 if largest == 0 else math.frexp(largest)[1] - 1 - (EMAX[dtype] - 1)
            exponent = max(exponent, -127)
            scales[g, c] = exponent + 127
            lanes[8 * g : 8 * g + 8, c] = codes(group / 2.0**exponent, dtype)
    return words(lanes), scales


def quantize(
    name: str, src: Tile, dst: Tile, scale: Tile, expected: tuple[Any, Any] | None = None, breaks: str = ""
) -> Case:  # fmt: skip
    values = {} if expected is None else {"dst": expected[0], "scale": expected[1]}
    return Case(
        "quantize_mx", name, tiles={"dst": dst, "src": src, "scale": scale}, targets=NEWEST, breaks=breaks,
        run=lambda t: isa.quantize_mx(t.dst, t.src, t.scale), expected=values,
    )  # fmt: skip


def result(rows: int, columns: int, dtype: str) -> Tile:
    return empty((rows, columns), "uint32", view=lambda t: t.view(dtype))


def case(
    name: str, values: np.ndarray, dtype: str, kind: str = "bfloat16", scale_dtype: str = "uint8"
) -> Case:
    rows, columns = len(values), values.shape[1] // 4
    held = rounded(values, kind).astype(np.float64)
    data, scales = quantized(held, dtype)
    scale = empty((rows, columns), "uint8", view=lambda t: t.view(scale_dtype))
    return quantize(
        name, tile(values, kind), result(rows, columns, dtype), scale,
        (data, spread(scales, rows, before=scale.data)),
    )  # fmt: skip


# Every group has a size of its own, over most of the range of bfloat16.
SIZES = 2.0 ** np.random.default_rng(1).integers(-100, 100, (16, 24)).repeat(8, 0).repeat(4, 1)
WIDE = sample(128, 96, seed=2) * SIZES
HALF = sample(64, 40, seed=3) * 2.0 ** np.random.default_rng(4).integers(-12, 8, (64, 40))
EDGES = np.zeros((32, 12), np.float32)
EDGES[0, 0:4] = [1.9921875, -1.9921875, 1.0, 0.0]  # just below a power of two: rounds up to it
EDGES[8:16, 4] = 2.0 ** np.arange(-133, -125)  # so small that the scale is at its end
EDGES[16, 8:12] = [3.3895313892515355e38, -1e38, 1e30, -1e-30]  # the largest number of bfloat16
TIES = np.tile(np.array([256, 17, 19, 25, 27, -17, -19, 1.0625], np.float32), (32, 1))
SHARED = tile(np.random.default_rng(5).integers(0, 255, (128, 24)).astype(np.uint8))
NARROW, NARROW_SCALES = quantized(rounded(WIDE[:, :48], "bfloat16"), E4)
ROWS, ROW_SCALES = quantized(rounded(WIDE[:32], "bfloat16"), E5)


def _two_in_one_tile(t):
    isa.quantize_mx(t.first, t.a, t.scale[0:, :12])
    isa.quantize_mx(t.second, t.b, t.scale[4:, :])
    isa.quantize_mx(t.third, t.c[32:64], t.scale[44:48, :10])


BOTH, BOTH_SCALES = quantized(rounded(WIDE, "bfloat16"), E5)
THIRD, THIRD_SCALES = quantized(rounded(HALF[32:], "float16"), E4)
TOGETHER = spread(NARROW_SCALES, 128, 0, SHARED.data)
TOGETHER = spread(BOTH_SCALES, 128, 4, TOGETHER)
TOGETHER[44:48, :10] = THIRD_SCALES

SPECIAL = np.ones((32, 8), np.float32)
SPECIAL[0, 0], SPECIAL[0, 4] = np.inf, np.nan
# Exponent 128 less Emax - 1, so 1.0 becomes 0; 0x7B is the largest number and 0x7E NaN. Elsewhere 1.0 becomes 2**14.
SPECIAL_WORDS = np.zeros((32, 2))
SPECIAL_WORDS[8:] = 0x74747474
SPECIAL_WORDS[0] = [0x7B, 0x7E]

QUANTIZED = [
    case("float8_e4m3fn", WIDE, E4),
    case("float8_e5m2", WIDE, E5),
    case("from float16", HALF, E4, "float16"),
    case("from float16 to float8_e5m2", HALF, E5, "float16"),
    case("scales of their own type", WIDE, E4, scale_dtype="float8_e8m0fnu"),
    case("ends of the range", EDGES, E4),
    case("ends of the range in float8_e5m2", EDGES, E5),
    case("ties go to even", TIES, E4),
    case("96 partitions", WIDE[:96], E5),
    quantize(
        "4 partitions for 32", tile(WIDE[:32], "bfloat16"), result(32, 24, E5), empty((4, 24), "uint8"),
        (ROWS, ROW_SCALES),
    ),
    quantize(
        "more axes", tile(WIDE[:32].reshape(32, 2, 12, 4), "bfloat16"),
        empty((32, 2, 12), "uint32", view=lambda t: t.view(E5)), empty((4, 4, 6), "uint8"),
        (ROWS.reshape(32, 2, 12), ROW_SCALES.reshape(4, 4, 6)),
    ),
    quantize(
        "infinity and NaN", tile(SPECIAL, "bfloat16"), result(32, 2, E5), empty((4, 2), "uint8"),
        (SPECIAL_WORDS, [[255 - 14] * 2, *[[127 - 14] * 2] * 3]),
    ),
    Case(
        "quantize_mx", "scales of three tensors in one tile",
        tiles={
            "first": result(128, 12, E4), "a": tile(WIDE[:, :48], "bfloat16"), "scale": SHARED,
            "second": result(128, 24, E5), "b": tile(WIDE, "bfloat16"),
            "third": result(32, 10, E4), "c": tile(HALF, "float16"),
        },
        run=_two_in_one_tile, expected={"first": NARROW, "second": BOTH, "scale": TOGETHER}, targets=NEWEST,
    ),
]  # fmt: skip


def unquantized(
    name: str,
    breaks: str,
    src: Tile | None = None,
    dst: Tile | None = None,
    scale: Tile | None = None,
) -> Case:
    return quantize(
        name, src or tile(WIDE, "bfloat16"), dst or result(128, 24, E4), scale or empty((128, 24), "uint8"),
        breaks=breaks,
    )  # fmt: skip


REFUSED = [
    unquantized("float32", "`src` must have dtype", tile(WIDE)),
    unquantized("into float4", "`dst` must have dtype", dst=empty((128, 24), "float4_e2m1fn_x4")),
    unquantized("into bytes", "`dst` must have dtype", dst=empty((128, 96), "float8_e4m3fn")),
    unquantized("int8 scales", "`dst_scale` must have dtype", scale=empty((128, 24), "int8")),
    unquantized(
        "40 partitions", "`src` must have a multiple of 32", tile(WIDE[:40], "bfloat16"), result(40, 24, E4),
    ),
    unquantized("other partitions", "the same number of partitions", tile(WIDE[:96], "bfloat16")),
    unquantized("not by four", "a multiple of 4 elements", tile(WIDE[:, :95], "bfloat16")),
    unquantized("too few scales", "as many elements per partition as `dst`", scale=empty((128, 23), "uint8")),
    unquantized("scales side by side", "must have 4 partitions for the first 32", scale=empty((16, 24), "uint8")),
    unquantized(
        "scales with a step", "must be on adjacent partitions", tile(WIDE[:32], "bfloat16"), result(32, 24, E4),
        empty((8, 24), "uint8", view=lambda t: t[::2]),
    ),
    unquantized(
        "scales at 2", "must start 0, 4, 8 or 12 partitions", scale=empty((128, 24), "uint8", view=lambda t: t[2:])
    ),
    unquantized(
        "scales at 16", "must start 0, 4, 8 or 12 partitions", scale=empty((128, 24), "uint8", view=lambda t: t[16:])
    ),
    unquantized(
        "scales in another quadrant", "in the same quadrant", tile(WIDE[:32], "bfloat16"), result(32, 24, E4),
        empty((128, 24), "uint8", view=lambda t: t[32:64]),
    ),
]  # fmt: skip

CASES = [*QUANTIZED, *REFUSED]
