"""Cases of set_rng_seed, rand_set_state and rand_get_state; what the states give stands in random.py."""

from __future__ import annotations

import numpy as np

from nki_lab.targets.engines import Engine
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, empty, isa, nl, one_call, tile
from tests.isa.cases.random import FOUR_STATES, GPSIMD, NEW, NEWEST, ONE_STATE, VECTOR

SEED = tile([[42]], "int32")


def seed_refused(name, seed, words):
    return one_call("set_rng_seed", name, {"src_seeds": seed}, breaks=words)


def _run_seeds(first, second):
    def run(t):
        for seed, dst in ((first, t.a), (second, t.b)):
            isa.set_rng_seed(getattr(t, seed))
            isa.rng(dst)
        isa.tensor_tensor(t.a, t.a, t.b, nl.bitwise_xor)
        isa.tensor_scalar(t.a, t.a, nl.not_equal, 0.0)

    return run


def seeds(name, first, second, differ):
    tiles = {"s1": first, "s2": second} | {k: empty((128, 50), "uint32") for k in "ab"}
    return Case(
        "set_rng_seed", name, tiles, _run_seeds("s1", "s2"), {"a": np.full((128, 50), differ)}
    )


SEEDS = [
    seeds("the same bits", SEED, tile([[42]], "uint32", PSUM), 0),
    seeds("the bits of a float", tile([[1.5]]), tile([[0x3FC00000]], "uint32"), 0),
    seeds("other seeds", SEED, tile([[43]], "int32"), 1),
    seeds("seeds of other signs", tile([[1]], "int32"), tile([[-1]], "int32"), 1),
    seed_refused("two seeds", tile([[1, 2]], "int32"), "`src_seeds` must have shape [1, 1]"),
    seed_refused("a seed per partition", tile([[1], [2]], "int32"), "`src_seeds` must have shape [1, 1]"),
    seed_refused("16 bits", tile([[1]], "int16"), "`src_seeds` must have dtype"),
]  # fmt: skip


def restored(instruction, states, engine, targets):
    """Load states, use them, load them again and store them: nothing of the use is left."""

    def run(t):
        isa.rand_set_state(t.states, engine)
        isa.rng(t.dst, engine)
        isa.rand_set_state(t.states, engine)
        isa.rand_get_state(t.after, engine)

    tiles = {
        "states": tile(states),
        "dst": empty((128, 9), "uint32"),
        "after": empty(states.shape, "uint32"),
    }
    return Case(instruction, f"on {engine.name}", tiles, run, {"after": states}, targets=targets)


def _run_into_psum(t):
    isa.rand_set_state(t.states, VECTOR)
    isa.rand_get_state(t.after, VECTOR)


STATES = [
    *(
        restored(n, states, engine, targets)
        for n in ("rand_set_state", "rand_get_state")
        for states, engine, targets in ((ONE_STATE, GPSIMD, NEW), (FOUR_STATES, VECTOR, NEWEST))
    ),
    Case("rand_get_state", "of Vector into PSUM",
         {"states": tile(FOUR_STATES), "after": empty((128, 24), "uint32", PSUM)}, _run_into_psum,
         {"after": FOUR_STATES}, targets=NEWEST),
]  # fmt: skip


def state_refused(instruction, name, words, states, targets=NEW, **given):
    tile_name = "dst" if instruction == "rand_get_state" else "src_seeds"
    return one_call(instruction, name, {tile_name: states} | given, targets=targets, breaks=words)


STATES_REFUSED = [
    case
    for n, tile_name in (("rand_set_state", "src_seeds"), ("rand_get_state", "dst"))
    for case in (
        state_refused(n, "before trn2", "needs a target with `rand_state`", tile(ONE_STATE), ("trn1",)),
        state_refused(n, "on Scalar", "`engine` must be", tile(ONE_STATE), engine=Engine.scalar),
        state_refused(n, "on Vector of trn2", "`engine` may be", tile(FOUR_STATES), ("trn2",), engine=VECTOR),
        state_refused(n, "24 words for GpSimd", f"`{tile_name}` must have 6 elements", tile(FOUR_STATES)),
        state_refused(n, "6 words for Vector", f"`{tile_name}` must have 6 elements", tile(ONE_STATE), NEWEST,
                      engine=VECTOR),
        state_refused(n, "three axes", f"`{tile_name}` must have two axes", tile(ONE_STATE.reshape(128, 2, 3))),
        state_refused(n, "signed words", f"`{tile_name}` must have dtype", tile(ONE_STATE.view(np.int32))),
    )
] + [
    state_refused("rand_get_state", "GpSimd into PSUM", "must not be in psum", tile(ONE_STATE, space=PSUM)),
]  # fmt: skip

CASES = [*SEEDS, *STATES, *STATES_REFUSED]
