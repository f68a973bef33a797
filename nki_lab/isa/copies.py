"""Instructions that move or fill tiles on chip."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import uint8, uint16, uint32
from nki_lab.ir.definition.form_key import LARGEST
from nki_lab.ir.definition.instruction import instruction, reads, rule, updates, writes
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import numerics
from nki_lab.isa.arrays import overlay, scratch
from nki_lab.isa.indirection import indirection, is_indirect, no_scatter_to_psum
from nki_lab.isa.rules import (
    engine_in,
    engine_on_target,
    flag,
    gpsimd_without_psum,
    not_all_in,
    same_dtype,
    same_free_size,
    same_partitions,
    tensors_of,
)
from nki_lab.isa.streaming import copy_cycles, narrow, stream
from nki_lab.rewrite import Hint, Rewrite
from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR, Engine
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

_BOOL = np.dtype(bool)


# -- tensor_copy ------------------------------------------------------------------------------------------------------


@rule(
    "`dst` and `src` must have the same dtype when one of them is packed (x4)",
    "dst",
    "src",
    help="view both tiles as uint32 (or uint16) to move their bits",
    source="nki/api/nki.api.shared.rst (nki-dtype)",
)
def _packed_alike(i, hw):
    packed = any(t.dtype.kind == "packed" for t in (i.dst, i.src))
    return not packed or i.dst.dtype is i.src.dtype


@rule(
    "`engine` must not be GpSimd when `dst` or `src` is indirect",
    "engine",
    "dst",
    "src",
    help="leave `engine` out: Vector and Scalar gather and scatter along the free axis",
    source=f"{ISA}:409",
)
def _indirect_off_gpsimd(i, hw):
    return i.engine is not GPSIMD or not (is_indirect(i.dst) or is_indirect(i.src))


@instruction(
    engine=(VECTOR, SCALAR, GPSIMD),
    dst=writes(SBUF, PSUM, indirect=True),
    src=reads(SBUF, PSUM, indirect=True),
    rules=(
        same_partitions("dst", "src"),
        same_free_size("dst", "src"),
        _packed_alike,
        engine_in(VECTOR, SCALAR, GPSIMD),
        engine_on_target(SCALAR, "scalar_tensor_copy", "use nisa.activation with op=nl.copy"),
        gpsimd_without_psum("dst", "src"),
        _indirect_off_gpsimd,
        *indirection("src", 412),
        no_scatter_to_psum(423),
    ),
    numerics=numerics.copy_exact("dst", "src"),
    in_place_safe=True,
    balanced=True,
)
def tensor_copy(
    dst: NkiTensor, src: NkiTensor, engine: Engine = Engine.unknown, name: str | None = None
) -> Any:
    """Copy a tile within SBUF and PSUM, casting it to the dtype of `dst`.

    With equal dtypes the bits are copied as they are. Otherwise values pass through float32, so integers above 2**24
    lose their low bits, and are rounded once on the write. Shapes may differ as long as partitions and elements per
    partition agree: the free axes are one stream. Where `engine` is left open Vector runs it; where Vector is the
    busiest engine of the kernel, Scalar runs some (that workload decides is documented, how is not). GpSimd cannot
    reach PSUM, and Scalar has the instruction from NeuronCore-v3 on (use activation with nl.copy before that).

    Source: nki/api/nki/isa/__init__.py:384.
    """


@tensor_copy.semantics
def _(out, src):
    np.copyto(out, src, casting="unsafe")


@tensor_copy.backward
def _(i, step):
    step.add("src", step.gradient())


@tensor_copy.cost
def _(i, hw):
    engine = i.form.engine
    cycles = copy_cycles(hw, engine, i.dst, i.src)
    fast = engine is not GPSIMD and cycles < hw.vector_copy_cycles
    yield stream(i, hw, "TENSOR_COPY", cycles, i.dst.free_size, fast=fast)


# -- memset -----------------------------------------------------------------------------------------------------------


def number_held_by(dtype: Any, value: Any) -> bool:
    """Tell whether a Python number can be an element of `dtype` without a change of kind."""
    if dtype.is_integer:
        info = np.iinfo(dtype.np)
        return type(value) in (int, bool) and info.min <= value <= info.max
    if dtype.kind == "packed":
        return type(value) in (int, float) and value == 0
    return type(value) in (int, float, bool)


def _held_instead(dtype: Any, value: Any) -> str:
    """Return what to write instead of a number that a tile does not hold."""
    if dtype.kind == "packed":
        return "load values with nisa.dma_copy; only 0 can be written"
    if type(value) is float and value.is_integer() and number_held_by(dtype, int(value)):
        return Hint(f"write value={int(value)}", Rewrite("", str(int(value))))
    if not dtype.is_integer:
        return "write a number"
    info = np.iinfo(dtype.np)
    return f"write an integer from {info.min} to {info.max}"


@rule(
    "`value` must be a number that the dtype of `dst` holds: an integer in its range for integers, 0 for packed types",
    "value",
    "dst",
    help=lambda i: _held_instead(i.dst.dtype, i.value),
    source="nki/migration/index.rst:497",
)
def _value_fits(i, hw):
    return number_held_by(i.dst.dtype, i.value)


@rule(
    "`value` should be a number that the dtype of `dst` holds; here it becomes infinite or NaN",
    "value",
    "dst",
    help="write a smaller number, or float('inf') where that is meant",
    source="nki/migration/index.rst:497",
    finding="hazard",
)
def _value_stays_finite(i, hw):
    if type(i.value) not in (int, float) or not i.dst.dtype.is_float or not abs(i.value) < LARGEST:
        return True  # values beyond float32 are reported for all instructions
    with np.errstate(all="ignore"):
        return bool(np.isfinite(np.float32(i.value).astype(i.dst.dtype.np)))


@instruction(
    engine=(VECTOR, GPSIMD),
    dst=writes(SBUF, PSUM),
    rules=(_value_fits, _value_stays_finite, engine_in(VECTOR, GPSIMD), gpsimd_without_psum("dst")),
    numerics=lambda i: {} if i.dst.dtype == "tfloat32" else {"dst": None},
)
def memset(
    dst: NkiTensor, value: Any, engine: Engine = Engine.unknown, name: str | None = None
) -> Any:
    """Fill a tile with a number known when the kernel is compiled.

    The number must suit the dtype: integer tiles take integers, packed (x4) tiles only 0. Floats are rounded to
    float32 and then to the tile's dtype.

    Source: nki/api/nki/isa/__init__.py:431.
    """


@memset.semantics
def _(out, value):
    out.fill(value if out.dtype.kind in "iu" else np.float32(value).astype(out.dtype))


@memset.cost
def _(i, hw):
    zeros = i.value == 0 and i.dst.dtype.itemsize == 2 and narrow(hw, [i.dst])
    cycles = hw.vector_memset_fast_cycles if zeros else hw.vector_copy_cycles
    if i.form.engine is GPSIMD:
        cycles = hw.gpsimd_cycles
    yield stream(i, hw, "MEMSET", cycles, i.dst.free_size)


# -- tensor_copy_predicated -------------------------------------------------------------------------------------------


@rule(
    "a number given as `src` must be a value that the dtype of `dst` can hold, exactly for tfloat32",
    "src",
    "dst",
    help="fill a tile with nisa.memset and pass it",
    source=ISA,
)
def _source_fits(i, hw):
    if type(i.src) is NkiTensor:
        return True
    if i.dst.dtype == "tfloat32" and int(np.float32(i.src).view(np.uint32)) & 0x1FFF:
        return False
    return number_held_by(i.dst.dtype, i.src)


@instruction(
    engine=(VECTOR,),
    dst=updates(SBUF, PSUM, indirect=True),
    src=reads(SBUF, PSUM, scalar=True, chosen=True),
    predicate=reads(SBUF, PSUM, dtypes=frozenset((uint8, uint16, uint32)), indirect=True),
    rules=(
        same_partitions("dst", "src", "predicate"),
        same_free_size("dst", "src", "predicate"),
        same_dtype("dst", "src"),
        not_all_in(PSUM, "src", "predicate"),
        _source_fits,
        flag("reverse_pred"),
        *indirection("predicate", 471),
    ),
    numerics=numerics.stored("dst", "src", "predicate"),
    in_place_safe=True,
)
def tensor_copy_predicated(
    dst: NkiTensor,
    src: float | NkiTensor,
    predicate: NkiTensor,
    reverse_pred: bool = False,
    name: str | None = None,
) -> Any:
    """Copy the elements for which `predicate` is not zero.

    The others of `dst` keep their values. `src` is a tile of the dtype of `dst`, or a number. `reverse_pred` copies
    where the predicate is zero. Bits are copied as they are. Shapes may differ as long as partitions and elements per
    partition agree.

    Source: nki/api/nki/isa/__init__.py:446.
    """


@tensor_copy_predicated.semantics
def _(out, dst, src, predicate, reverse_pred):
    chosen = scratch(predicate.shape, _BOOL, "predicate")
    (np.equal if reverse_pred else np.not_equal)(predicate, 0, chosen)
    if type(src) is not np.ndarray and out.dtype.kind not in "iu":
        src = np.float32(src).astype(out.dtype)
    np.copyto(out, dst)
    overlay(out, src, chosen)


@tensor_copy_predicated.backward
def _(i, step):
    gradient, chosen = step.gradient(), step.value("predicate").compare("not_equal", 0.0)
    if i.reverse_pred:
        chosen = 1.0 - chosen
    step.add("src", lambda: gradient * chosen)
    step.replace("dst", gradient * (1.0 - chosen))


@tensor_copy_predicated.cost
def _(i, hw):
    in_sbuf = all(t.buffer is SBUF for t in tensors_of(i, ("src", "predicate")))
    two_tiles = type(i.src) is NkiTensor
    cycles = hw.vector_predicated_sbuf_cycles if two_tiles and in_sbuf else hw.vector_copy_cycles
    yield stream(i, hw, "TENSOR_COPY_PREDICATED", cycles, i.dst.free_size)
