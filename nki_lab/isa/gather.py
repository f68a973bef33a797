"""Instructions that move elements of a tile by an index, along a partition or across partitions."""

from __future__ import annotations

import numpy as np

from nki_lab.dtypes import uint16, uint32
from nki_lab.errors import SimulationError
from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.instruction import (
    UPDATE,
    WRITE,
    Instruction,
    Order,
    Shape,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.numerics import BITS
from nki_lab.isa.rules import same_dtype, same_free_size, same_partitions
from nki_lab.isa.search_gpsimd import PARTITIONS_PER_CORE, whole_cores
from nki_lab.isa.streaming import interval, ports, stored_bytes, stream
from nki_lab.targets.engines import GPSIMD, VECTOR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF


def _outside(name: str, value: int, partition: int, elements: int) -> SimulationError:
    """Return the error of an index past the end; what the chip does with it is not defined."""
    return SimulationError(
        f"{name}: index {value} in partition {partition} lies outside the {elements} elements of a partition",
        help="indices count the elements of one partition from 0; mask or clip them before",
    )


# -- local_gather -------------------------------------------------------------------------------------

_PER_INDEX = (1, 2, 4, 8, 16, 32)
_INDICES_PER_CORE = 4096


def _given(index: NkiTensor) -> int:
    """Return how many indices the partitions of one core hold."""
    return index.free_size * PARTITIONS_PER_CORE


def _valid(i: Instruction) -> int:
    """Return how many indices each core uses."""
    return _given(i.index) if i.num_valid_indices is None else i.num_valid_indices


@rule(
    "`num_elem_per_idx` must be 1, 2, 4, 8, 16 or 32",
    "num_elem_per_idx",
    help="gather longer pieces with several indices",
    source=f"{ISA}:1877",
)
def _piece(i, hw):
    return type(i.num_elem_per_idx) is int and i.num_elem_per_idx in _PER_INDEX


@rule(
    "`num_valid_indices` must be None, or an integer from 1 to the indices in 16 partitions of `index`",
    "num_valid_indices",
    "index",
    help="16 partitions with F indices each hold 16 * F",
    source=f"{ISA}:1854",
)
def _valid_count(i, hw):
    count = i.num_valid_indices
    return count is None or (type(count) is int and 1 <= count <= _given(i.index))


@rule(
    "each core of 16 partitions must not gather with more than 4096 indices",
    "index",
    "num_valid_indices",
    help="gather in several calls",
    source=f"{ISA}:1878",
)
def _few_enough(i, hw):
    return _valid(i) <= _INDICES_PER_CORE


@rule(
    "`dst` must have as many elements per partition as there are valid indices, times `num_elem_per_idx`",
    "dst",
    "index",
    "num_valid_indices",
    "num_elem_per_idx",
    help="without `num_valid_indices` there are 16 indices for each column of `index`",
    source="release-notes/components/nki.rst:100",
)
def _gathered_size(i, hw):
    return i.dst.free_size == _valid(i) * i.num_elem_per_idx


@instruction(
    engine=(GPSIMD,),
    dst=writes(SBUF, shape=Shape.FLAT),
    src_buffer=reads(SBUF, shape=Shape.FLAT, chosen=True),
    index=reads(SBUF, shape=Shape.FLAT, dtypes=frozenset((uint16,))),
    rules=(
        _piece,
        _valid_count,
        _few_enough,
        same_dtype("dst", "src_buffer"),
        same_partitions("dst", "src_buffer", "index"),
        whole_cores("src_buffer", line=1875),
        _gathered_size,
    ),
    numerics=lambda i: {"dst": BITS, "src_buffer": BITS, "index": None},
    order=Order.NONE,
)
def local_gather(
    dst, src_buffer, index, num_elem_per_idx=1, num_valid_indices=None, name=None
) -> None:
    """Gather along the partition, with one list of indices for 16 partitions.

    Each GpSimd core takes the indices in its 16 partitions of `index`, the first column first: entry k of the list
    stands in partition k % 16, column k // 16. Every partition of the core then gives the `num_elem_per_idx` elements
    that start at element `list[k]`: dst[p, k * e : (k + 1) * e] = src_buffer[p, list[k] : list[k] + e]. An index
    counts elements, not pieces. `num_valid_indices` cuts the lists short. Bits are copied as they are.

    An index outside `src_buffer` is undefined on the chip and an error here. To gather with separate indices per
    partition use nc_n_gather.

    Source: nki/api/nki/isa/__init__.py:1838, nki/test/test_nki_isa_local_gather.py.
    """


@local_gather.semantics
def _(out, src_buffer, index, num_elem_per_idx, num_valid_indices):
    size = src_buffer.shape[1]
    piece = np.arange(num_elem_per_idx)
    for first in range(0, len(index), PARTITIONS_PER_CORE):
        core = slice(first, first + PARTITIONS_PER_CORE)
        listed = index[core].T.reshape(-1)[:num_valid_indices]
        elements = (listed[:, None] + piece).reshape(-1)
        if elements.max() >= size:
            k = int(np.argmax(elements >= size))
            place = first + k // num_elem_per_idx % PARTITIONS_PER_CORE
            raise _outside("local_gather", elements[k], place, size)
        np.take(src_buffer[core], elements, axis=1, out=out[core], mode="clip")


@local_gather.cost
def _(i, hw):
    # 1db4d74e:nki/api/nki/isa/__init__.py:630, C as printed there.
    e, t = i.num_elem_per_idx, 4
    c = ((28 + t * e) / (t * e)) / min(4 / i.src_buffer.dtype.itemsize, e)
    tensors = [i.src_buffer, i.index, i.dst]
    yield MicroOp(
        "LOCAL_GATHER",
        cycles=interval(hw, GPSIMD, _valid(i) * e / c),
        ports=ports(hw, GPSIMD, tensors),
        bytes_read=stored_bytes(i.index, i.dst),
        bytes_written=stored_bytes(i.dst),
    )


# -- nc_n_gather --------------------------------------------------------------------------------------

#: Elements per partition that one of the instructions behind nc_n_gather gathers (isa/__init__.py:1907).
_GROUP = 512


@instruction(
    engine=(GPSIMD,),
    dst=writes(SBUF, shape=Shape.FLAT),
    data=reads(SBUF, shape=Shape.FLAT, chosen=True),
    indices=reads(SBUF, shape=Shape.FLAT, dtypes=frozenset((uint32,))),
    rules=(
        same_dtype("dst", "data"),
        same_partitions("dst", "data", "indices"),
        same_free_size("dst", "indices"),
    ),
    numerics=lambda i: {"dst": BITS, "data": BITS, "indices": None},
    order=Order.NONE,
)
def nc_n_gather(dst, data, indices, name=None) -> None:
    """Gather along the partition, with indices of its own for each element.

    dst[p, k] = data[p, indices[p, k]], where the free axes of each tile are one stream. Bits are copied as they are.
    An index outside the partition is an error when the kernel runs. For one list of indices per 16 partitions use
    local_gather.

    The machine runs it as one instruction for each 512 elements. No page gives their time; assumed is one cycle per
    element.

    Source: nki/api/nki/isa/__init__.py:1891.
    """


@nc_n_gather.semantics
def _(out, data, indices):
    size = data.shape[1]
    if indices.max() >= size:
        row, column = (int(k) for k in np.argwhere(indices >= size)[0])
        raise _outside("nc_n_gather", indices[row, column], row, size)
    for row in range(len(data)):
        np.take(data[row], indices[row], out=out[row], mode="clip")


@nc_n_gather.cost
def _(i, hw):
    tensors = [i.data, i.indices, i.dst]
    each = (
        i.indices.dtype.itemsize + 2 * i.dst.dtype.itemsize
    )  # an index and an element in, one out
    for first in range(0, i.dst.free_size, _GROUP):
        elements = min(_GROUP, i.dst.free_size - first)
        yield MicroOp(
            "NC_N_GATHER",
            cycles=interval(hw, GPSIMD, elements * hw.gpsimd_cycles),
            ports=ports(hw, GPSIMD, tensors),
            bytes_read=i.dst.partitions * elements * (each - i.dst.dtype.itemsize),
            bytes_written=i.dst.partitions * elements * i.dst.dtype.itemsize,
        )


# -- nc_stream_shuffle --------------------------------------------------------------------------------

_QUADRANT = 32
_KEEP = 255


@rule(
    "`shuffle_mask` must be a list of 32 integers, each from 0 to 31, or 255 to keep the partition of `dst`",
    "shuffle_mask",
    help="mask[k] names the partition of `src`, within its 32, that partition k of `dst` gets",
    source=f"{ISA}:2057",
)
def _mask(i, hw):
    mask = i.shuffle_mask
    return (
        type(mask) is tuple
        and len(mask) == _QUADRANT
        and all(type(m) is int and (0 <= m < _QUADRANT or m == _KEEP) for m in mask)
    )


def _moves(mask: tuple[int, ...], partitions: int) -> list[tuple[int, int]]:
    """Return (partition of dst, partition of src) for everything that is moved."""
    return [
        (p, p - p % _QUADRANT + mask[p % _QUADRANT])
        for p in range(partitions)
        if mask[p % _QUADRANT] != _KEEP
    ]


@rule(
    "`shuffle_mask` must name partitions that `src` has",
    "shuffle_mask",
    "src",
    "dst",
    help="of each 32 partitions of `dst` the mask picks among the same 32 of `src`: shuffle 32 by 32 to repeat rows",
    source=f"{ISA}:2058",
)
def _partitions_there(i, hw):
    return all(p < i.src.shape[0] for _, p in _moves(i.shuffle_mask, i.dst.shape[0]))


def _start(t: NkiTensor) -> int:
    address = t.storage.address
    return t.start_partition + (address.partition if address else 0)


@rule(
    "`dst` and `src` must both start at 0 if one has over 64 partitions, at 0 or 64 if one has over 32",
    "dst",
    "src",
    help="shuffle 32 partitions at a time",
    source=f"{ISA}:2070",
)
def _starts(i, hw):
    most = max(i.dst.shape[0], i.src.shape[0])
    step = 128 if most > 64 else 64 if most > 32 else 32
    return all(_start(t) % step == 0 for t in (i.dst, i.src))


def _shuffle_role(i: Instruction) -> str:
    mask = i.shuffle_mask
    return UPDATE if type(mask) is tuple and _KEEP in mask[: i.dst.shape[0]] else WRITE


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, role=_shuffle_role, shape=Shape.FLAT),
    src=reads(SBUF, PSUM, shape=Shape.FLAT, chosen=True),
    rules=(
        same_dtype("dst", "src"),
        same_free_size("dst", "src"),
        _mask,
        _partitions_there,
        _starts,
    ),
    numerics=lambda i: {"dst": BITS, "src": BITS},
    order=Order.STREAM,
)
def nc_stream_shuffle(dst, src, shuffle_mask, name=None) -> None:
    """Move rows between the partitions of each group of 32.

    In every group of 32 partitions, partition k of `dst` gets partition shuffle_mask[k] of `src`; 255 keeps what it
    holds. One mask serves all groups. `dst` may be `src`. Bits are copied as they are. `src` may have fewer
    partitions than `dst`, and start in another group of 32; parts of the mask beyond the partitions of `dst` are not
    used.

    Source: nki/api/nki/isa/__init__.py:2052, nki/test/test_nki_isa_nc_stream_shuffle.py.
    """


@nc_stream_shuffle.semantics
def _(out, dst, src, shuffle_mask):
    if dst is not None:  # some partitions keep what they hold
        np.copyto(out, dst)
    moves = _moves(shuffle_mask, len(out))
    out[[to for to, _ in moves]] = src[[at for _, at in moves]]


@nc_stream_shuffle.cost
def _(i, hw):
    yield stream(i, hw, "NC_STREAM_SHUFFLE", hw.vector_copy_cycles, i.src.free_size)
