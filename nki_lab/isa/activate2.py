"""activate2: applies an activation function after two operators of choice."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.errors import WrongOperand
from nki_lab.ir.definition.instruction import (
    READ,
    Instruction,
    Shape,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.ir.definition.operands import into_result
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.accumulators import (
    IDLE,
    REDUCE,
    RESET,
    RESET_REDUCE,
    accumulate,
    read_out,
    scalar_accumulator,
)
from nki_lab.isa.activation import (
    activation_cost,
    activation_function,
    engines_of_activations,
    note_range,
)
from nki_lab.isa.arrays import overlay, scratch
from nki_lab.isa.enums import reduce_cmd
from nki_lab.isa.indirection import indirection, no_scatter_to_psum
from nki_lab.isa.operators import OPS, Op
from nki_lab.isa.rules import (
    choice,
    flag,
    not_packed,
    one_of_operators,
    same_dtype,
    same_free_size,
    same_partitions,
)
from nki_lab.targets.engines import GPSIMD, SCALAR, Engine
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

_BYPASS, _PRELU = OPS["bypass"], OPS["prelu"]
_COMBINATIONS = tuple(
    (OPS[first], OPS[second])
    for first, second in (
        ("multiply", "add"), ("multiply", "subtract"), ("multiply", "bypass"), ("add", "bypass"),
        ("subtract", "bypass"), ("bypass", "bypass"),
    )
)  # fmt: skip


@rule(
    "`op0` and `op1` must be " + " or ".join(f"({a!r}, {b!r})" for a, b in _COMBINATIONS),
    "op0",
    "op1",
    help="apply another operator first with nisa.tensor_scalar",
    error=WrongOperand,
    source=f"{ISA}:1556",
)
def _combination(i, hw):
    return (i.op0, i.op1) in _COMBINATIONS


@rule(
    "`reverse0` must be False when `op0` is nl.bypass, and `reverse1` when `op1` is",
    "reverse0",
    "reverse1",
    "op0",
    "op1",
    help="nl.bypass has no operands to swap: leave it out",
    source=f"{ISA}:1579",
)
def _something_to_reverse(i, hw):
    return not ((i.reverse0 and i.op0 is _BYPASS) or (i.reverse1 and i.op1 is _BYPASS))


@rule(
    "`reduce_op` must be given unless `reduce_cmd` is nisa.reduce_cmd.idle",
    "reduce_op",
    "reduce_cmd",
    help="pass reduce_op=nl.add; a reset needs it, too, to know which identity to set",
    source=f"{ISA}:1641",
)
def _reduces_with_something(i, hw):
    return i.reduce_op is not None or i.reduce_cmd is IDLE


def _read_with(op: str) -> Any:
    """Return the role of an immediate that nothing reads when its operator is nl.bypass."""
    return lambda i: READ if getattr(i, op) is not _BYPASS else None


def _slope_role(i: Instruction) -> str | None:
    return READ if i.op is _PRELU else None


@instruction(
    engine=(SCALAR, GPSIMD),
    dst=writes(SBUF, PSUM, indirect=True, along=into_result("reduce_res")),
    data=reads(SBUF, PSUM, indirect=True),
    imm0=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, role=_read_with("op0")),
    imm1=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, role=_read_with("op1")),
    relu_param=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, role=_slope_role),
    reduce_res=writes(SBUF, PSUM, shape=Shape.VECTOR, optional=True),
    rules=(
        same_partitions("dst", "data"),
        same_free_size("dst", "data"),
        not_packed("dst", "data", "imm0", "imm1", "relu_param", "reduce_res"),
        activation_function(with_parameter=True),
        _combination,
        flag("reverse0", "reverse1"),
        _something_to_reverse,
        same_dtype("imm0", "imm1"),
        one_of_operators(
            "reduce_op", "add", "maximum", "max", "minimum", "min", "abs_max", "abs_min",
            optional=True, instead="reduce the results with nisa.tensor_reduce",
        ),
        choice("reduce_cmd", reduce_cmd, IDLE, RESET, REDUCE, RESET_REDUCE),
        _reduces_with_something,
        *engines_of_activations("dst", "data", "imm0", "imm1", "relu_param"),
        *indirection("data", 1588),
        no_scatter_to_psum(1600),
    ),
    state=scalar_accumulator,
    requires=("activate2",),
    opaque=("imm0", "imm1", "relu_param"),
)  # fmt: skip
def activate2(
    dst: NkiTensor,
    op: Op,
    data: NkiTensor,
    imm0: float | NkiTensor,
    imm1: float | NkiTensor,
    op0: Op,
    op1: Op,
    relu_param: float | NkiTensor = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Op | None = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    engine: Engine = Engine.scalar,
    name: str | None = None,
) -> Any:
    """Apply up to two operators, a function and, if asked, a reduction.

    `dst` gets `op((data op0 imm0) op1 imm1)`. The operators are a multiplication and an addition or subtraction, one
    of them alone, or none: nl.bypass stands for one left out, and its immediate is not looked at. `reverse0` and
    `reverse1` put the immediate on the left. An immediate is a number or a tile with one value per partition.
    nl.prelu multiplies negative values by `relu_param`. Everything is computed in float32 and rounded once.

    `reduce_cmd` says what becomes of Scalar's accumulator, which activation shares: idle leaves it, reset sets it to
    the identity of `reduce_op`, reduce takes the results in (before they are rounded to `dst`), reset_reduce does
    both. `reduce_res` reads it out afterwards, as a second short instruction. nl.abs_max and nl.abs_min keep the sign
    of the value with the largest or smallest magnitude, of the later one on a tie; their identities, 0 and inf, are
    assumed.

    `engine` may be GpSimd for what is not reduced (NKI 0.7).

    Source: nki/api/nki/isa/__init__.py:1543, nki/api/generated/nki.isa.activate2.html. No page gives its time; assumed
    is that of activation.
    """


@activate2.semantics
def _(
    out, op, data, imm0, imm1, op0, op1, relu_param, reverse0, reverse1, reduce_op, reduce_cmd,
    out_reduce_res, act_accumulator, notice,
):  # fmt: skip
    x = data
    for operator, operand, reverse in ((op0, imm0, reverse0), (op1, imm1, reverse1)):
        if operator is not _BYPASS:
            result = scratch(data.shape, data.dtype, "scaled")
            operator.apply_with(x, operand, reverse, result)
            x = result
    if op is _PRELU:
        positive = np.greater(x, 0, out=scratch(x.shape, np.dtype(bool), "positive"))
        np.multiply(x, relu_param, out=out)
        overlay(out, x, positive)
    else:
        note_range(op, x, notice)
        op.activation.apply(x, out)
    accumulate(act_accumulator, reduce_cmd, reduce_op, out)
    read_out(act_accumulator, out_reduce_res)


activate2.cost(activation_cost("ACTIVATE2"))
