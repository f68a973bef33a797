"""Instructions that carry a result from each element to the next."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import (
    bfloat16,
    float8_e4m3,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    int8,
    int16,
    uint8,
    uint16,
)
from nki_lab.ir.definition.instruction import Order, Shape, instruction, reads, rule, writes
from nki_lab.ir.definition.operands import SCANNED, over_free_axes
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.accumulators import (
    LOAD_REDUCE,
    REDUCE,
    RESET_REDUCE,
    column,
    vector_accumulator,
)
from nki_lab.isa.arrays import scan, scratch
from nki_lab.isa.enums import reduce_cmd
from nki_lab.isa.indirection import indirection
from nki_lab.isa.operators import OPS, Op
from nki_lab.isa.rules import (
    BINARY_ARITHMETIC,
    choice,
    flag,
    float32_vectors,
    legal_operator,
    not_all_in,
    not_packed,
    one_of_operators,
    operator_on_target,
    same_free_size,
    same_partitions,
    vector_has_operator,
)
from nki_lab.isa.streaming import stream
from nki_lab.targets.engines import VECTOR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

# -- tensor_tensor_scan -------------------------------------------------------------------------------

_TILES = ("dst", "data0", "data1")


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT),
    data0=reads(SBUF, PSUM, shape=Shape.FLAT, along=over_free_axes(SCANNED)),
    data1=reads(SBUF, PSUM, shape=Shape.FLAT, along=over_free_axes(SCANNED)),
    initial=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True),
    rules=(
        same_partitions(*_TILES),
        same_free_size(*_TILES),
        not_packed(*_TILES, "initial"),
        not_all_in(PSUM, "data0", "data1"),
        legal_operator("op0", *BINARY_ARITHMETIC, operands=2),
        legal_operator("op1", *BINARY_ARITHMETIC, operands=2),
        operator_on_target("op0", "op1"),
        vector_has_operator("op0", "op1"),
        flag("reverse0", "reverse1"),
    ),
    opaque=("initial",),
    order=Order.STREAM,
)
def tensor_tensor_scan(
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: float | NkiTensor,
    op0: Op,
    op1: Op,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> Any:
    """Apply two operators to each element and the result before it.

    result[i] = (data0[i] op0 result[i - 1]) op1 data1[i], with `initial` (a number, or one value per partition) before
    the first element; the free axes are one stream. `reverse0` and `reverse1` swap the operands. What is carried on
    is float32 whatever `dst` is: only what is written gets rounded. To continue in a further tile pass its last column
    as `initial`, which then has been rounded. With op0=nl.multiply and op1=nl.add this is a linear recurrence, with
    ones in `data0` a running sum.

    Source: nki/api/nki/isa/__init__.py:1997.
    """


@tensor_tensor_scan.semantics
def _(out, data0, data1, initial, op0, op1, reverse0, reverse1):
    first, second = op0.apply, op1.apply

    def step(before, a, b, result):
        first(before, a, result) if reverse0 else first(a, before, result)
        second(b, result, result) if reverse1 else second(result, b, result)

    state = scratch((len(out),), out.dtype, "initial")
    state[...] = initial.reshape(-1) if isinstance(initial, np.ndarray) else initial
    scan(step, state, out, data0, data1)


@tensor_tensor_scan.backward
def _(i, step):
    if i.op0 is not OPS["multiply"] or i.op1 is not OPS["add"]:
        step.refuse(f"scans with {i.op0!r} and {i.op1!r}; the rule is for nl.multiply and nl.add")
    # y[t] = a[t] y[t - 1] + b[t], so what reaches y[t] is h[t] = g[t] + a[t + 1] h[t + 1]: a scan from the end.
    gradient, factors = step.gradient(), step.value("data0")
    reaching = step.scan_back(factors, gradient)
    step.add("data1", reaching)
    step.add("data0", lambda: reaching * step.shifted(step.result(), step.value("initial")))
    step.add("initial", lambda: reaching.columns(0, 1) * factors.columns(0, 1))


@tensor_tensor_scan.cost
def _(i, hw):
    yield stream(i, hw, "TENSOR_TENSOR_SCAN", hw.vector_scan_cycles, i.dst.free_size)


# -- tensor_scalar_cumulative -------------------------------------------------------------------------

_SHORT = frozenset(
    (
        bfloat16, float16, float32, float8_e4m3, float8_e4m3fn, float8_e5m2, uint8, uint16, int8, int16,
    )
)  # fmt: skip

# NumPy's accumulate of these rounds to float32 after each element, in order, as the engine does.
_ACCUMULATES = {
    OPS["add"].alu: np.add,
    OPS["multiply"].alu: np.multiply,
    OPS["maximum"].alu: np.maximum,
    OPS["minimum"].alu: np.minimum,
}


@rule(
    "`imm1` must be given when `reduce_cmd` is nisa.reduce_cmd.load_reduce",
    "imm1",
    "reduce_cmd",
    help="it is what the accumulator starts from: a number or a float32 [partitions, 1] tile",
    source=f"{ISA}:1330",
)
def _start_is_given(i, hw):
    return i.imm1 is not None or i.reduce_cmd is not LOAD_REDUCE


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT, dtypes=_SHORT, indirect=True),
    src=reads(
        SBUF, PSUM, shape=Shape.FLAT, dtypes=_SHORT, indirect=True, along=over_free_axes(SCANNED)
    ),
    imm0=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True),
    imm1=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, optional=True),
    rules=(
        same_partitions("dst", "src"),
        same_free_size("dst", "src"),
        legal_operator("op0", *BINARY_ARITHMETIC, operands=2),
        operator_on_target("op0"),
        vector_has_operator("op0"),
        one_of_operators("op1", "add", "subtract", "multiply", "maximum", "max", "minimum", "min"),
        float32_vectors("imm0", "imm1"),
        choice("reduce_cmd", reduce_cmd, RESET_REDUCE, LOAD_REDUCE, REDUCE),
        _start_is_given,
        *indirection("src", 1313),
    ),
    state=vector_accumulator,
    opaque=("imm0", "imm1"),
    order=Order.STREAM,
)
def tensor_scalar_cumulative(
    dst: NkiTensor,
    src: NkiTensor,
    op0: Op,
    op1: Op,
    imm0: float | NkiTensor,
    imm1: float | NkiTensor | None = None,
    reduce_cmd: reduce_cmd = reduce_cmd.reset_reduce,
    name: str | None = None,
) -> Any:
    """Apply an operator with a number, then accumulate element by element.

    result[i] = (src[i] op0 imm0) op1 result[i - 1]: the new value is on the left, which matters for op1=nl.subtract.
    The free axes are one stream. What comes before the first element is in Vector's accumulator: reset_reduce starts
    from the identity of `op1` (0 for nl.add and nl.subtract, 1, -inf, +inf), load_reduce from `imm1`, reduce from what
    the instruction before left. The last result stays in the accumulator, in float32; only what is written to `dst`
    gets rounded. `imm0` and `imm1` are numbers or float32 tiles with one value per partition. 32-bit integers are not
    supported.

    Source: nki/api/nki/isa/__init__.py:1254. No page gives its time; assumed is that of tensor_tensor_scan.
    """


@tensor_scalar_cumulative.semantics
def _(out, src, op0, op1, imm0, imm1, reduce_cmd, dve_accumulator):
    op0.apply(src, column(imm0), out)
    if reduce_cmd is RESET_REDUCE:
        dve_accumulator.fill(op1.alu.identity)
    elif reduce_cmd is LOAD_REDUCE:
        dve_accumulator[...] = column(imm1)
    accumulates = _ACCUMULATES.get(op1.alu)
    if accumulates is None:
        scan(lambda before, x, y: op1.apply(x, before, y), dve_accumulator[:, 0], out, out)
    else:
        op1.apply(out[:, :1], dve_accumulator, out[:, :1])
        accumulates.accumulate(out, axis=1, out=out)
    np.copyto(dve_accumulator, out[:, -1:])


@tensor_scalar_cumulative.cost
def _(i, hw):
    yield stream(i, hw, "TENSOR_SCALAR_CUMULATIVE", hw.vector_scan_cycles, i.dst.free_size)
