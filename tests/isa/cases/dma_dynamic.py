"""Cases of DMA whose rows a tile of indices chooses: NumPy indexing is the expectation."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.ir.tensor.view import DynamicSlice
from nki_lab.isa.control import register_alloc
from nki_lab.isa.enums import dge_mode, oob_mode
from nki_lab.targets.spaces import PRIVATE_HBM, SHARED_HBM
from tests.isa.case import Case, Tile, empty, isa, nl, rounded, sample, tile

NEW = ("trn2", "trn3")
SKIP = {"oob_mode": oob_mode.skip}
RNG = np.random.default_rng(31)
TABLE = sample(60, 24, seed=1)
ROWS = sample(20, 24, seed=2)
BEFORE = sample(20, 24, seed=3)
INDEX = RNG.permutation(60)[:20].reshape(20, 1).astype(np.int32)
AT = INDEX[:, 0]
#: Two indices are out of range.
LOOSE = INDEX.copy()
LOOSE[[4, 11]] = [[60], [2**31 - 1]]
FITS = LOOSE[:, 0] < 60


def hbm(data: Any, dtype: str | None = None) -> Tile:
    return tile(data, dtype, PRIVATE_HBM)


def moved(
    instruction: str, name: str, run: Any, expected: Any = None, *, targets: tuple[str, ...] = NEW, breaks: str = "",
    **tiles: Tile,
) -> Case:  # fmt: skip
    """Make a case; `run(t)` gets the tiles."""
    found = {} if breaks else {"dst": expected}
    return Case(instruction, name, tiles, run, found, targets=targets, breaks=breaks)


def put(table: np.ndarray, at: Any, rows: np.ndarray) -> np.ndarray:
    table = table.copy()
    table[at] = rows
    return table


# -- dma_copy -----------------------------------------------------------------------------------------


def gather(t: Any, **params: Any) -> None:
    isa.dma_copy(t.dst, t.table.vector_select(0, t.index), **params)


def scatter(t: Any, **params: Any) -> None:
    isa.dma_copy(t.dst.vector_select(0, t.index), t.rows, **params)


def gather_part(t: Any) -> None:
    part = t.table.ap([[1, 20], [3, 5]], offset=2, vector_offset=t.index)
    isa.dma_copy(t.dst, part, dge_mode=dge_mode.swdge)


def gather_and_scatter(t: Any, **params: Any) -> None:
    isa.dma_copy(t.dst.vector_select(0, t.into), t.table.vector_select(0, t.index), **params)


INTO = RNG.permutation(40)[:20].reshape(20, 1).astype(np.uint32)
WIDE = sample(40, 24, seed=4)
SPARSE = INTO.copy()
SPARSE[[0, 11]] = 40
INTEGERS = RNG.integers(-(2**31), 2**31, (60, 24)).astype(np.int32)
BOTH = FITS & (SPARSE[:, 0] < 40)

COPIES = [
    moved("dma_copy", "gathers rows", gather, TABLE[AT], table=hbm(TABLE), index=tile(INDEX), dst=empty((20, 24))),
    moved("dma_copy", "gathers into HBM", gather, TABLE[AT], table=hbm(TABLE), index=tile(INDEX),
          dst=empty((20, 24), space=SHARED_HBM)),
    moved("dma_copy", "gathers and casts", gather, rounded(TABLE, "bfloat16")[AT], table=hbm(TABLE), index=tile(INDEX),
          dst=empty((20, 24), "bfloat16")),
    moved("dma_copy", "gathers parts of rows", gather_part, TABLE[AT][:, 2:17:3], table=hbm(TABLE), index=tile(INDEX),
          dst=empty((20, 5))),
    moved("dma_copy", "gathers and skips", lambda t: gather(t, **SKIP),
          np.where(FITS[:, None], TABLE[np.where(FITS, LOOSE[:, 0], 0)], BEFORE), table=hbm(TABLE), index=tile(LOOSE),
          dst=tile(BEFORE)),
    moved("dma_copy", "gathers integers and skips", lambda t: gather(t, **SKIP),
          np.where(FITS[:, None], INTEGERS[np.where(FITS, LOOSE[:, 0], 0)], 7), table=hbm(INTEGERS),
          index=tile(LOOSE), dst=tile(np.full((20, 24), 7, np.int32))),
    moved("dma_copy", "scatters rows", scatter, put(TABLE, AT, ROWS), rows=tile(ROWS), index=tile(INDEX),
          dst=hbm(TABLE)),
    moved("dma_copy", "scatters and skips", lambda t: scatter(t, **SKIP),
          put(TABLE, LOOSE[FITS, 0], ROWS[FITS]), rows=tile(ROWS), index=tile(LOOSE), dst=hbm(TABLE)),
    moved("dma_copy", "gathers and scatters", gather_and_scatter, put(WIDE, INTO[:, 0], TABLE[AT]), table=hbm(TABLE),
          index=tile(INDEX), into=tile(INTO), dst=hbm(WIDE)),
    moved("dma_copy", "gathers, scatters and skips", lambda t: gather_and_scatter(t, **SKIP),
          put(WIDE, SPARSE[BOTH, 0], TABLE[LOOSE[BOTH, 0]]), table=hbm(TABLE), index=tile(LOOSE), into=tile(SPARSE),
          dst=hbm(WIDE)),
]  # fmt: skip


def by_register(t: Any, value: int, **params: Any) -> None:
    isa.dma_copy(t.dst, t.table.select(0, register_alloc(value)), **params)


MOVES = [
    moved("dma_copy", f"by a register, {mode.name}", lambda t, m=mode: by_register(t, 41, dge_mode=m), TABLE[41:42],
          table=hbm(TABLE), dst=empty((1, 24)))
    for mode in dge_mode
] + [
    moved("dma_copy", "by a register on an older chip", lambda t: by_register(t, 41), TABLE[41:42],
          targets=("trn1", *NEW), table=hbm(TABLE), dst=empty((1, 24))),
    moved("dma_copy", "by a register, skipped", lambda t: by_register(t, 60, **SKIP), BEFORE[:1],
          table=hbm(TABLE), dst=tile(BEFORE[:1])),
]  # fmt: skip

REFUSED_COPIES = [
    moved("dma_copy", "gathers by hardware", lambda t: gather(t, dge_mode=dge_mode.hwdge),
          breaks="or swdge when a tile of indices", table=hbm(TABLE), index=tile(INDEX), dst=empty((20, 24))),
    moved("dma_copy", "gathers by several columns",
          lambda t: isa.dma_copy(t.dst, t.table.ap([[24, 20], [1, 24]], vector_offset=t.index)),
          breaks="must have one partition for each row", table=hbm(TABLE), index=tile(INDEX.reshape(10, 2)),
          dst=empty((20, 24))),
]  # fmt: skip


# -- dma_transpose ------------------------------------------------------------------------------------

HALVES = RNG.integers(-30000, 30000, (70, 40)).astype(np.int16)
BLOCKS = RNG.integers(-30000, 30000, (70, 1, 3, 40)).astype(np.int16)
FEW = RNG.integers(0, 70, (48, 1)).astype(np.uint32)
MANY = RNG.integers(0, 70, (128, 2)).astype(np.uint32)
FLAT = MANY.T.reshape(-1)
LONG = MANY.copy()
LONG[3, 0], LONG[9, 1] = 70, 2**32 - 1
IN_RANGE = LONG.T.reshape(-1) < 70
OLD = RNG.integers(-30000, 30000, (40, 256)).astype(np.int16)
TURNED = np.where(IN_RANGE, HALVES[np.where(IN_RANGE, LONG.T.reshape(-1), 0)].T, OLD)


def turn(rows: int, **params: Any) -> Any:
    def run(t: Any) -> None:
        width = t.table.shape[-1]
        gathered = t.table.ap([[width, rows], [1, width]], vector_offset=t.index)
        isa.dma_transpose(t.dst, gathered, **params)

    return run


def turn_blocks(t: Any) -> None:
    _, one, three, width = t.table.shape
    pattern = [[one * three * width, 48], [three * width, one], [width, three], [1, width]]
    isa.dma_transpose(t.dst, t.table.ap(pattern, vector_offset=t.index), dge_mode=dge_mode.swdge)


def halves(index: np.ndarray, dst: Tile, table: np.ndarray = HALVES) -> dict[str, Tile]:
    return {"table": hbm(table), "index": tile(index), "dst": dst}


TRANSPOSES = [
    moved("dma_transpose", "gathers", turn(48), HALVES[FEW[:, 0]].T, **halves(FEW, empty((40, 48), "int16"))),
    moved("dma_transpose", "gathers by several columns", turn(256), HALVES[FLAT].T,
          **halves(MANY, empty((40, 256), "int16"))),
    moved("dma_transpose", "gathers by some of the indices", turn(144), HALVES[FLAT[:144]].T,
          **halves(MANY, empty((40, 144), "int16"))),
    moved("dma_transpose", "gathers and skips", turn(256, **SKIP), TURNED, **halves(LONG, tile(OLD))),
    moved("dma_transpose", "gathers blocks", turn_blocks, BLOCKS[FEW[:, 0]].transpose(3, 1, 2, 0),
          **halves(FEW, empty((40, 1, 3, 48), "int16"), BLOCKS)),
    moved("dma_transpose", "by a register, skipped",
          lambda t: isa.dma_transpose(t.dst, t.table[DynamicSlice(register_alloc(60), 16)], **SKIP), OLD[:, :16],
          table=hbm(HALVES), dst=tile(OLD[:, :16])),
    moved("dma_transpose", "by a register, swdge",
          lambda t: isa.dma_transpose(t.dst, t.table[DynamicSlice(register_alloc(50), 16)], dge_mode=dge_mode.swdge),
          HALVES[50:66].T, table=hbm(HALVES), dst=empty((40, 16), "int16")),
]  # fmt: skip


def unturned(
    name: str, breaks: str, index: np.ndarray, rows: int, table: np.ndarray = HALVES, run: Any = None, **params: Any
) -> Case:  # fmt: skip
    dst = empty((*table.shape[:0:-1], rows), str(table.dtype), SHARED_HBM)
    return moved(
        "dma_transpose",
        name,
        run or turn(rows, **params),
        breaks=breaks,
        **halves(index, dst, table),
    )


def _two_of_both(t: Any) -> None:
    pattern = [[24, 16], [12, 2], [4, 3], [1, 4]]
    isa.dma_transpose(t.dst, t.table.ap(pattern, vector_offset=t.index))


TWO_OF_BOTH = np.zeros((30, 2, 3, 4), np.int16)
REFUSED_TRANSPOSES = [
    unturned("gathers by hardware", "or swdge when a tile of indices", FEW, 48, dge_mode=dge_mode.hwdge),
    moved("dma_transpose", "gathers two axes", _two_of_both, breaks="must have size 1 on axis 1 or 2",
          **halves(FEW[:16], empty((4, 2, 3, 16), "int16"), TWO_OF_BOTH)),
    unturned("gathers long rows", "at most 128 elements on its last axis", FEW, 48, np.zeros((50, 130), np.int16)),
    unturned("gathers words", "must have a dtype of 2 bytes", FEW, 48, np.zeros((50, 40), np.int32)),
    unturned("gathers 40 rows", "a multiple of 16 rows", FEW, 40),
    unturned("signed indices", "must be uint32", FEW.astype(np.int32), 48),
    unturned("indices on 24 partitions", "on 16 to 128 partitions", np.zeros((24, 1), np.uint32), 16),
    unturned("two columns on 64 partitions", "on 16 to 128 partitions", np.zeros((64, 2), np.uint32), 128),
]  # fmt: skip


# -- dma_compute --------------------------------------------------------------------------------------


def scatter_add(t: Any, **params: Any) -> None:
    rows = t.dst.vector_select(0, t.index)
    isa.dma_compute(rows, [t.rows, rows], nl.add, **params)


def gather_add(t: Any, **params: Any) -> None:
    isa.dma_compute(t.dst, [t.table.vector_select(0, t.index), t.dst], nl.add, **params)


def same_pattern_twice(t: Any) -> None:
    views = [t.dst.ap([[24, 20], [1, 24]], vector_offset=t.index) for _ in range(2)]
    isa.dma_compute(views[0], [views[1], t.rows], nl.add)


SUMS = put(TABLE, AT, TABLE[AT] + ROWS)
LOOSE_SUMS = put(TABLE, LOOSE[FITS, 0], TABLE[LOOSE[FITS, 0]] + ROWS[FITS])
LOOSE_ROWS = np.where(FITS[:, None], BEFORE + TABLE[np.where(FITS, LOOSE[:, 0], 0)], BEFORE)
REPEATED = INDEX[[0, 1, 0, *range(3, 20)]]
GATHER = {"table": hbm(TABLE), "dst": tile(BEFORE)}
SCATTER = {"rows": tile(ROWS), "dst": hbm(TABLE)}

ADDED = [
    moved("dma_compute", "scatters", scatter_add, SUMS, index=tile(INDEX), **SCATTER),
    moved("dma_compute", "scatters to a pattern made twice", same_pattern_twice, SUMS, index=tile(INDEX), **SCATTER),
    moved("dma_compute", "scatters and skips", lambda t: scatter_add(t, **SKIP), LOOSE_SUMS, index=tile(LOOSE),
          **SCATTER),
    moved("dma_compute", "gathers", gather_add, BEFORE + TABLE[AT], index=tile(INDEX), **GATHER),
    moved("dma_compute", "gathers a row twice", gather_add, BEFORE + TABLE[REPEATED[:, 0]], index=tile(REPEATED),
          **GATHER),
    moved("dma_compute", "gathers and skips", lambda t: gather_add(t, **SKIP), LOOSE_ROWS, index=tile(LOOSE), **GATHER),
    moved("dma_compute", "gathers and rounds once", gather_add,
          rounded(rounded(BEFORE, "bfloat16").astype(float) + TABLE[AT], "bfloat16"), index=tile(INDEX),
          table=hbm(TABLE), dst=tile(BEFORE, "bfloat16")),
]  # fmt: skip


def unadded(name: str, breaks: str, of: Any, **params: Any) -> Case:
    """Make a refused case of `of(t)` = (dst, srcs)."""
    tiles = {
        "table": hbm(TABLE), "rows": tile(ROWS), "more": tile(ROWS), "index": tile(INDEX), "dst": tile(BEFORE),
        "wide": tile(INDEX.reshape(10, 2)), "other": tile(INDEX), "into": hbm(TABLE),
    }  # fmt: skip
    run = lambda t: isa.dma_compute(*of(t), nl.add, **params)  # noqa: E731
    return moved("dma_compute", name, run, breaks=breaks, **tiles)


PAIR = "a scatter must have `dst` as one of `srcs`"
REFUSED_SUMS = [
    unadded("by a register", "must not be moved by a register",
            lambda t: (t.dst[0:1], [t.table.select(0, register_alloc(3)), t.rows[0:1]])),
    unadded("by several columns", "must have one partition for each row",
            lambda t: (t.dst, [t.table.ap([[24, 20], [1, 24]], vector_offset=t.wide), t.dst])),
    unadded("three sources", "exactly 2 tensors",
            lambda t: (t.dst, [t.table.vector_select(0, t.index), t.dst, t.rows])),
    unadded("a sum of two others", PAIR, lambda t: (t.dst, [t.table.vector_select(0, t.index), t.rows])),
    unadded("scattered by other indices", PAIR,
            lambda t: (t.into.vector_select(0, t.index), [t.into.vector_select(0, t.other), t.rows])),
    unadded("scattered from HBM", PAIR,
            lambda t: (d := t.into.vector_select(0, t.index), [d, t.table[0:20]])),
    unadded("indices that repeat", "`unique_indices` must be True",
            lambda t: (t.dst, [t.table.vector_select(0, t.index), t.dst]), unique_indices=False),
]  # fmt: skip

CASES = [
    *COPIES,
    *MOVES,
    *REFUSED_COPIES,
    *TRANSPOSES,
    *REFUSED_TRANSPOSES,
    *ADDED,
    *REFUSED_SUMS,
]
