"""Cases of iota and affine_select; positions are Python integers, so nothing wraps or rounds in the expectation."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from nki_lab.isa.control import register_alloc
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Tile, empty, isa, nl, rounded, sample, tile

FP32_MIN = float(np.finfo(np.float32).min)


def positions(
    partitions: int, pattern: list[list[int]], offset: int = 0, multiplier: int = 0
) -> list[list[int]]:
    """Return the value of every element, one list per partition."""
    walk = list(product(*(range(number) for _, number in pattern)))
    steps = [step for step, _ in pattern]
    return [
        [offset + p * multiplier + sum(s * n for s, n in zip(steps, at, strict=True)) for at in walk]
        for p in range(partitions)
    ]  # fmt: skip


def wrapped(values: list[list[int]]) -> np.ndarray:
    """Keep the low 32 bits, as signed integers."""
    return np.array([[(v + 2**31) % 2**32 - 2**31 for v in row] for row in values], np.int32)


# -- iota ---------------------------------------------------------------------------------------------


def counted(name: str, dst: Tile, expected: Any, *args: Any, **params: Any) -> Case:
    """Make a case that fills `dst`."""
    return Case(
        "iota", name, {"dst": dst}, lambda t: isa.iota(t.dst, *args, **params), {"dst": expected}
    )


FOUR = [[1000, 2], [-100, 3], [7, 2], [1, 4]]
COLUMN = empty((96, 9), "int32", view=lambda t: t[32:64, 1:9:2])
FILLED = COLUMN.data.copy()
FILLED[32:64, 1:9:2] = positions(32, [[2, 4]], 5, -3)

COUNTED = [
    counted("a row", empty((1, 512), "int32"), [range(512)], [[1, 512]]),
    counted("a column", empty((128, 1), "int32"), [[p] for p in range(128)], [[0, 1]], channel_multiplier=1),
    counted("downwards", empty((1, 300), "int32"), [range(9, -291, -1)], [[-1, 300]], offset=9),
    counted("four axes", empty((40, 48), "int32"), positions(40, FOUR, 11, 13), FOUR, 11, 13),
    counted(
        "another shape", empty((40, 6, 8), "int32"), np.reshape(positions(40, FOUR, 0, -5), (40, 6, 8)), FOUR,
        channel_multiplier=-5,
    ),
    counted("a view", COLUMN, FILLED, [[2, 4]], offset=5, channel_multiplier=-3),
    counted(
        "32 bits wrap around", empty((8, 5), "int32"), wrapped(positions(8, [[2**30, 5]], 2**31 - 2, 2**31 - 1)),
        [[2**30, 5]], offset=2**31 - 2, channel_multiplier=2**31 - 1,
    ),
    counted("as float32", empty((8, 5)), np.float32(positions(8, [[1, 5]], 2**24, 10)), [[1, 5]], 2**24, 10),
    counted(
        "as bfloat16", empty((8, 300), "bfloat16"), rounded(positions(8, [[1, 300]], -7, 2), "bfloat16"),
        [[1, 300]], -7, 2,
    ),
    counted(
        "as int8 saturates", empty((2, 300), "int8"), np.clip(positions(2, [[1, 300]], -150, 1), -128, 127),
        [[1, 300]], offset=-150, channel_multiplier=1,
    ),
]  # fmt: skip


def uncounted(name: str, breaks: str, pattern: Any, dst: Tile | None = None, **params: Any) -> Case:
    """Make a case of one broken rule."""
    tiles = {"dst": dst or empty((8, 12), "int32")}
    return Case("iota", name, tiles, lambda t: isa.iota(t.dst, pattern, **params), breaks=breaks)


PATTERN = "`pattern` must be a list of 1 to 4 pairs"
UNCOUNTED = [
    uncounted("no pattern", PATTERN, []),
    uncounted("five axes", PATTERN, [[1, 1]] * 4 + [[1, 12]]),
    uncounted("a flat pattern", PATTERN, [1, 12]),
    uncounted("a fraction", PATTERN, [[0.5, 12]]),
    uncounted("a number of 0", PATTERN, [[1, 0]]),
    uncounted("a step of 33 bits", PATTERN, [[2**31, 12]]),
    uncounted("an offset of 33 bits", "`offset` must be an integer, a register", [[1, 12]], offset=-(2**31) - 1),
    uncounted("a fractional multiplier", "must be integers of 32 bits", [[1, 12]], channel_multiplier=0.5),
    uncounted("another number of elements", "must multiply to the elements per partition", [[1, 2], [1, 5]]),
    uncounted("into PSUM", "`dst` must be in sbuf", [[1, 12]], empty((8, 12), space=PSUM)),
    uncounted("packed", "must not have a packed", [[1, 12]], empty((8, 12), "float8_e4m3fn_x4")),
]  # fmt: skip


# -- affine_select ------------------------------------------------------------------------------------

X = sample(40, 48, seed=1)
COMPARE = {
    "equal": lambda v: v == 0,
    "not_equal": lambda v: v != 0,
    "greater": lambda v: v > 0,
    "greater_equal": lambda v: v >= 0,
    "less": lambda v: v < 0,
    "less_equal": lambda v: v <= 0,
}


def kept(values: list[list[int]], op: str) -> np.ndarray:
    return np.array([[COMPARE[op](v) for v in row] for row in values])


def selected(
    name: str,
    source: Tile,
    dst: Tile,
    expected: Any,
    pattern: list[list[int]],
    multiplier: int,
    false: float,
    **params: Any,
) -> Case:
    """Make a case of affine_select."""
    return Case(
        "affine_select",
        name,
        tiles={"dst": dst, "source": source},
        run=lambda t: isa.affine_select(t.dst, pattern, multiplier, t.source, false, **params),
        expected={"dst": expected},
    )


CAUSAL = kept(positions(40, [[-1, 48]], 0, 1), "greater_equal")
WORDS = np.random.default_rng(2).integers(-(2**31), 2**31, (40, 48), np.int32)
EDGE = positions(8, [[2**30, 4]], 0, 2**29)  # some sums pass 2**31
SHORTS = np.random.default_rng(3).integers(-(2**15), 2**15, (8, 4), np.int16)

SELECTED = [
    selected(
        "causal mask", tile(X), empty((40, 48)), np.where(CAUSAL, X, FP32_MIN), [[-1, 48]], 1, FP32_MIN,
        cmp_op=nl.greater_equal,
    ),
    *(
        selected(
            f"nl.{op}", tile(X), empty((40, 48)),
            np.where(kept(positions(40, [[3, 6], [-2, 8]], 5, -1), op), X, np.float32(0.1)),
            [[3, 6], [-2, 8]], -1, 0.1, cmp_op=getattr(nl, op), offset=5,
        )
        for op in COMPARE
    ),
    selected(
        "equal by default", tile(np.ones((40, 40))), empty((40, 40)), np.eye(40), [[1, 40]], -1, 0.0,
    ),
    selected(
        "other shapes", tile(X.reshape(40, 4, 12)), empty((40, 8, 6)),
        np.where(CAUSAL, X, -1.5).reshape(40, 8, 6), [[-12, 4], [-1, 12]], 1, -1.5, cmp_op=nl.greater_equal,
    ),
    selected(
        "32-bit integers stay exact", tile(WORDS), empty((40, 48), "int32"), np.where(CAUSAL, WORDS, -(2**31)),
        [[-1, 48]], 1, FP32_MIN, cmp_op=nl.greater_equal,
    ),
    selected(
        "uint32 stays exact", tile(WORDS.view(np.uint32)), empty((40, 48), "uint32"),
        np.where(CAUSAL, WORDS.view(np.uint32), np.uint32(3)), [[-1, 48]], 1, 2.6, cmp_op=nl.greater_equal,
    ),
    selected(
        "a narrower result", tile(X), empty((40, 48), "bfloat16"), rounded(np.where(CAUSAL, X, FP32_MIN), "bfloat16"),
        [[-1, 48]], 1, FP32_MIN, cmp_op=nl.greater_equal,
    ),
    selected(
        "positions wrap around", tile(SHORTS), empty((8, 4), "int16"),
        np.where(kept(wrapped(EDGE).tolist(), "less"), SHORTS, 9), [[2**30, 4]], 2**29, 9, cmp_op=nl.less,
    ),
    Case(
        "affine_select", "onto its input", tiles={"dst": tile(X)},
        run=lambda t: isa.affine_select(t.dst, [[-1, 48]], 1, t.dst, 7.0, cmp_op=nl.greater_equal),
        expected={"dst": np.where(CAUSAL, X, 7)},
    ),
]  # fmt: skip


def unselected(
    name: str, breaks: str, source: Tile | None = None, dst: Tile | None = None, **changes: Any
) -> Case:
    """Make a case of one broken rule."""
    params = {"pattern": [[-1, 48]], "channel_multiplier": 1, "on_false_value": 0.0} | changes
    return Case(
        "affine_select",
        name,
        tiles={"dst": dst or empty((40, 48)), "source": source or tile(X)},
        run=lambda t: isa.affine_select(t.dst, on_true_tile=t.source, **params),
        breaks=breaks,
    )


UNSELECTED = [
    unselected("a fractional multiplier", "must be integers of 32 bits", channel_multiplier=0.5),
    unselected("no pairs", PATTERN, pattern=[48]),
    unselected("an offset of 33 bits", "`offset` must be an integer, a register or a scalar, of 32 bits", offset=2**31),
    unselected("a string for false", "`on_false_value` must be a number", on_false_value="0"),
    unselected("an arithmetic operator", "`cmp_op` must be", cmp_op=nl.add),
    unselected("fewer partitions", "the same number of partitions", tile(X[:32])),
    unselected("fewer elements", "the same number of elements per partition", tile(X[:, :40])),
    unselected("a shorter pattern", "must multiply to the elements per partition", pattern=[[-1, 47]]),
    unselected("input in PSUM", "`on_true_tile` must be in sbuf", tile(X, space=PSUM)),
    unselected("packed", "must not have a packed", dst=empty((40, 48), "float8_e5m2_x4")),
]  # fmt: skip

# -- offsets in registers ---------------------------------------------------------------------------------------------


def from_register(value: int, call: Any) -> Any:
    """Return a program that passes a register which gets `value` from a tile as it runs."""

    def run(t: Any) -> None:
        isa.register_load(register := register_alloc(), t.value)
        call(t, register)

    return run


def in_register(instruction: str, value: int, call: Any, expected: Any, **tiles: Tile) -> Case:
    tiles = {"value": tile(np.array([[value]], np.int32)), **tiles}
    run, expected = from_register(value, call), {"dst": expected}
    return Case(instruction, f"register {value}", tiles, run, expected)


REGISTERS = [
    *(
        in_register(
            "iota", value, lambda t, r: isa.iota(t.dst, [[3, 20]], r, -2), wrapped(positions(8, [[3, 20]], value, -2)),
            dst=empty((8, 20), "int32"),
        )
        for value in (0, -77, 2**31 - 5)
    ),
    *(
        in_register(
            "affine_select", value, lambda t, r: isa.affine_select(t.dst, [[-1, 48]], 1, t.source, -2.0, nl.less, r),
            np.where(kept(positions(40, [[-1, 48]], value, 1), "less"), X, -2.0),
            dst=empty((40, 48)), source=tile(X),
        )
        for value in (-3, 21)
    ),
]  # fmt: skip

CASES = [*COUNTED, *UNCOUNTED, *SELECTED, *UNSELECTED, *REGISTERS]
