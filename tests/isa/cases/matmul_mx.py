"""Cases of nc_matmul_mx: values of the lanes by tables, products in float64; most are exact in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lab.ir.building.builder import current
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Tile, empty, isa, rounded, tile
from tests.isa.microscaling import VALUES, packed, spread

NEWEST = ("trn3",)
E4, E5, E2 = "float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"


class Scaled:
    """A matrix [K, F, 4] of codes with scales [K / 8, F], and what it stands for."""

    def __init__(
        self, k: int, f: int, dtype: str, seed: int, low: int = 126, high: int = 129, most: float = 6.0
    ) -> None:  # fmt: skip
        random = np.random.default_rng(seed)
        table = VALUES[dtype]
        # Multiples of a half up to 6: sums of products are exact.
        plain = np.flatnonzero((np.abs(table) <= most) & (table * 2 == np.round(table * 2)))
        self.dtype = dtype
        self.codes = random.choice(plain, (k, f, 4))
        self.scales = random.integers(low, high + 1, (k // 8, f)).astype(np.uint8)

    @property
    def values(self) -> np.ndarray:
        factors = 2.0 ** (self.scales.astype(np.float64) - 127)
        factors[self.scales == 255] = np.nan
        return VALUES[self.dtype][self.codes] * factors.repeat(8, 0)[:, :, None]

    def tile(self) -> Tile:
        return packed(self.codes, self.dtype)

    def scale(self, dtype: str = "uint8") -> Tile:
        k = len(self.codes)
        laid = spread(self.scales, k, before=np.full((k, self.scales.shape[1]), 0x55, np.uint8))
        return tile(laid, view=lambda t: t.view(dtype))


def product(left: Scaled, right: Scaled) -> np.ndarray:
    """Contract partitions and lanes in float64."""
    return np.einsum("kmq,knq->mn", left.values, right.values)


def multiply(
    name: str, left: Scaled, right: Scaled, dst: Tile | None = None, expected: Any = None, *, breaks: str = "",
    atol: float = 0.0, change: dict[str, Tile] | None = None, **params: Any,
) -> Case:  # fmt: skip
    m, n = left.codes.shape[1], right.codes.shape[1]
    tiles = {
        "stationary": left.tile(), "moving": right.tile(), "left_scale": left.scale(), "right_scale": right.scale(),
        "dst": dst or empty((m, n), space=PSUM), **(change or {}),
    }  # fmt: skip
    params.setdefault("accumulate", False)
    return Case(
        "nc_matmul_mx", name, tiles=tiles, targets=NEWEST, atol=atol, breaks=breaks,
        run=lambda t: isa.nc_matmul_mx(t.dst, t.stationary, t.moving, t.left_scale, t.right_scale, **params),
        expected={} if breaks else {"dst": product(left, right) if expected is None else expected},
    )  # fmt: skip


A, B = Scaled(128, 40, E4, 1), Scaled(128, 56, E5, 2)
AB = product(A, B)
SMALL_A, SMALL_B = Scaled(32, 24, E2, 3), Scaled(32, 30, E4, 4)
OLD = np.random.default_rng(5).integers(-500, 500, (40, 56)).astype(np.float32)
NARROW_OLD = rounded(OLD, "bfloat16")


def by_dtype(left: str, right: str) -> Case:
    return multiply(f"{left} by {right}", Scaled(64, 40, left, 6), Scaled(64, 56, right, 7))


def with_bits(seed: int) -> tuple[Scaled, Scaled]:
    """Return operands with every finite code, and scales as far apart as their products allow."""
    left, right = Scaled(128, 128, E4, seed), Scaled(128, 512, E5, seed + 1)
    random = np.random.default_rng(seed)
    left.codes = random.choice(np.flatnonzero(np.isfinite(VALUES[E4])), left.codes.shape)
    right.codes = random.choice(np.flatnonzero(np.isfinite(VALUES[E5])), right.codes.shape)
    left.scales[:] = random.integers(80, 180, (16, 1))
    right.scales[:] = 254 - left.scales[:, :1] + random.integers(-3, 4, right.scales.shape)
    return left, right


FULL = with_bits(8)
SUM_OF_SIZES = float(np.einsum("kmq,knq->mn", *(np.abs(f.values) for f in FULL)).max())


def _far_apart() -> tuple[Scaled, Scaled]:
    left, right = Scaled(32, 24, E5, 10, 250, 254), Scaled(32, 30, E4, 11, 0, 4)
    left.codes[:] = np.flatnonzero(VALUES[E5] == 57344)[0]
    return left, right


def _with_nan() -> tuple[Scaled, Scaled]:
    left, right = Scaled(32, 24, E4, 12), Scaled(32, 30, E4, 13)
    left.scales[2, 5] = 255
    return left, right


FAR, WITH_NAN = _far_apart(), _with_nan()

PRODUCTS = [
    *[by_dtype(left, right) for left in (E4, E5, E2) for right in (E4, E5, E2)],
    multiply("128 partitions", A, B),
    multiply("96 partitions", Scaled(96, 40, E5, 14), Scaled(96, 56, E2, 15)),
    multiply("every code, scales far apart", *FULL, atol=SUM_OF_SIZES * 1e-6),
    multiply("scales beyond float32", *FAR),
    multiply("a scale of NaN", *WITH_NAN),
    multiply(
        "scales of their own type", A, B,
        change={"left_scale": A.scale("float8_e8m0fnu"), "right_scale": B.scale("float8_e8m0fnu")},
    ),
    multiply("into bfloat16", A, B, empty((40, 56), "bfloat16", PSUM), rounded(AB, "bfloat16")),
    multiply(
        "4 partitions of scales", SMALL_A, SMALL_B,
        change={"left_scale": tile(SMALL_A.scales), "right_scale": tile(SMALL_B.scales)},
    ),
    multiply("a tile of 32 rows", SMALL_A, SMALL_B, tile_position=(96, 0), tile_size=(32, 128)),
    multiply(
        "more axes", A, B, empty((40, 7, 8), space=PSUM), AB.reshape(40, 7, 8),
        change={
            "stationary": packed(A.codes.reshape(128, 5, 8, 4), E4),
            "right_scale": tile(spread(B.scales, 128).reshape(128, 7, 8)),
        },
    ),
]  # fmt: skip


# -- accumulation -------------------------------------------------------------------------------------


def _run_twice(t):
    """Write one PSUM tile twice without saying whether to add: in part, then whole."""
    psum = current().allocate((40, 56), "float32", PSUM, "psum")
    isa.nc_matmul_mx(
        psum[:, 16:40], t.stationary, t.moving[:, 16:40], t.left_scale, t.right_scale[:, 16:40]
    )
    isa.nc_matmul_mx(psum, t.stationary, t.moving, t.left_scale, t.right_scale)
    isa.tensor_copy(t.dst, psum)


TIMES = np.ones(56)
TIMES[16:40] += 1

ADDED = [
    multiply("True adds", A, B, tile(OLD, space=PSUM), OLD + AB, accumulate=True),
    multiply(
        "a bfloat16 sum is rounded again", A, B, tile(NARROW_OLD, "bfloat16", PSUM),
        rounded(NARROW_OLD.astype(float) + AB, "bfloat16"), accumulate=True,
    ),
    Case(
        "nc_matmul_mx", "None decides per element",
        {"dst": empty((40, 56)), "stationary": A.tile(), "moving": B.tile(), "left_scale": A.scale(),
         "right_scale": B.scale()},
        _run_twice, {"dst": AB * TIMES}, targets=NEWEST,
    ),
]  # fmt: skip


# -- scales of several tensors in one tile --------------------------------------------------------------


def _shared(t):
    isa.nc_matmul_mx(
        t.dst, t.stationary, t.moving, t.scales[8:, 2:42], t.scales[0:, 0:56], accumulate=False
    )


TOGETHER = spread(
    B.scales,
    128,
    0,
    spread(np.pad(A.scales, ((0, 0), (2, 14))), 128, 8, np.full((128, 56), 7, np.uint8)),
)


def _second_quadrant(t):
    isa.nc_matmul_mx(
        t.dst, t.stationary[64:96], t.moving[64:96], t.left_scale[64:68], t.right_scale[64:128], accumulate=False
    )  # fmt: skip


def _rows(first: int, last: int) -> np.ndarray:
    return np.einsum("kmq,knq->mn", A.values[first:last], B.values[first:last])


SHARED = [
    Case(
        "nc_matmul_mx", "scales in one tile",
        {"dst": empty((40, 56), space=PSUM), "stationary": A.tile(), "moving": B.tile(), "scales": tile(TOGETHER)},
        _shared, {"dst": AB}, targets=NEWEST,
    ),
    Case(
        "nc_matmul_mx", "the third quadrant",
        {"dst": empty((40, 56), space=PSUM), "stationary": A.tile(), "moving": B.tile(), "left_scale": A.scale(),
         "right_scale": B.scale()},
        _second_quadrant, {"dst": _rows(64, 96)}, targets=NEWEST,
    ),
]  # fmt: skip


# -- rules --------------------------------------------------------------------------------------------


def refused(
    name: str,
    breaks: str,
    left: Scaled = A,
    right: Scaled = B,
    dst: Tile | None = None,
    **params: Any,
) -> Case:
    change = {
        k: params.pop(k)
        for k in ("stationary", "moving", "left_scale", "right_scale")
        if k in params
    }
    return multiply(name, left, right, dst, breaks=breaks, change=change, **params)


def scales_at(view: Callable[[Any], Any], columns: int = 40) -> Tile:
    return empty((128, columns), "uint8", view=view)


REFUSED = [
    refused("accumulate is a number", "`accumulate` must be None, True or False", accumulate=0),
    refused("tile_size alone", "must both be pairs of integers", tile_size=(64, 128)),
    refused("tile of 96 rows", "`tile_size` must be 128 or 64", tile_position=(0, 0), tile_size=(96, 128)),
    refused("tile off its grid", "must be a multiple of `tile_size`", SMALL_A, SMALL_B, tile_position=(16, 0),
            tile_size=(32, 128)),
    refused("tile of columns", "must have all 128 columns", tile_position=(0, 64), tile_size=(128, 64)),
    refused("different contraction", "the same number of partitions", right=Scaled(96, 56, E5, 16)),
    refused("more rows than the tile", "must not exceed the 128 rows", tile_position=(0, 0), tile_size=(64, 128)),
    refused(
        "48 partitions", "`stationary` must have a multiple of 32",
        stationary=empty((48, 40), E4), moving=empty((48, 56), E5),
    ),
    refused("odd columns", "must be even and not exceed 128", Scaled(128, 39, E4, 17)),
    refused("130 columns", "must be even and not exceed", Scaled(128, 130, E4, 18), dst=empty((128, 56), space=PSUM)),
    refused("4098 columns", "must not exceed 4096 into float32", SMALL_A, Scaled(32, 4098, E4, 19),
            dst=empty((24, 64), space=PSUM, view=lambda t: t[:, 0:64])),
    refused("another result", "a partition for each element of `stationary`", dst=empty((40, 55), space=PSUM)),
    refused("float16 result", "`dst` must have dtype", dst=empty((40, 56), "float16", PSUM)),
    refused("dst in SBUF", "`dst` must be in psum", dst=empty((40, 56))),
    refused("plain floats", "`moving` must have dtype", moving=empty((128, 56), "float8_e5m2")),
    refused("int8 scales", "`moving_scale` must have dtype", right_scale=empty((128, 56), "int8")),
    *[
        case
        for name, right, columns in (("left_scale", "stationary_scale", 40), ("right_scale", "moving_scale", 56))
        for case in (
            refused(f"{right}: fewer", f"`{right}` must have as many elements", **{name: empty((128, 24), "uint8")}),
            refused(f"{right}: side by side", f"`{right}` must have 4 partitions",
                    **{name: empty((16, columns), "uint8")}),
            refused(f"{right}: at 6", f"`{right}` must start 0, 4, 8 or 12",
                    **{name: scales_at(lambda t: t[6:], columns)}),
            refused(f"{right}: with a step", f"`{right}` must be on adjacent", SMALL_A, SMALL_B,
                    **{name: scales_at(lambda t: t[0:128:4], 24 if name == "left_scale" else 30)}),
        )
    ],
]  # fmt: skip

CASES = [*PRODUCTS, *ADDED, *SHARED, *REFUSED]
