"""Cases of rng, rand2 and dropout; their statistics stand in test_random.py.

Where a state is set, the results follow from the published algorithm (XORWOW: G. Marsaglia, "Xorshift RNGs", 2003),
written here on Python integers.
"""

from __future__ import annotations

import numpy as np

from nki_lab.targets.engines import Engine
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Tile, empty, isa, nl, one_call, rounded, sample, tile

VECTOR, GPSIMD = Engine.vector, Engine.gpsimd
NEW, NEWEST = ("trn2", "trn3"), ("trn3",)
RANDOM = np.random.default_rng(100)
ONE_STATE = RANDOM.integers(0, 2**32, (128, 6), np.uint32)
ONE_STATE[3] = 123456789, 362436069, 521288629, 88675123, 5783321, 6615241  # of the publication
FOUR_STATES = RANDOM.integers(0, 2**32, (128, 24), np.uint32)
X = sample(128, 50, seed=101)


def xorwow(state, count):
    """Return `count` words and the state after them."""
    x, y, z, w, v, d = map(int, state)
    found = []
    for _ in range(count):
        t = x ^ (x >> 2)
        x, y, z, w = y, z, w, v
        v = ((v ^ (v << 4)) ^ (t ^ (t << 1))) & 0xFFFFFFFF
        d = (d + 362437) & 0xFFFFFFFF
        found.append((v + d) & 0xFFFFFFFF)
    return found, [x, y, z, w, v, d]


def words(states, count):
    """Return `count` words per row of states, which take turns, and the states after them."""
    found, after = [], []
    for row in states:
        each = -(-count // (len(row) // 6))
        parts = [xorwow(row[k : k + 6], each) for k in range(0, len(row), 6)]
        found.append([p[0][step] for step in range(each) for p in parts][:count])
        after.append([word for p in parts for word in p[1]])
    return np.array(found), np.array(after)


POOL_WORDS, POOL_AFTER = words(ONE_STATE, 50)
DVE_WORDS, DVE_AFTER = words(FOUR_STATES, 50)  # the four turns of 13 make two words too many
UNIFORM = (DVE_WORDS >> 8) / 2.0**24


# -- rng, rand2, dropout ------------------------------------------------------------------------------


def after_states(instruction, name, states, run, expected, **facts):
    """Run `run` after the states of Vector or GpSimd have been set, then store them."""
    engine = GPSIMD if states is ONE_STATE else VECTOR
    tiles = facts.pop("tiles", {}) | {
        "states": tile(states),
        "after": empty(states.shape, "uint32"),
    }

    def program(t):
        isa.rand_set_state(t.states, engine)
        run(t)
        isa.rand_get_state(t.after, engine)

    facts = {"targets": NEW if engine is GPSIMD else NEWEST} | facts
    return Case(instruction, name, tiles, program, expected, **facts)


def _low(values, dtype):
    return values.astype(np.uint32).astype(dtype)


def bits(name, dtype, states, expected, shape=(128, 50), space=None, view=None):
    after = POOL_AFTER if states is ONE_STATE else DVE_AFTER
    engine = GPSIMD if states is ONE_STATE else VECTOR
    dst = empty(shape, dtype, **({} if space is None else {"space": space}))
    return after_states("rng", name, states, lambda t: isa.rng(t.dst, engine), {"dst": expected, "after": after},
                        tiles={"dst": dst})  # fmt: skip


def _run_again(t):
    """Seed twice, and compare the numbers after each."""
    isa.set_rng_seed(t.seed)
    isa.rng(t.first)
    isa.rng(t.second)
    isa.set_rng_seed(t.seed)
    isa.rng(t.again)
    isa.tensor_tensor(t.first, t.first, t.again, nl.bitwise_xor)
    isa.tensor_tensor(t.second, t.second, t.again, nl.not_equal, engine=VECTOR)


def _run_some_rows(t):
    """Use the generators of partitions 64 to 95; the others stay."""
    isa.rng(t.dst[64:96], GPSIMD)


def refused(name, words, targets=("trn1", "trn2", "trn3"), dst=None, **given):
    dst = dst or empty((128, 50), "int32")
    return one_call("rng", name, {"dst": dst} | given, targets=targets, breaks=words)


SOME_ROWS = ONE_STATE.copy()
SOME_ROWS[64:96] = POOL_AFTER[64:96]
RNG = [
    bits("uint32 from GpSimd", "uint32", ONE_STATE, POOL_WORDS),
    bits("int16 from GpSimd, several axes", "int16", ONE_STATE, _low(POOL_WORDS, np.int16).reshape(128, 5, 10),
         (128, 5, 10)),
    bits("int32 from Vector into PSUM", "int32", FOUR_STATES, _low(DVE_WORDS, np.int32), space=PSUM),
    bits("uint8 from Vector", "uint8", FOUR_STATES, _low(DVE_WORDS, np.uint8)),
    after_states("rng", "some rows", ONE_STATE, _run_some_rows, {"after": SOME_ROWS},
                 tiles={"dst": empty((128, 50), "uint32")}),
    Case("rng", "the same seed again",
         {"seed": tile([[42]], "int32")} | {k: empty((128, 50), "uint32") for k in ("first", "second", "again")},
         _run_again, {"first": np.zeros((128, 50)), "second": np.ones((128, 50))}),
    refused("on Scalar", "`engine` must be", engine=Engine.scalar),
    refused("on any engine", "`engine` must be", engine=Engine.unknown),
    refused("on GpSimd of trn1", "`engine` may be", ("trn1",), engine=GPSIMD),
    refused("GpSimd into PSUM", "must not be in psum", NEW, engine=GPSIMD, dst=empty((128, 50), "int32", PSUM)),
    refused("floats", "`dst` must have dtype", dst=empty((128, 50))),
]  # fmt: skip


def uniform(name, low, high, expected, dst=None):
    """Draw between `low` and `high`, each a number or a tile."""
    tiles = {k: v for k, v in (("low", low), ("high", high)) if isinstance(v, Tile)}
    return after_states(
        "rand2", name, FOUR_STATES, lambda t: isa.rand2(t.dst, getattr(t, "low", low), getattr(t, "high", high)),
        {"dst": expected, "after": DVE_AFTER}, tiles={"dst": dst or empty((128, 50))} | tiles,
    )  # fmt: skip


LOW, HIGH = sample(128, 1, seed=102), sample(128, 1, seed=103) + 5
LOW64, HIGH64 = LOW.astype(float), HIGH.astype(float)
LARGE = 3e38
RAND2 = [
    uniform("between 0 and 1", 0.0, 1.0, UNIFORM),
    uniform("between numbers", -2.0, 6.0, UNIFORM * 8 - 2),
    uniform("between vectors", tile(LOW), tile(HIGH, space=PSUM),
            rounded(LOW64 + UNIFORM * (HIGH64 - LOW64), "float32")),
    uniform("from a vector to a number", tile(LOW), 9.0, rounded(LOW64 + UNIFORM * (9 - LOW64), "float32")),
    uniform("a range beyond float32", -LARGE, LARGE, rounded(np.float64(LARGE) * (2 * UNIFORM - 1), "float32")),
    uniform("int8, several axes in PSUM", -100.0, 100.0,
            np.rint(rounded(UNIFORM * 200 - 100, "float32")).reshape(128, 5, 10), empty((128, 5, 10), "int8", PSUM)),
    uniform("bfloat16", 0.0, 1.0, rounded(UNIFORM, "bfloat16"), empty((128, 50), "bfloat16")),
    *(
        one_call("rand2", name, {"dst": empty((128, 50), dtype), "min": low, "max": 1.0}, targets=targets, breaks=words)
        for name, low, dtype, targets, words in (
            ("before trn3", 0.0, "float32", ("trn1", "trn2"), "needs a target with `rand2`"),
            ("an empty range", 1.0, "float32", NEWEST, "`min` must be less than `max`"),
            ("bool", 0.0, "bool_", NEWEST, "`dst` must have dtype"),
            ("float8_e4m3fn", 0.0, "float8_e4m3fn", NEWEST, "`dst` must have dtype"),
        )
    ),
]  # fmt: skip


def drop(name, prob, kept, data=None, dst=None):
    """Expect the elements of `data` where `kept`, and zero elsewhere."""
    data = data or tile(X)
    dst = dst or empty(data.data.shape, str(data.dtype))
    wanted = np.where(kept, data.data.astype(float).reshape(128, 50), 0).reshape(dst.data.shape)
    vector = {"prob": prob} if isinstance(prob, Tile) else {}
    return after_states(
        "dropout", name, FOUR_STATES, lambda t: isa.dropout(t.dst, t.data, getattr(t, "prob", prob)),
        {"dst": wanted, "after": DVE_AFTER}, tiles={"dst": dst, "data": data} | vector,
    )  # fmt: skip


def always(name, prob, expected):
    """Drop all or nothing, whatever the numbers are, on every target."""
    given = {"dst": empty((128, 50)), "data": tile(SPECIAL), "prob": prob}
    return one_call("dropout", name, given, {"dst": expected})


def not_dropped(name, words, targets=("trn1", "trn2", "trn3"), **given):
    standard = {"dst": empty((128, 50)), "data": tile(X), "prob": 0.5}
    return one_call("dropout", name, standard | given, targets=targets, breaks=words)


CHANCE = np.random.default_rng(104).uniform(-0.2, 1.2, (128, 1)).astype(np.float32)
NARROW = rounded(CHANCE, "bfloat16").astype(float)
SPECIAL = X.copy()
SPECIAL[0, :3] = np.nan, np.inf, -np.inf
DROPOUT = [
    drop("by a number", 0.25, UNIFORM >= 0.25),
    drop("by a vector", tile(CHANCE), UNIFORM >= CHANCE),
    drop("bfloat16 probabilities and data in PSUM", tile(CHANCE, "bfloat16", PSUM), UNIFORM >= NARROW,
         data=tile(X, "bfloat16", PSUM), dst=empty((128, 50), "bfloat16", PSUM)),
    drop("int32, other axes", tile(CHANCE), UNIFORM >= CHANCE,
         data=tile((X * 2**29).reshape(128, 2, 25), "int32"), dst=empty((128, 5, 10), "int32")),
    drop("float8", 0.75, UNIFORM >= 0.75, data=tile(X, "float8_e4m3")),
    Case("dropout", "onto its input", {"x": tile(X)}, lambda t: isa.dropout(t.x, t.x, 1.0), {"x": np.zeros((128, 50))}),
    always("nothing", 0.0, SPECIAL),
    always("everything, NaN too", 1.0, np.zeros((128, 50))),
    always("everything, by a probability over 1", tile(np.full((128, 1), 37.5)), np.zeros((128, 50))),
    not_dropped("a probability over 1", "from 0 to 1", prob=1.5),
    not_dropped("a negative probability", "from 0 to 1", prob=-0.25),
    not_dropped("another dtype", "the same dtype", dst=empty((128, 50), "bfloat16")),
    not_dropped("integer probability", "`prob` must have a float dtype", prob=tile(CHANCE, "int32")),
    not_dropped("bfloat16 probability of integers", "`prob` must have a float dtype", prob=tile(CHANCE, "bfloat16"),
                data=tile(X, "int8"), dst=empty((128, 50), "int8")),
    not_dropped("packed probability", "packed (x4)", prob=tile(CHANCE, "float8_e5m2_x4")),
    not_dropped("a dtype without zero", "`data` must have dtype", data=tile(abs(X), "float8_e8m0fnu"),
                dst=empty((128, 50), "float8_e8m0fnu")),
    not_dropped("partitions", "number of partitions", data=tile(X[:64])),
    not_dropped("elements", "elements per partition", data=tile(X[:, 1:])),
]  # fmt: skip

CASES = [*RNG, *RAND2, *DROPOUT]
