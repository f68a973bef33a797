"""dma_compute: what the DMA engines compute while they move tensors."""

from __future__ import annotations

import numpy as np

from nki_lab.ir.definition.cost import Transfer
from nki_lab.ir.definition.instruction import (
    Instruction,
    Order,
    Shape,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.ir.tensor.access import runs
from nki_lab.ir.tensor.fields import identity
from nki_lab.isa.dma import by_rows, one_index_per_row, place_name, role_of_dst, tensors
from nki_lab.isa.enums import dge_mode, oob_mode
from nki_lab.isa.rules import choice, flag, one_of_operators
from nki_lab.targets.engines import DMA, GPSIMD, SYNC
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import HBM, SBUF

_MOST_SOURCES = 16


@rule(
    "`srcs` must hold 1 to 16 tensors",
    "srcs",
    help="add the first 16 into a tensor, then go on with that",
    source=f"{ISA}:2711",
)
def _few_sources(i, hw):
    return 1 <= len(i.srcs) <= _MOST_SOURCES


@rule(
    "`dst` and every tensor of `srcs` must have the same number of elements",
    "dst",
    "srcs",
    help="slice the larger tensors",
    source=f"{ISA}:2710",
)
def _same_size(i, hw):
    return all(t.size == i.dst.size for t in i.srcs)


@rule(
    "`dst` and `srcs` must not have packed (x4) or scale dtypes, which cannot be added",
    "dst",
    "srcs",
    help="view the tensors as the dtype of one value",
    source=f"{ISA}:2697",
)
def _numbers(i, hw):
    return all(t.dtype.kind not in ("packed", "scale") for t in (i.dst, *i.srcs))


@rule(
    "`scales` must be None or 1.0 for each tensor of `srcs`",
    "scales",
    "srcs",
    help="leave `scales` out; multiply with nisa.tensor_scalar before or after",
    source=f"{ISA}:2665",
)
def _ones(i, hw):
    given = i.scales
    if given is None:
        return True
    return type(given) is tuple and len(given) == len(i.srcs) and all(s == 1 for s in given)


@rule(
    "`oob_mode` skip is only for a tensor addressed by an index tensor",
    "oob_mode",
    "dst",
    "srcs",
    help="leave `oob_mode` out: every address of this transfer is known",
    source="release-notes/components/nki.rst:242",
)
def _static_bounds(i, hw):
    return i.oob_mode is oob_mode.error or _gathers(i)


# -- gather and scatter -------------------------------------------------------------------------------


def _gathers(i: Instruction) -> bool:
    return any(map(by_rows, tensors(i)))


@rule(
    "`dst` and `srcs` must not be moved by a register or a [1, 1] tile: only an index tensor may address them",
    "dst",
    "srcs",
    help="copy the part with nisa.dma_copy first",
    source=f"{ISA}:2699",
)
def _static_addresses(i, hw):
    return all(t.dynamic is None or by_rows(t) for t in tensors(i))


@rule(
    "`srcs` must hold exactly 2 tensors when an index tensor addresses one",
    "srcs",
    help="what is in memory, and what is added to it",
    source=f"{ISA}:2688",
)
def _two_sources(i, hw):
    return len(i.srcs) == 2 or not _gathers(i)


@rule(
    "a scatter must have `dst` as one of `srcs` and the other in sbuf; a gather a `dst` in sbuf as one of `srcs`, and"
    " the other addressed by an index tensor",
    "dst",
    "srcs",
    help="write srcs=[rows, tile] with dst=rows to scatter, or srcs=[tile, rows] with dst=tile to gather, where rows"
    " is the same view of HBM, made once with .vector_select or .ap",
    source=f"{ISA}:2677",
)
def _reads_what_it_writes(i, hw):
    if not _gathers(i):
        return True
    others = [s for s in i.srcs if identity(s) != identity(i.dst)]
    if len(others) != 1:
        return False
    if by_rows(i.dst):
        return others[0].buffer is SBUF
    return i.dst.buffer is SBUF and by_rows(others[0])


@rule(
    "`unique_indices` must be True when an index tensor addresses a tensor",
    "unique_indices",
    "dst",
    "srcs",
    help="name every row once, and add up beforehand what goes to the same row",
    source=f"{ISA}:2690",
)
def _unique(i, hw):
    return i.unique_indices or not _gathers(i)


@instruction(
    engine=(DMA,),
    dst=writes(*HBM, SBUF, role=role_of_dst, shape=Shape.OWN, rows=True),
    srcs=reads(*HBM, SBUF, shape=Shape.OWN, many=True, rows=True),
    rules=(
        choice("oob_mode", oob_mode),
        _static_bounds,
        one_of_operators("reduce_op", "add"),
        flag("unique_indices"),
        _few_sources,
        _ones,
        _same_size,
        _numbers,
        _static_addresses,
        one_index_per_row("dst", "srcs"),
        _two_sources,
        _reads_what_it_writes,
        _unique,
    ),
    any_start=("dst", "srcs"),
    identities=True,
    order=Order.MOVES,
)
def dma_compute(
    dst,
    srcs,
    reduce_op,
    scales=None,
    unique_indices=True,
    oob_mode=oob_mode.error,
    name=None,
) -> None:
    """Add tensors element by element while moving them.

    `dst` gets the sum of up to 16 `srcs`, in HBM and SBUF alike, and may be one of them. Elements are taken in
    row-major order, so shapes may differ as long as the numbers of elements agree. Every element is cast to float32,
    added in the order of `srcs`, and rounded once to the dtype of `dst`. `reduce_op` can only be nl.add and `scales`
    only 1.0.

    Scatter and gather: one tensor in HBM may be a view whose rows a [rows, 1] tile of indices chooses. Then there are
    two `srcs`. To scatter, `dst` is that view and also one of `srcs`, and the other one, in SBUF, is added to its
    rows. To gather, the rows are added to `dst` in SBUF, which is one of `srcs`. A row may be named only once, which
    `unique_indices` promises; a scatter that breaks it is an error here, and undefined on the chip. With oob_mode
    skip an index out of range leaves its row as it was.

    Descriptors lie ready in memory (dge_mode none) where all addresses are known when the kernel is compiled; those
    of a gather or scatter are made by GpSimd (swdge).

    Source: nki/api/nki/isa/__init__.py:2656; nki/guides/architecture/trainium3_arch.rst:270 (half the rate of a
    copy for two sources).
    """


@dma_compute.place
def _(i, hw):
    return DMA


@dma_compute.semantics
def _(out, srcs):
    first, *others = (s if s.shape == out.shape else s.reshape(out.shape) for s in srcs)
    if not others:
        np.copyto(out, first)
        return
    np.add(first, others[0], out=out)
    for source in others[1:]:
        np.add(out, source, out=out)


@dma_compute.cost
def _(i, hw):
    pieces = [runs(i.dst, s) for s in i.srcs]
    itemsize = max(t.dtype.itemsize for t in (i.dst, *i.srcs))
    count = sum(p.count for p in pieces)
    maker = dge_mode.swdge if _gathers(i) else dge_mode.none
    yield Transfer(
        "DMA_COMPUTE",
        descriptor_bytes=-(-sum(p.elements for p in pieces) * itemsize // count),
        descriptors=count,
        partitions=max([t.shape[0] for t in (i.dst, *i.srcs) if t.storage.on_chip], default=1),
        bytes_read=sum(s.size * s.dtype.itemsize for s in i.srcs),
        bytes_written=i.dst.size * i.dst.dtype.itemsize,
        source="hbm" if any(place_name(s) == "hbm" for s in i.srcs) else "sbuf",
        destination=place_name(i.dst),
        dge=maker.name,
        issuer=SYNC if maker is dge_mode.none else GPSIMD,
        inputs=len(i.srcs),
    )
