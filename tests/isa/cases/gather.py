"""Cases of gathers and shuffles, element by element, compared bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import dtype_of
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Tile, empty, isa, sample, tile

SEED = np.random.default_rng
WORDS = SEED(1).integers(-(2**31), 2**31, (128, 96), np.int32)
X = sample(64, 5, 12, seed=2)
PATTERNS = SEED(3).integers(0, 1 << 16, (32, 40), np.uint16)

# -- local_gather -------------------------------------------------------------------------------------


def locally(src: np.ndarray, index: np.ndarray, e: int = 1, valid: int | None = None) -> np.ndarray:
    """Gather element by element: entry k of a core's list stands in its partition k % 16, column k // 16."""
    rows = src.reshape(len(src), -1)
    columns = index.reshape(len(index), -1)
    count = 16 * columns.shape[1] if valid is None else valid
    out = np.empty((len(src), count * e), src.dtype)
    for p in range(len(src)):
        for k in range(count):
            start = int(columns[p // 16 * 16 + k % 16, k // 16])
            for j in range(e):
                out[p, k * e + j] = rows[p, start + j]
    return out


def local(
    name: str, src: Tile, index: Tile, dst: Tile, expected: Any = None, breaks: str = "", **params: Any
) -> Case:  # fmt: skip
    return Case(
        "local_gather", name, tiles={"dst": dst, "src": src, "index": index}, breaks=breaks,
        run=lambda t: isa.local_gather(t.dst, t.src, t.index, **params), expected={} if breaks else {"dst": expected},
    )  # fmt: skip


def at(rows: int, columns: int, end: int, seed: int) -> np.ndarray:
    return SEED(seed).integers(0, end, (rows, columns)).astype(np.uint16)


AT = at(128, 3, 96, 4)
BLOCKS = 4 * at(64, 2, 15, 5)
VALID = {"num_elem_per_idx": 4, "num_valid_indices": 21}
UNUSED = AT.copy()
UNUSED[-1, -1] = 5000  # past the end, but not among the first 40

LOCAL = [
    local("int32", tile(WORDS), tile(AT), empty((128, 48), "int32"), locally(WORDS, AT)),
    local(
        "pieces of 4, a list cut short", tile(X), tile(BLOCKS), empty((64, 3, 28)),
        locally(X, BLOCKS, 4, 21).reshape(64, 3, 28), **VALID,
    ),
    local(
        "pieces that start anywhere", tile(X), tile(BLOCKS[:, :1] + 1), empty((64, 32)),
        locally(X, BLOCKS[:, :1] + 1, 2), num_elem_per_idx=2,
    ),
    local(
        "every bit of bfloat16", Tile(PATTERNS.view(dtype_of("bfloat16").np), dtype_of("bfloat16")),
        tile(at(32, 1, 40, 6)), empty((32, 16), "uint16", view=lambda t: t.view("bfloat16")),
        locally(PATTERNS, at(32, 1, 40, 6)),
    ),
    local(
        "indices that are not used may be anything", tile(WORDS), tile(UNUSED), empty((128, 40), "int32"),
        locally(WORDS, AT, 1, 40), num_valid_indices=40,
    ),
    local(
        "views", tile(WORDS, view=lambda t: t[64:128, 1:90:2]), tile(at(128, 8, 45, 7), view=lambda t: t[64:128, ::4]),
        empty((64, 32), "int32"), locally(WORDS[64:, 1:90:2], at(128, 8, 45, 7)[64:, ::4]),
    ),
]  # fmt: skip


def unlocal(name: str, breaks: str, **changed: Any) -> Case:
    given = {"src": tile(WORDS), "index": tile(AT), "dst": empty((128, 48), "int32"), **changed}
    return local(
        name, given.pop("src"), given.pop("index"), given.pop("dst"), breaks=breaks, **given
    )


LOCAL_REFUSED = [
    unlocal("pieces of 3", "`num_elem_per_idx` must be", num_elem_per_idx=3),
    unlocal("49 of 48 indices", "`num_valid_indices` must be None", num_valid_indices=49),
    unlocal("no indices", "`num_valid_indices` must be None", num_valid_indices=0),
    unlocal("4112 indices", "more than 4096", index=tile(at(128, 257, 96, 8)), dst=empty((128, 4112), "int32")),
    unlocal("smaller result", "as many elements per partition", dst=empty((128, 47), "int32")),
    unlocal("result of single elements", "as many elements per partition", num_elem_per_idx=2),
    unlocal("another dtype", "the same dtype", dst=empty((128, 48))),
    unlocal("fewer partitions", "the same number of partitions", index=tile(AT[:64])),
    unlocal(
        "24 partitions", "a multiple of 16 partitions", src=tile(WORDS[:24]), index=tile(AT[:24]),
        dst=empty((24, 48), "int32"),
    ),
    unlocal("uint32 indices", "`index` must have dtype", index=tile(AT, "uint32")),
    unlocal("in PSUM", "`src_buffer` must be in sbuf", src=tile(WORDS, space=PSUM)),
]  # fmt: skip


# -- nc_n_gather --------------------------------------------------------------------------------------


def gathered(
    name: str, data: Tile, indices: Tile, dst: Tile, expected: Any = None, breaks: str = ""
) -> Case:
    return Case(
        "nc_n_gather", name, tiles={"dst": dst, "data": data, "indices": indices}, breaks=breaks,
        run=lambda t: isa.nc_n_gather(t.dst, t.data, t.indices), expected={} if breaks else {"dst": expected},
    )  # fmt: skip


def each(data: np.ndarray, indices: np.ndarray) -> np.ndarray:
    rows, wanted = data.reshape(len(data), -1), indices.reshape(len(data), -1)
    return np.array([[rows[p][k] for k in ks] for p, ks in enumerate(wanted.tolist())]).reshape(
        indices.shape
    )


PICKS = SEED(9).integers(0, 60, (64, 3, 11)).astype(np.uint32)
MANY = SEED(10).integers(0, 96, (128, 1100)).astype(np.uint32)
DOUBLE = SEED(14).integers(-99, 99, (128, 192)).astype(np.int32)
SHORT = SEED(11).integers(0, 40, (32, 8)).astype(np.uint32)

GATHERED = [
    gathered("flattened axes", tile(X), tile(PICKS), empty((64, 33)), each(X, PICKS).reshape(64, 33)),
    gathered("more than there are", tile(WORDS), tile(MANY), empty((128, 1100), "int32"), each(WORDS, MANY)),
    gathered(
        "every bit of float16", Tile(PATTERNS.view(np.float16), dtype_of("float16")), tile(SHORT),
        empty((32, 8), "uint16", view=lambda t: t.view("float16")), each(PATTERNS, SHORT),
    ),
    gathered(
        "packed elements", tile(WORDS[:32], view=lambda t: t.view("float8_e4m3fn_x4")), tile(SHORT),
        empty((32, 8), "int32", view=lambda t: t.view("float8_e4m3fn_x4")), each(WORDS[:32], SHORT),
    ),
    gathered(
        "views", tile(DOUBLE, view=lambda t: t[64:128, ::2]), tile(MANY, view=lambda t: t[0:64, 0:30:3]),
        empty((64, 10), "int32"), each(DOUBLE[64:, ::2], MANY[:64, 0:30:3]),
    ),
]  # fmt: skip

GATHERED_REFUSED = [
    gathered("another dtype", tile(WORDS), tile(MANY), empty((128, 1100)), breaks="the same dtype"),
    gathered("fewer partitions", tile(WORDS[:64]), tile(MANY), empty((128, 1100), "int32"),
             breaks="the same number of partitions"),
    gathered("other sizes", tile(WORDS), tile(MANY), empty((128, 1099), "int32"),
             breaks="the same number of elements per partition"),
    gathered("int32 indices", tile(WORDS), tile(MANY, "int32"), empty((128, 1100), "int32"),
             breaks="`indices` must have dtype"),
    gathered("in PSUM", tile(WORDS), tile(MANY[:, :8]), empty((128, 8), "int32", PSUM), breaks="`dst` must be in sbuf"),
]  # fmt: skip


# -- nc_stream_shuffle --------------------------------------------------------------------------------


def shuffle(
    name: str, src: Tile, dst: Tile, mask: Any, expected: Any = None, breaks: str = ""
) -> Case:
    return Case(
        "nc_stream_shuffle", name, tiles={"dst": dst, "src": src}, breaks=breaks,
        run=lambda t: isa.nc_stream_shuffle(t.dst, t.src, mask), expected={} if breaks else {"dst": expected},
    )  # fmt: skip


def moved(src: np.ndarray, before: np.ndarray, mask: list[int]) -> np.ndarray:
    after = before.copy()
    for p in range(len(before)):
        if mask[p % 32] != 255:
            after[p] = src[p // 32 * 32 + mask[p % 32]].reshape(after[p].shape)
    return after


NEXT = [(k - 1) % 32 for k in range(32)]
MIXED = [int(k) for k in SEED(12).integers(0, 32, 32)]
HOLES = [255 if k % 3 == 0 else m for k, m in enumerate(MIXED)]
OLD = tile(SEED(13).integers(-9, 9, (128, 96)).astype(np.int32))


def _within(t):
    isa.nc_stream_shuffle(t.dst, t.dst, HOLES)


def _elsewhere(t):
    isa.nc_stream_shuffle(t.dst[64:96], t.src[32:40], [7, 0, *[255] * 30])


AWAY = OLD.data.copy()
AWAY[64:66] = WORDS[[39, 32]]

SHUFFLED = [
    shuffle("one quadrant", tile(WORDS[:32]), empty((32, 96), "int32"), NEXT, np.roll(WORDS[:32], 1, axis=0)),
    shuffle("four quadrants", tile(WORDS), empty((128, 96), "int32"), MIXED, moved(WORDS, OLD.data, MIXED)),
    shuffle("255 keeps", tile(WORDS), OLD, HOLES, moved(WORDS, OLD.data, HOLES)),
    shuffle("255 keeps all", tile(WORDS), OLD, [255] * 32, OLD.data),
    shuffle("one row to all", tile(WORDS[:1]), empty((32, 96), "int32"), [0] * 32, np.repeat(WORDS[:1], 32, 0)),
    shuffle("to fewer partitions", tile(WORDS[:4]), empty((3, 96), "int32"), [3, 1, 2, *range(29)], WORDS[[3, 1, 2]]),
    shuffle(
        "more axes, in PSUM", tile(X, "bfloat16", PSUM), empty((64, 60), "bfloat16", PSUM), NEXT,
        moved(tile(X, "bfloat16").data.astype(float), np.zeros((64, 60)), NEXT),
    ),
    shuffle(
        "every bit of float16", Tile(PATTERNS.view(np.float16), dtype_of("float16")),
        empty((32, 40), "uint16", view=lambda t: t.view("float16")), MIXED, PATTERNS[MIXED],
    ),
    Case("nc_stream_shuffle", "in place", {"dst": tile(WORDS)}, _within, {"dst": moved(WORDS, WORDS, HOLES)}),
    Case(
        "nc_stream_shuffle", "between quadrants", {"dst": OLD, "src": tile(WORDS)}, _elsewhere, {"dst": AWAY},
    ),
]  # fmt: skip

MASK = "`shuffle_mask` must be a list of 32"
SHUFFLED_REFUSED = [
    shuffle("31 entries", tile(WORDS), OLD, NEXT[:31], breaks=MASK),
    shuffle("entry of 32", tile(WORDS), OLD, [32, *NEXT[1:]], breaks=MASK),
    shuffle("entry of -1", tile(WORDS), OLD, [-1, *NEXT[1:]], breaks=MASK),
    shuffle("a float", tile(WORDS), OLD, [0.0, *NEXT[1:]], breaks=MASK),
    shuffle("rows src lacks", tile(WORDS[:16]), empty((32, 96), "int32"), NEXT, breaks="partitions that `src` has"),
    shuffle("one row to two quadrants", tile(WORDS[:1]), empty((64, 96), "int32"), [0] * 32,
            breaks="partitions that `src` has"),
    shuffle("a row at 32 to 64 partitions", tile(WORDS, view=lambda t: t[32:64]), empty((64, 96), "int32"),
            [*[255] * 31, 0], breaks="partitions that `src` has"),
    shuffle("64 partitions to 32 at 32", tile(WORDS, view=lambda t: t[0:64]), empty((64, 96), "int32",
            view=lambda t: t[32:64]), NEXT, breaks="must both start at 0"),
    shuffle("another dtype", tile(WORDS), empty((128, 96)), NEXT, breaks="the same dtype"),
    shuffle("another size", tile(WORDS), empty((128, 95), "int32"), NEXT, breaks="the same number of elements"),
]  # fmt: skip

CASES = [*LOCAL, *LOCAL_REFUSED, *GATHERED, *GATHERED_REFUSED, *SHUFFLED, *SHUFFLED_REFUSED]
