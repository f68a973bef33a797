"""Searches on GpSimd's 8 cores, each with 16 partitions: the largest elements, nonzero ones, segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.dtypes import bfloat16, float32, int32, uint32
from nki_lab.errors import SimulationError
from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.instruction import (
    Instruction,
    Order,
    Rule,
    Shape,
    instruction,
    reads,
    rule,
    updates,
    writes,
)
from nki_lab.ir.definition.operands import SEARCHED, over_free_axes
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.rules import same_free_size, same_partitions
from nki_lab.isa.streaming import ports, stored_bytes, stream
from nki_lab.targets.engines import GPSIMD
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import SBUF

#: Partitions that one core of GpSimd reaches (trainium_inferentia2_arch.rst:541).
PARTITIONS_PER_CORE = 16
_WORDS = frozenset((float32, int32))


def whole_cores(*names: str, line: int) -> Rule:
    """Require that tiles take all 16 partitions of every core of GpSimd that they touch."""
    quoted = " and ".join(f"`{n}`" for n in names)
    return rule(
        f"{quoted} must have a multiple of 16 partitions, those of one GpSimd core",
        *names,
        help="make the tiles with 16, 32, 48, ... 128 partitions",
        source=f"{ISA}:{line}",
    )(lambda i, hw: all(getattr(i, n).shape[0] % PARTITIONS_PER_CORE == 0 for n in names))


# -- topk ---------------------------------------------------------------------------------------------


@rule(
    "`n` must be an integer from 8 to 65535",
    "n",
    help="split longer rows, then search the results of the parts",
    source=f"{ISA}:3351",
)
def _snake_length(i, hw):
    return type(i.n) is int and 8 <= i.n < 65_536


@rule(
    "the elements per partition of `val_dst`, K, must be at most 32767 and at most `n`",
    "val_dst",
    "n",
    help="slice the tiles for the results: K is the free size of `val_dst`",
    source=f"{ISA}:3352",
)
def _wanted(i, hw):
    return i.val_dst.free_size <= min(i.n, 32_767)


@rule(
    "`src` must have at least n / 16 elements per partition",
    "src",
    "n",
    help="element e of the n stands in partition e % 16, column e // 16",
    source=f"{ISA}:3353",
)
def _holds_snake(i, hw):
    return i.src.free_size * PARTITIONS_PER_CORE >= i.n


def _result_columns(i: Instruction, t: NkiTensor) -> NkiTensor:
    """Return the columns that the K results fill, the last one perhaps in part."""
    return t[:, : -(-i.val_dst.free_size // PARTITIONS_PER_CORE)] if len(t.shape) == 2 else t


@instruction(
    engine=(GPSIMD,),
    val_dst=updates(SBUF, shape=Shape.FLAT, dtypes=frozenset((bfloat16,)), part=_result_columns),
    idx_dst=updates(SBUF, shape=Shape.FLAT, dtypes=frozenset((uint32,)), part=_result_columns),
    src=reads(
        SBUF, shape=Shape.FLAT, dtypes=frozenset((bfloat16,)), along=over_free_axes(SEARCHED)
    ),
    rules=(
        _snake_length,
        _wanted,
        _holds_snake,
        same_partitions("val_dst", "idx_dst", "src"),
        same_free_size("val_dst", "idx_dst"),
        whole_cores("src", line=3354),
    ),
    numerics=lambda i: {"idx_dst": None},
    order=Order.NONE,
)
def topk(val_dst, idx_dst, src, n, name=None) -> None:
    """Find the K largest of n elements that snake through 16 partitions.

    Each group of 16 partitions holds one list of `n` elements: element e stands in partition e % 16, column e // 16.
    K is the number of elements per partition of `val_dst`. The values found, in ascending order, and the numbers e
    of their elements are written in the same way: result j into partition j % 16, column j // 16 of `val_dst` and
    `idx_dst`; the other elements keep what they held.

    The page gives `[partitions, K]` as the shape of the results and says "for each partition"; that they snake is
    what published kernels of its authors rely on. Those also warn that the order on hardware differs: use the pairs
    of value and index, not their order. Which of several equal values is taken is not stated; here the first ones,
    and NaN counts as larger than everything.

    Source: nki/api/nki/isa/__init__.py:3321; aws-neuron/nki-library 2.32, experimental/topk/gpsimd_topk.py.
    """


@topk.semantics
def _(out_val_dst, out_idx_dst, val_dst, idx_dst, src, n):
    np.copyto(out_val_dst, val_dst)
    np.copyto(out_idx_dst, idx_dst)
    k = val_dst.shape[1]
    place = np.arange(k)
    for first in range(0, len(src), PARTITIONS_PER_CORE):
        snake = src[first : first + PARTITIONS_PER_CORE].T.reshape(-1)[:n]
        # Backwards and stable: of equal values the earlier one comes later, and so is among the last k.
        chosen = n - 1 - np.argsort(snake[::-1], kind="stable")[-k:]
        row, column = first + place % PARTITIONS_PER_CORE, place // PARTITIONS_PER_CORE
        out_val_dst[row, column] = snake[chosen]
        out_idx_dst[row, column] = chosen


@topk.cost
def _(i, hw):
    tensors = [i.src, i.val_dst, i.idx_dst]
    yield MicroOp(
        "TOPK",
        cycles=4 * i.n + i.val_dst.free_size,
        ports=ports(hw, GPSIMD, tensors),
        bytes_read=stored_bytes(i.src),
        bytes_written=stored_bytes(i.val_dst, i.idx_dst),
    )


# -- nonzero_with_count -------------------------------------------------------------------------------

_INT32 = np.iinfo(np.int32)


def _is_int32(value: Any) -> bool:
    return type(value) is int and _INT32.min <= value <= _INT32.max


@rule(
    "`index_offset` and `padding_val` must be integers of 32 bits",
    "index_offset",
    "padding_val",
    help="e.g. index_offset=0, padding_val=-1",
    source=f"{ISA}:3273",
)
def _int32_numbers(i, hw):
    return _is_int32(i.index_offset) and _is_int32(i.padding_val)


@rule(
    "`dst` must have one element per partition more than `src`, for the count",
    "dst",
    "src",
    help="make `dst` with shape (partitions, elements + 1)",
    source=f"{ISA}:3269",
)
def _room_for_count(i, hw):
    return i.dst.free_size == i.src.free_size + 1


def _first_partitions(i: Instruction, t: NkiTensor) -> NkiTensor:
    """Return the first partition of each core."""
    return t[::PARTITIONS_PER_CORE]


@instruction(
    engine=(GPSIMD,),
    dst=updates(SBUF, shape=Shape.FLAT, dtypes=frozenset((int32,)), part=_first_partitions),
    src=reads(
        SBUF,
        shape=Shape.FLAT,
        dtypes=_WORDS,
        part=_first_partitions,
        along=over_free_axes(SEARCHED),
    ),
    rules=(_int32_numbers, same_partitions("dst", "src"), _room_for_count),
    numerics=lambda i: {"dst": None, "src": None},
    requires=("nonzero_with_count",),
    opaque=("index_offset", "padding_val"),
    order=Order.NONE,
)
def nonzero_with_count(dst, src, index_offset=0, padding_val=-1, name=None) -> None:
    """List the indices of the nonzero elements of a partition, and how many they are.

    Only the first partition of each GpSimd core is read and written: 0, 16, 32, ... 112. All other partitions of
    `dst` keep what they held. A row of T elements with N nonzero ones gives their N indices plus `index_offset`, then
    T - N times `padding_val`, then N: one element more than `src` has. NaN is not zero.

    NeuronCore-v3 and later. No page gives its time; assumed is one cycle per element.

    Source: nki/api/nki/isa/__init__.py:3221.
    """


@nonzero_with_count.semantics
def _(out, dst, src, index_offset, padding_val):
    np.copyto(out, dst)
    for row in range(0, len(src), PARTITIONS_PER_CORE):
        indices = np.flatnonzero(src[row])
        count = len(indices)
        np.add(indices, index_offset, out=out[row, :count], casting="unsafe")
        out[row, count:-1] = padding_val
        out[row, -1] = count


@nonzero_with_count.cost
def _(i, hw):
    yield stream(i, hw, "NONZERO_WITH_COUNT", hw.gpsimd_cycles, i.src.free_size)


# -- sequence_bounds ----------------------------------------------------------------------------------


@rule(
    "`segment_ids` must be one row: 1 partition",
    "segment_ids",
    help="slice one partition, e.g. t[0:1, :]",
    source=f"{ISA}:2445",
)
def _one_row(i, hw):
    return i.segment_ids.shape[0] == 1


@rule(
    "`dst` must have shape [1, 2, n] for n elements of `segment_ids`",
    "dst",
    "segment_ids",
    help="row 0 of axis 1 gets where segments start, row 1 where they end",
    source=f"{ISA}:2446",
)
def _two_rows(i, hw):
    return i.dst.shape[0] == 1 and i.dst.free_size == 2 * i.segment_ids.free_size


@instruction(
    engine=(GPSIMD,),
    dst=writes(SBUF, shape=Shape.FLAT, dtypes=_WORDS),
    segment_ids=reads(SBUF, shape=Shape.FLAT, dtypes=_WORDS, along=over_free_axes(SEARCHED)),
    rules=(_one_row, _two_rows),
    numerics=lambda i: {"dst": None, "segment_ids": None},
    order=Order.NONE,
)
def sequence_bounds(dst, segment_ids, name=None) -> None:
    """Find for each element where the segment it belongs to starts and ends.

    A segment is a run of equal numbers in `segment_ids` [1, n]. `dst` [1, 2, n] gets for every element the index of
    the first element of its segment, and the index after the last one. Elements with the number 0 are padding: they
    get n and -1. Segment numbers must be whole and not negative; others raise an error when the kernel runs.

    No page gives its time; assumed is one cycle per element.

    Source: nki/api/nki/isa/__init__.py:2434; nki/test/test_nki_isa_sequence_bounds.py.
    """


@sequence_bounds.semantics
def _(out, segment_ids):
    ids = segment_ids[0]
    bad = np.flatnonzero(~((ids >= 0) & (np.floor(ids) == ids)))
    if len(bad):
        raise SimulationError(
            f"sequence_bounds: element {bad[0]} of `segment_ids` is {ids[bad[0]]}",
            help="segment numbers are whole and not negative; 0 marks padding",
        )
    n = len(ids)
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    ends = np.append(starts[1:], n)
    lengths = ends - starts
    both = np.stack([np.repeat(starts, lengths), np.repeat(ends, lengths)])
    both[:, ids == 0] = [[n], [-1]]
    np.copyto(out, both.reshape(1, -1), casting="unsafe")


@sequence_bounds.cost
def _(i, hw):
    yield stream(i, hw, "SEQUENCE_BOUNDS", hw.gpsimd_cycles, i.segment_ids.free_size)
