"""Instructions that combine tiles element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.errors import NotOnTarget, WrongOperand
from nki_lab.ir.definition.instruction import Shape, instruction, reads, rule, writes
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import numerics
from nki_lab.isa.arrays import scratch
from nki_lab.isa.indirection import indirection, is_indirect, no_scatter_to_psum
from nki_lab.isa.operators import OPS, Op, OpClass
from nki_lab.isa.rules import (
    BINARY_ARITHMETIC,
    engine_in,
    engine_on_target,
    flag,
    gpsimd_without_psum,
    integers_for_bitvec,
    legal_operator,
    not_all_in,
    not_packed,
    operand_suits,
    operator_of_an_engine,
    operator_on_target,
    same_free_size,
    same_partitions,
)
from nki_lab.isa.streaming import copy_cycles, innermost_contiguous, narrow, stream
from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR, Engine
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

_POWER, _RSQRT = OPS["power"], OPS["rsqrt"]
_ADD, _SUBTRACT, _MULTIPLY = OPS["add"], OPS["subtract"], OPS["multiply"]


# -- tensor_tensor ----------------------------------------------------------------------------------------------------

_TILES = ("dst", "data1", "data2")


@rule(
    "`engine` must have the operator `op`: bitvec operators are Vector's, nl.power is GpSimd's",
    "engine",
    "op",
    help="leave `engine` out to let the compiler choose",
    error=WrongOperand,
    source=f"{ISA}:1019",
)
def _engine_has_operator(i, hw):
    return i.engine is Engine.unknown or i.engine in i.op.alu.engines


@rule(
    "`dst`, `data1` and `data2` must be in sbuf for nl.power, which GpSimd computes",
    "dst",
    "data1",
    "data2",
    "op",
    help="copy the tile to SBUF with nisa.tensor_copy",
    source=f"{ISA}:1045",
)
def _power_in_sbuf(i, hw):
    return i.op is not _POWER or all(t.buffer is SBUF for t in (i.dst, i.data1, i.data2))


def _tensor_tensor_numerics(i):
    if i.op.is_bitvec:
        return dict.fromkeys(_TILES, numerics.BITS)
    exact = numerics.exact_integers(i, _TILES)
    return dict.fromkeys(_TILES, exact) if exact is not None else {}


@instruction(
    engine=(VECTOR, GPSIMD),
    dst=writes(SBUF, PSUM, indirect=True),
    data1=reads(SBUF, PSUM, indirect=True),
    data2=reads(SBUF, PSUM),
    rules=(
        same_partitions(*_TILES),
        same_free_size(*_TILES),
        not_packed(*_TILES),
        not_all_in(PSUM, "data1", "data2"),
        legal_operator("op", OpClass.BITVEC, *BINARY_ARITHMETIC, operands=2, simulated=True),
        operator_of_an_engine("op"),
        operator_on_target("op"),
        integers_for_bitvec("op", *_TILES),
        _power_in_sbuf,
        engine_in(VECTOR, GPSIMD),
        _engine_has_operator,
        gpsimd_without_psum(*_TILES),
        *indirection("data1", 1061),
    ),
    numerics=_tensor_tensor_numerics,
    in_place_safe=True,
)
def tensor_tensor(
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Op,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> Any:
    """Apply an operator to two tiles, element by element.

    Arithmetic is computed in float32 and rounded once to the dtype of `dst`; a comparison gives 1.0 or 0.0. When all
    three tiles are int32 or uint32 in SBUF the instruction runs on GpSimd with exact integers (results that do not
    fit keep their low 32 bits, of which the page says nothing), unless `engine` asks for Vector. Bitvec operators see
    the bits of integer tiles. nl.power runs on GpSimd. Nothing is broadcast: repeat an axis with .broadcast(), or
    use tensor_scalar.

    Source: nki/api/nki/isa/__init__.py:1019.
    """


@tensor_tensor.semantics
def _(out, data1, data2, op):
    op.apply(data1, data2, out)


@tensor_tensor.backward
def _(i, step):
    step.chain("data1", (i.op, "data2", False))


@tensor_tensor.place
def _(i, hw):
    if i.engine is not Engine.unknown:
        return i.engine
    if i.op.is_bitvec:
        return VECTOR
    exact = numerics.exact_integers(i, _TILES) is not None
    return GPSIMD if exact or i.op is _POWER else VECTOR


@tensor_tensor.cost
def _(i, hw):
    tiles = [i.dst, i.data1, i.data2]
    fast = False
    if i.form.engine is GPSIMD:
        cycles = hw.gpsimd_cycles
    elif PSUM in (i.data1.buffer, i.data2.buffer):
        cycles = hw.vector_binary_psum_cycles
    elif narrow(hw, tiles) and (
        hw.supports("vector_performance_mode") or _fast_before_performance_mode(i, tiles)
    ):
        cycles, fast = hw.vector_binary_fast_cycles, hw.supports("vector_performance_mode")
    else:
        cycles = hw.vector_binary_cycles
    yield stream(i, hw, "TENSOR_TENSOR", cycles, i.dst.free_size, fast=fast)


def _fast_before_performance_mode(i, tiles):
    # nki/api/nki/isa/__init__.py@1db4d74e:1803: bfloat16, contiguous, add, subtract or multiply.
    return i.op in (_ADD, _SUBTRACT, _MULTIPLY) and all(innermost_contiguous(t) for t in tiles)


# -- tensor_scalar ----------------------------------------------------------------------------------------------------


@rule(
    "`op0` and `op1` must both be bitvec or both be arithmetic",
    "op0",
    "op1",
    help="use two tensor_scalar instructions",
    source=f"{ISA}:1097",
)
def _one_class(i, hw):
    return i.op1 is None or i.op0.is_bitvec == i.op1.is_bitvec


@rule(
    "`operand0` and `operand1` must be float32 when given as a tile, and integers for bitvec operators",
    "operand0",
    "operand1",
    "op0",
    help="cast it with nisa.tensor_copy into a float32 tile",
    source=f"{ISA}:1112",
    copy="float32",
)
def _float32_operands(i, hw):
    tiles = [v for v in (i.operand0, i.operand1) if type(v) is NkiTensor]
    return i.op0.is_bitvec or all(t.dtype == "float32" for t in tiles)


@rule(
    "nl.rsqrt must be the only operator: it runs on GpSimd, the others do not",
    "op0",
    "op1",
    help="apply the other operator with a separate tensor_scalar",
    source=f"{ISA}:1154",
)
def _rsqrt_alone(i, hw):
    return _RSQRT not in (i.op0, i.op1) or i.op1 is None


def _runs_rsqrt(i):
    return i.op0 is _RSQRT


@rule(
    "`op0` and `op1` must run on Vector: nl.power is GpSimd's, in tensor_tensor",
    "op0",
    "op1",
    help="use nisa.tensor_tensor with a tile of exponents",
    error=WrongOperand,
    source=f"{ISA}:1019",
)
def _no_power(i, hw):
    return _POWER not in (i.op0, i.op1)


@rule(
    "`engine` must have the operators: nl.rsqrt is GpSimd's and its only one, bitvec operators are Vector's",
    "engine",
    "op0",
    "op1",
    help="leave `engine` out to let the compiler choose",
    error=WrongOperand,
    source=f"{ISA}:1100",
)
def _engine_has_operators(i, hw):
    if i.engine is Engine.unknown:
        return True
    if i.engine is GPSIMD or _runs_rsqrt(i):
        return i.engine is GPSIMD and _runs_rsqrt(i)
    return i.engine is VECTOR or not i.op0.is_bitvec


@rule(
    "on Scalar, `op0` and `op1` must be nl.multiply and nl.add, nl.multiply alone, or nl.add alone",
    "engine",
    "op0",
    "op1",
    help="use engine=nisa.engine.vector",
    error=NotOnTarget,
    source=f"{ISA}:1106",
)
def _scalar_combination(i, hw):
    if i.engine is not SCALAR or hw.supports("scalar_tensor_scalar_any"):
        return True
    return (i.op0, i.op1) in ((_MULTIPLY, _ADD), (_MULTIPLY, None), (_ADD, None))


@rule(
    "`dst` and `data` must be in sbuf for nl.rsqrt, which GpSimd computes",
    "dst",
    "data",
    "op0",
    help="copy the tile to SBUF with nisa.tensor_copy",
    source=f"{ISA}:1154",
    copy="sbuf",
)
def _rsqrt_in_sbuf(i, hw):
    return not _runs_rsqrt(i) or all(t.buffer is SBUF for t in (i.dst, i.data))


@rule(
    "an indirect `dst` or `data` must not be 32-bit integers of an arithmetic operator, the form for addresses",
    "dst",
    "data",
    "op0",
    help="gather or scatter with nisa.tensor_copy, and compute in a tile",
    source=f"{ISA}:1125",
)
def _no_indirect_addresses(i, hw):
    # No page tells more of that form than that it is int32 and uint32 arithmetic.
    integers = all(t.dtype in ("int32", "uint32") for t in (i.dst, i.data))
    return i.op0.is_bitvec or not integers or not (is_indirect(i.dst) or is_indirect(i.data))


_SCALAR_TILES = ("dst", "data", "operand0", "operand1")
_ANY_CLASS = (OpClass.BITVEC, *BINARY_ARITHMETIC, OpClass.UNARY)


@instruction(
    engine=(VECTOR, SCALAR, GPSIMD),
    dst=writes(SBUF, PSUM, indirect=True),
    data=reads(SBUF, PSUM, indirect=True),
    operand0=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, optional=True),
    operand1=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True, optional=True),
    rules=(
        same_partitions("dst", "data"),
        same_free_size("dst", "data"),
        not_packed("dst", "data"),
        legal_operator("op0", *_ANY_CLASS, simulated=True),
        legal_operator("op1", *_ANY_CLASS, optional=True, simulated=True),
        operator_of_an_engine("op0", "op1"),
        operator_on_target("op0", "op1"),
        _no_power,
        _one_class,
        _rsqrt_alone,
        _rsqrt_in_sbuf,
        operand_suits("op0", "operand0"),
        operand_suits("op1", "operand1"),
        integers_for_bitvec("op0", *_SCALAR_TILES),
        _float32_operands,
        flag("reverse0", "reverse1"),
        engine_in(VECTOR, SCALAR, GPSIMD),
        engine_on_target(SCALAR, "scalar_tensor_scalar", "use nisa.activation with scale and bias"),
        _engine_has_operators,
        _scalar_combination,
        _no_indirect_addresses,
        *indirection("data", 1128),
        no_scatter_to_psum(1140),
    ),
    numerics=numerics.by_operator("op0", *_SCALAR_TILES),
    in_place_safe=True,
)
def tensor_scalar(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Op,
    operand0: float | NkiTensor,
    reverse0: bool = False,
    op1: Op | None = None,
    operand1: float | NkiTensor | None = None,
    reverse1: bool = False,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> Any:
    """Apply one or two operators with numbers or values per partition.

    The result is `(data op0 operand0) op1 operand1`. An operand is a number, or a float32 tile with one value per
    partition that all its elements meet. `reverse0` and `reverse1` put the operand on the left. Both operators are
    arithmetic (float32, one rounding on the write) or both bitvec (bits of integer tiles). For an operator with one
    operand such as nl.abs pass None or 0. Vector runs it; nl.rsqrt alone runs on GpSimd; Scalar, on request,
    multiplies and adds from NeuronCore-v3 on. The second operator costs no time.

    Source: nki/api/nki/isa/__init__.py:1081.
    """


@tensor_scalar.semantics
def _(out, data, op0, operand0, reverse0, op1, operand1, reverse1):
    if op1 is None:
        op0.apply_with(data, operand0, reverse0, out)
    else:
        # The first result waits aside, so that `out` is written in one step: it may be where `data` is.
        between = scratch(out.shape, out.dtype, "between operators")
        op0.apply_with(data, operand0, reverse0, between)
        op1.apply_with(between, operand1, reverse1, out)


@tensor_scalar.backward
def _(i, step):
    step.chain("data", (i.op0, "operand0", i.reverse0), (i.op1, "operand1", i.reverse1))


@tensor_scalar.place
def _(i, hw):
    if i.engine is not Engine.unknown:
        return i.engine
    return GPSIMD if _runs_rsqrt(i) else VECTOR


@tensor_scalar.cost
def _(i, hw):
    engine = i.form.engine
    cycles = hw.gpsimd_rsqrt_cycles if engine is GPSIMD else copy_cycles(hw, engine, i.dst, i.data)
    fast = engine is not GPSIMD and cycles < hw.vector_copy_cycles
    yield stream(i, hw, "SCALAR", cycles, i.dst.free_size, fast=fast)


# -- scalar_tensor_tensor ---------------------------------------------------------------------------------------------


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM),
    data=reads(SBUF, PSUM),
    operand0=reads(SBUF, PSUM, shape=Shape.VECTOR, scalar=True),
    operand1=reads(SBUF, PSUM),
    rules=(
        same_partitions("dst", "data", "operand1"),
        same_free_size("dst", "data", "operand1"),
        not_packed("dst", "data", "operand0", "operand1"),
        not_all_in(PSUM, "data", "operand1"),
        legal_operator("op0", *BINARY_ARITHMETIC),
        legal_operator("op1", *BINARY_ARITHMETIC),
        operator_on_target("op0", "op1"),
        _no_power,
        flag("reverse0", "reverse1"),
    ),
    opaque=("operand0",),
    in_place_safe=True,
)
def scalar_tensor_tensor(
    dst: NkiTensor,
    data: NkiTensor,
    op0: Op,
    operand0: float | NkiTensor,
    op1: Op,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> Any:
    """Apply an operator with a number or vector, then one with a tile.

    The result is `(data op0 operand0) op1 operand1`. Both operators are arithmetic; everything is computed in float32
    and rounded once on the write. `operand0` is a number or a tile with one value per partition, `operand1` a tile as
    large as `data`. `reverse0` and `reverse1` swap the operands. It takes about the time of a tensor_tensor.

    Source: nki/api/nki/isa/__init__.py:2457.
    """


@scalar_tensor_tensor.semantics
def _(out, data, op0, operand0, op1, operand1, reverse0, reverse1):
    between = scratch(out.shape, out.dtype, "between operators")
    op0.apply_with(data, operand0, reverse0, between)
    op1.apply_with(between, operand1, reverse1, out)


@scalar_tensor_tensor.backward
def _(i, step):
    step.chain("data", (i.op0, "operand0", i.reverse0), (i.op1, "operand1", i.reverse1))


@scalar_tensor_tensor.cost
def _(i, hw):
    narrow_tiles = narrow(hw, [i.dst, i.data, i.operand1])
    even = i.dst.free_size % 2 == 0
    fast = narrow_tiles and even and (i.op0, i.op1) == (_SUBTRACT, _MULTIPLY)
    cycles = hw.vector_ternary_fast_cycles if fast else hw.vector_ternary_cycles
    yield stream(i, hw, "SCALAR_TENSOR_TENSOR", cycles, i.dst.free_size)


# -- reciprocal -------------------------------------------------------------------------------------------------------


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM),
    data=reads(SBUF, PSUM),
    rules=(
        same_partitions("dst", "data"),
        same_free_size("dst", "data"),
        not_packed("dst", "data"),
    ),
    in_place_safe=True,
)
def reciprocal(dst: NkiTensor, data: NkiTensor, name: str | None = None) -> Any:
    """Compute 1 / data on Vector, in float32.

    More exact than the activation function nl.reciprocal on Scalar, and about eight times slower on large tiles
    (nki/api/nki.api.shared.rst, nki-engine-sel).

    Source: nki/api/nki/isa/__init__.py:2388.
    """


@reciprocal.semantics
def _(out, data):
    np.divide(1, data, out=out)


@reciprocal.backward
def _(i, step):
    step.chain("data", (OPS["reciprocal"], "", False))


@reciprocal.cost
def _(i, hw):
    yield stream(i, hw, "RECIPROCAL", hw.vector_reciprocal_cycles, i.dst.free_size)
