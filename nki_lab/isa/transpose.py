"""Instructions with which the Tensor and Vector engines swap the axes of a tile."""

from __future__ import annotations

import numpy as np

from nki_lab.dtypes import float8_e4m3fn, tfloat32
from nki_lab.errors import NotOnTarget
from nki_lab.ir.definition.instruction import (
    Instruction,
    Order,
    Shape,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.isa.arrays import scratch
from nki_lab.isa.products import product
from nki_lab.isa.rules import engine_in, same_dtype
from nki_lab.isa.streaming import stream
from nki_lab.isa.systolic import INPUTS, TRANSPOSE_MODE, array_passes, identity
from nki_lab.targets.engines import TENSOR, VECTOR, Engine
from nki_lab.targets.facts import ISA, TRN2_ARCH
from nki_lab.targets.spaces import PSUM, SBUF


def _engine(i: Instruction) -> Engine:
    # release-notes/components/nki.rst:302: an engine asked for is honoured, otherwise the memory of `dst` decides.
    if i.engine is not Engine.unknown:
        return i.engine
    return TENSOR if i.dst.buffer is PSUM and i.data.buffer is SBUF else VECTOR


@rule(
    "`dst` must have a partition for each element of a partition of `data`, and the other way round",
    "dst",
    "data",
    help="[P, F] transposes to [F, P]; further free axes of `data` are flattened",
    source=f"{ISA}:854",
)
def _transposed_shape(i, hw):
    return (i.dst.partitions, i.dst.free_size) == (i.data.free_size, i.data.partitions)


@rule(
    "on the Tensor engine `data` must be in sbuf and `dst` in psum",
    "data",
    "dst",
    "engine",
    help="leave `engine` out, or make `dst` in nl.psum and copy it to SBUF afterwards",
    source=f"{ISA}:845",
)
def _tensor_memories(i, hw):
    return _engine(i) is not TENSOR or (i.data.buffer is SBUF and i.dst.buffer is PSUM)


@rule(
    "on the Vector engine `data` must be at most 32 x 32",
    "data",
    "dst",
    "engine",
    help="make `dst` in nl.psum: the Tensor engine transposes up to 128 x 128 from SBUF",
    source=f"{ISA}:858",
)
def _vector_limit(i, hw):
    longest = max(i.data.partitions, i.data.free_size)
    return _engine(i) is not VECTOR or longest <= hw.vector_transpose_max


@rule(
    "this target's Tensor engine transposes by multiplying, so `data` must have a type of nc_matmul",
    "data",
    "dst",
    "engine",
    help="use engine=nisa.engine.vector in blocks of 32 x 32, or cast to float32",
    error=NotOnTarget,
    source=f"{ISA}:836",
)
def _multiplied_dtype(i, hw):
    multiplies = _engine(i) is TENSOR and not hw.supports(TRANSPOSE_MODE)
    return not multiplies or i.data.dtype in INPUTS - {float8_e4m3fn}


@rule(
    "8-bit `data` leaves the Tensor engine as 16-bit elements, so `dst` must step over every second element",
    "dst",
    "data",
    "engine",
    help="make a PSUM tile of twice the free size and pass tile[:, ::2], or cast `data` to bfloat16 first",
    source=f"{TRN2_ARCH}:204",
)
def _padded_bytes(i, hw):
    if _engine(i) is not TENSOR or not hw.supports(TRANSPOSE_MODE) or i.data.dtype.itemsize > 1:
        return True
    steps = [s for s, n in zip(i.dst.strides[1:], i.dst.shape[1:], strict=True) if n > 1]
    return not steps or steps[-1] == 2


@instruction(
    engine=(TENSOR, VECTOR),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT, axes=("F", "P")),
    data=reads(SBUF, PSUM, shape=Shape.FLAT, axes=("P", "F")),
    rules=(
        engine_in(TENSOR, VECTOR),
        same_dtype("dst", "data"),
        _transposed_shape,
        _tensor_memories,
        _vector_limit,
        _multiplied_dtype,
        _padded_bytes,
    ),
    numerics=lambda i: {"dst": None, "data": None},
    order=Order.NONE,
)
def nc_transpose(dst, data, engine=Engine.unknown, name=None) -> None:
    """Swap the partition axis and the free axis of a tile.

    `data` [P, F] becomes `dst` [F, P] of the same dtype; further free axes are flattened. The Tensor engine takes up
    to 128 x 128 from SBUF to PSUM, the Vector engine up to 32 x 32 between any of the two. Without `engine`, a PSUM
    `dst` with `data` in SBUF goes to the Tensor engine, everything else to the Vector engine.

    Bits are kept, except on the Tensor engine of NeuronCore-v2: it multiplies by an identity matrix, so one NaN or
    infinity in a column of `data` spoils that row of `dst`.

    Source: nki/api/nki/isa/__init__.py:829; nki/guides/architecture/trainium2_arch.rst:194.
    """


@nc_transpose.place
def _(i, hw):
    return _engine(i)


@nc_transpose.semantics
def _(out, data, engine, target):
    if engine is TENSOR and not target.supports(TRANSPOSE_MODE):
        values = data.astype(np.float32)
        turned = scratch(out.shape, values.dtype, "transpose")
        product(values, identity(len(data), values.dtype), turned)
        np.copyto(out, turned, casting="unsafe")
    else:
        np.copyto(out, data.T)


@nc_transpose.backward
def _(i, step):
    step.add("data", step.gradient().transposed())


@nc_transpose.cost
def _(i, hw):
    data = i.data
    if _engine(i) is VECTOR:
        yield stream(i, hw, "NC_TRANSPOSE", hw.vector_copy_cycles, data.free_size)
    else:
        yield from array_passes(
            hw,
            data,
            i.dst,
            columns=data.free_size,
            stream=data.partitions,  # columns of the identity matrix
            depth=0,
            moving_bytes=data.partitions**2 * data.dtype.itemsize,
            full_float32=data.dtype.itemsize == 4 and data.dtype is not tfloat32,
            half_float32=hw.supports(TRANSPOSE_MODE),
        )
