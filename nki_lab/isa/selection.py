"""Which elements does the Vector engine select, by range or by mask, and what is their maximum?"""

from __future__ import annotations

import numpy as np

from nki_lab.dtypes import (
    DTYPES,
    bool_,
    float32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from nki_lab.ir.instruction import (
    UPDATE,
    WRITE,
    Instruction,
    Shape,
    State,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.isa.enums import reduce_cmd
from nki_lab.isa.masks import overlay
from nki_lab.isa.operators import OPS
from nki_lab.isa.rules import (
    choice,
    flag,
    not_all_in,
    not_packed,
    one_of_operators,
    same_free_size,
    same_partitions,
)
from nki_lab.isa.scratch import scratch
from nki_lab.isa.streaming import stream
from nki_lab.targets.engines import VECTOR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

FP32_MIN = float(np.finfo(np.float32).min)  # -3.4028234663852886e+38
_FLOATS = frozenset(d for d in DTYPES.values() if d.is_float)
_SELECTED = frozenset(DTYPES.values()) - {tfloat32, int32, uint32}
_BOOL = np.dtype(bool)


# -- the maximum kept in Vector's accumulator ---------------------------------------------------------


def _accumulator_role(i: Instruction) -> list[tuple[State, str]]:
    return [(State.DVE_ACCUMULATOR, UPDATE if i.reduce_cmd is reduce_cmd.reduce else WRITE)]


@rule(
    "`reduce_res` needs a `reduce_cmd` that accumulates",
    "reduce_res",
    "reduce_cmd",
    help="write reduce_cmd=nisa.reduce_cmd.reset_reduce, or leave `reduce_res` out",
    source=f"{ISA}:2942",
)
def _result_is_reduced(i, hw):
    return i.reduce_res is None or i.reduce_cmd is not reduce_cmd.idle


_COMMANDS = choice(
    "reduce_cmd", reduce_cmd, reduce_cmd.reset_reduce, reduce_cmd.reduce, reduce_cmd.idle
)
_MAXIMUM = one_of_operators("reduce_op", "maximum", "max")


def _accumulate_maximum(
    accumulator: np.ndarray, out: np.ndarray, command: reduce_cmd, result: np.ndarray | None
) -> None:
    """Take the maximum of `out` per partition into the accumulator, and give it to `result`."""
    if command is reduce_cmd.idle:
        accumulator.fill(
            np.nan
        )  # "may still be modified" (isa/__init__.py:2946): nothing may rely on it
        return
    largest = out.reshape(len(out), -1).max(axis=1, keepdims=True)
    if command is reduce_cmd.reduce:
        np.maximum(accumulator, largest, out=accumulator)
    else:
        accumulator[...] = largest  # the maximum of -inf and these
    if result is not None:
        result[...] = accumulator.reshape(result.shape)


# -- range_select -------------------------------------------------------------------------------------


@rule(
    "`on_false_value` must be FP32_MIN, -3.4028235e+38",
    "on_false_value",
    help="leave it out, or write float(np.finfo(np.float32).min)",
    source=f"{ISA}:2880",
)
def _only_fp32_min(i, hw):
    value = i.on_false_value
    return type(value) in (int, float) and np.float32(value) == np.float32(FP32_MIN)


@rule(
    "`range_start` must be an integer, and with the elements per partition at most 2**24",
    "range_start",
    "on_true_tile",
    help="positions are compared in float32, which is exact up to 2**24",
    source=f"{ISA}:2864",
)
def _exact_positions(i, hw):
    start = i.range_start
    return type(start) is int and -(2**24) <= start <= 2**24 - i.on_true_tile.free_size


_RANGE_OPS = ("equal", "less", "less_equal", "greater", "greater_equal")


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM),
    on_true_tile=reads(SBUF, PSUM, dtypes=_FLOATS),
    bound0=reads(SBUF, PSUM, shape=Shape.VECTOR, dtypes=frozenset((float32,))),
    bound1=reads(SBUF, PSUM, shape=Shape.VECTOR, dtypes=frozenset((float32,))),
    reduce_res=writes(SBUF, PSUM, shape=Shape.VECTOR, optional=True),
    rules=(
        not_packed("dst", "reduce_res"),
        one_of_operators("comp_op0", *_RANGE_OPS),
        one_of_operators("comp_op1", *_RANGE_OPS),
        _MAXIMUM,
        _COMMANDS,
        _result_is_reduced,
        _only_fp32_min,
        same_partitions("dst", "on_true_tile"),
        same_free_size("dst", "on_true_tile"),
        _exact_positions,
    ),
    state=_accumulator_role,
    requires=("range_select",),
)
def range_select(
    dst,
    on_true_tile,
    comp_op0,
    comp_op1,
    bound0,
    bound1,
    reduce_cmd=reduce_cmd.reset_reduce,
    reduce_res=None,
    reduce_op=OPS["maximum"],
    range_start=0,
    on_false_value=FP32_MIN,
    name=None,
) -> None:
    """Keep the elements whose position passes two comparisons, and take the maximum.

    The position of an element is `range_start` plus its index in the partition. Where both
    `comp_op0(position, bound0)` and `comp_op1(position, bound1)` hold, `dst` gets the element of `on_true_tile`,
    elsewhere FP32_MIN. The bounds hold one float32 per partition.

    The maximum per partition of what was selected, before the cast to `dst`, goes through Vector's accumulator:
    `reduce_cmd` reset_reduce starts anew, reduce continues, idle leaves it undefined. `reduce_res`, if given,
    receives it. In a 16- or 8-bit `dst` FP32_MIN becomes -inf, so keep `reduce_res` in float32.

    Source: nki/api/nki/isa/__init__.py:2819.
    """


@range_select.semantics
def _(
    out,
    out_reduce_res,
    on_true_tile,
    comp_op0,
    comp_op1,
    bound0,
    bound1,
    reduce_cmd,
    range_start,
    dve_accumulator,
):
    partitions = len(out)
    flat = (partitions, out.size // partitions)
    position = np.arange(range_start, range_start + flat[1]).astype(np.float32)
    chosen = scratch(flat, _BOOL, "range")
    also = scratch(flat, _BOOL, "range2")
    comp_op0.apply(position, bound0.reshape(-1, 1), chosen)
    comp_op1.apply(position, bound1.reshape(-1, 1), also)
    np.logical_and(chosen, also, out=chosen)
    np.copyto(out, np.float32(FP32_MIN))
    overlay(out, on_true_tile, chosen.reshape(out.shape))
    _accumulate_maximum(dve_accumulator, out, reduce_cmd, out_reduce_res)


@range_select.cost
def _(i, hw):
    yield stream(i, hw, "RANGE_SELECT", hw.vector_copy_cycles, i.dst.free_size)


# -- select_reduce ------------------------------------------------------------------------------------


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM),
    predicate=reads(SBUF, PSUM, dtypes=frozenset((int8, uint8, int16, uint16, bool_))),
    on_true=reads(SBUF, PSUM, dtypes=_SELECTED),
    on_false=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True),
    reduce_res=writes(SBUF, PSUM, shape=Shape.VECTOR, optional=True, dtypes=_FLOATS),
    rules=(
        not_packed("dst", "on_true", "on_false"),
        _MAXIMUM,
        _COMMANDS,
        flag("reverse_pred"),
        _result_is_reduced,
        not_all_in(PSUM, "on_true", "predicate"),
        same_partitions("dst", "on_true", "predicate"),
        same_free_size("dst", "on_true", "predicate"),
    ),
    numerics=lambda i: {"predicate": None},
    state=_accumulator_role,
)
def select_reduce(
    dst,
    predicate,
    on_true,
    on_false,
    reduce_res=None,
    reduce_cmd=reduce_cmd.idle,
    reduce_op=OPS["maximum"],
    reverse_pred=False,
    name=None,
) -> None:
    """Select by a mask between a tile and a value, and optionally take the maximum.

    Where `predicate` is not 0 (with `reverse_pred` where it is 0), `dst` gets the element of `on_true`, elsewhere
    `on_false`: a float32 number or one value per partition.

    The maximum per partition, before the cast to `dst`, goes through Vector's accumulator: `reduce_cmd` reset_reduce
    starts anew, reduce continues, idle (the default) leaves it undefined. `reduce_res`, if given, receives it.
    `on_true` and `predicate` cannot both be in PSUM.

    Source: nki/api/nki/isa/__init__.py:2899. No page gives its time; assumed is that of tensor_copy_predicated.
    """


@select_reduce.semantics
def _(out, out_reduce_res, predicate, on_true, on_false, reduce_cmd, reverse_pred, dve_accumulator):
    compare = np.equal if reverse_pred else np.not_equal
    chosen = compare(predicate, 0, out=scratch(out.shape, _BOOL, "select"))
    np.copyto(out, on_false if isinstance(on_false, np.ndarray) else np.float32(on_false))
    overlay(out, on_true, chosen)
    _accumulate_maximum(dve_accumulator, out, reduce_cmd, out_reduce_res)


@select_reduce.cost
def _(i, hw):
    one_in_psum = PSUM in (i.on_true.buffer, i.predicate.buffer)
    each = hw.vector_copy_cycles if one_in_psum else hw.vector_predicated_sbuf_cycles
    yield stream(i, hw, "SELECT_REDUCE", each, i.dst.free_size)
