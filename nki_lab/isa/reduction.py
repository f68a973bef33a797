"""Instructions that reduce a tile, along its free axes or over its partitions."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from nki_lab.ir.definition.instruction import Order, Shape, instruction, reads, rule, writes
from nki_lab.ir.definition.operands import REDUCED, over_partitions
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import numerics
from nki_lab.isa.arrays import change_sign
from nki_lab.isa.indirection import indirection
from nki_lab.isa.operators import OPS, Op, total
from nki_lab.isa.rules import (
    flag,
    integers_for_bitvec,
    not_packed,
    one_of_operators,
    reduction_operator,
    same_partitions,
)
from nki_lab.isa.streaming import narrow, stream
from nki_lab.targets.engines import GPSIMD, VECTOR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

_FAST_REDUCTIONS = (OPS["add"].alu, OPS["maximum"].alu)


def _reduced_axes(i) -> tuple[int, ...] | None:
    """Return the reduced axes in order, counted from the front; None where `axis` is not a set of axes."""
    axes = i.axis if type(i.axis) is tuple else (i.axis,)
    rank = len(i.data.shape)
    if not axes or any(type(a) is not int or not -rank <= a < rank for a in axes):
        return None
    counted = sorted(a % rank for a in axes)
    return tuple(counted) if len(set(counted)) == len(counted) else None


def _reduced(i, view) -> dict[int, str]:
    return dict.fromkeys(_reduced_axes(i) or (), REDUCED)


def _kept(i) -> int:
    axes = _reduced_axes(i)
    assert axes is not None, "the rule about axis comes first"
    return prod(i.data.shape[1 : axes[0]])


@rule(
    "`axis` must not hold axis 0, the partition axis: only free axes are reduced",
    "axis",
    "data",
    help="reduce over the partitions with nisa.tensor_partition_reduce, or with nisa.nc_matmul and a stationary tile of"
    " ones, [partitions, 1]; or transpose the tile first with nisa.nc_transpose",
    source=f"{ISA}:1173",
)
def _free_axes_only(i, hw):
    axes = _reduced_axes(i)
    return axes is None or axes[0] > 0


@rule(
    "`axis` must name the last free axes of `data`, up to the very last",
    "axis",
    "data",
    help="e.g. axis=1 for [P, N], axis=(1, 2) or 2 for [P, M, N]; move an axis to the end with .permute()",
    source=f"{ISA}:1173",
)
def _last_axes(i, hw):
    axes, rank = _reduced_axes(i), len(i.data.shape)
    return axes is not None and axes == tuple(range(axes[0], rank))


@rule(
    "`dst` must have one element per partition for each element of the axes of `data` that are kept",
    "dst",
    "data",
    "axis",
    help="make dst with the shape of data without the reduced axes, or with 1 in their place",
    source=f"{ISA}:1219",
)
def _result_size(i, hw):
    return i.dst.free_size == _kept(i)


@rule(
    "`negate` must be False for a bitvec operator",
    "negate",
    "op",
    help="negate with a separate instruction",
    source=f"{ISA}:1234",
)
def _negate_arithmetic(i, hw):
    return not (i.negate and i.op.is_bitvec)


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT, indirect=True),
    data=reads(SBUF, PSUM, shape=Shape.OWN, indirect=True, along=_reduced),
    rules=(
        _free_axes_only,
        same_partitions("dst", "data"),
        not_packed("dst", "data"),
        reduction_operator("op"),
        _last_axes,
        _result_size,
        integers_for_bitvec("op", "dst", "data"),
        flag("negate", "keepdims"),
        _negate_arithmetic,
        *indirection("data", 1221),
    ),
    numerics=numerics.by_operator("op", "dst", "data"),
    order=Order.STREAM,
)
def tensor_reduce(
    dst: NkiTensor,
    op: Op,
    data: NkiTensor,
    axis: int | tuple[int, ...] | list[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> Any:
    """Reduce the last free axes of a tile with an operator.

    `axis` is one axis or several: the last ones of `data`, never axis 0 (transpose first, or multiply by ones on the
    Tensor engine). Arithmetic operators accumulate in float32 and round once to the dtype of `dst`; `negate` changes
    the sign of the result. Bitvec operators see the bits of integer tiles. nl.subtract takes the later elements from
    the first. `keepdims` says that `dst` keeps the reduced axes with size 1; only its number of elements is checked.

    Source: nki/api/nki/isa/__init__.py:1161.
    """


@tensor_reduce.result
def _(i):
    return i.data.shape[0], _kept(i)


@tensor_reduce.semantics
def _(out, op, data, axis, negate):
    count = 1 if type(axis) is int else len(axis)
    kept = data.shape[: data.ndim - count]
    op.reduce(data, tuple(range(data.ndim - count, data.ndim)), out.reshape(kept))
    if negate:
        change_sign(out, out)


@tensor_reduce.backward
def _(i, step):
    gradient, data = step.gradient(), i.data
    each = data.free_size // i.dst.free_size
    if i.negate:
        gradient = -gradient
    if i.op.alu is OPS["add"].alu:
        step.add("data", gradient.repeated(each))
    elif i.op.alu in (OPS["maximum"].alu, OPS["minimum"].alu):
        # The elements that are the largest share the gradient, as in PyTorch and JAX.
        kept = i.dst.free_size
        values = step.value("data").shaped((data.shape[0], data.free_size))
        # Not what was written, which may have been rounded.
        chosen = values.compare("equal", values.reduced(i.op, kept).repeated(each))
        share = gradient * chosen.sums(kept).reciprocal()
        step.add("data", chosen * share.repeated(each))
    else:
        step.refuse(f"reduces with {i.op!r}, which has no rule for its gradient")


@tensor_reduce.cost
def _(i, hw):
    fast = narrow(hw, [i.dst, i.data]) and i.op.alu in _FAST_REDUCTIONS
    cycles = hw.vector_reduce_fast_cycles if fast else hw.vector_reduce_cycles
    yield stream(i, hw, "REDUCE", cycles, i.data.free_size)


# -- over partitions ----------------------------------------------------------------------------------

_OVER_PARTITIONS = ("add", "average", "max", "maximum", "bitwise_or", "bitwise_and")


@rule(
    "`dst` must have one partition and as many elements in it as each partition of `data`",
    "dst",
    "data",
    help="make dst with the shape of data and 1 as its first size",
    source=f"{ISA}:1246",
)
def _one_partition(i, hw):
    return i.dst.shape[0] == 1 and i.dst.free_size == i.data.free_size


@instruction(
    engine=(GPSIMD,),
    dst=writes(SBUF, shape=Shape.FLAT),
    data=reads(SBUF, shape=Shape.FLAT, along=over_partitions(REDUCED)),
    rules=(
        not_packed("dst", "data"),
        one_of_operators(
            "op", *_OVER_PARTITIONS, instead="use nisa.nc_matmul with ones, or transpose first"
        ),
        integers_for_bitvec("op", "dst", "data"),
        _one_partition,
    ),
    numerics=numerics.by_operator("op", "dst", "data"),
    order=Order.NONE,
)
def tensor_partition_reduce(
    dst: NkiTensor, op: Op, data: NkiTensor, name: str | None = None
) -> Any:
    """Reduce a tile over its partitions.

    `op` is nl.add, nl.average, nl.max, nl.bitwise_or or nl.bitwise_and; `dst` has one partition. Sums, averages and
    maxima are computed in float32 and rounded once to the dtype of `dst`; bitvec operators see the bits of integer
    tiles. A product with ones on the Tensor engine sums partitions faster.

    Source: nki/api/nki/isa/__init__.py:1246. No page gives its time; assumed is one cycle per element of a partition.
    """


@tensor_partition_reduce.semantics
def _(out, op, data):
    if op is OPS["average"]:
        total(data, 0, out[0])
        np.divide(out, len(data), out=out)
    else:
        op.reduce(data, 0, out[0])


@tensor_partition_reduce.backward
def _(i, step):
    gradient, rows = step.gradient(), i.data.shape[0]
    if i.op is OPS["average"]:
        gradient = gradient * (1 / rows)
    elif i.op is not OPS["add"]:
        step.refuse(f"reduces with {i.op!r}, which has no rule for its gradient")
    step.add("data", step.over_partitions(gradient, rows))


@tensor_partition_reduce.cost
def _(i, hw):
    yield stream(i, hw, "PARTITION_REDUCE", hw.gpsimd_cycles, i.data.free_size)
