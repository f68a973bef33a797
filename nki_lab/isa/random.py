"""Instructions that make random numbers, or use them.

The documents do not publish the bits an engine makes. Here they follow from the states in `xorwow.py`: a kernel gives
the same numbers each time, a seed or a restored state the same from then on.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import (
    DTYPES,
    bfloat16,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from nki_lab.ir.definition.instruction import (
    UPDATE,
    Order,
    Shape,
    State,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import xorwow
from nki_lab.isa.accumulators import column
from nki_lab.isa.arrays import scratch
from nki_lab.isa.numerics import BITS
from nki_lab.isa.random_states import NAMED_ENGINE, random_state
from nki_lab.isa.rules import (
    engine_on_target,
    gpsimd_without_psum,
    not_packed,
    same_dtype,
    same_free_size,
    same_partitions,
)
from nki_lab.isa.streaming import stream
from nki_lab.targets.engines import GPSIMD, VECTOR, Engine
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

_FLOAT32 = frozenset((float32,))
_INTEGERS = frozenset((int8, int16, int32, uint8, uint16, uint32))

# -- rng ----------------------------------------------------------------------------------------------


@instruction(
    engine=(VECTOR, GPSIMD),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT, dtypes=_INTEGERS),
    rules=(
        NAMED_ENGINE,
        engine_on_target(GPSIMD, "gpsimd_rng", "use engine=nisa.engine.vector"),
        gpsimd_without_psum("dst"),
    ),
    numerics=lambda i: {"dst": BITS},
    state=random_state(UPDATE),
)
def rng(dst: NkiTensor, engine: Engine = Engine.vector, name: str | None = None) -> Any:
    """Fill a tile with random bits.

    An element gets the low bits of a random 32-bit word, as many as its integer type has. For numbers in [0, 1) shift
    a uint32 tile right by 8 (nisa.tensor_scalar) and multiply by 2**-24, as nl.rand does.

    Each partition has a generator of its own, which goes on from instruction to instruction: of Vector seeded by
    nisa.set_rng_seed, of GpSimd set by nisa.rand_set_state. The bits themselves are not published; these are ours.

    Source: nki/api/nki/isa/__init__.py:2087. No page gives its time before NeuronCore-v4; assumed is one cycle per
    element.
    """


@rng.semantics
def _(out, dve_rng, pool_rng):
    words = xorwow.draw(pool_rng if dve_rng is None else dve_rng, out.shape[1])
    np.copyto(out, words, casting="unsafe")


@rng.cost
def _(i, hw):
    each = hw.gpsimd_cycles if i.engine is GPSIMD else hw.vector_random_cycles
    yield stream(i, hw, "RNG", each, i.dst.free_size)


# -- rand2 --------------------------------------------------------------------------------------------

_UNIFORM = _INTEGERS | {float8_e4m3, float8_e5m2, float16, bfloat16, float32, tfloat32}


@rule(
    "`min` must be less than `max`",
    "min",
    "max",
    help="the results lie between them",
    source=f"{ISA}:2276",
)
def _ordered(i, hw):
    return NkiTensor in (type(i.min), type(i.max)) or i.min < i.max


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT, dtypes=_UNIFORM),
    min=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, dtypes=_FLOAT32),
    max=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, dtypes=_FLOAT32),
    rules=(_ordered,),
    state=((State.DVE_RNG, UPDATE),),
    requires=("rand2",),
    order=Order.STREAM,
)
def rand2(
    dst: NkiTensor, min: float | NkiTensor, max: float | NkiTensor, name: str | None = None
) -> Any:
    """Fill a tile with uniform random numbers.

    They lie between `min` and `max`, each a number or a float32 tile with one value per partition, in steps of 2**-24
    of the range, and are rounded to the dtype of `dst`. The generators are those of nisa.rng on Vector. Where a tile
    holds a `min` that is not less than its `max`, the range is reversed (no page says).

    Source: nki/api/nki/isa/__init__.py:2242.
    """


@rand2.semantics
def _(out, min, max, dve_rng):
    uniform = xorwow.draw_uniform(dve_rng, out.shape[1])
    # In float64, where the width of a range between float32 numbers cannot overflow.
    low = np.asarray(column(min), np.float64)
    wide = scratch(out.shape, np.dtype(np.float64), "uniform")
    np.multiply(uniform, np.asarray(column(max), np.float64) - low, out=wide)
    np.add(wide, low, out=wide)
    np.copyto(out, wide, casting="same_kind")


@rand2.cost
def _(i, hw):
    yield stream(i, hw, "RAND2", hw.vector_random_cycles, i.dst.free_size)


# -- dropout ------------------------------------------------------------------------------------------

_WITH_ZERO = frozenset(d for d in DTYPES.values() if d.kind not in ("packed", "scale"))


@rule(
    "`prob` must have a float dtype, float32 for `data` that is not of a float dtype",
    "prob",
    "data",
    help="cast it with nisa.tensor_copy into a float32 tile",
    source=f"{ISA}:2137",
)
def _probability_dtype(i, hw):
    if type(i.prob) is not NkiTensor:
        return True
    return i.prob.dtype.is_float if i.data.dtype.is_float else i.prob.dtype is float32


@rule(
    "`prob` must be a probability, from 0 to 1",
    "prob",
    help="it is the probability that an element becomes zero: 0.1 zeroes a tenth of them",
    source=f"{ISA}:2127",
)
def _is_probability(i, hw):
    return type(i.prob) is NkiTensor or 0 <= i.prob <= 1


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM),
    data=reads(SBUF, PSUM, dtypes=_WITH_ZERO),
    prob=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True),
    rules=(
        same_partitions("dst", "data"),
        same_free_size("dst", "data"),
        same_dtype("dst", "data"),
        not_packed("prob"),
        _probability_dtype,
        _is_probability,
    ),
    numerics=lambda i: {"dst": BITS, "data": BITS},
    state=((State.DVE_RNG, UPDATE),),
    in_place_safe=True,
)
def dropout(
    dst: NkiTensor, data: NkiTensor, prob: float | NkiTensor, name: str | None = None
) -> Any:
    """Replace elements by zero at random.

    `prob` is the probability of a zero: a number, or a tile with one value per partition. With 1.0 all elements
    become zero, with 0.0 none. The others keep their bits; nothing is scaled by 1 / (1 - prob). One random number per
    element is taken from the generators of nisa.rng on Vector, whatever `prob` is.

    Source: nki/api/nki/isa/__init__.py:2123.
    """


@dropout.semantics
def _(out, data, prob, dve_rng, notice):
    if type(prob) is np.ndarray:
        wrong = prob.size - np.count_nonzero((prob >= 0) & (prob <= 1))
        if wrong:
            notice(
                int(wrong), prob.size, "probabilities in `prob` are not from 0 to 1",
                "compute them again: above 1 all elements become zero, and below 0 or where it is NaN none",
            )  # fmt: skip
    uniform = xorwow.draw_uniform(dve_rng, out.size // len(out))
    kept = np.greater_equal(
        uniform, column(prob), out=scratch(uniform.shape, np.dtype(bool), "kept")
    )
    np.multiply(data, kept.reshape(out.shape), out=out)


@dropout.cost
def _(i, hw):
    yield stream(i, hw, "DROPOUT", hw.vector_copy_cycles, i.dst.free_size)
