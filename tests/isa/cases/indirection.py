"""Cases of operands that are views of `.indirect()`: gathered with take_along_axis, scattered with put_along_axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR
from nki_lab.targets.spaces import PSUM, SBUF
from tests.isa.case import Case, Tile, empty, isa, nl, sample, tile
from tests.isa.microscaling import VALUES, packed, spread

NEWEST = ("trn3",)
RNG = np.random.default_rng(17)
P, F, N = 32, 48, 32  # partitions, elements to choose from, offsets in use


def offsets(index: np.ndarray, count: int, group: int = 16) -> np.ndarray:
    """Return the offsets each partition uses: index[i % G, i // G] of its group (NkiTensor.indirect)."""
    return np.array(
        [
            [index[p // group * group + i % group, i // group] for i in range(count)]
            for p in range(len(index))
        ]
    ).astype(int)


def distinct(group: int = 16, columns: int = 2, most: int = F, rows: int = P) -> np.ndarray:
    """Return a tile of offsets, of which none comes twice in a group."""
    parts = [
        RNG.permutation(most)[: group * columns].reshape(columns, group).T
        for _ in range(rows // group)
    ]
    return np.concatenate(parts).astype(np.uint16)


class Use(NamedTuple):
    """One instruction with what it makes of its input, given as `call(t, dst, source)`."""

    name: str
    source: str
    call: Callable[[Any, Any, Any], Any]
    formula: Callable[[np.ndarray], np.ndarray]
    rtol: float = 0.0
    tiles: dict[str, Tile] = {}
    dtype: str = "float32"


OTHER = sample(P, N, seed=3)
RES = {"res": empty((P, 1))}
EXP = {"rtol": 3e-7}

USES = (
    Use("tensor_copy", "src", lambda t, d, s: isa.tensor_copy(d, s), lambda x: x),
    Use("tensor_tensor", "data1", lambda t, d, s: isa.tensor_tensor(d, s, t.other, nl.subtract),
        lambda x: (x.astype(float) - OTHER).astype(np.float32), tiles={"other": tile(OTHER)}),
    Use("tensor_scalar", "data", lambda t, d, s: isa.tensor_scalar(d, s, nl.multiply, 2.0), lambda x: 2 * x),
    Use("tensor_scalar_reduce", "data",
        lambda t, d, s: isa.tensor_scalar_reduce(d, s, nl.multiply, -1.0, nl.maximum, reduce_res=t.res),
        lambda x: -x, tiles=RES),
    Use("tensor_scalar_cumulative", "src",
        lambda t, d, s: isa.tensor_scalar_cumulative(d, s, nl.add, nl.maximum, 0.0),
        lambda x: np.maximum.accumulate(x, axis=1)),
    Use("activation", "data", lambda t, d, s: isa.activation(d, nl.relu, s), lambda x: np.maximum(x, 0)),
    Use("activation_reduce", "data",
        lambda t, d, s: isa.activation_reduce(d, nl.relu, s, nl.add, t.res), lambda x: np.maximum(x, 0), tiles=RES),
    Use("activate2", "data",
        lambda t, d, s: isa.activate2(d, nl.relu, s, -2.0, 0.0, nl.multiply, nl.bypass),
        lambda x: np.maximum(-2 * x, 0)),
    Use("exponential", "src", lambda t, d, s: isa.exponential(d, s), lambda x: np.exp(x.astype(float)), **EXP),
)  # fmt: skip

X = sample(P, F, seed=1)
Y = sample(P, N, seed=2)
BEFORE = sample(P, F, seed=4)


def case(name: str, use: Use, what: str, tiles: dict[str, Tile], run: Any, **facts: Any) -> Case:
    facts.setdefault("rtol", use.rtol)
    return Case(use.name, f"{name}: {what}", {**use.tiles, **tiles}, run, targets=NEWEST, **facts)


def gathers(use: Use, space: Any = SBUF) -> Case:
    index = distinct()
    return case(
        "gathers from " + space.name, use, use.source,
        {"src": tile(X, space=space), "index": tile(index), "dst": empty((P, N))},
        lambda t: use.call(t, t.dst, t.src.indirect(t.index, N)),
        expected={"dst": use.formula(np.take_along_axis(X, offsets(index, N), 1))},
    )  # fmt: skip


def scatters(use: Use) -> Case:
    index = distinct()
    expected = BEFORE.astype(float)
    np.put_along_axis(expected, offsets(index, N), use.formula(Y), 1)
    return case(
        "scatters", use, "dst",
        {"src": tile(Y), "index": tile(index), "dst": tile(BEFORE)},
        lambda t: use.call(t, t.dst.indirect(t.index), t.src),
        expected={"dst": expected},
    )  # fmt: skip


def does_both(use: Use) -> Case:
    into, out_of = distinct(), distinct()
    expected = BEFORE.astype(float)
    taken = np.take_along_axis(X, offsets(out_of, N), 1)
    np.put_along_axis(expected, offsets(into, N), use.formula(taken), 1)
    return case(
        "gathers and scatters", use, "both",
        {"src": tile(X), "into": tile(into), "from_": tile(out_of), "dst": tile(BEFORE)},
        lambda t: use.call(t, t.dst.indirect(t.into), t.src.indirect(t.from_)),
        expected={"dst": expected},
    )  # fmt: skip


# -- tensor_reduce, tensor_copy_predicated: other shapes ------------------------------------------------

CUBE = RNG.integers(-50, 50, (P, N, 4)).astype(np.float32)
MASK = RNG.integers(0, 2, (P, F)).astype(np.uint8)
INDEX = distinct()
AT = offsets(INDEX, N)
SCATTERED = BEFORE.copy()
np.put_along_axis(SCATTERED, AT, CUBE.sum(axis=2), 1)
CHOSEN = np.take_along_axis(MASK, AT, 1)
PREDICATED = BEFORE.copy()
np.put_along_axis(PREDICATED, AT, np.where(MASK[:, :N], Y, np.take_along_axis(BEFORE, AT, 1)), 1)

REDUCED = (
    Case("tensor_reduce", "gathers", {"src": tile(X), "index": tile(INDEX), "dst": empty((P, 1))},
         lambda t: isa.tensor_reduce(t.dst, nl.maximum, t.src.indirect(t.index), axis=1),
         {"dst": np.take_along_axis(X, AT, 1).max(axis=1, keepdims=True)}, targets=NEWEST),
    Case("tensor_reduce", "scatters", {"src": tile(CUBE), "index": tile(INDEX), "dst": tile(BEFORE)},
         lambda t: isa.tensor_reduce(t.dst.indirect(t.index), nl.add, t.src, axis=2), {"dst": SCATTERED},
         targets=NEWEST),
    Case("tensor_copy_predicated", "gathers its predicate",
         {"mask": tile(MASK), "index": tile(INDEX), "src": tile(Y), "dst": tile(OTHER)},
         lambda t: isa.tensor_copy_predicated(t.dst, t.src, t.mask.indirect(t.index)),
         {"dst": np.where(CHOSEN, Y, OTHER)}, targets=NEWEST),
    Case("tensor_copy_predicated", "scatters where it is chosen",
         {"mask": tile(MASK[:, :N]), "index": tile(INDEX), "src": tile(Y), "dst": tile(BEFORE)},
         lambda t: isa.tensor_copy_predicated(t.dst.indirect(t.index), t.src, t.mask), {"dst": PREDICATED},
         targets=NEWEST),
)  # fmt: skip

WIDE = sample(64, F, seed=6)
WIDE_INDEX = distinct(rows=64)
PLACED = (
    Case("tensor_copy", "gathers on Scalar", {"src": tile(X), "index": tile(INDEX), "dst": empty((P, N))},
         lambda t: isa.tensor_copy(t.dst, t.src.indirect(t.index), engine=SCALAR),
         {"dst": np.take_along_axis(X, AT, 1)}, targets=NEWEST),
    Case("tensor_copy", "of the upper quadrant, 20 offsets",
         {"src": tile(WIDE), "index": tile(WIDE_INDEX), "dst": empty((64, 20))},
         lambda t: isa.tensor_copy(t.dst[32:64], t.src[32:64].indirect(t.index[32:64], 20)),
         {"dst": np.concatenate([empty((32, 20)).data,
                                 np.take_along_axis(WIDE, offsets(WIDE_INDEX, 20), 1)[32:]])}, targets=NEWEST),
    Case("tensor_copy", "scatters to PSUM on Vector",
         {"src": tile(Y), "index": tile(INDEX), "dst": tile(BEFORE, space=PSUM)},
         lambda t: isa.tensor_copy(t.dst.indirect(t.index), t.src, engine=VECTOR),
         {"dst": np.put_along_axis(s := BEFORE.copy(), AT, Y, 1) or s}, targets=NEWEST),
    Case("tensor_copy", "scatters from PSUM by offsets of another quadrant",
         {"src": tile(Y, space=PSUM), "index": tile(WIDE_INDEX), "dst": tile(BEFORE)},
         lambda t: isa.tensor_copy(t.dst.indirect(t.index[32:64]), t.src),
         {"dst": np.put_along_axis(s := BEFORE.copy(), offsets(WIDE_INDEX[32:], N), Y, 1) or s}, targets=NEWEST),
)  # fmt: skip


# -- products -------------------------------------------------------------------------------------------

LEFT = RNG.integers(-8, 9, (64, 40)).astype(np.float32)
RIGHT = RNG.integers(-8, 9, (64, 100)).astype(np.float32)
LEFT_INDEX, RIGHT_INDEX = distinct(32, 1, 40, 64), distinct(32, 2, 100, 64)
LEFT_AT, RIGHT_AT = offsets(LEFT_INDEX, 32, 32), offsets(RIGHT_INDEX, 60, 32)
TAKEN = np.take_along_axis(LEFT, LEFT_AT, 1)
PRODUCT = TAKEN.T @ np.take_along_axis(RIGHT, RIGHT_AT, 1)
OUT_INDEX = distinct(32, 1, 64, 64)[:32]
STILL = np.zeros((32, 64))
np.put_along_axis(STILL, offsets(OUT_INDEX, 32, 32), TAKEN.T @ RIGHT[:, :32], 1)
TWICE = STILL.copy()
np.put_along_axis(TWICE, offsets(OUT_INDEX, 32, 32), 2 * TAKEN.T @ RIGHT[:, :32], 1)


def _scattered_product(t: Any, passes: int) -> None:
    isa.memset(t.clear, 0.0)
    isa.nc_matmul(t.dst, t.clear[:, 0:32], t.right[:, 0:64], accumulate=False)
    into = t.dst.indirect(t.into, 32)
    for n in range(passes):
        isa.nc_matmul(into, t.left.indirect(t.index, 32), t.right[:, 0:32], accumulate=n > 0)


def bfloat(data: np.ndarray) -> Tile:
    return tile(data, "bfloat16")


PRODUCT_TILES = {
    "left": bfloat(LEFT), "right": bfloat(RIGHT), "index": tile(LEFT_INDEX), "into": tile(OUT_INDEX),
    "clear": empty((64, 64), "bfloat16"), "dst": empty((32, 64), space=PSUM),
}  # fmt: skip


def _product(t: Any) -> None:
    left, right = t.left.indirect(t.index, 32), t.right.indirect(t.other, 60)
    isa.nc_matmul(t.dst, left, right, accumulate=False)


E4 = "float8_e4m3fn_x4"
CODES = np.flatnonzero((np.abs(VALUES[E4]) <= 6) & (VALUES[E4] * 2 == np.round(VALUES[E4] * 2)))
MX_LEFT, MX_RIGHT = RNG.choice(CODES, (64, 40, 4)), RNG.choice(CODES, (64, 48, 4))
MX_LEFT_SCALE, MX_RIGHT_SCALE = (RNG.integers(126, 129, (8, f)).astype(np.uint8) for f in (40, 48))


def mx_values(codes: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return VALUES[E4][codes] * (2.0 ** (scales.astype(float) - 127)).repeat(8, 0)[:, :, None]


def _mx_product() -> np.ndarray:
    # A group of 8 partitions shares its offsets, since a quadrant does: the scales go along.
    left = np.take_along_axis(mx_values(MX_LEFT, MX_LEFT_SCALE), LEFT_AT[:, :, None], 1)
    return np.einsum("kmq,knq->mn", left, mx_values(MX_RIGHT, MX_RIGHT_SCALE))


def mx_scale(scales: np.ndarray) -> Tile:
    return tile(spread(scales, 64, before=np.full((64, scales.shape[1]), 0x55, np.uint8)))


MX_TILES = {
    "left": packed(MX_LEFT, E4), "right": packed(MX_RIGHT, E4),
    "left_scale": mx_scale(MX_LEFT_SCALE), "right_scale": mx_scale(MX_RIGHT_SCALE),
    "index": tile(LEFT_INDEX), "other": tile(LEFT_INDEX), "far": tile(distinct(32, 1, 40, 128)[:112]),
    "dst": empty((32, 48), space=PSUM),
}  # fmt: skip


def mx(name: str, of: Callable[[Any], tuple[Any, ...]], expected: Any = None, **facts: Any) -> Case:
    """Make a case of `of(t)` = (dst, stationary, moving, stationary_scale, moving_scale)."""
    params = facts.pop("params", {})
    return Case(
        "nc_matmul_mx", name, MX_TILES, lambda t: isa.nc_matmul_mx(*of(t), accumulate=False, **params),
        {} if expected is None else {"dst": expected}, targets=NEWEST, **facts,
    )  # fmt: skip


PRODUCTS = (
    Case("nc_matmul", "gathers both", {
        "left": bfloat(LEFT), "right": bfloat(RIGHT), "index": tile(LEFT_INDEX), "other": tile(RIGHT_INDEX),
        "dst": empty((32, 60), space=PSUM),
    }, _product, {"dst": PRODUCT}, targets=NEWEST),
    Case("nc_matmul", "scatters", PRODUCT_TILES, lambda t: _scattered_product(t, 1), {"dst": STILL}, targets=NEWEST),
    Case("nc_matmul", "scatters and adds", PRODUCT_TILES, lambda t: _scattered_product(t, 2), {"dst": TWICE},
         targets=NEWEST),
    mx("gathers data with its scales",
       lambda t: (t.dst, t.left.indirect(t.index, 32), t.right, t.left_scale.indirect(t.index, 32), t.right_scale),
       _mx_product()),
)  # fmt: skip


# -- what is refused ------------------------------------------------------------------------------------

INDICES = {"index": tile(distinct(rows=64))}
TAILS = {
    "the offsets of an indirect": lambda t: (t.dst.indirect(t.index[16:48]), t.src[:, 0:N]),
    "must start on the partition on which its offsets start": lambda t: (
        t.dst[:, 0:N],
        t.src.indirect(t.index[32:64]),
    ),
    "the offsets of an indirect `dst` must start on": lambda t: (
        t.dst.indirect(t.index[32:64]),
        t.src[:, 0:N],
    ),
}


def refused(use: Use) -> list[Case]:
    found = [
        case(
            words[:50], use, "refused", {"src": tile(X), "dst": tile(BEFORE), **INDICES},
            lambda t, of=of: use.call(t, *of(t)), breaks=words,
        )
        for words, of in TAILS.items()
    ]  # fmt: skip
    if use.name in ("tensor_copy", "tensor_scalar"):
        return found
    if use.name.startswith("activat"):
        found.append(_to_psum(use, lambda t, d, s: use.call(t, d, s)))
    return found


def _to_psum(use: Use, call: Any) -> Case:
    return case(
        "scatters to PSUM on Scalar", use, "refused",
        {"src": tile(Y), "dst": tile(BEFORE, space=PSUM), "index": tile(INDEX)},
        lambda t: call(t, t.dst.indirect(t.index), t.src), breaks="must not be in psum on Scalar",
    )  # fmt: skip


REDUCE = Use(
    "tensor_reduce", "data", lambda t, d, s: isa.tensor_reduce(d, nl.add, s, axis=2), lambda x: x
)
PREDICATED_USE = Use(
    "tensor_copy_predicated", "predicate",
    lambda t, d, s: isa.tensor_copy_predicated(d, 1.0, s), lambda x: x,
)  # fmt: skip


def _reduce_tails(t: Any) -> dict[str, tuple[Any, Any, int]]:
    return {
        "quadrant": (t.dst.indirect(t.index[16:48]), t.cube, 2),
        "gathered": (t.dst[:, 0:1], t.src.indirect(t.index[32:64]), 1),
        "scattered": (t.dst.indirect(t.index[32:64]), t.cube, 2),
    }


def _reduce(kind: str, breaks: str) -> Case:
    def run(t: Any) -> None:
        dst, data, axis = _reduce_tails(t)[kind]
        isa.tensor_reduce(dst, nl.add, data, axis=axis)

    tiles = {"cube": tile(CUBE), "src": tile(X), "dst": tile(BEFORE), **INDICES}
    return Case("tensor_reduce", f"{kind} refused", tiles, run, breaks=breaks, targets=NEWEST)


def _predicated(words: str, of: Any) -> Case:
    tiles = {"src": tile(MASK), "dst": tile(BEFORE), **INDICES}
    return Case(
        "tensor_copy_predicated", f"{words[:50]} refused", tiles,
        lambda t: isa.tensor_copy_predicated(of(t)[0], 1.0, of(t)[1]), breaks=words, targets=NEWEST,
    )  # fmt: skip


def _integer_form(t: Any) -> None:
    isa.tensor_scalar(t.dst, t.src.indirect(t.index), nl.add, 1.0)


def _matmul(
    name: str, breaks: str, of: Callable[[Any], tuple[Any, Any, Any]], **params: Any
) -> Case:
    tiles = {
        "left": bfloat(LEFT), "right": bfloat(RIGHT), "index": tile(distinct(32, 1, 40, 128)[:112]),
        "wide": tile(LEFT), "wide_right": tile(RIGHT), "square": bfloat(np.eye(64)),
        "two": tile(distinct(32, 2, 64, 64)),
        "dst": empty((32, 64), space=PSUM),
    }  # fmt: skip
    return Case(
        "nc_matmul",
        name,
        tiles,
        lambda t: isa.nc_matmul(*of(t), **params),
        breaks=breaks,
        targets=NEWEST,
    )


PART = {"tile_position": (64, 0), "tile_size": (64, 128)}
MATMUL_REFUSED = (
    _matmul("identity gathered", "`moving` must not be indirect",
            lambda t: (t.dst, t.left[:, 0:32], t.square.indirect(t.two, 64)), is_transpose=True),
    _matmul("float32 gathered", "must be float16, bfloat16 or an 8-bit float",
            lambda t: (t.dst, t.wide.indirect(t.index[0:64], 32), t.wide_right[:, 0:64])),
    _matmul("in a part of the array", "`tile_position` must be (0, 0)",
            lambda t: (t.dst, t.left.indirect(t.index[0:64], 32), t.right[:, 0:64]), **PART),
    _matmul("offsets within a quadrant", "must start at partition 0, 32, 64 or 96",
            lambda t: (t.dst, t.left.indirect(t.index[48:112], 32), t.right[:, 0:64])),
    _matmul("offsets elsewhere", "must start on the partition on which its offsets start",
            lambda t: (t.dst, t.left.indirect(t.index[32:96], 32), t.right[:, 0:64])),
    _matmul("scattered from elsewhere", "must start on the partition of `stationary`",
            lambda t: (t.dst.indirect(t.index[32:64], 32), t.left[:, 0:32], t.right[:, 0:32])),
)  # fmt: skip


def _mx_left(t: Any, index: Any) -> tuple[Any, ...]:
    return (
        t.dst,
        t.left.indirect(index, 32),
        t.right,
        t.left_scale.indirect(index, 32),
        t.right_scale,
    )


def _mx_plain(t: Any) -> tuple[Any, ...]:
    return t.dst, t.left[:, 0:32], t.right, t.left_scale[:, 0:32], t.right_scale


def _mx_scattered(t: Any) -> tuple[Any, ...]:
    _, left, right, *scales = _mx_plain(t)
    return t.dst.indirect(t.far[32:64], 32), left, right[:, 0:32], scales[0], scales[1][:, 0:32]


MX_REFUSED = (
    mx("scales not gathered", lambda t: (t.dst, t.left.indirect(t.index, 32), *_mx_plain(t)[2:]),
       breaks="`stationary` and `stationary_scale` must both"),
    mx("scales gathered by another tile",
       lambda t: (t.dst[:, 0:32], t.left[:, 0:32], t.right.indirect(t.index, 32), t.left_scale[:, 0:32],
                  t.right_scale.indirect(t.other, 32)), breaks="`moving` and `moving_scale` must both"),
    mx("in a part of the array", lambda t: _mx_left(t, t.index), params=PART, breaks="`tile_position` must be (0, 0)"),
    mx("offsets within a quadrant", lambda t: _mx_left(t, t.far[16:80]), breaks="must start at partition 0, 32"),
    mx("offsets elsewhere", lambda t: _mx_left(t, t.far[32:96]), breaks="must start on the partition on which"),
    mx("scattered from elsewhere", _mx_scattered, breaks="must start on the partition of `stationary`"),
)  # fmt: skip

REFUSED = [
    *(c for use in USES for c in refused(use)),
    _to_psum(USES[0], lambda t, d, s: isa.tensor_copy(d, s, engine=SCALAR)),
    _to_psum(USES[2], lambda t, d, s: isa.tensor_scalar(d, s, nl.multiply, 2.0, engine=SCALAR)),
    case("on GpSimd", USES[0], "refused", {"src": tile(X), "index": tile(INDEX), "dst": empty((P, N))},
         lambda t: isa.tensor_copy(t.dst, t.src.indirect(t.index), engine=GPSIMD),
         breaks="`engine` must not be GpSimd"),
    case("addresses", USES[2], "refused",
         {"src": tile(MASK, "int32"), "index": tile(INDEX), "dst": empty((P, N), "int32")}, _integer_form,
         breaks="the form for addresses"),
    _reduce("quadrant", "the offsets of an indirect"),
    _reduce("gathered", "must start on the partition on which"),
    _reduce("scattered", "the offsets of an indirect `dst` must start on"),
    *(_predicated(words, of) for words, of in TAILS.items()),
    *MATMUL_REFUSED,
    *MX_REFUSED,
]  # fmt: skip

CASES = [
    *(gathers(use) for use in USES),
    gathers(USES[0], PSUM),
    *(scatters(use) for use in USES),
    *(does_both(use) for use in USES),
    *REDUCED,
    *PLACED,
    *PRODUCTS,
    *REFUSED,
]
