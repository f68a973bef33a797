"""Cases of the searches of GpSimd: expected results by sorting and counting in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Tile, empty, isa, tile

NEW = ("trn2", "trn3")
ALL = ("trn1", "trn2", "trn3")

# -- topk ---------------------------------------------------------------------------------------------


def snaked(lists: np.ndarray, columns: int, fill: float) -> np.ndarray:
    """Lay lists of numbers out in 16 partitions each, one column after the other."""
    laid = np.full((16 * len(lists), columns), fill)
    for g, numbers in enumerate(lists):
        for e, number in enumerate(numbers):
            laid[16 * g + e % 16, e // 16] = number
    return laid


def written(tile: Tile, results: list[list[float]]) -> np.ndarray:
    """Lay results out in 16 partitions each over what the tile held."""
    after = tile.data.astype(float)
    for g, numbers in enumerate(results):
        for j, number in enumerate(numbers):
            after[16 * g + j % 16, j // 16] = number
    return after


def top(lists: np.ndarray, k: int) -> tuple[list[list[float]], list[list[float]]]:
    """Return the k largest numbers of each list in ascending order, and their places; the first of equal ones."""
    values, places = [], []
    for numbers in lists.tolist():
        order = sorted(range(len(numbers)), key=lambda e: (-numbers[e], e))[:k]
        places.append([float(e) for e in reversed(order)])
        values.append([numbers[e] for e in reversed(order)])
    return values, places


def best(
    name: str,
    lists: np.ndarray,
    k: int,
    *,
    columns: int,
    n: Any = None,
    breaks: str = "",
    **changed: Tile,
) -> Case:
    rows = 16 * len(lists)
    tiles = {
        "values": empty((rows, k), "bfloat16"),
        "places": empty((rows, k), "uint32"),
        "src": tile(
            snaked(lists, columns, 500.0), "bfloat16"
        ),  # beyond n: larger, and not to be seen
        **changed,
    }
    found = None if breaks else top(lists, k)
    return Case(
        "topk", name, tiles=tiles, breaks=breaks,
        run=lambda t: isa.topk(t.values, t.places, t.src, lists.shape[1] if n is None else n),
        expected={} if breaks else {
            "values": written(tiles["values"], found[0]), "places": written(tiles["places"], found[1]),
        },
    )  # fmt: skip


def whole(count: int, n: int, seed: int, most: int = 120) -> np.ndarray:
    """Return lists of integers, which bfloat16 holds up to 256; without repeats if most is large enough."""
    made = np.random.default_rng(seed)
    return np.stack([made.permutation(np.arange(-most, most))[:n] for _ in range(count)]).astype(
        float
    )


LISTS = whole(8, 150, 1)
REPEATED = np.random.default_rng(2).integers(0, 5, (2, 42)).astype(float)

TOPK = [
    best("8 lists in 128 partitions", LISTS, 20, columns=10),
    best("a part of the source", whole(2, 42, 3), 8, columns=5),
    best("all elements, sorted", whole(1, 33, 4), 33, columns=3),
    best("one element", whole(4, 8, 5), 1, columns=1),
    best("equal values", REPEATED, 20, columns=3),
    best("18 of 42 in 9 columns", whole(2, 42, 6), 18, columns=9),
]  # fmt: skip

TOPK_REFUSED = [
    best("7 elements", LISTS, 4, columns=10, n=7, breaks="`n` must be an integer from 8"),
    best("65536 elements", LISTS, 4, columns=10, n=65_536, breaks="`n` must be an integer from 8"),
    best("n is a float", LISTS, 4, columns=10, n=150.0, breaks="`n` must be an integer from 8"),
    best("more than there are", LISTS[:, :40], 41, columns=3, breaks="must be at most 32767 and at most `n`"),
    best("source too short", LISTS, 4, columns=10, n=161, breaks="at least n / 16"),
    best("8 partitions", LISTS[:1], 4, columns=10, src=tile(np.zeros((8, 10)), "bfloat16"),
         values=empty((8, 4), "bfloat16"), places=empty((8, 4), "uint32"), breaks="a multiple of 16 partitions"),
    best("other partitions", LISTS, 4, columns=10, places=empty((112, 4), "uint32"),
         breaks="the same number of partitions"),
    best("other sizes", LISTS, 4, columns=10, places=empty((128, 5), "uint32"),
         breaks="the same number of elements per partition"),
    best("float32 values", LISTS, 4, columns=10, values=empty((128, 4)), breaks="`val_dst` must have dtype"),
    best("int32 places", LISTS, 4, columns=10, places=empty((128, 4), "int32"), breaks="`idx_dst` must have dtype"),
]  # fmt: skip


# -- nonzero_with_count -------------------------------------------------------------------------------


def listed(src: np.ndarray, before: np.ndarray, offset: int = 0, padding: int = -1) -> np.ndarray:
    after = before.copy()
    for p in range(0, len(src), 16):
        found = [k + offset for k, value in enumerate(src[p].reshape(-1).tolist()) if value != 0]
        rest = src[p].size - len(found)
        after.reshape(len(after), -1)[p] = [*found, *[padding] * rest, len(found)]
    return after


def nonzero(
    name: str,
    src: Tile,
    dst: Tile,
    expected: Any = None,
    targets=NEW,
    breaks: str = "",
    **params: Any,
) -> Case:
    return Case(
        "nonzero_with_count", name, tiles={"dst": dst, "src": src}, targets=targets, breaks=breaks,
        run=lambda t: isa.nonzero_with_count(t.dst, t.src, **params), expected={} if breaks else {"dst": expected},
    )  # fmt: skip


SPARSE = np.random.default_rng(7).integers(-1, 2, (128, 24)).astype(np.int32) * 7
REAL = (SPARSE * np.float32(1e-30)).astype(np.float32)
REAL[0, :3] = [np.nan, -0.0, np.inf]
OLD = tile(np.random.default_rng(8).integers(-99, 99, (128, 25), np.int32))
EXAMPLE = np.array([[0, 1, 1, 0, 0, 1, 0, 0]], np.int32)
BLOCK = SPARSE[:32].reshape(32, 4, 6)

NONZERO = [
    nonzero("int32", tile(SPARSE), OLD, listed(SPARSE, OLD.data)),
    nonzero(
        "float32, offset and padding", tile(REAL), OLD, listed(REAL, OLD.data, 1000, -7), index_offset=1000,
        padding_val=-7,
    ),
    nonzero(
        "the official example", tile(EXAMPLE), empty((1, 9), "int32"), [[17, 18, 21, -1, -1, -1, -1, -1, 3]],
        index_offset=16,
    ),
    nonzero("nothing and everything", tile(np.repeat([[0.0], [1]], 16, 0).repeat(5, 1)), empty((32, 6), "int32"),
            listed(np.repeat([[0.0], [1]], 16, 0).repeat(5, 1), empty((32, 6), "int32").data)),
    nonzero(
        "20 partitions, more axes", tile(BLOCK, view=lambda t: t[0:20]), tile(OLD.data[:20]),
        listed(BLOCK[:20], OLD.data[:20]),
    ),
]  # fmt: skip

NONZERO_REFUSED = [
    nonzero("an old chip", tile(SPARSE), OLD, targets=("trn1",), breaks="needs a target with `nonzero_with_count`"),
    nonzero("no room for the count", tile(SPARSE), empty((128, 24), "int32"), breaks="one element per partition more"),
    nonzero("other partitions", tile(SPARSE[:64]), OLD, breaks="the same number of partitions"),
    nonzero("offset of 2**31", tile(SPARSE), OLD, index_offset=2**31, breaks="must be integers of 32 bits"),
    nonzero("padding of 0.0", tile(SPARSE), OLD, padding_val=0.0, breaks="must be integers of 32 bits"),
    nonzero("bfloat16", tile(SPARSE, "bfloat16"), OLD, breaks="`src` must have dtype"),
    nonzero("float32 result", tile(SPARSE), empty((128, 25)), breaks="`dst` must have dtype"),
    nonzero("in PSUM", tile(SPARSE, space=PSUM), OLD, breaks="`src` must be in sbuf"),
]  # fmt: skip


# -- sequence_bounds ----------------------------------------------------------------------------------


def bounds(ids: list[int]) -> list[list[list[int]]]:
    """Walk left and right from every element as far as its number goes on."""
    n, starts, ends = len(ids), [], []
    for k, number in enumerate(ids):
        start, end = k, k + 1
        while start > 0 and ids[start - 1] == number:
            start -= 1
        while end < n and ids[end] == number:
            end += 1
        starts.append(start if number else n)
        ends.append(end if number else -1)
    return [[starts, ends]]


def segments(name: str, ids: Tile, dst: Tile, expected: Any = None, breaks: str = "") -> Case:
    return Case(
        "sequence_bounds", name, tiles={"dst": dst, "ids": ids}, breaks=breaks,
        run=lambda t: isa.sequence_bounds(t.dst, t.ids), expected={} if breaks else {"dst": expected},
    )  # fmt: skip


SEQUENCE = np.repeat([3, 3, 0, 7, 1, 1, 7, 0, 2**24, 2**24 + 1], [2, 3, 4, 1, 2, 2, 5, 1, 3, 2])[
    None
].astype(np.int32)
IDS = np.sort(np.random.default_rng(9).integers(0, 12, (1, 90))).astype(np.float32)

SEGMENTS = [
    segments(
        "the official example", tile(np.array([[0, 1, 1, 2, 2, 2, 0, 3, 3]], np.int32)), empty((1, 2, 9), "int32"),
        [[[9, 1, 1, 3, 3, 3, 9, 7, 7], [-1, 3, 3, 6, 6, 6, -1, 9, 9]]],
    ),
    segments("int32, exactly", tile(SEQUENCE), empty((1, 2, 25), "int32"), bounds(SEQUENCE[0].tolist())),
    segments("float32", tile(IDS), empty((1, 2, 90)), bounds(IDS[0].tolist())),
    segments("int32 into float32", tile(SEQUENCE), empty((1, 2, 25)), bounds(SEQUENCE[0].tolist())),
    segments("one element", tile(np.array([[5.0]])), empty((1, 2, 1)), [[[0], [1]]]),
    segments("all padding", tile(np.zeros((1, 4), np.int32)), empty((1, 2, 4), "int32"), [[[4] * 4, [-1] * 4]]),
]  # fmt: skip

SEGMENTS_REFUSED = [
    segments("2 rows", tile(np.repeat(IDS, 2, 0)), empty((1, 2, 90)), breaks="must be one row"),
    segments("no second row", tile(IDS), empty((1, 90)), breaks="`dst` must have shape [1, 2, n]"),
    segments("2 partitions", tile(IDS), empty((2, 90)), breaks="`dst` must have shape [1, 2, n]"),
    segments("uint32", tile(IDS, "uint32"), empty((1, 2, 90)), breaks="`segment_ids` must have dtype"),
    segments("bfloat16 result", tile(IDS), empty((1, 2, 90), "bfloat16"), breaks="`dst` must have dtype"),
]  # fmt: skip

CASES = [*TOPK, *TOPK_REFUSED, *NONZERO, *NONZERO_REFUSED, *SEGMENTS, *SEGMENTS_REFUSED]
