"""Instructions that use the position of an element: to number it, or to decide whether it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nki_lab.ir.definition.instruction import (
    Instruction,
    Order,
    Rule,
    Shape,
    instruction,
    reads,
    rule,
    writes,
)
from nki_lab.ir.tensor.register import holds_32_bits
from nki_lab.isa.arrays import overlay, scratch
from nki_lab.isa.numerics import FLOAT32
from nki_lab.isa.operators import OPS
from nki_lab.isa.rules import not_packed, one_of_operators, same_free_size, same_partitions
from nki_lab.isa.streaming import stream
from nki_lab.targets.engines import GPSIMD
from nki_lab.targets.facts import ISA, NKI_RELEASES
from nki_lab.targets.spaces import SBUF

_INT32 = np.iinfo(np.int32)
_BOOL = np.dtype(bool)
_COMPARISONS = ("equal", "not_equal", "greater_equal", "greater", "less_equal", "less")


def _int32(*names: str) -> Rule:
    quoted = " and ".join(f"`{n}`" for n in names)
    return rule(
        f"{quoted} must be integers of 32 bits",
        *names,
        help="use an integer from -2**31 to 2**31 - 1 that is known while the kernel is traced",
        source=f"{ISA}:1711",
    )(lambda i, hw: all(_is_int32(getattr(i, n)) for n in names))


@rule(
    "`offset` must be an integer, a register or a scalar, of 32 bits",
    "offset",
    help="use an integer from -2**31 to 2**31 - 1, or load one of a tensor with nisa.register_load",
    source=f"{NKI_RELEASES}:285",
)
def _offset(i, hw):
    return _is_int32(i.offset) or holds_32_bits(i.offset)


def _is_int32(value: Any) -> bool:
    return type(value) is int and _INT32.min <= value <= _INT32.max


@rule(
    "`pattern` must be a list of 1 to 4 pairs [step, number] of integers, each number 1 or more",
    "pattern",
    help="[[1, 512]] counts 512 elements; the last pair runs fastest",
    source=f"{ISA}:1711",
)
def _pattern(i, hw):
    pairs = i.pattern
    return (
        type(pairs) is tuple
        and 1 <= len(pairs) <= 4
        and all(type(p) is tuple and len(p) == 2 and all(map(_is_int32, p)) for p in pairs)
        and all(number >= 1 for _, number in pairs)
    )


@rule(
    "the numbers in `pattern` must multiply to the elements per partition of `dst`",
    "pattern",
    "dst",
    help="the pattern may have other axes than `dst`, but not another size",
    source=f"{ISA}:1756",
)
def _pattern_size(i, hw):
    return _length(i.pattern) == i.dst.free_size


def _length(pattern: tuple[tuple[int, int], ...]) -> int:
    length = 1
    for _, number in pattern:
        length *= number
    return length


def _row(pattern: tuple[tuple[int, int], ...], offset: int) -> np.ndarray:
    """Return offset + sum of step * index over the pattern, of one partition, in 64 bits."""
    row = np.full(1, offset, np.int64)
    for step, number in pattern:
        row = (row[:, None] + np.arange(number, dtype=np.int64) * step).reshape(-1)
    return row


def _column(partitions: int, multiplier: int) -> np.ndarray:
    return (np.arange(partitions, dtype=np.int64) * multiplier)[:, None]


@instruction(
    engine=(GPSIMD,),
    dst=writes(SBUF, shape=Shape.FLAT),
    rules=(not_packed("dst"), _pattern, _offset, _int32("channel_multiplier"), _pattern_size),
    numerics=lambda i: {"dst": np.dtype(np.int32)},
)
def iota(dst, pattern, offset=0, channel_multiplier=0, name=None) -> None:
    """Fill a tile with offset + partition * multiplier + sum(step * index).

    `pattern` lists [step, number] for up to four axes, the last one fastest. Its numbers multiply to the elements
    per partition of `dst`; their shapes may differ. Values are computed in 32-bit integers, which wrap around
    (assumed: the page says 32-bit arithmetic), and cast to `dst`. `offset` is an integer, or a register or a
    scalar whose value is only known at run time.

    Source: nki/api/nki/isa/__init__.py:1708.
    """


@iota.semantics
def _(out, pattern, offset, channel_multiplier):
    # Narrowing keeps the low 32 bits, so adding the narrowed parts wraps as 32-bit arithmetic does.
    row = _row(pattern, offset).astype(np.int32)
    np.add(_column(len(out), channel_multiplier).astype(np.int32), row, out=out)


@iota.cost
def _(i, hw):
    yield stream(i, hw, "IOTA", hw.gpsimd_cycles, i.dst.free_size)


@rule(
    "`on_false_value` must be a number",
    "on_false_value",
    help="it is a float32 constant; for a tile of values use nisa.select_reduce or tensor_copy_predicated",
    source=f"{ISA}:1813",
)
def _false_number(i, hw):
    return type(i.on_false_value) in (int, float)


def _selected_type(i: Instruction) -> Mapping[str, Any]:
    # float32 holds every value of the other types; 32-bit integers of one type are to stay as they are.
    wide = i.dst.dtype == i.on_true_tile.dtype and i.dst.dtype in ("int32", "uint32")
    return dict.fromkeys(("dst", "on_true_tile"), np.dtype(np.float64) if wide else FLOAT32)


@instruction(
    engine=(GPSIMD,),
    dst=writes(SBUF, shape=Shape.FLAT),
    on_true_tile=reads(SBUF, shape=Shape.FLAT, chosen=True),
    rules=(
        not_packed("dst", "on_true_tile"),
        _pattern,
        _offset,
        _int32("channel_multiplier"),
        _false_number,
        one_of_operators("cmp_op", *_COMPARISONS),
        same_partitions("dst", "on_true_tile"),
        same_free_size("dst", "on_true_tile"),
        _pattern_size,
    ),
    numerics=_selected_type,
    order=Order.STREAM,
)
def affine_select(
    dst,
    pattern,
    channel_multiplier,
    on_true_tile,
    on_false_value,
    cmp_op=OPS["equal"],
    offset=0,
    name=None,
) -> None:
    """Keep the elements of a tile whose position passes a comparison with 0.

    The position is the value nisa.iota gives for `pattern`, `offset` and `channel_multiplier`, in exact 32-bit
    integers. Where `cmp_op(position, 0)` holds, `dst` gets the element of `on_true_tile`, elsewhere
    `on_false_value` (float32). A causal mask is pattern=[[-1, N]], channel_multiplier=1, cmp_op=nl.greater_equal.
    Tiles of one dtype keep their values exactly; other pairs are cast through float32.

    Source: nki/api/nki/isa/__init__.py:1764.
    """


@affine_select.semantics
def _(out, on_true_tile, pattern, channel_multiplier, on_false_value, cmp_op, offset):
    row, column = _row(pattern, offset), _column(len(out), channel_multiplier)
    chosen = scratch(out.shape, _BOOL, "affine")
    low, high = int(row.min() + column.min()), int(row.max() + column.max())
    if _INT32.min <= low and high <= _INT32.max:
        # row + column against 0, without the sum; small integers compare four times as fast in float32
        small = max(abs(row).max(), abs(column).max()) <= 1 << 24
        kind = np.float32 if small else np.int64
        cmp_op.apply(row.astype(kind), (-column).astype(kind), chosen)
    else:
        cmp_op.apply(row.astype(np.int32) + column.astype(np.int32), 0, chosen)
    np.copyto(out, np.float32(on_false_value))
    overlay(out, on_true_tile, chosen)


@affine_select.backward
def _(i, step):
    step.add(
        "on_true_tile", step.again(on_true_tile=step.gradient().in_float32(), on_false_value=0.0)
    )


@affine_select.cost
def _(i, hw):
    yield stream(i, hw, "AFFINE_SELECT", hw.gpsimd_cycles, i.dst.free_size)
