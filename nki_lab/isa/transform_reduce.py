"""Vector instructions that transform a tile and reduce what they write in the same pass."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import (
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
from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.instruction import Shape, instruction, reads, rule, writes
from nki_lab.ir.definition.operands import into_result
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.accumulators import (
    IDLE,
    LOAD_REDUCE,
    REDUCE,
    RESET_REDUCE,
    accumulate,
    accumulate_or_spoil,
    read_out,
    result_is_reduced,
    vector_accumulator,
)
from nki_lab.isa.enums import reduce_cmd
from nki_lab.isa.indirection import indirection
from nki_lab.isa.operators import OPS, Op, OpClass
from nki_lab.isa.rules import (
    BINARY_ARITHMETIC,
    choice,
    flag,
    float32_vectors,
    legal_operator,
    not_packed,
    one_of_operators,
    operand_suits,
    operator_on_target,
    same_free_size,
    same_partitions,
    vector_has_operator,
)
from nki_lab.isa.streaming import stored_bytes, stream
from nki_lab.targets.engines import VECTOR
from nki_lab.targets.facts import GENERATED, ISA
from nki_lab.targets.spaces import PSUM, SBUF

_ADD = OPS["add"]
_FLOAT32 = frozenset((float32,))


# -- tensor_scalar_reduce -----------------------------------------------------------------------------


@rule(
    "`reverse0` must be False: the instruction does not support it yet",
    "reverse0",
    help="for nl.subtract multiply by -1 first, with nisa.tensor_scalar",
    source=f"{ISA}:2582",
)
def _not_reversed(i, hw):
    return i.reverse0 is False


@rule(
    "`dst` and `data` must have at most 3 free axes from NKI 0.7 on",
    "dst",
    "data",
    help="merge axes with flatten_dims or reshape",
    source=f"{GENERATED}/nki.isa.tensor_scalar_reduce.html",
    since="0.7",
)
def _three_free_axes(i, hw):
    return max(len(i.dst.shape), len(i.data.shape)) <= 4


@rule(
    "`reduce_init` must be given when `reduce_cmd` is nisa.reduce_cmd.load_reduce, and only then",
    "reduce_init",
    "reduce_cmd",
    help="it is what the accumulator starts from: a number or a float32 [partitions, 1] tile",
    source=f"{ISA}:2549",
)
def _start_of_load(i, hw):
    return (i.reduce_init is not None) == (i.reduce_cmd is LOAD_REDUCE)


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, indirect=True, along=into_result("reduce_res")),
    data=reads(SBUF, PSUM, indirect=True),
    operand0=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, optional=True),
    reduce_res=writes(SBUF, PSUM, shape=Shape.VECTOR, optional=True),
    reduce_init=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, optional=True, dtypes=_FLOAT32),
    rules=(
        same_partitions("dst", "data"),
        same_free_size("dst", "data"),
        not_packed("dst", "data", "reduce_res"),
        legal_operator("op0", *BINARY_ARITHMETIC, OpClass.UNARY),
        operator_on_target("op0"),
        vector_has_operator("op0"),
        operand_suits("op0", "operand0"),
        float32_vectors("operand0"),
        one_of_operators("reduce_op", "add", "multiply", "max", "maximum", "min", "minimum"),
        _not_reversed,
        choice("reduce_cmd", reduce_cmd, RESET_REDUCE, REDUCE, LOAD_REDUCE),
        _start_of_load,
        _three_free_axes,
        flag("reduce_res_negate"),
        *indirection("data", 2564),
    ),
    state=vector_accumulator,
    opaque=("reduce_init",),
)
def tensor_scalar_reduce(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Op,
    operand0: float | NkiTensor,
    reduce_op: Op,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    reduce_init: float | NkiTensor | None = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> Any:
    """Apply an operator with a number or vector, and reduce the results.

    `dst` gets `data op0 operand0` as from tensor_scalar; `op0` is arithmetic. All free axes of it, before the cast to
    `dst`, are reduced with `reduce_op` (nl.add, nl.multiply, nl.max or nl.min) in Vector's accumulator: reset_reduce
    starts from the identity of `reduce_op`, load_reduce from `reduce_init`, reduce from what is there. `reduce_res`,
    if given, receives the accumulator, with `reduce_res_negate` its negative; the accumulator itself keeps its sign.

    Source: nki/api/nki/isa/__init__.py:2515.
    """


@tensor_scalar_reduce.semantics
def _(
    out, out_reduce_res, data, op0, operand0, reduce_op, reduce_cmd, reduce_init, reduce_res_negate, dve_accumulator,
):  # fmt: skip
    op0.apply_with(data, operand0, False, out)
    accumulate(dve_accumulator, reduce_cmd, reduce_op, out, reduce_init)
    read_out(dve_accumulator, out_reduce_res, reduce_res_negate)


@tensor_scalar_reduce.backward
def _(i, step):
    plain = i.reduce_op is _ADD and i.reduce_cmd is RESET_REDUCE and not i.reduce_res_negate
    gradient = step.gradient_with_sum(plain, i.data.free_size)
    step.chain("data", (i.op0, "operand0", False), gradient=gradient)


@tensor_scalar_reduce.cost
def _(i, hw):
    # max(MIN_II, N) + MIN_II (nki/api/nki/isa/__init__.py@1db4d74e:1738): the second part reads the accumulator.
    # No page gives the instruction a performance mode.
    yield stream(
        i, hw, "TENSOR_SCALAR_REDUCE", hw.vector_copy_cycles, i.dst.free_size,
        bytes_written=stored_bytes(i.dst),
    )  # fmt: skip
    if i.reduce_res is not None:
        yield MicroOp(
            "DVE_READ_ACCUMULATOR",
            hw.min_interval_cycles,
            bytes_written=stored_bytes(i.reduce_res),
        )


# -- exponential --------------------------------------------------------------------------------------

_WRITTEN = frozenset(
    (float8_e4m3, float8_e5m2, float16, bfloat16, float32, tfloat32, int8, int16, int32, uint8, uint16)
)  # fmt: skip
_READ = _WRITTEN - {tfloat32} | {uint32}
_SUMMED = frozenset((float8_e4m3, float8_e5m2, float16, bfloat16, float32, tfloat32))


@rule(
    "`reduce_init` must be left out, or 0.0, unless `reduce_cmd` is nisa.reduce_cmd.load_reduce",
    "reduce_init",
    "reduce_cmd",
    help="write reduce_cmd=nisa.reduce_cmd.load_reduce to start from it",
    source=f"{ISA}:2314",
)
def _start_only_for_load(i, hw):
    return i.reduce_cmd is LOAD_REDUCE or (
        type(i.reduce_init) is not NkiTensor and i.reduce_init == 0
    )


@rule(
    "`dst` and `src` must have at most 4 axes",
    "dst",
    "src",
    help="merge free axes with flatten_dims or reshape",
    source=f"{ISA}:2313",
)
def _four_axes(i, hw):
    return max(len(i.dst.shape), len(i.src.shape)) <= 4


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, dtypes=_WRITTEN, indirect=True, along=into_result("reduce_res")),
    src=reads(SBUF, PSUM, dtypes=_READ, indirect=True),
    max_value=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, dtypes=_FLOAT32),
    reduce_res=writes(SBUF, PSUM, shape=Shape.VECTOR, optional=True, dtypes=_SUMMED),
    reduce_init=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, dtypes=_FLOAT32),
    rules=(
        same_partitions("dst", "src"),
        same_free_size("dst", "src"),
        _four_axes,
        choice("reduce_cmd", reduce_cmd, IDLE, RESET_REDUCE, REDUCE, LOAD_REDUCE),
        _start_only_for_load,
        result_is_reduced,
        *indirection("src", 2323),
    ),
    state=vector_accumulator,
    requires=("exponential",),
    opaque=("max_value",),
)
def exponential(
    dst: NkiTensor,
    src: NkiTensor,
    max_value: float | NkiTensor = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.idle,
    reduce_init: float | NkiTensor = 0.0,
    name: str | None = None,
) -> Any:
    """Compute exp(src - max_value) on Vector and, if asked, sum the results.

    `max_value` is a number or a float32 tile with one value per partition, as a softmax subtracts it. It takes a
    quarter of the time of an activation with nl.exp. Everything is computed in float32.

    The sum over all free axes, before the cast to `dst`, goes through Vector's accumulator: `reduce_cmd` reset_reduce
    starts from 0, load_reduce from `reduce_init`, reduce from what is there; idle (the default) leaves it undefined.
    `reduce_res`, if given, receives it.

    Source: nki/api/nki/isa/__init__.py:2283.
    """


@exponential.semantics
def _(out, out_reduce_res, src, max_value, reduce_cmd, reduce_init, dve_accumulator):
    np.subtract(src, max_value, out=out)
    np.exp(out, out=out)
    accumulate_or_spoil(dve_accumulator, reduce_cmd, _ADD, out, reduce_init)
    read_out(dve_accumulator, out_reduce_res)


@exponential.backward
def _(i, step):
    gradient = step.gradient_with_sum(i.reduce_cmd is RESET_REDUCE, i.src.free_size)
    exact = i.dst.dtype is float32
    result = step.result() if exact else (step.value("src") - step.value("max_value")).apply("exp")
    gradient = gradient * result
    step.add("src", gradient)
    step.add("max_value", lambda: -gradient)


@exponential.cost
def _(i, hw):
    yield stream(i, hw, "EXPONENTIAL", hw.vector_exponential_cycles, i.dst.free_size)
