"""Instructions that seed random generators, or load and store their states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nki_lab.dtypes import float32, int32, tfloat32, uint32
from nki_lab.ir.definition.instruction import (
    READ,
    WRITE,
    Instruction,
    Rule,
    Shape,
    State,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import numerics, xorwow
from nki_lab.isa.accumulators import Use
from nki_lab.isa.numerics import BITS
from nki_lab.isa.rules import choice, engine_on_target, gpsimd_without_psum
from nki_lab.isa.streaming import stream
from nki_lab.targets.engines import GPSIMD, VECTOR, Engine
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

_UINT32 = frozenset((uint32,))
NAMED_ENGINE = choice("engine", Engine, GPSIMD, VECTOR)


def random_state(role: str) -> Callable[[Instruction], Use]:
    """Return `state=` of an instruction that uses the random states of its `engine`."""
    return lambda i: ((State.POOL_RNG if i.engine is GPSIMD else State.DVE_RNG, role),)


# -- set_rng_seed -------------------------------------------------------------------------------------


@rule(
    "`src_seeds` must have shape [1, 1]",
    "src_seeds",
    help="e.g. nl.full((1, 1), 42, nl.int32)",
    source=f"{ISA}:2172",
)
def _one_seed(i, hw):
    return i.src_seeds.shape == (1, 1)


@instruction(
    engine=(VECTOR,),
    src_seeds=reads(
        SBUF, PSUM, shape=Shape.FLAT, dtypes=frozenset((int32, uint32, float32, tfloat32))
    ),
    rules=(_one_seed,),
    numerics=lambda i: {"src_seeds": BITS},
    state=((State.DVE_RNG, WRITE),),
    every_lane=True,
)
def set_rng_seed(src_seeds: NkiTensor, name: str | None = None) -> Any:
    """Seed the random generators of Vector in all partitions.

    The bits of the one 32-bit element decide all later numbers of nisa.rng on Vector, nisa.rand2 and nisa.dropout
    (the page names the first; on NeuronCore-v4 nl.rand follows its seed with the second). The partitions get
    different numbers. GpSimd has its own generators: see nisa.rand_set_state. Without a seed a kernel starts from
    the same states each time it is called.

    Source: nki/api/nki/isa/__init__.py:2153.
    """


@set_rng_seed.semantics
def _(src_seeds, dve_rng):
    xorwow.seed(dve_rng, int(src_seeds[0, 0]))


@set_rng_seed.cost
def _(i, hw):
    yield stream(i, hw, "SET_RNG_SEED", hw.vector_copy_cycles, 1)


# -- rand_set_state, rand_get_state -------------------------------------------------------------------

_WORDS = {GPSIMD: State.POOL_RNG.words, VECTOR: State.DVE_RNG.words}


def _state_rules(tile: str, line: int) -> tuple[Rule, ...]:
    """Return the rules about a tile of states and the engine that has them."""
    return (
        NAMED_ENGINE,
        engine_on_target(VECTOR, "vector_rand_state", "use engine=nisa.engine.gpsimd"),
        rule(
            f"`{tile}` must have two axes",
            tile,
            help="a row of words per partition",
            source=f"{ISA}:2205",
        )(lambda i, hw: len(getattr(i, tile).shape) == 2),
        rule(
            f"`{tile}` must have {_WORDS[GPSIMD]} elements per partition for GpSimd, {_WORDS[VECTOR]} for Vector",
            tile,
            "engine",
            help="make it with nl.ndarray((partitions, words), nl.uint32)",
            source=f"{ISA}:{line}",
        )(lambda i, hw: getattr(i, tile).free_size == _WORDS[i.engine]),
    )


def _state_cost(i: Instruction, hw: Any, opcode: str) -> Any:
    each = hw.gpsimd_cycles if i.engine is GPSIMD else hw.vector_copy_cycles
    return stream(i, hw, opcode, each, _WORDS[i.engine])


@instruction(
    engine=(GPSIMD, VECTOR),
    src_seeds=reads(SBUF, shape=Shape.FLAT, dtypes=_UINT32),
    rules=_state_rules("src_seeds", 2197),
    numerics=numerics.stored("src_seeds"),
    state=random_state(WRITE),
    requires=("rand_state",),
)
def rand_set_state(
    src_seeds: NkiTensor, engine: Engine = Engine.gpsimd, name: str | None = None
) -> Any:
    """Set the random states of GpSimd or Vector, in the partitions of a tile.

    A state is six words: five of the xorshift generator, then the counter (XORWOW; the order of the words is
    assumed). GpSimd has one per partition, Vector four, which take turns. States that nisa.rand_get_state stored give
    the same numbers again.

    Source: nki/api/nki/isa/__init__.py:2177. No page gives its time; assumed is one cycle per word.
    """


@rand_set_state.semantics
def _(src_seeds, dve_rng, pool_rng):
    np.copyto(pool_rng if dve_rng is None else dve_rng, src_seeds)


@rand_set_state.cost
def _(i, hw):
    yield _state_cost(i, hw, "RAND_SET_STATE")


@instruction(
    engine=(GPSIMD, VECTOR),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT, dtypes=_UINT32),
    rules=(*_state_rules("dst", 2229), gpsimd_without_psum("dst")),
    numerics=numerics.stored("dst"),
    state=random_state(READ),
    requires=("rand_state",),
)
def rand_get_state(dst: NkiTensor, engine: Engine = Engine.gpsimd, name: str | None = None) -> Any:
    """Store the random states of GpSimd or Vector, of the partitions of a tile.

    `dst` gets six words per partition from GpSimd, 24 from Vector; nisa.rand_set_state takes them back. The states
    themselves stay as they are.

    Source: nki/api/nki/isa/__init__.py:2212. No page gives its time; assumed is one cycle per word.
    """


@rand_get_state.semantics
def _(out, dve_rng, pool_rng):
    np.copyto(out, pool_rng if dve_rng is None else dve_rng)


@rand_get_state.cost
def _(i, hw):
    yield _state_cost(i, hw, "RAND_GET_STATE")
