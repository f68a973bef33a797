"""Cases of nc_matmul: products of integers are exact in float32, so most results are compared bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import dtype_of
from nki_lab.ir.building.builder import current
from nki_lab.isa.enums import matmul_perf_mode
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Tile, View, empty, isa, rounded, sample, tile

NEW = ("trn2", "trn3")
DOUBLE = matmul_perf_mode.double_row


def integers(*shape: int, seed: int, most: int = 8) -> np.ndarray:
    """Return integers from -most to most, which every float dtype of the array holds."""
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.float32)


def product(stationary: np.ndarray, moving: np.ndarray) -> np.ndarray:
    """Contract the first axis of both in float64; further axes of each are one."""
    k = len(stationary)
    left = stationary.reshape(k, -1).astype(np.float64)
    return np.einsum("km,kn->mn", left, moving.reshape(k, -1).astype(np.float64))


def multiply(
    name: str,
    stationary: Tile,
    moving: Tile,
    dst: Tile,
    expected: Any = None,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    targets: tuple[str, ...] = ("trn1", "trn2", "trn3"),
    breaks: str = "",
    **params: Any,
) -> Case:
    """Make a case of one product."""
    return Case(
        "nc_matmul",
        name,
        tiles={"stationary": stationary, "moving": moving, "dst": dst},
        run=lambda t: isa.nc_matmul(t.dst, t.stationary, t.moving, **params),
        expected={} if breaks else {"dst": expected},
        rtol=rtol,
        atol=atol,
        targets=targets,
        breaks=breaks,
    )


def result(shape: tuple[int, ...], dtype: str = "float32", view: View | None = None) -> Tile:
    return empty(shape, dtype, PSUM, view)


A, B = integers(96, 40, seed=1), integers(96, 56, seed=2)
AB = product(A, B).astype(np.float32)
BLANK = empty((1,)).data[0]  # what a tile holds before it is written
REAL_A, REAL_B = sample(128, 128, seed=3), sample(128, 512, seed=4)


def by_dtype(a: str, b: str, targets: tuple[str, ...] = ("trn1", "trn2", "trn3")) -> Case:
    return multiply(
        f"{a} by {b}", tile(A, a), tile(B, b), result((40, 56)), AB, accumulate=False, targets=targets
    )  # fmt: skip


# -- element types ------------------------------------------------------------------------------------

OLD_BF16 = tile(rounded(sample(24, 20, seed=7, scale=300), "bfloat16"), "bfloat16", PSUM)
SUM_BF16 = rounded(OLD_BF16.data.astype(np.float64) + product(A[:, :24], B[:, :20]), "bfloat16")

DTYPES = [
    by_dtype("float32", "float32"),
    by_dtype("tfloat32", "float32"),
    by_dtype("bfloat16", "bfloat16"),
    by_dtype("float16", "bfloat16"),
    by_dtype("float8_e4m3", "float16"),
    by_dtype("float8_e5m2", "float8_e4m3"),
    by_dtype("float8_e4m3fn", "bfloat16", targets=("trn3",)),
    multiply(
        "largest tiles", tile(REAL_A), tile(REAL_B), result((128, 512)),
        product(REAL_A, REAL_B), accumulate=False, rtol=1e-4, atol=1e-4,
    ),
    multiply(
        "bfloat16 result", tile(A[:, :24], "bfloat16"), tile(B, "bfloat16"), result((24, 56), "bfloat16"),
        rounded(product(A[:, :24], B), "bfloat16"), accumulate=False, targets=("trn3",),
    ),
    multiply(
        "bfloat16 sum is rounded again", tile(A[:, :24]), tile(B[:, :20]), OLD_BF16, SUM_BF16,
        accumulate=True, targets=("trn3",),
    ),
    multiply(
        "4096 float32 columns", tile(A[:8, :2], "bfloat16"), tile(integers(8, 4096, seed=9), "bfloat16"),
        result((2, 4096)), product(A[:8, :2], integers(8, 4096, seed=9)), accumulate=False, targets=("trn3",),
    ),
]  # fmt: skip

# -- accumulation -------------------------------------------------------------------------------------

OLD = integers(40, 56, seed=5, most=1000)


def _run_twice(t):
    """Write one PSUM tile three times without saying whether to add: in part, whole, in part again."""
    psum = current().allocate((40, 56), "float32", PSUM, "psum")
    isa.nc_matmul(psum[:, 16:40], t.stationary, t.moving[:, 16:40])
    isa.nc_matmul(psum, t.stationary, t.moving)
    isa.nc_matmul(psum[:, 0:8], t.stationary, t.moving[:, 0:8])
    isa.tensor_copy(t.dst, psum)


def _run_again(t):
    """Use two tiles one after the other: each starts unwritten, whatever its place held before."""
    for out in (t.first, t.second):
        psum = current().allocate((40, 56), "float32", PSUM, "psum")
        isa.nc_matmul(psum, t.stationary, t.moving)
        isa.nc_matmul(psum, t.stationary, t.moving, accumulate=None)
        isa.tensor_copy(out, psum)


def _run_overlapping(t):
    """Add a convolution's taps into windows that overlap, one row of the output apart."""
    psum = current().allocate((40, 6, 8), "float32", PSUM, "psum")
    for row in range(5):
        isa.nc_matmul(psum[:, row : row + 2, :], t.stationary, t.moving[:, 0:16])
    isa.tensor_copy(t.dst, psum)


TIMES = np.ones(56)
TIMES[16:40] += 1
TIMES[0:8] += 1
WINDOW = product(A, B[:, :16]).reshape(40, 2, 8)
OVERLAPPING = np.zeros((40, 6, 8))
for _row in range(5):
    OVERLAPPING[:, _row : _row + 2] += WINDOW

ACCUMULATION = [
    multiply(
        "True adds", tile(A), tile(B), tile(OLD, space=PSUM), OLD + AB, accumulate=True,
    ),
    multiply(
        "False overwrites", tile(A), tile(B), tile(OLD, space=PSUM), AB, accumulate=False,
    ),
    Case(
        "nc_matmul", "None decides per element",
        tiles={"dst": empty((40, 56)), "stationary": tile(A), "moving": tile(B)},
        run=_run_twice, expected={"dst": AB * TIMES},
    ),
    Case(
        "nc_matmul", "None decides per tensor",
        tiles={"first": empty((40, 56)), "second": empty((40, 56)), "stationary": tile(A), "moving": tile(B)},
        run=_run_again, expected={"first": 2 * AB, "second": 2 * AB},
    ),
    Case(
        "nc_matmul", "None in overlapping windows",
        tiles={"dst": empty((40, 6, 8)), "stationary": tile(A), "moving": tile(B)},
        run=_run_overlapping, expected={"dst": OVERLAPPING},
    ),
]  # fmt: skip

# -- shapes and views ---------------------------------------------------------------------------------

WIDE_A, WIDE_B = integers(128, 40, seed=11), integers(128, 80, seed=12)

SHAPES = [
    multiply(
        "free axes are flattened",
        tile(A.reshape(96, 5, 2, 4)), tile(B.reshape(96, 7, 8)), result((40, 2, 28)),
        AB.reshape(40, 2, 28), accumulate=False,
    ),
    multiply(
        "axes that no flat view has",
        tile(A.reshape(96, 5, 8), view=lambda t: t.permute((0, 2, 1))),
        tile(B.reshape(96, 7, 8), view=lambda t: t[:, :, 0:4]),
        result((40, 28)),
        product(A.reshape(96, 5, 8).transpose(0, 2, 1), B.reshape(96, 7, 8)[:, :, :4]),
        accumulate=False,
    ),
    multiply(
        "steps and later partitions",
        tile(WIDE_A, view=lambda t: t[64:128, ::2]), tile(WIDE_B, view=lambda t: t[64:128, 16:80:2]),
        result((20, 32)), product(WIDE_A[64:, ::2], WIDE_B[64:, 16:80:2]), accumulate=False,
    ),
    multiply(
        "to the end of the first of two banks", tile(A), tile(B), result((40, 600), view=lambda t: t[:, 456:512]),
        np.concatenate([np.full((40, 456), BLANK), AB, np.full((40, 88), BLANK)], 1), accumulate=False,
    ),
    multiply(
        "across the end of a bank", tile(A), tile(B), result((40, 600), view=lambda t: t[:, 490:546]),
        np.concatenate([np.full((40, 490), BLANK), AB, np.full((40, 54), BLANK)], 1), accumulate=False,
        targets=("trn3",),
    ),
    multiply(
        "one row, one column", tile(A[:1, :1]), tile(B[:1, :1]), result((1, 1)),
        product(A[:1, :1], B[:1, :1]), accumulate=False,
    ),
    multiply(
        "tile of 64 rows and columns", tile(A[:64]), tile(B[:64]), result((40, 56)),
        product(A[:64], B[:64]), accumulate=False, tile_position=(64, 0), tile_size=(64, 64),
    ),
    multiply(
        "tile of 32 rows", tile(A[:32]), tile(B[:32]), result((40, 56)), product(A[:32], B[:32]),
        accumulate=False, tile_position=(96, 0), tile_size=(32, 128), targets=NEW,
    ),
    multiply(
        "hints change nothing", tile(np.sign(A)), tile(B), result((40, 56)), product(np.sign(A), B),
        accumulate=False, is_stationary_onezero=True, is_moving_onezero=True,
    ),
]  # fmt: skip

# -- double_row ---------------------------------------------------------------------------------------

PAIR_A, PAIR_B = integers(128, 2, 24, seed=13, most=4), integers(128, 2, 300, seed=14, most=4)
PAIRED = np.einsum("kli,klj->ij", PAIR_A.astype(float), PAIR_B.astype(float))
F8_A, F8_B = tile(PAIR_A, "float8_e5m2"), tile(PAIR_B, "float8_e4m3")

DOUBLED = [
    multiply(
        "double_row", F8_A, F8_B, result((24, 300)), PAIRED,
        accumulate=False, perf_mode=DOUBLE, targets=NEW,
    ),
    multiply(
        "double_row in row tiles, added", tile(PAIR_A[:64], "float8_e5m2"), tile(PAIR_B[:64], "float8_e4m3"),
        tile(np.full((24, 300), 5.0), "float32", PSUM),
        5 + np.einsum("kli,klj->ij", PAIR_A[:64].astype(float), PAIR_B[:64].astype(float)),
        accumulate=True, perf_mode=DOUBLE, tile_position=(64, 0), tile_size=(64, 128), targets=NEW,
    ),
    multiply(
        "double_row of float8_e4m3fn", tile(PAIR_A, "float8_e4m3fn"), tile(PAIR_B, "float8_e5m2"),
        result((24, 300)), PAIRED, accumulate=False, perf_mode=DOUBLE, targets=("trn3",),
    ),
]  # fmt: skip

# -- transpose ----------------------------------------------------------------------------------------

SPOILED = sample(96, 40, seed=15)
SPOILED[5, 3], SPOILED[7, 9], SPOILED[8, 11] = np.nan, np.inf, -0.0
NAN_ROWS = SPOILED.T.copy()
NAN_ROWS[[3, 9]] = np.nan  # inf * 0 is NaN: every product of the row but inf * 1
NAN_ROWS[9, 7] = np.inf
NAN_ROWS[11, 8] = 0.0  # -0.0 + 0.0
BITS = np.random.default_rng(16).integers(0, 1 << 16, (96, 40), np.uint16)
# Signalling NaN patterns become quiet in a conversion: a copy keeps all bits.
RAW = BITS.view(dtype_of("bfloat16").np)


def eye(size: int, dtype: str) -> Tile:
    return tile(np.eye(size), dtype)


TRANSPOSES = [
    multiply(
        "transpose moves NaN and infinity", tile(SPOILED), eye(96, "float32"), result((40, 96)), SPOILED.T,
        accumulate=False, is_transpose=True, targets=NEW,
    ),
    multiply(
        "transpose by multiplying spreads them", tile(SPOILED), eye(96, "float32"), result((40, 96)), NAN_ROWS,
        accumulate=False, is_transpose=True, targets=("trn1",),
    ),
    Case(
        "nc_matmul", "transpose keeps every bit",
        tiles={
            "stationary": Tile(RAW, dtype_of("bfloat16")), "moving": eye(96, "bfloat16"),
            "dst": empty((40, 96), "uint16"),
        },
        run=lambda t: _transpose_bits(t), expected={"dst": BITS.T}, targets=NEW,
    ),
    multiply(
        "transpose of float16 into float32", tile(SPOILED[:, 12:], "float16"), eye(96, "float16"),
        result((28, 96)), rounded(SPOILED[:, 12:].T, "float16").astype(np.float32),
        accumulate=False, is_transpose=True,
    ),
    multiply(
        "transpose is added", tile(A), eye(96, "float32"), tile(np.full((40, 96), 3.0), "float32", PSUM),
        A.T + 3, accumulate=True, is_transpose=True,
    ),
]  # fmt: skip


def _transpose_bits(t):
    psum = current().allocate((40, 96), "bfloat16", PSUM, "psum")
    isa.nc_matmul(psum, t.stationary, t.moving, is_transpose=True)
    isa.tensor_copy(t.dst, psum.view("uint16"))


# -- rules --------------------------------------------------------------------------------------------


def refused(
    name: str,
    breaks: str,
    stationary: Tile | None = None,
    moving: Tile | None = None,
    dst: Tile | None = None,
    targets: tuple[str, ...] = ("trn1", "trn2", "trn3"),
    **params: Any,
) -> Case:
    return multiply(
        name, stationary or tile(A), moving or tile(B), dst or result((40, 56)),
        breaks=breaks, targets=targets, **params,
    )  # fmt: skip


def zeros(*shape: int, dtype: str = "bfloat16") -> Tile:
    return tile(np.zeros(shape, np.float32), dtype)


REFUSED = [
    refused("accumulate is a number", "`accumulate` must be None, True or False", accumulate=1),
    refused("is_transpose is a number", "must be True or False", is_transpose=1),
    refused("perf_mode is a string", "`perf_mode` must be", perf_mode="double_pixel"),
    refused("integers", "`stationary` must have dtype", tile(A, "int8")),
    refused(
        "e4m3fn on an older chip", "needs a target with `matmul_float8_e4m3fn`",
        tile(A, "float8_e4m3fn"), tile(B, "bfloat16"), targets=("trn1", "trn2"),
    ),
    refused(
        "both e4m3", "must not mix float8_e4m3 with float8_e4m3fn",
        tile(A, "float8_e4m3fn"), tile(B, "float8_e4m3"), targets=("trn3",),
    ),
    refused("float32 by bfloat16", "must both be float32 or tfloat32", moving=tile(B, "bfloat16")),
    refused("tfloat32 by float16", "must both be float32 or tfloat32", tile(A, "float16"), tile(B, "tfloat32")),
    refused(
        "bfloat16 result on an older chip", "`dst` must be float32", dst=result((40, 56), "bfloat16"),
        targets=("trn1", "trn2"),
    ),
    refused("float16 result", "`dst` must be float32", dst=result((40, 56), "float16")),
    refused("dst in SBUF", "`dst` must be in psum", dst=empty((40, 56))),
    refused("stationary in PSUM", "`stationary` must be in sbuf", tile(A, space=PSUM)),
    refused(
        "double_row on trn1", "needs a target with `matmul_double_row`", F8_A, F8_B, result((24, 300)),
        perf_mode=DOUBLE, targets=("trn1",),
    ),
    refused(
        "double_row of bfloat16", "must be 8-bit floats", tile(PAIR_A, "bfloat16"), F8_B, result((24, 300)),
        perf_mode=DOUBLE, targets=NEW,
    ),
    refused(
        "double_row of three rows", "must have shape [K, 2, ...]", zeros(128, 3, 24, dtype="float8_e5m2"),
        zeros(128, 3, 300, dtype="float8_e5m2"), result((24, 300)), perf_mode=DOUBLE, targets=NEW,
    ),
    refused(
        "double_row of flat tiles", "must have shape [K, 2, ...]", zeros(128, 48, dtype="float8_e5m2"),
        F8_B, result((24, 300)), perf_mode=DOUBLE, targets=NEW,
    ),
    refused(
        "double_row transpose", "cannot be combined with `is_transpose`", F8_A, F8_B, result((24, 300)),
        perf_mode=DOUBLE, is_transpose=True, targets=NEW,
    ),
    refused(
        "double_row in column tiles", "fewer than 128 columns", F8_A, F8_B, result((24, 300)),
        perf_mode=DOUBLE, tile_position=(0, 64), tile_size=(128, 64), targets=NEW,
    ),
    refused("tile_size alone", "must both be pairs of integers", tile_size=(128, 64)),
    refused("tile_position alone", "must both be pairs of integers", tile_position=(0, 64)),
    refused("three sizes", "must both be pairs of integers", tile_position=(0, 0), tile_size=(128, 64, 1)),
    refused("tile of 96 rows", "`tile_size` must be 128 or 64", tile_position=(0, 0), tile_size=(96, 128)),
    refused(
        "tile of 32 columns on trn1", "`tile_size` must be 128 or 64", tile(A[:, :32]), dst=result((32, 56)),
        tile_position=(0, 32), tile_size=(128, 32), targets=("trn1",),
    ),
    refused(
        "tile off its grid", "must be a multiple of `tile_size`", tile(A[:64]), tile(B[:64]),
        tile_position=(32, 0), tile_size=(64, 128),
    ),
    refused(
        "tile outside the array", "must be a multiple of `tile_size` inside the array",
        tile_position=(0, 128), tile_size=(128, 64),
    ),
    refused("different contraction", "the same number of partitions", moving=tile(B[:95])),
    refused(
        "more rows than the tile", "must not exceed the 128 rows", tile_position=(0, 0), tile_size=(64, 128),
    ),
    refused(
        "more columns than the array", "must not exceed the 128 columns", zeros(96, 129), zeros(96, 56),
        result((128, 56)),
    ),
    refused(
        "more columns than the tile", "must not exceed the 128 columns", zeros(96, 65), zeros(96, 56),
        result((65, 56)), tile_position=(0, 64), tile_size=(128, 64),
    ),
    refused(
        "513 moving columns", "`moving` must not exceed 512", zeros(96, 8), zeros(96, 513), result((8, 513)),
        targets=("trn1", "trn2"),
    ),
    refused(
        "4097 moving columns", "`moving` must not exceed 512", zeros(96, 8), zeros(96, 4097), result((8, 4096)),
        targets=("trn3",),
    ),
    refused(
        "dst across the end of a bank", "`dst` must lie in one PSUM bank",
        dst=result((40, 600), view=lambda t: t[:, 490:546]), targets=("trn1", "trn2"),
    ),
    refused(
        "dst in two banks", "`dst` must lie in one PSUM bank",
        dst=result((40, 2, 512), view=lambda t: t[:, :, 100:128]), targets=("trn1", "trn2"),
    ),
    refused("dst the other way round", "`dst` must have a partition for each", dst=result((56, 40))),
    refused(
        "transpose by a part of the identity", "`moving` must be square", moving=tile(np.eye(96)[:, :56]),
        is_transpose=True, targets=NEW,
    ),
]  # fmt: skip

CASES = [*DTYPES, *ACCUMULATION, *SHAPES, *DOUBLED, *TRANSPOSES, *REFUSED]
