"""Cases of the searches: expected results come from walks over one partition at a time, in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Tile, empty, isa, rounded, sample, tile

NEW = ("trn2", "trn3")
ALL = ("trn1", "trn2", "trn3")


def flat(data: np.ndarray) -> np.ndarray:
    return data.reshape(len(data), -1)


# -- max8 ---------------------------------------------------------------------------------------------


def eight(data: np.ndarray) -> np.ndarray:
    """Take the largest value out of each row eight times."""
    found = []
    for row in flat(data).astype(float).tolist():
        row = list(row)
        found.append([row.pop(row.index(max(row))) for _ in range(8)])
    return np.array(found)


def largest(
    name: str, src: Tile, dst: Tile | None = None, expected: Any = None, breaks: str = ""
) -> Case:
    return Case(
        "max8", name, tiles={"dst": dst or empty((len(src.data), 8)), "src": src},
        run=lambda t: isa.max8(t.dst, t.src), expected={} if breaks else {"dst": expected}, breaks=breaks,
    )  # fmt: skip


X = sample(96, 50, seed=1, scale=30)
TWICE = np.random.default_rng(2).integers(-6, 7, (64, 40)).astype(np.float32)
CUBE = sample(32, 5, 7, seed=3)
PICK = sample(128, 64, seed=4)
WIDE = tile(np.arange(2.0 * 16_385).reshape(2, -1))

MAX8 = [
    largest("float32", tile(X), expected=eight(X)),
    largest("equal values are all counted", tile(TWICE), expected=eight(TWICE)),
    largest("3 axes", tile(CUBE), expected=eight(CUBE)),
    largest("8 elements, sorted", tile(X[:, :8]), expected=eight(X[:, :8])),
    largest(
        "a view with steps and later partitions",
        tile(PICK, view=lambda t: t[64:96, 1:60:3]), dst=empty((32, 8)), expected=eight(PICK[64:96, 1:60:3]),
    ),
    largest(
        "bfloat16 into int32, in PSUM", tile(X, "bfloat16", PSUM), empty((96, 8), "int32", PSUM),
        np.rint(eight(rounded(X, "bfloat16").astype(float))),
    ),
    largest(
        "infinities", tile(np.array([[1, np.inf, -np.inf, 2, 3, 4, 5, 6, 7, np.inf]])),
        expected=[[np.inf, np.inf, 7, 6, 5, 4, 3, 2]],
    ),
    largest("NaN shows", tile(np.array([[1, 2, 3, 4, np.nan, 5, 6, 7, 8]])), expected=[[np.nan, 8, 7, 6, 5, 4, 3, 2]]),
]  # fmt: skip

MAX8_REFUSED = [
    largest("7 elements", tile(X[:, :7]), breaks="from 8 to 16384"),
    largest("16385 elements", WIDE, breaks="from 8 to 16384"),
    largest("4 axes", tile(CUBE.reshape(32, 5, 7, 1)), breaks="`src` must have at most 3 axes"),
    largest("result with 3 axes", tile(X), empty((96, 2, 4)), breaks="`dst` must have at most 2 axes"),
    largest("9 results", tile(X), empty((96, 9)), breaks="`dst` must have exactly 8"),
    largest("other partitions", tile(X), empty((64, 8)), breaks="the same number of partitions"),
    largest("packed", empty((96, 50), "float8_e5m2_x4"), breaks="must not have a packed"),
]  # fmt: skip


# -- nc_find_index8 -----------------------------------------------------------------------------------


def positions(data: np.ndarray, vals: np.ndarray, missing: int) -> np.ndarray:
    """List where each value stands; the k-th time a value is asked for it gets its k-th place."""
    found = []
    for row, wanted in zip(flat(data).tolist(), flat(vals).tolist(), strict=True):
        places: dict[float, list[int]] = {}
        for k, value in enumerate(row):
            places.setdefault(value, []).append(k)
        found.append([places[v].pop(0) if places.get(v) else missing for v in wanted])
    return np.array(found)


def find(
    name: str,
    data: Tile,
    vals: Tile,
    dst: Tile | None = None,
    expected: Any = None,
    breaks: str = "",
) -> Case:
    return Case(
        "nc_find_index8", name,
        tiles={"dst": dst or empty((len(data.data), 8), "uint32"), "data": data, "vals": vals},
        run=lambda t: isa.nc_find_index8(t.dst, t.data, t.vals), expected={} if breaks else {"dst": expected},
        breaks=breaks,
    )  # fmt: skip


ABSENT = 0xFFFFFFFF
TOP = eight(X)
SOME = (
    np.random.default_rng(5).integers(-8, 9, (64, 8)).astype(np.float32)
)  # repeated, and partly absent
ORDER = np.array([[1.0, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8]])
ASKED = np.array([[3.0, 8, 8, 8, 8, 8, 8, 8]])
CUBE_VALS = CUBE.reshape(32, -1)[:, 3:27:3].reshape(32, 2, 4)

FIND = [
    find("the 8 largest", tile(X), tile(TOP), expected=positions(X, np.float32(TOP), ABSENT)),
    find(
        "values repeated and absent", tile(TWICE), tile(SOME), expected=positions(TWICE, SOME, ABSENT),
    ),
    find(
        "all ones in uint16", tile(TWICE), tile(SOME), empty((64, 8), "uint16"), positions(TWICE, SOME, 0xFFFF),
    ),
    find("repeats in ascending order", tile(ORDER), tile(ASKED), expected=[[2, 4, 5, 6, 7, 8, 9, 10]]),
    find("3 axes", tile(CUBE), tile(CUBE_VALS), expected=positions(CUBE, CUBE_VALS, ABSENT)),
    find(
        "one value for all slots", tile(TWICE), tile(SOME[:, :1], view=lambda t: t.broadcast(1, 8)),
        expected=positions(TWICE, SOME[:, [0] * 8], ABSENT),
    ),
    find(
        "in PSUM, values rounded", tile(X, space=PSUM), tile(TOP, "bfloat16", PSUM), empty((96, 8), "uint32", PSUM),
        positions(X, rounded(TOP, "bfloat16").astype(np.float32), ABSENT),
    ),
    find(
        "a NaN is not found", tile(np.array([[np.nan, 1, 2, 3, 4, 5, 6, 7]])),
        tile(np.array([[np.nan, 1, 7, 6, 5, 4, 3, 2]])), expected=[[ABSENT, 1, 7, 6, 5, 4, 3, 2]],
    ),
]  # fmt: skip

FIND_REFUSED = [
    find("7 elements", tile(X[:, :7]), tile(TOP), breaks="from 8 to 16384"),
    find("16385 elements", WIDE, tile(TOP[:2]), breaks="from 8 to 16384"),
    find("9 values", tile(X), tile(X[:, :9]), breaks="`vals` must have exactly 8"),
    find("9 results", tile(X), tile(TOP), empty((96, 9), "uint32"), breaks="`dst` must have exactly 8"),
    find("int32 results", tile(X), tile(TOP), empty((96, 8), "int32"), breaks="`dst` must have dtype"),
    find("4 axes", tile(CUBE.reshape(32, 5, 7, 1)), tile(CUBE_VALS), breaks="`data` must have at most 3 axes"),
    find("values of 4 axes", tile(CUBE), tile(CUBE_VALS.reshape(32, 2, 2, 2)), breaks="`vals` must have at most 3"),
    find("results of 3 axes", tile(X), tile(TOP), empty((96, 2, 4), "uint32"), breaks="`dst` must have at most 2"),
    find("fewer partitions", tile(X), tile(TOP[:64]), breaks="the same number of partitions"),
    find("packed", empty((96, 50), "float8_e5m2_x4"), tile(TOP), breaks="must not have a packed"),
]  # fmt: skip


# -- nc_match_replace8 --------------------------------------------------------------------------------


def replaced(data: np.ndarray, vals: np.ndarray, imm: float) -> tuple[np.ndarray, np.ndarray]:
    """Stream each row past eight registers: an element goes to the highest one that waits for its value."""
    result, index = flat(data).astype(float).copy(), np.full((len(data), 8), float(ABSENT))
    for p, wanted in enumerate(flat(vals).tolist()):
        waiting = dict(enumerate(wanted))
        for k, value in enumerate(flat(data)[p].tolist()):
            slots = [s for s, v in waiting.items() if v == value]
            if slots:
                del waiting[max(slots)]
                result[p, k], index[p, max(slots)] = imm, k
    return result.reshape(data.shape), index


def replace(
    name: str, data: Tile, vals: Tile, imm: Any = -1e9, *, dst: Tile | None = None, index: Tile | None = None,
    expected: Any = None, breaks: str = "",
) -> Case:  # fmt: skip
    values, places = (None, None) if breaks else expected
    tiles = {"dst": dst or empty(data.data.shape), "data": data, "vals": vals}
    wanted = {} if breaks else {"dst": values}
    if index is not None:
        tiles["index"] = index
        wanted |= {} if breaks else {"index": places}
    return Case(
        "nc_match_replace8", name, tiles=tiles,
        run=lambda t: isa.nc_match_replace8(t.dst, t.data, t.vals, imm, **({"dst_idx": t.index} if index else {})),
        expected=wanted, breaks=breaks,
    )  # fmt: skip


def _in_place(t):
    """Take the top 16 of each row in two rounds, as sorting kernels do."""
    for k in range(2):
        isa.max8(t.top, t.data)
        isa.nc_match_replace8(t.data, t.data, t.top, float("-inf"), t.index[:, 8 * k : 8 * k + 8])


INDEX = empty((64, 8), "uint32")
UNIQUE = np.random.default_rng(6).permuted(np.tile(np.arange(40.0), (64, 1)), axis=1)
DEEPER = np.argsort(-UNIQUE, axis=1)[:, :16]
EMPTIED = UNIQUE.copy()
np.put_along_axis(EMPTIED, DEEPER, -np.inf, axis=1)

REPLACE = [
    replace("repeated and absent", tile(TWICE), tile(SOME), index=INDEX, expected=replaced(TWICE, SOME, -1e9)),
    replace("without indices", tile(TWICE), tile(SOME), 0, expected=replaced(TWICE, SOME, 0)),
    replace(
        "repeats in descending order", tile(ORDER), tile(ASKED), 0.5, index=empty((1, 8), "uint32"),
        expected=([[1, 2, 0.5, 4] + [0.5] * 7], [[2, 10, 9, 8, 7, 6, 5, 4]]),
    ),
    replace(
        "what replaces is not matched again", tile(TWICE), tile(SOME), 3.0, index=INDEX,
        expected=replaced(TWICE, SOME, 3.0),
    ),
    replace(
        "3 axes, bfloat16, in PSUM", tile(CUBE, "bfloat16", PSUM), tile(rounded(CUBE_VALS, "bfloat16")), 2.5,
        dst=empty((32, 5, 7), "bfloat16", PSUM), index=empty((32, 8), "uint16"),
        expected=(
            replaced(rounded(CUBE, "bfloat16").astype(float), rounded(CUBE_VALS, "bfloat16").astype(float), 2.5)[0],
            positions(rounded(CUBE, "bfloat16").astype(float), rounded(CUBE_VALS, "bfloat16").astype(float), 0xFFFF),
        ),
    ),
    Case(
        "nc_match_replace8", "in place, twice",
        tiles={"data": tile(UNIQUE), "top": empty((64, 8)), "index": empty((64, 16), "uint32")},
        run=_in_place, expected={"data": EMPTIED, "index": DEEPER},
    ),
]  # fmt: skip


def unreplaced(name: str, breaks: str, **changed: Any) -> Case:
    given = {"data": tile(TWICE), "vals": tile(SOME), **changed}
    return replace(name, given.pop("data"), given.pop("vals"), breaks=breaks, **given)


REPLACE_REFUSED = [
    unreplaced("7 elements", "from 8 to 16384", data=tile(TWICE[:, :7])),
    unreplaced("9 values", "`vals` must have exactly 8", vals=tile(TWICE[:, :9])),
    unreplaced("9 indices", "`dst_idx` must have exactly 8", index=empty((64, 9), "uint32")),
    unreplaced("float indices", "`dst_idx` must have dtype", index=empty((64, 8))),
    unreplaced("a word", "`imm` must be a number", imm="-inf"),
    unreplaced("fewer partitions", "the same number of partitions", index=empty((32, 8), "uint32")),
    unreplaced("another size", "the same number of elements per partition", dst=empty((64, 41))),
    unreplaced("packed", "must not have a packed", dst=empty((64, 40), "float8_e5m2_x4")),
]  # fmt: skip

CASES = [*MAX8, *MAX8_REFUSED, *FIND, *FIND_REFUSED, *REPLACE, *REPLACE_REFUSED]
