"""dma_transpose: the DMA engines transpose while they move."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nki_lab.ir.definition.instruction import (
    Definition,
    Instruction,
    Order,
    Rule,
    Shape,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.dma import (
    AS_STORED,
    DMA_RULES,
    by_rows,
    descriptors_by,
    dma_copy,
    index_of,
    role_of_dst,
    software_gathers,
    transfer,
)
from nki_lab.isa.enums import dge_mode, oob_mode
from nki_lab.isa.rules import same_dtype
from nki_lab.isa.transpose import nc_transpose
from nki_lab.targets.engines import DMA
from nki_lab.targets.facts import DGE, ISA
from nki_lab.targets.spaces import HBM, PSUM, SBUF
from nki_lab.targets.spec import Target

#: Number of axes -> which axis of `src` each axis of `dst` is.
TRANSPOSED = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def _axes(i: Instruction) -> tuple[int, ...]:
    return i.axes or TRANSPOSED[len(i.src.shape)]


@rule(
    "`src` must have 2, 3 or 4 axes",
    "src",
    help="merge axes with flatten_dims or reshape",
    source=f"{ISA}:872",
)
def _transposable(i, hw):
    return len(i.src.shape) in TRANSPOSED


@rule(
    "`axes` must be None or (1, 0), (2, 1, 0), (3, 1, 2, 0) for 2, 3 and 4 axes",
    "axes",
    "src",
    help="change the order of other axes with permute before or after",
    source=f"{ISA}:1009",
)
def _known_axes(i, hw):
    return i.axes is None or i.axes == TRANSPOSED[len(i.src.shape)]


@rule(
    "`dst` must have exactly the shape of the transposed `src`, with as many axes",
    "dst",
    "src",
    "axes",
    help="use .reshape(...) or .expand_dim(...) on `dst`",
    source="release-notes/components/nki.rst:271",
)
def _exact_shape(i, hw):
    return i.dst.shape == tuple(i.src.shape[a] for a in _axes(i))


@rule(
    "`dge_mode` of a transpose whose addresses are known must not be nisa.dge_mode.swdge",
    "dge_mode",
    "src",
    "dst",
    help="leave `dge_mode` out; swdge is only for a `src` gathered by an index tensor",
    source=f"{DGE}:199",
)
def _transpose_modes(i, hw):
    # The API page leaves out `none` as well; the page on descriptors has it, and published kernels use it.
    dynamic = i.src.dynamic is not None or i.dst.dynamic is not None
    return dynamic or i.dge_mode is not dge_mode.swdge


@rule(
    "`oob_mode` skip is only for a `src` whose address the device computes",
    "oob_mode",
    "src",
    help="leave `oob_mode` out: every address of this transpose is known",
    source=f"{ISA}:1016",
)
def _static_bounds(i, hw):
    return i.oob_mode is oob_mode.error or i.src.dynamic is not None


# -- a gathered `src` ---------------------------------------------------------------------------------


def _gathered(
    text: str, line: int, help: str, holds: Callable[[NkiTensor, NkiTensor], bool]
) -> Rule:
    """Make a rule on a `src` whose rows a tile of indices chooses; `holds(src, index)`."""

    def check(i: Instruction, hw: Target) -> bool:
        return not by_rows(i.src) or holds(i.src, index_of(i.src))

    return rule(text, "src", help=help, source=f"{ISA}:{line}")(check)


_SIXTEEN = 16

_GATHER_RULES = (
    _gathered(
        "a gathered `src` of 4 axes must have size 1 on axis 1 or 2",
        894,
        "gather with several transposes",
        lambda src, index: len(src.shape) != 4 or 1 in src.shape[1:3],
    ),
    _gathered(
        "a gathered `src` must have at most 128 elements on its last axis",
        895,
        "split the last axis: it becomes the partition axis of `dst`",
        lambda src, index: src.shape[-1] <= 128,
    ),
    _gathered(
        "a gathered `src` must have a dtype of 2 bytes",
        896,
        "gather with nisa.dma_copy, then transpose with nisa.nc_transpose",
        lambda src, index: src.dtype.itemsize == 2,
    ),
    _gathered(
        "a gathered `src` must have a multiple of 16 rows",
        900,
        "gather more rows than are needed",
        lambda src, index: src.shape[0] % _SIXTEEN == 0,
    ),
    _gathered(
        "the indices of a gathered `src` must be uint32",
        903,
        "cast them with nisa.tensor_copy",
        lambda src, index: index.dtype == "uint32",
    ),
    _gathered(
        "the indices of a gathered `src` must be on 16 to 128 partitions, a multiple of 16; on 128 if in several"
        " columns",
        901,
        "make a tile [16 n, 1] or [128, n] of indices; they are taken column by column",
        lambda src, index: (
            index.shape[0] % _SIXTEEN == 0 and (index.free_size == 1 or index.shape[0] == 128)
        ),
    ),
)


def _two_bytes(src: NkiTensor) -> bool:
    return src.dtype.itemsize == 2


def _short_rows(src: NkiTensor, hw: Target) -> bool:
    return src.shape[-1] <= hw.partitions


def _row_groups(src: NkiTensor) -> bool:
    first = src.shape[0]
    if len(src.shape) == 2:
        return first == 16
    return first in (1, 2, 4, 8, 16) and first * src.shape[-2] % 16 == 0


def _fits_hardware(src: NkiTensor, hw: Target) -> bool:
    return _two_bytes(src) and _short_rows(src, hw) and _row_groups(src)


@rule(
    "a hwdge transpose needs a `src` dtype of 2 bytes",
    "src",
    "dge_mode",
    help="leave `dge_mode` out for other dtypes",
    source=f"{ISA}:887",
)
def _hardware_width(i, hw):
    return i.dge_mode is not dge_mode.hwdge or _two_bytes(i.src)


@rule(
    "a hwdge transpose needs at most 128 elements on the last axis of `src`",
    "src",
    "dge_mode",
    help="split the last axis: it becomes the partition axis of `dst`",
    source=f"{ISA}:886",
)
def _hardware_last_axis(i, hw):
    return i.dge_mode is not dge_mode.hwdge or _short_rows(i.src, hw)


@rule(
    "a hwdge transpose needs 16 rows; with 3 or 4 axes 1, 2, 4, 8 or 16 that make a multiple of 16 with src.shape[-2]",
    "src",
    "dge_mode",
    help="leave `dge_mode` out for other shapes",
    source=f"{ISA}:883",
)
def _hardware_rows(i, hw):
    return i.dge_mode is not dge_mode.hwdge or _row_groups(i.src)


@instruction(
    engine=(DMA,),
    dst=writes(SBUF, *HBM, role=role_of_dst, shape=Shape.OWN),
    src=reads(*HBM, SBUF, shape=Shape.OWN, rows=True),
    rules=(
        *DMA_RULES,
        _transpose_modes,
        software_gathers,
        _static_bounds,
        same_dtype("dst", "src"),
        _transposable,
        _known_axes,
        _exact_shape,
        _hardware_width,
        _hardware_last_axis,
        _hardware_rows,
        *_GATHER_RULES,
    ),
    numerics=lambda i: AS_STORED,
    any_start=("dst", "src"),
    order=Order.NONE,
)
def dma_transpose(
    dst,
    src,
    axes=None,
    priority=None,
    dge_mode=dge_mode.unknown,
    oob_mode=oob_mode.error,
    name=None,
) -> None:
    """Transpose `src` into `dst` while moving it.

    Axis k of `dst` is axis `axes[k]` of `src`: (1, 0), (2, 1, 0) or (3, 1, 2, 0), by the number of axes. `dst` has
    the dtype of `src` and exactly the transposed shape. The API page asks for a `dst` in SBUF; the migration guide
    also writes to HBM, so both are taken.

    Gather: from NeuronCore-v3 on a tile of indices may choose the rows of a `src` in HBM (.ap with vector_offset);
    with several columns its indices are taken column by column, as many as `src` has rows. GpSimd makes the
    descriptors. With oob_mode skip the elements of a row out of range stay in `dst` as they were.

    NeuronCore-v3 and later transpose at 90 % of the copy rate from HBM and 50 % within SBUF. NeuronCore-v2 publishes
    no rate; there the transfer is timed as single elements.

    Source: nki/api/nki/isa/__init__.py:869, nki/guides/architecture/trainium2_arch.rst:275.
    """


@dma_transpose.place
def _(i, hw):
    return DMA


@dma_transpose.semantics
def _(out, src, axes):
    np.copyto(out, src.transpose(axes or TRANSPOSED[src.ndim]))


@dma_transpose.backward
def _(i, step):
    step.turned(i.axes or TRANSPOSED[len(i.src.shape)])


@dma_transpose.cost
def _(i, hw):
    src = i.src
    rate = hw.dma_transpose_hbm_efficiency
    if src.storage.on_chip:
        rate = hw.dma_transpose_sbuf_efficiency
    # No page says how a transpose is cut. Assumed: at a published rate by rows of `src`, else by elements.
    row = src.shape[-1] if rate is not None and src.strides[-1] == 1 else 1
    yield transfer(
        i,
        descriptors_by(i, hw, hardware_can=_fits_hardware(src, hw), otherwise=dge_mode.none),
        "DMA_TRANSPOSE",
        descriptor_bytes=row * src.dtype.itemsize,
        descriptors=src.size // row,
        rate=1.0 if rate is None else rate,
    )


def on_tensor_engine(
    i: Instruction, tile: Callable[..., NkiTensor]
) -> list[tuple[Definition, dict[str, NkiTensor]]]:
    """Return the instructions by which the Tensor engine does what a transpose of two axes does, with their tensors.

    Args:
        i: the transpose, into SBUF.
        tile: makes a tensor on chip of the dtype of `dst`, given its `shape` and `buffer`.
    """
    source, steps = i.src, []
    if not source.storage.on_chip:
        source = tile(shape=i.src.shape, buffer=SBUF)
        steps.append((dma_copy, {"dst": source, "src": i.src}))
    turned = tile(shape=i.dst.shape, buffer=PSUM)
    return [
        *steps,
        (nc_transpose, {"dst": turned, "data": source}),
        (tensor_copy, {"dst": i.dst, "src": turned}),
    ]
