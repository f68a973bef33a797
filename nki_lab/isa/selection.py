"""Vector instructions that select elements by range or by mask, and take their maximum."""

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
from nki_lab.ir.definition.instruction import Shape, instruction, reads, rule, writes
from nki_lab.ir.definition.operands import into_result
from nki_lab.isa.accumulators import (
    IDLE,
    REDUCE,
    RESET_REDUCE,
    accumulate_or_spoil,
    read_out,
    result_is_reduced,
    vector_accumulator,
)
from nki_lab.isa.arrays import overlay, scratch
from nki_lab.isa.enums import reduce_cmd
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
from nki_lab.isa.streaming import stream
from nki_lab.targets.engines import VECTOR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

FP32_MIN = float(np.finfo(np.float32).min)  # -3.4028234663852886e+38
_FLOATS = frozenset(d for d in DTYPES.values() if d.is_float)
_SELECTED = frozenset(DTYPES.values()) - {tfloat32, int32, uint32}
_BOOL = np.dtype(bool)


# -- the maximum kept in Vector's accumulator ---------------------------------------------------------

_COMMANDS = choice("reduce_cmd", reduce_cmd, RESET_REDUCE, REDUCE, IDLE)
_MAXIMUM = one_of_operators("reduce_op", "maximum", "max")


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
    dst=writes(SBUF, PSUM, along=into_result("reduce_res")),
    on_true_tile=reads(SBUF, PSUM, dtypes=_FLOATS, chosen=True),
    bound0=reads(SBUF, PSUM, shape=Shape.VECTOR, dtypes=frozenset((float32,))),
    bound1=reads(SBUF, PSUM, shape=Shape.VECTOR, dtypes=frozenset((float32,))),
    reduce_res=writes(SBUF, PSUM, shape=Shape.VECTOR, optional=True),
    rules=(
        not_packed("dst", "reduce_res"),
        one_of_operators("comp_op0", *_RANGE_OPS),
        one_of_operators("comp_op1", *_RANGE_OPS),
        _MAXIMUM,
        _COMMANDS,
        result_is_reduced,
        _only_fp32_min,
        same_partitions("dst", "on_true_tile"),
        same_free_size("dst", "on_true_tile"),
        _exact_positions,
    ),
    state=vector_accumulator,
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
    reduce_op,
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
    accumulate_or_spoil(dve_accumulator, reduce_cmd, reduce_op, out)
    read_out(dve_accumulator, out_reduce_res)


@range_select.backward
def _(i, step):
    if step.gradient("reduce_res") is not None:
        step.refuse("gives a maximum, which has no rule; take it with nisa.tensor_reduce")
    gradient = step.gradient()
    ones = step.filled(gradient, 1.0)
    bounds = {name: step.value(name) for name in ("bound0", "bound1")}
    chosen = step.again(on_true_tile=ones, reduce_res=None, **bounds).compare("equal", 1.0)
    step.add("on_true_tile", chosen * gradient)


@range_select.cost
def _(i, hw):
    yield stream(i, hw, "RANGE_SELECT", hw.vector_copy_cycles, i.dst.free_size)


# -- select_reduce ------------------------------------------------------------------------------------


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, along=into_result("reduce_res")),
    predicate=reads(SBUF, PSUM, dtypes=frozenset((int8, uint8, int16, uint16, bool_))),
    on_true=reads(SBUF, PSUM, dtypes=_SELECTED, chosen=True),
    on_false=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, chosen=True),
    reduce_res=writes(SBUF, PSUM, shape=Shape.VECTOR, optional=True, dtypes=_FLOATS),
    rules=(
        not_packed("dst", "on_true", "on_false"),
        _MAXIMUM,
        _COMMANDS,
        flag("reverse_pred"),
        result_is_reduced,
        not_all_in(PSUM, "on_true", "predicate"),
        same_partitions("dst", "on_true", "predicate"),
        same_free_size("dst", "on_true", "predicate"),
    ),
    numerics=lambda i: {"predicate": None},
    state=vector_accumulator,
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
def _(
    out, out_reduce_res, predicate, on_true, on_false, reduce_cmd, reduce_op, reverse_pred, dve_accumulator,
):  # fmt: skip
    compare = np.equal if reverse_pred else np.not_equal
    chosen = compare(predicate, 0, out=scratch(out.shape, _BOOL, "select"))
    np.copyto(out, on_false if isinstance(on_false, np.ndarray) else np.float32(on_false))
    overlay(out, on_true, chosen)
    accumulate_or_spoil(dve_accumulator, reduce_cmd, reduce_op, out)
    read_out(dve_accumulator, out_reduce_res)


@select_reduce.backward
def _(i, step):
    if step.gradient("reduce_res") is not None:
        step.refuse("gives a maximum, which has no rule; take it with nisa.tensor_reduce")
    gradient, chosen = step.gradient(), step.value("predicate").compare("not_equal", 0.0)
    if i.reverse_pred:
        chosen = 1.0 - chosen
    step.add("on_true", lambda: gradient * chosen)
    step.add("on_false", lambda: gradient * (1.0 - chosen))


@select_reduce.cost
def _(i, hw):
    one_in_psum = PSUM in (i.on_true.buffer, i.predicate.buffer)
    each = hw.vector_copy_cycles if one_in_psum else hw.vector_predicated_sbuf_cycles
    yield stream(i, hw, "SELECT_REDUCE", each, i.dst.free_size)
