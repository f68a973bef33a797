"""dma_copy: transfers of the DMA engines, and who makes their descriptors."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.errors import NotOnTarget
from nki_lab.ir.definition.cost import Transfer
from nki_lab.ir.definition.instruction import (
    UPDATE,
    WRITE,
    Instruction,
    Order,
    Rule,
    Shape,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.ir.tensor.access import runs
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.enums import dge_mode, oob_mode
from nki_lab.isa.rules import choice, engine_in, named, same_element_count, same_grouping
from nki_lab.targets.engines import DMA, GPSIMD, SCALAR, SYNC, Engine
from nki_lab.targets.facts import DGE, ISA
from nki_lab.targets.spaces import HBM, SBUF
from nki_lab.targets.spec import Target

# -- rules of every transfer ------------------------------------------------------------------------------------


@rule(
    "`priority` must be None or an integer from 0 (first) to 3",
    "priority",
    source=f"{ISA}:371",
)
def _priority(i, hw):
    return i.priority is None or (type(i.priority) is int and 0 <= i.priority <= 3)


@rule(
    "`priority` needs a target with `dma_priority`",
    "priority",
    help="leave `priority` out on this target",
    error=NotOnTarget,
    source=f"{ISA}:371",
)
def _priority_on_target(i, hw):
    return i.priority is None or hw.supports("dma_priority")


@rule(
    "`dge_mode` hwdge needs a target with `hwdge`",
    "dge_mode",
    help="leave `dge_mode` out, or use nisa.dge_mode.swdge",
    error=NotOnTarget,
    source=f"{DGE}:176",
)
def _hardware_on_target(i, hw):
    return i.dge_mode is not dge_mode.hwdge or hw.supports("hwdge")


# -- addresses that depend on the device --------------------------------------------------------------


def by_rows(t: NkiTensor) -> bool:
    """Tell whether a tile of indices chooses the rows of a tensor."""
    return t.dynamic is not None and t.dynamic.kind is Addressing.VECTOR


def index_of(t: NkiTensor) -> NkiTensor:
    """Return the tile of indices that chooses the rows of a tensor."""
    assert t.dynamic is not None and type(t.dynamic.index) is NkiTensor
    return t.dynamic.index


def tensors(i: Instruction) -> list[NkiTensor]:
    """Return every tensor operand of `i`, those in lists too."""
    return [t for _, _, t in i.definition.tensors(i)]


def role_of_dst(i: Instruction) -> str:
    """Return UPDATE where an address out of range may leave elements of `dst` as they are."""
    skips = i.oob_mode is oob_mode.skip and any(t.dynamic is not None for t in tensors(i))
    return UPDATE if skips else WRITE


@rule(
    "`dge_mode` must be nisa.dge_mode.unknown or swdge when a tile of indices chooses the rows",
    "dge_mode",
    "dst",
    "src",
    help="leave `dge_mode` out: GpSimd makes the descriptors of a gather or scatter",
    source=f"{DGE}:205",
)
def software_gathers(i: Instruction, hw: Target) -> bool:
    """Require software descriptors of gathers and scatters."""
    return i.dge_mode in (dge_mode.unknown, dge_mode.swdge) or not any(map(by_rows, tensors(i)))


def one_index_per_row(*names: str) -> Rule:
    """Require that a tile of indices has one element for each row."""

    def holds(i: Instruction, hw: Target) -> bool:
        chosen = [t for t in tensors(i) if by_rows(t)]
        return all(index_of(t).shape[0] == t.shape[0] for t in chosen)

    return rule(
        f"the tile of indices that chooses the rows of {named(names, 'or')} must have one partition for each row",
        *names,
        help="slice the tile of indices: [rows, 1]; more columns are for nisa.dma_transpose",
        source=f"{ISA}:302",
    )(holds)


#: Bits are copied.
AS_STORED: dict[str, Any] = {"dst": None, "src": None}

#: Rules of the argument `priority`.
PRIORITY_RULES: tuple[Rule, ...] = (_priority, _priority_on_target)

#: Rules every DMA instruction has.
DMA_RULES: tuple[Rule, ...] = (
    choice("dge_mode", dge_mode),
    choice("oob_mode", oob_mode),
    *PRIORITY_RULES,
    _hardware_on_target,
)


# -- cost ---------------------------------------------------------------------------------------------


def descriptors_by(
    i: Instruction, hw: Target, *, hardware_can: bool, otherwise: dge_mode
) -> tuple[str, Engine]:
    """Return who makes the descriptors, and the engine whose queue starts the transfer.

    Only modes that were asked for are documented (nki/deep-dives/nki-dge.rst:45, :69, :104), and that a gather or
    scatter is software's (:209). For `unknown` the compiler otherwise chooses by rules that no page states. Assumed
    are: the hardware block where there is one and it can do the transfer, else `otherwise`; on chips without the
    block descriptors that lie ready, as published traces show, and software's for an address that the device
    computes. Sync starts what no page gives to another engine.
    """
    mode = i.dge_mode
    if mode is dge_mode.unknown:
        if any(map(by_rows, tensors(i))):
            mode = dge_mode.swdge
        elif not hw.supports("hwdge"):
            dynamic = any(t.dynamic is not None for t in tensors(i))
            mode = dge_mode.swdge if dynamic else dge_mode.none
        else:
            mode = dge_mode.hwdge if hardware_can else otherwise
    if mode is dge_mode.swdge:
        return mode.name, GPSIMD
    asked = i.engine if "engine" in i.definition.position else Engine.unknown
    return mode.name, SYNC if asked is Engine.unknown else asked


def place_name(t: NkiTensor) -> str:
    """Return how costs name the memory of a tensor."""
    return "sbuf" if t.storage.on_chip else "hbm"


def _partitions(dst: NkiTensor, src: NkiTensor) -> int:
    """Return the partitions by which the transfer is dealt to the DMA engines; 1 within HBM."""
    on_chip = [t.shape[0] for t in (dst, src) if t.storage.on_chip]
    return max(on_chip, default=1)


def transfer(i: Instruction, made_by: tuple[str, Engine], opcode: str, **facts: Any) -> Transfer:
    """Return the transfer of `i`; `facts` are the fields that its operands do not tell."""
    dst, src = i.dst, i.src
    maker, issuer = made_by
    return Transfer(
        opcode,
        partitions=_partitions(dst, src),
        bytes_read=src.size * src.dtype.itemsize,
        bytes_written=dst.size * dst.dtype.itemsize,
        source=place_name(src),
        destination=place_name(dst),
        dge=maker,
        issuer=issuer,
        **facts,
    )


# -- dma_copy -----------------------------------------------------------------------------------------


@rule(
    "`dge_mode` hwdge cannot cast: `dst` and `src` must have the same dtype",
    "dst",
    "src",
    "dge_mode",
    help="leave `dge_mode` out, or reinterpret the bytes with .view(dtype)",
    source="release-notes/components/nki.rst:390",
)
def _hardware_keeps_dtype(i, hw):
    return i.dge_mode is not dge_mode.hwdge or i.dst.dtype == i.src.dtype


@rule(
    "`engine` can only be given together with dge_mode=nisa.dge_mode.hwdge",
    "engine",
    "dge_mode",
    help="leave `engine` out",
    source=f"{ISA}:381",
)
def _engine_with_hardware(i, hw):
    return i.engine is Engine.unknown or i.dge_mode is dge_mode.hwdge


@rule(
    "packed (x4), scale and int64 dtypes cannot be cast: `dst` and `src` must have the same dtype",
    "dst",
    "src",
    help="make both tensors of one dtype",
    source="nki/get-started/about/nki-dma-overview.rst:19",
)
def _castable(i, hw):
    kinds = {i.dst.dtype.kind, i.src.dtype.kind}
    return i.dst.dtype == i.src.dtype or not kinds & {"packed", "scale", "wide"}


@instruction(
    engine=(DMA,),
    dst=writes(*HBM, SBUF, role=role_of_dst, shape=Shape.OWN, rows=True, wide=True),
    src=reads(*HBM, SBUF, shape=Shape.OWN, rows=True, wide=True),
    rules=(
        *DMA_RULES,
        software_gathers,
        one_index_per_row("dst", "src"),
        engine_in(SYNC, SCALAR),
        _engine_with_hardware,
        same_element_count("dst", "src"),
        same_grouping("dst", "src"),
        _castable,
        _hardware_keeps_dtype,
    ),
    numerics=lambda i: AS_STORED if i.dst.dtype == i.src.dtype else {},
    any_start=("dst", "src"),
    order=Order.MOVES,
)
def dma_copy(
    dst,
    src,
    priority=None,
    oob_mode=oob_mode.error,
    dge_mode=dge_mode.unknown,
    engine=Engine.unknown,
    name=None,
) -> None:
    """Copy `src` to `dst` between HBM and SBUF, in any direction.

    Elements are taken and put in row-major order, so shapes may differ as long as the numbers of elements agree.
    One dtype on both sides copies the bits; different dtypes are cast through float32. PSUM cannot be reached. On
    chip a DMA may start at any partition.

    Each run of elements that is contiguous on both sides (on chip: within one partition) is one descriptor; long
    runs over many partitions are fast. `dge_mode` says who makes the descriptors, `engine` which of Sync and Scalar
    starts the hardware block.

    Gather and scatter: a `src` or `dst` in HBM may be a view whose rows a [rows, 1] tile of indices chooses
    (.vector_select, or .ap with vector_offset); GpSimd makes a descriptor for each row. A register or [1, 1] tile may
    move any view (.select, or .ap with scalar_offset). An index out of range is an error, or with oob_mode skip
    leaves its row of `dst`, or all of `dst`, as it was. When a scatter names a row twice, which write lasts is not
    documented; here it is the later one, and the run has a finding.

    Source: nki/api/nki/isa/__init__.py:246, nki/deep-dives/nki-dge.rst, nki/deep-dives/nki-aps.rst.
    """


@dma_copy.place
def _(i, hw):
    return DMA  # `engine` names the engine that starts the transfer


@dma_copy.semantics
def _(out, src):
    np.copyto(out, src if src.shape == out.shape else src.reshape(out.shape))


@dma_copy.backward
def _(i, step):
    step.moved("dst", "src")


@dma_copy.cost
def _(i, hw):
    pieces = runs(i.dst, i.src)
    itemsize = max(i.dst.dtype.itemsize, i.src.dtype.itemsize)
    yield transfer(
        i,
        descriptors_by(i, hw, hardware_can=i.dst.dtype == i.src.dtype, otherwise=dge_mode.swdge),
        "DMA_DIRECT2D",
        descriptor_bytes=pieces.mean_bytes(itemsize),
        descriptors=pieces.count,
    )
