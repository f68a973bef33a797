"""Instructions with which the two cores of a logical core meet (LNC2)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nki_lab.errors import NotOnTarget
from nki_lab.ir.definition.cost import MicroOp, Transfer
from nki_lab.ir.definition.instruction import (
    Order,
    Shape,
    instruction,
    reads,
    rule,
    updates,
    writes,
)
from nki_lab.isa.dma import place_name
from nki_lab.isa.enums import dma_engine
from nki_lab.isa.numerics import stored
from nki_lab.isa.rules import choice, one_of_operators, same_dtype
from nki_lab.targets.engines import DMA, GPSIMD, SCALAR, SYNC, TENSOR, VECTOR, Engine
from nki_lab.targets.facts import GENERATED, ISA
from nki_lab.targets.spaces import PRIVATE_HBM, SBUF, SHARED_HBM

_GPSIMD_DMA_BYTES = {4: 1024, 2: 512, 1: 256}  # per partition, by bytes of an element


@rule(
    "`send_to_rank` and `recv_from_rank` must be 0 or 1",
    "send_to_rank",
    "recv_from_rank",
    help="a logical core has two cores: the other one is 1 - nl.program_id()",
    source=ISA,
)
def _ranks(i, hw):
    return all(type(r) is int and r in (0, 1) for r in (i.send_to_rank, i.recv_from_rank))


@rule("`pipe_id` must be an integer", "pipe_id", help="write pipe_id=0", source=ISA)
def _pipe(i, hw):
    return type(i.pipe_id) is int


@rule(
    "`src` and `dst` must have the same shape",
    "src",
    "dst",
    help="slice the larger tile",
    source=ISA,
)
def _same_shape(i, hw):
    return i.src.shape == i.dst.shape


@rule(
    "`dma_engine` gpsimd_dma moves at most 1024, 512 or 256 bytes per partition of 32, 16 or 8-bit types",
    "src",
    "dma_engine",
    help="leave `dma_engine` out, or send the tile in parts",
    source=ISA,
)
def _fits_gpsimd_dma(i, hw):
    return (
        i.dma_engine is not dma_engine.gpsimd_dma
        or i.src.free_bytes <= _GPSIMD_DMA_BYTES[i.src.dtype.itemsize]
    )


@instruction(
    engine=(DMA,),
    src=reads(SBUF, shape=Shape.OWN),
    dst=writes(SBUF, shape=Shape.OWN),
    requires=("lnc2",),
    rules=(_ranks, _pipe, choice("dma_engine", dma_engine), same_dtype("src", "dst"), _same_shape,
           _fits_gpsimd_dma),
    numerics=stored("src", "dst"),
    any_start=("src", "dst"),
    meets=True,
    order=Order.NONE,
)  # fmt: skip
def sendrecv(
    src, dst, send_to_rank, recv_from_rank, pipe_id, dma_engine=dma_engine.dma, name=None
) -> None:
    """Send a tile to the other core and receive one from it, at the same time.

    Both cores of a logical core call it; what one gives as `src` the other gets in `dst`. Calls with the same
    `pipe_id` belong together; calls with different ones do not wait for each other. `src` is the first parameter.
    Only the tiles are exchanged: uses of HBM by the two cores are not ordered by it.

    Source: nki/api/nki/isa/__init__.py, sendrecv.
    """


@sendrecv.semantics
def _(out, src):
    np.copyto(out, src)


@sendrecv.cost
def _(i, hw):
    size = i.src.size * i.src.dtype.itemsize
    yield Transfer(
        "SENDRECV", descriptor_bytes=i.src.free_bytes, descriptors=i.src.partitions, partitions=i.src.partitions,
        bytes_read=size, bytes_written=size, source="sbuf", destination="sbuf", dge="none",
        issuer=GPSIMD if i.dma_engine is dma_engine.gpsimd_dma else SYNC,
    )  # fmt: skip


_COMPUTE_PAGE = f"{GENERATED}/nki.isa.sendrecv_compute.html"


@rule(
    "`src` and `dst` must both be in sbuf or both in private_hbm",
    "src",
    "dst",
    help="copy one of them first with nisa.dma_copy",
    source=_COMPUTE_PAGE,
)
def _one_memory(i, hw):
    return i.src.storage.buffer is i.dst.storage.buffer


@rule(
    "`src` and `dst` must not have packed (x4) or scale dtypes, which cannot be reduced",
    "src",
    "dst",
    help="view them as the dtype of one value",
    source=_COMPUTE_PAGE,
)
def _numbers(i, hw):
    return not {i.src.dtype.kind, i.dst.dtype.kind} & {"packed", "scale"}


@instruction(
    engine=(DMA,),
    src=reads(SBUF, PRIVATE_HBM, shape=Shape.OWN),
    dst=writes(SBUF, PRIVATE_HBM, shape=Shape.OWN),
    requires=("lnc2",),
    rules=(
        _ranks,
        replace(one_of_operators("reduce_op", "add", "maximum", "minimum"), source=_COMPUTE_PAGE),
        _one_memory,
        _numbers,
        same_dtype("src", "dst"),
        _same_shape,
    ),
    any_start=("src", "dst"),
    meets=True,
    order=Order.NONE,
)
def sendrecv_compute(src, dst, send_to_rank, recv_from_rank, reduce_op, name=None) -> None:
    """Exchange tensors with the other core, and reduce the own and the received one.

    `dst` gets `src` reduced with the other core's `src`, by the arithmetic of the DMA engines. The page was seen in
    part: that both tensors have one shape and dtype, as with sendrecv, and that elements are cast to float32 and
    rounded once, as with dma_compute, is assumed. So is that a core whose ranks are both its own reduces its tile with
    itself. Ranks that do not name each other are an error.

    Source: nki/api/generated/nki.isa.sendrecv_compute.html.
    """


@sendrecv_compute.semantics
def _(out, src, peer, reduce_op):
    reduce_op.apply(src, peer, out)


@sendrecv_compute.cost
def _(i, hw):
    size = i.src.size * i.src.dtype.itemsize
    on_chip = i.src.storage.on_chip
    yield Transfer(
        "SENDRECV_COMPUTE", descriptor_bytes=i.src.free_bytes if on_chip else size,
        descriptors=i.src.partitions if on_chip else 1, partitions=i.src.partitions if on_chip else 1,
        bytes_read=2 * size, bytes_written=size, source=place_name(i.src), destination=place_name(i.dst), dge="none",
        issuer=SYNC, inputs=2,
    )  # fmt: skip


@rule("`cores` must be (0, 1)", "cores", help="write cores=(0, 1)", source=ISA)
def _both_cores(i, hw):
    return i.cores == (0, 1) and all(type(core) is int for core in i.cores)


@rule(
    "`engine` must be one that runs instructions",
    "engine",
    help="leave `engine` out: GpSimd waits",
    error=NotOnTarget,
    source=ISA,
)
def _waiting_engine(i, hw):
    return i.engine in (Engine.unknown, TENSOR, VECTOR, SCALAR, GPSIMD, SYNC)


@instruction(
    engine=(GPSIMD, VECTOR, SCALAR, TENSOR, SYNC),
    data=updates(SHARED_HBM, shape=Shape.OWN),
    requires=("lnc2",),
    rules=(_both_cores, _waiting_engine),
    numerics=stored("data"),
    meets=True,
    alone_since="0.7",
)
def core_barrier(data, cores, engine=Engine.gpsimd, name=None) -> None:
    """Wait on one engine until the other core has come to the same barrier.

    What either core wrote to `data`, a tensor in shared HBM, before the barrier, both can read after it, through
    whatever view of it. Only `engine` waits; other engines go on with what does not touch `data`, so uses of other
    tensors are not ordered. (The page also says that no core proceeds before all have come, which would order
    everything; its text on `data` and `engine` and all published kernels mean `data` alone.) A kernel on one core waits
    for nobody; before NKI 0.7 it must not call it.

    Source: nki/api/nki/isa/__init__.py, core_barrier; nki/api/generated/nki.isa.core_barrier.html.
    """


@core_barrier.semantics
def _(out_data, data):
    np.copyto(out_data, data)


@core_barrier.cost
def _(i, hw):
    yield MicroOp("CORE_BARRIER", hw.min_interval_cycles, bytes_read=i.data.dtype.itemsize)
