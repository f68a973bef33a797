"""Cases of range_select and select_reduce, and of the accumulator they keep the maximum in."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.isa.enums import reduce_cmd
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Tile, empty, isa, nl, rounded, sample, tile

NEW = ("trn2", "trn3")
FP32_MIN = np.finfo(np.float32).min
X = sample(128, 60, seed=1)
RNG = np.random.default_rng(2)
LOW = RNG.integers(-5, 40, (128, 1)).astype(np.float32)
HIGH = LOW + RNG.integers(-3, 40, (128, 1))  # some ranges are empty


def in_range(start: int, op0: str, op1: str, count: int = 60) -> np.ndarray:
    """Return which positions pass both comparisons, one Python comparison each."""
    compare = {
        "equal": lambda a, b: a == b,
        "less": lambda a, b: a < b,
        "less_equal": lambda a, b: a <= b,
        "greater": lambda a, b: a > b,
        "greater_equal": lambda a, b: a >= b,
    }
    return np.array(
        [
            [compare[op0](start + k, low) and compare[op1](start + k, high) for k in range(count)]
            for low, high in zip(LOW[:, 0], HIGH[:, 0], strict=True)
        ]
    )


def largest(values: np.ndarray) -> np.ndarray:
    return np.array([[max(row)] for row in values.reshape(len(values), -1).tolist()])


# -- range_select -------------------------------------------------------------------------------------


def ranged(
    name: str,
    expected: Any,
    *,
    source: Tile | None = None,
    dst: Tile | None = None,
    result: Tile | None = None,
    maximum: Any = None,
    op0: Any = nl.greater_equal,
    op1: Any = nl.less,
    bounds: tuple[Tile, Tile] | None = None,
    targets: tuple[str, ...] = NEW,
    breaks: str = "",
    **params: Any,
) -> Case:
    """Make a case of one range_select; the maximum is expected when `maximum` is given."""
    low, high = bounds or (tile(LOW), tile(HIGH))
    tiles = {
        "dst": dst or empty((128, 60)),
        "source": source or tile(X),
        "low": low,
        "high": high,
        "largest": result or empty((128, 1)),
    }
    kept = {} if maximum is None else {"largest": maximum}

    def run(t):
        given = params if maximum is None else params | {"reduce_res": t.largest}
        isa.range_select(t.dst, t.source, op0, op1, t.low, t.high, **given)

    wanted = {} if breaks else {"dst": expected, **kept}
    return Case("range_select", name, tiles, run, wanted, targets=targets, breaks=breaks)


HALF_OPEN = np.where(in_range(7, "greater_equal", "less"), X, FP32_MIN)
HALF_OPEN8 = np.where(
    in_range(7, "greater_equal", "less"), rounded(X, "float8_e5m2").astype(np.float32), FP32_MIN
)
OPERATORS = [
    ranged(
        f"nl.{op0} and nl.{op1}",
        np.where(in_range(-4, op0, op1), X, FP32_MIN),
        op0=getattr(nl, op0), op1=getattr(nl, op1), range_start=-4,
    )
    for op0, op1 in (
        ("equal", "less"), ("greater", "less_equal"), ("less_equal", "greater"), ("greater_equal", "equal"),
    )
]  # fmt: skip


def _run_chain(t):
    """Reduce three tiles into one maximum; only the last call hands it out."""
    for k, (tile_in, command) in enumerate(
        ((t.a, reduce_cmd.reset_reduce), (t.b, reduce_cmd.reduce), (t.c, reduce_cmd.reduce))
    ):
        isa.range_select(
            t.dst, tile_in, nl.greater_equal, nl.less, t.low, t.high, reduce_cmd=command,
            reduce_res=t.largest if k == 2 else None, range_start=20 * k,
        )  # fmt: skip


PARTS = [X[:, :20], X[:, 20:40], X[:, 40:]]
CHAIN = np.where(in_range(0, "greater_equal", "less"), X, FP32_MIN)

RANGES = [
    *OPERATORS,
    ranged("with a maximum", HALF_OPEN, maximum=largest(HALF_OPEN), range_start=7),
    ranged("nl.max", HALF_OPEN, maximum=largest(HALF_OPEN), range_start=7, reduce_op=nl.max),
    ranged(
        "bfloat16 keeps the maximum", rounded(HALF_OPEN, "bfloat16"), dst=empty((128, 60), "bfloat16"),
        maximum=largest(HALF_OPEN), range_start=7,  # FP32_MIN becomes -inf in dst, not in the maximum
    ),
    ranged(
        "narrow maximum", HALF_OPEN, result=empty((128, 1), "float16"), range_start=7,
        maximum=rounded(largest(HALF_OPEN), "float16"),
    ),
    ranged(
        "float8 input, other axes", HALF_OPEN8.reshape(128, 5, 12),
        source=tile(X, "float8_e5m2"), dst=empty((128, 5, 12)), maximum=largest(HALF_OPEN8), range_start=7,
    ),
    ranged(
        "within PSUM", HALF_OPEN, source=tile(X, space=PSUM), dst=empty((128, 60), space=PSUM),
        maximum=largest(HALF_OPEN), range_start=7,
    ),
    ranged(
        "largest positions", np.where(np.arange(60) >= 58, X, FP32_MIN), range_start=2**24 - 60,
        bounds=(tile(np.full((128, 1), 2.0**24 - 2)), tile(np.full((128, 1), 2.0**24))),
    ),
    Case(
        "range_select", "a chain of tiles",
        tiles={"dst": empty((128, 20)), "a": tile(PARTS[0]), "b": tile(PARTS[1]), "c": tile(PARTS[2]),
               "low": tile(LOW), "high": tile(HIGH), "largest": empty((128, 1))},
        run=_run_chain, expected={"dst": CHAIN[:, 40:], "largest": largest(CHAIN)}, targets=NEW,
    ),
]  # fmt: skip

COMMAND = "`reduce_cmd` must be"
RANGE_REFUSED = [
    ranged("on trn1", None, breaks="needs a target with `range_select`", targets=("trn1",)),
    ranged("not_equal", None, op0=nl.not_equal, breaks="`comp_op0` must be"),
    ranged("an arithmetic operator", None, op1=nl.add, breaks="`comp_op1` must be"),
    ranged("a sum", None, reduce_op=nl.add, breaks="`reduce_op` must be"),
    ranged("load_reduce", None, reduce_cmd=reduce_cmd.load_reduce, breaks=COMMAND),
    ranged("reset", None, reduce_cmd=reduce_cmd.reset, breaks=COMMAND),
    ranged("an idle maximum", None, maximum=0, reduce_cmd=reduce_cmd.idle, breaks="needs a `reduce_cmd` that"),
    ranged("another value", None, on_false_value=-3.4e38, breaks="`on_false_value` must be FP32_MIN"),
    ranged("a fractional start", None, range_start=0.5, breaks="`range_start` must be an integer"),
    ranged("positions past 2**24", None, range_start=2**24 - 59, breaks="`range_start` must be an integer"),
    ranged("integers", None, source=tile(X, "int32"), breaks="`on_true_tile` must have dtype"),
    ranged("bfloat16 bounds", None, bounds=(tile(LOW, "bfloat16"), tile(HIGH)), breaks="`bound0` must have dtype"),
    ranged("a row of bounds", None, bounds=(tile(LOW), tile(X)), breaks="`bound1` must be one value per partition"),
    ranged("fewer elements", None, dst=empty((128, 59)), breaks="the same number of elements per partition"),
    ranged(
        "fewer partitions", None, source=tile(X[:64]), breaks="the same number of partitions",
    ),
    ranged("packed", None, dst=empty((128, 60), "float8_e5m2_x4"), breaks="must not have a packed"),
]  # fmt: skip


# -- select_reduce ------------------------------------------------------------------------------------

MASK = RNG.integers(0, 3, (128, 60)).astype(np.uint8)  # 2 is as true as 1
VECTOR = sample(128, 1, seed=3)


def chosen(
    name: str,
    expected: Any,
    *,
    mask: Tile | None = None,
    source: Tile | None = None,
    false: Any = 0.25,
    dst: Tile | None = None,
    result: Tile | None = None,
    maximum: Any = None,
    breaks: str = "",
    **params: Any,
) -> Case:
    """Make a case of one select_reduce; `false` is a number or a tile."""
    tiles = {
        "dst": dst or empty((128, 60)),
        "mask": mask or tile(MASK),
        "source": source or tile(X),
        "largest": result or empty((128, 1)),
    }
    if isinstance(false, Tile):
        tiles["false"] = false
    if maximum is not None and "reduce_cmd" not in params:
        params["reduce_cmd"] = reduce_cmd.reset_reduce

    def run(t):
        given = params if maximum is None else params | {"reduce_res": t.largest}
        isa.select_reduce(t.dst, t.mask, t.source, getattr(t, "false", false), **given)

    wanted = {} if breaks else {"dst": expected}
    if maximum is not None and not breaks:
        wanted["largest"] = maximum
    return Case("select_reduce", name, tiles, run, wanted, breaks=breaks)


PICKED = np.where(MASK > 0, X, np.float32(0.25))
LEFT = np.where(MASK == 0, X, np.float32(0.25))
BY_ROW = np.where(MASK > 0, X, VECTOR)
SHORT = RNG.integers(-300, 300, (128, 60)).astype(np.int16)


def _run_shared(t):
    """Let both instructions take the maximum in turn: they share one accumulator."""
    isa.select_reduce(t.dst, t.mask, t.source, -10.0, reduce_cmd=reduce_cmd.reset_reduce)
    isa.range_select(
        t.dst, t.source, nl.greater_equal, nl.less, t.low, t.high, reduce_cmd=reduce_cmd.reduce
    )
    isa.select_reduce(
        t.dst, t.mask, t.other, -10.0, reduce_cmd=reduce_cmd.reduce, reduce_res=t.largest
    )


def _run_after_idle(t):
    """Reduce onto what an idle instruction left: the documents say it may be anything."""
    isa.select_reduce(t.dst, t.mask, t.source, 0.0, reduce_cmd=reduce_cmd.reset_reduce)
    isa.select_reduce(t.dst, t.mask, t.source, 0.0)
    isa.select_reduce(
        t.dst, t.mask, t.source, 0.0, reduce_cmd=reduce_cmd.reduce, reduce_res=t.largest
    )


OTHER = sample(128, 60, seed=4)
SHARED = np.maximum(
    largest(np.where(MASK > 0, X, -10.0)),
    largest(np.where(in_range(0, "greater_equal", "less"), X, FP32_MIN)),
)
SHARED = np.maximum(SHARED, largest(np.where(MASK > 0, OTHER, -10.0)))

CHOSEN = [
    chosen("a number", PICKED),
    chosen("reversed", LEFT, reverse_pred=True),
    chosen("one value per partition", BY_ROW, false=tile(VECTOR)),
    chosen("bfloat16 values per partition", np.where(MASK > 0, X, rounded(VECTOR, "bfloat16").astype(np.float32)),
           false=tile(VECTOR, "bfloat16")),
    chosen("with a maximum", PICKED, maximum=largest(PICKED)),
    chosen("maximum before the cast", rounded(BY_ROW, "float8_e4m3"), false=tile(VECTOR),
           dst=empty((128, 60), "float8_e4m3"), maximum=largest(BY_ROW)),
    chosen("maximum in bfloat16", PICKED, result=empty((128, 1), "bfloat16"),
           maximum=rounded(largest(PICKED), "bfloat16")),
    chosen("int8 mask", np.where(MASK > 1, X, np.float32(0.25)), mask=tile(-(MASK > 1).astype(np.int8))),
    chosen("uint16 mask", np.where(MASK > 1, X, np.float32(0.25)), mask=tile((MASK > 1) * 256, "uint16")),
    chosen("bool mask", PICKED, mask=tile(MASK > 0)),
    chosen(
        "int16 values", np.where(MASK > 0, SHORT, -2), source=tile(SHORT), dst=empty((128, 60), "int16"), false=-1.6
    ),
    chosen("mask in PSUM", PICKED, mask=tile(MASK, space=PSUM)),
    chosen("source and result in PSUM", PICKED, source=tile(X, space=PSUM), dst=empty((128, 60), space=PSUM)),
    chosen(
        "other ranks", PICKED.reshape(128, 3, 4, 5), source=tile(X), mask=tile(MASK.reshape(128, 5, 12)),
        dst=empty((128, 3, 4, 5)), maximum=largest(PICKED),
    ),
    Case(
        "select_reduce", "one accumulator for two instructions",
        tiles={"dst": empty((128, 60)), "mask": tile(MASK), "source": tile(X), "other": tile(OTHER),
               "low": tile(LOW), "high": tile(HIGH), "largest": empty((128, 1))},
        run=_run_shared, targets=NEW,
        expected={"dst": np.where(MASK > 0, OTHER, -10), "largest": SHARED},
    ),
    Case(
        "select_reduce", "idle leaves the accumulator undefined",
        tiles={"dst": empty((128, 60)), "mask": tile(MASK), "source": tile(X), "largest": empty((128, 1))},
        run=_run_after_idle, expected={"largest": np.full((128, 1), np.nan)},
    ),
    Case(
        "select_reduce", "onto its input", tiles={"dst": tile(X), "mask": tile(MASK)},
        run=lambda t: isa.select_reduce(t.dst, t.mask, t.dst, 0.25), expected={"dst": PICKED},
    ),
]  # fmt: skip

CHOSEN_REFUSED = [
    chosen("a sum", None, reduce_op=nl.add, breaks="`reduce_op` must be"),
    chosen("load_reduce", None, reduce_cmd=reduce_cmd.load_reduce, breaks=COMMAND),
    chosen("a number for reverse_pred", None, reverse_pred=1, breaks="`reverse_pred` must be True or False"),
    chosen("an idle maximum", None, maximum=0, reduce_cmd=reduce_cmd.idle, breaks="needs a `reduce_cmd` that"),
    chosen(
        "both in PSUM", None, mask=tile(MASK, space=PSUM), source=tile(X, space=PSUM), breaks="must not both be in psum"
    ),
    chosen("fewer partitions", None, mask=tile(MASK[:32]), breaks="the same number of partitions"),
    chosen("fewer elements", None, mask=tile(MASK[:, :59]), breaks="the same number of elements per partition"),
    chosen("float mask", None, mask=tile(MASK, "float32"), breaks="`predicate` must have dtype"),
    chosen("int32 source", None, source=tile(X, "int32"), breaks="`on_true` must have dtype"),
    chosen("integer maximum", None, maximum=0, result=empty((128, 1), "int32"), breaks="`reduce_res` must have dtype"),
    chosen("a row of values", None, false=tile(X), breaks="`on_false` must be one value per partition"),
    chosen("packed", None, dst=empty((128, 60), "float8_e5m2_x4"), breaks="must not have a packed"),
]  # fmt: skip

CASES = [*RANGES, *RANGE_REFUSED, *CHOSEN, *CHOSEN_REFUSED]
