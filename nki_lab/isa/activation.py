"""Instructions that apply activation functions on the Scalar engine."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from nki_lab.dtypes import float32
from nki_lab.errors import NotOnTarget, WrongOperand
from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.instruction import (
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
from nki_lab.isa.activations import ACTIVATIONS
from nki_lab.isa.arrays import scratch
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.elementwise import tensor_scalar
from nki_lab.isa.enums import reduce_cmd
from nki_lab.isa.indirection import indirection, no_scatter_to_psum
from nki_lab.isa.operators import OPS, Op, suggested_name
from nki_lab.isa.rules import (
    choice,
    engine_on_target,
    float32_vectors,
    gpsimd_without_psum,
    not_packed,
    one_of_operators,
    same_free_size,
    same_partitions,
)
from nki_lab.isa.streaming import stored_bytes, stream
from nki_lab.targets.engines import GPSIMD, SCALAR, Engine
from nki_lab.targets.facts import GENERATED, ISA, SHARED_API
from nki_lab.targets.spaces import PSUM, SBUF
from nki_lab.targets.spec import Target

_ADD = OPS["add"]


# -- rules ------------------------------------------------------------------------------------------------------------


def _function_help(i):
    value = i.op
    if isinstance(value, Op) and value.name == "prelu":
        return "nl.prelu takes its slope from the relu_param of nisa.activate2 (NeuronCore-v4)"
    meant = suggested_name(value)
    if not isinstance(value, Op) and meant in ACTIVATIONS:
        return f"write op=nl.{meant}"
    return "one of " + ", ".join(f"nl.{n}" for n in ACTIVATIONS if n != "prelu")


def activation_function(with_parameter: bool = False) -> Rule:
    """Require an activation function; nl.prelu, which has a parameter, only `with_parameter`."""
    return rule(
        "`op` must be an activation function of nki.language"
        + ("" if with_parameter else ", without a parameter"),
        "op",
        help=_function_help,
        error=WrongOperand,
        source=f"{SHARED_API} (nki-act-func)",
    )(
        lambda i, hw: (
            isinstance(i.op, Op)
            and i.op.activation is not None
            and (with_parameter or i.op.name != "prelu")
        )
    )


@rule(
    "`bias` must be a [partitions, 1] tile on a target without a number as bias",
    "bias",
    help="fill a [partitions, 1] tile with nisa.memset and pass it",
    error=NotOnTarget,
    source=f"{ISA}:1406",
)
def _bias_is_tile(i, hw):
    number = i.bias is not None and type(i.bias) is not NkiTensor
    return not number or hw.supports("scalar_activation_bias")


@rule(
    "`bias` must have any dtype but tfloat32",
    "bias",
    help="cast it with nisa.tensor_copy into a float32 tile",
    source=f"{ISA}:1400",
)
def _bias_dtype(i, hw):
    return type(i.bias) is not NkiTensor or i.bias.dtype != "tfloat32"


@rule(
    "`bias` must be left out with nl.reciprocal on a target without that combination",
    "bias",
    "op",
    help="add it first with nisa.tensor_scalar",
    error=NotOnTarget,
    source=f"{SHARED_API}:256",
)
def _reciprocal_bias(i, hw):
    combined = i.op.name == "reciprocal" and i.bias is not None
    return not combined or hw.supports("scalar_reciprocal_bias")


@rule(
    "`reduce_op` must be nl.add when `reduce_cmd` accumulates",
    "reduce_op",
    "reduce_cmd",
    help="pass reduce_op=nl.add",
    source=f"{ISA}:1347",
)
def _reduces_with_add(i, hw):
    return i.reduce_op is not None or i.reduce_cmd not in (REDUCE, RESET_REDUCE)


_REDUCE_AFTERWARDS = "reduce the results with nisa.tensor_reduce"
_REDUCTIONS = ("add", "multiply", "maximum", "minimum", "max", "min")


@rule(
    "`reduce_op` must be nl.add on a target without other reductions on Scalar",
    "reduce_op",
    help=_REDUCE_AFTERWARDS,
    error=NotOnTarget,
    source=f"{ISA}:1476",
)
def _reduction_on_target(i, hw):
    return i.reduce_op is _ADD or hw.supports("scalar_reduce_any")


@rule(
    "`reduce_op` must be nl.add from NKI 0.7 on: activation_reduce only adds",
    "reduce_op",
    help=f"{_REDUCE_AFTERWARDS}, or reduce with nisa.activate2",
    source=f"{GENERATED}/nki.isa.activation_reduce.html",
    since="0.7",
)
def _only_adds(i, hw):
    return i.reduce_op is _ADD


ACTIVATION_PAGE = f"{GENERATED}/nki.isa.activation.html"


@rule(
    f"`engine` must be {SCALAR!r} or {GPSIMD!r}",
    "engine",
    help="leave `engine` out: Scalar runs it",
    error=WrongOperand,
    source=ACTIVATION_PAGE,
)
def _runs_activations(i, hw):
    return i.engine in (SCALAR, GPSIMD)


@rule(
    f"`reduce_op`, `reduce_res` and `reduce_cmd` must be left out when `engine` is {GPSIMD!r}: it has no accumulator",
    "engine",
    "reduce_op",
    "reduce_res",
    "reduce_cmd",
    help="reduce the results with nisa.tensor_reduce",
    source=ACTIVATION_PAGE,
)
def _no_accumulator_on_gpsimd(i, hw):
    return i.engine is not GPSIMD or (
        i.reduce_op is None and i.reduce_res is None and i.reduce_cmd is IDLE
    )


def engines_of_activations(*operands: str) -> tuple[Rule, ...]:
    """Return the rules of `engine`: GpSimd applies functions in SBUF only, and reduces nothing."""
    return (
        _runs_activations,
        gpsimd_without_psum(*operands),
        _no_accumulator_on_gpsimd,
    )


_SHARED_RULES: tuple[Rule, ...] = (
    same_partitions("dst", "data"),
    same_free_size("dst", "data"),
    not_packed("dst", "data", "bias"),
    activation_function(),
    float32_vectors("scale"),
    _bias_is_tile,
    _bias_dtype,
    _reciprocal_bias,
)


# -- meaning and cost of both -----------------------------------------------------------------------------------------


def note_range(op: Op, x: np.ndarray, notice: Any) -> None:
    """Report inputs outside the valid range of an activation function."""
    function = op.activation
    assert function is not None
    count = function.outside(x) if function.is_limited else 0
    if count:
        help = (
            "bring them into the range first, e.g. with nl.maximum in nisa.tensor_scalar: the Scalar engine's results"
            " are invalid outside it, and the true ones stand here"
        )
        if op.name == "sin":
            help = (
                "call nl.sin(x), which brings them into the range first: outside it the Scalar engine continues with a"
                " cubic, and so do the results here"
            )
        what = f"inputs of nl.{op.name} lie outside its valid range, {function.range_text}"
        notice(count, x.size, what, help)


def _activate(out, op, data, bias, scale, notice):
    x = data
    if type(scale) is np.ndarray or scale != 1:
        x = np.multiply(data, scale, out=scratch(data.shape, data.dtype, "scaled"))
    if bias is not None:
        x = np.add(x, bias, out=scratch(data.shape, data.dtype, "scaled"))
    note_range(op, x, notice)
    op.activation.apply(x, out)


def activation_cost(opcode: str) -> Any:
    """Return the `.cost` of an instruction that applies `op` to `data`.

    One micro-operation, and a short one that reads the accumulator when `reduce_res` wants it
    (nki/guides/architecture/trainium_inferentia2_arch.rst:489).
    """

    def cost(i: Instruction, hw: Target) -> Iterator[MicroOp]:
        yield stream(
            i, hw, opcode, 1.0, i.data.free_size,
            table=i.op.activation.table if i.form.engine is SCALAR else None, bytes_written=stored_bytes(i.dst),
        )  # fmt: skip
        if i.reduce_res is not None:
            yield MicroOp(
                "ACT_READ_ACCUMULATOR",
                hw.scalar_read_accumulator_cycles,
                bytes_written=stored_bytes(i.reduce_res),
            )

    return cost


# -- activation -------------------------------------------------------------------------------------------------------


@instruction(
    engine=(SCALAR, GPSIMD),
    dst=writes(SBUF, PSUM, indirect=True, along=into_result("reduce_res")),
    data=reads(SBUF, PSUM, indirect=True),
    bias=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, optional=True),
    scale=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True),
    reduce_res=writes(SBUF, PSUM, shape=Shape.VECTOR, optional=True),
    rules=(
        *_SHARED_RULES,
        one_of_operators("reduce_op", "add", optional=True, instead=_REDUCE_AFTERWARDS),
        choice("reduce_cmd", reduce_cmd, IDLE, RESET, REDUCE, RESET_REDUCE),
        _reduces_with_add,
        not_packed("reduce_res"),
        *engines_of_activations("dst", "data", "bias", "scale"),
        engine_on_target(GPSIMD, "gpsimd_activation", "leave `engine` out: Scalar runs it"),
        *indirection("data", 1427),
        no_scatter_to_psum(1439),
    ),
    state=scalar_accumulator,
    opaque=("bias", "scale"),
    in_place_safe=True,
)
def activation(
    dst: NkiTensor,
    op: Op,
    data: NkiTensor,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor = 1.0,
    reduce_op: Op | None = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    engine: Engine = Engine.scalar,
    name: str | None = None,
) -> Any:
    """Apply a function to `data * scale + bias` and, if asked, sum the results.

    `scale` is a number or a float32 tile with one value per partition, `bias` such a tile of any dtype or, from
    NeuronCore-v3 on, a number. Everything is computed in float32 and rounded once to the dtype of `dst`.

    The engine has one float32 accumulator per partition that outlives the instruction. `reduce_cmd` says what becomes
    of it: idle leaves it, reset makes it 0, reduce adds the sum of the results (before they are rounded to `dst`),
    reset_reduce makes it that sum. `reduce_res` reads it out afterwards, with every command, as a second short
    instruction; with the default idle it gets what earlier instructions left. Before the first reset that is undefined
    (no page names a value): NaN here, and a finding.

    Functions with a valid input range (log, sin, arctan, sqrt, rsqrt, reciprocal) give invalid results outside it on
    hardware; here a run with such inputs has a finding. sin then continues as a cubic, also here; nl.sin reduces its
    input first, this instruction does not.

    `engine` may be GpSimd from NeuronCore-v4 on, for what is not reduced (NKI 0.7). No page gives its time there;
    assumed is one element per partition and cycle.

    Source: nki/api/nki/isa/__init__.py:1336, nki/api/generated/nki.isa.activation.html.
    """


@activation.semantics
def _(out, op, data, bias, scale, reduce_cmd, out_reduce_res, act_accumulator, notice):
    _activate(out, op, data, bias, scale, notice)
    accumulate(act_accumulator, reduce_cmd, _ADD, out)
    read_out(act_accumulator, out_reduce_res)


def _differentiate(i: Instruction, step: Any, sums: bool) -> None:
    """Hand the gradients of the results on; `sums`: `reduce_res` is the sum of what this instruction alone gives."""
    gradient = step.gradient_with_sum(sums, i.data.free_size)
    if i.op.activation.slope is None:
        step.refuse(f"applies {i.op!r}, which has no rule for its gradient")

    scales = type(i.scale) is NkiTensor or i.scale != 1

    def scaled() -> Any:
        return step.value("data") * step.value("scale") if scales else step.value("data")

    @cache
    def x() -> Any:
        return scaled() if i.bias is None else scaled() + step.value("bias")

    @cache
    def y() -> Any:
        return step.result() if i.dst.dtype is float32 else x().apply(i.op.name)

    slope = i.op.activation.slope
    if slope == 0:
        return
    gradient = gradient if slope == 1 else gradient * slope(x, y)
    step.add("bias", gradient)
    step.add("scale", lambda: gradient * step.value("data"))
    step.add("data", lambda: gradient * step.value("scale") if scales else gradient)


@activation.backward
def _(i, step):
    _differentiate(i, step, i.reduce_cmd is RESET_REDUCE)


activation.cost(activation_cost("ACTIVATE"))


# -- what else it computes ---------------------------------------------------------------------------------------------


def _copying(i: Instruction, data: NkiTensor, **given: Any) -> Instruction:
    """Return the activation that gives `data`, scaled and shifted as given, in place of an instruction."""
    values = dict(zip(activation.params, activation.defaults, strict=True))
    values |= {"dst": i.dst, "op": OPS["copy"], "data": data, "name": i.name, **given}
    made = Instruction(activation, tuple(values.values()), i.stack)
    made.after, made.ident = i.after, i.ident
    return made


@tensor_copy.on_scalar
def _(i):
    return _copying(i, i.src)


@tensor_scalar.on_scalar
def _(i):
    given: dict[str, Any] = {}
    for op, operand in ((i.op0, i.operand0), (i.op1, i.operand1)):
        if op is None:
            continue
        name = {"multiply": "scale", "add": "bias"}.get(op.name)
        if name is None or name in given or (name == "scale" and given):
            return None  # it first multiplies, then adds
        given[name] = operand
    return _copying(i, i.data, **given)


# -- activation_reduce ------------------------------------------------------------------------------------------------


@instruction(
    engine=(SCALAR,),
    dst=writes(SBUF, PSUM, indirect=True, along=into_result("reduce_res")),
    data=reads(SBUF, PSUM, indirect=True),
    reduce_res=writes(SBUF, PSUM, shape=Shape.VECTOR, optional=True),
    bias=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, optional=True),
    scale=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True),
    rules=(
        *_SHARED_RULES,
        one_of_operators("reduce_op", *_REDUCTIONS, instead=_REDUCE_AFTERWARDS),
        _reduction_on_target,
        _only_adds,
        not_packed("reduce_res"),
        *indirection("data", 1506),
        no_scatter_to_psum(1518),
    ),
    state=((State.ACT_ACCUMULATOR, WRITE),),
    opaque=("bias", "scale"),
    in_place_safe=True,
)
def activation_reduce(
    dst: NkiTensor,
    op: Op,
    data: NkiTensor,
    reduce_op: Op,
    reduce_res: NkiTensor,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor = 1.0,
    name: str | None = None,
) -> Any:
    """Apply a function to `data * scale + bias` and reduce the results.

    The same as activation with reduce_cmd.reset_reduce, kept for older kernels. The engine's accumulator starts from
    the identity of `reduce_op`, takes in all free axes and is written to `reduce_res`; None leaves it in the
    accumulator. It only adds since NKI 0.7. Before, NeuronCore-v2 only added; which other operators later chips had is
    not listed, so multiply, maximum and minimum are accepted in kernels for these versions.

    Source: nki/api/nki/isa/__init__.py:1461.
    """


@activation_reduce.semantics
def _(out, op, data, bias, scale, reduce_op, out_reduce_res, act_accumulator, notice):
    _activate(out, op, data, bias, scale, notice)
    accumulate(act_accumulator, RESET_REDUCE, reduce_op, out)
    read_out(act_accumulator, out_reduce_res)


@activation_reduce.backward
def _(i, step):
    _differentiate(i, step, i.reduce_op is _ADD)


activation_reduce.cost(activation_cost("ACTIVATE"))
