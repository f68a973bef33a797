"""Instructions that find the 8 largest values of a partition, and where it holds 8 given values."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nki_lab.dtypes import uint16, uint32
from nki_lab.ir.definition.instruction import Order, Rule, Shape, instruction, reads, rule, writes
from nki_lab.ir.definition.operands import SEARCHED, over_free_axes
from nki_lab.isa.arrays import scratch
from nki_lab.isa.numerics import FLOAT32
from nki_lab.isa.rules import not_packed, same_free_size, same_partitions
from nki_lab.isa.streaming import stream
from nki_lab.targets.engines import VECTOR
from nki_lab.targets.facts import ISA
from nki_lab.targets.spaces import PSUM, SBUF

#: What the Vector engine finds at once.
EIGHT = 8
_MOST = 16_384
_INDICES = frozenset((uint16, uint32))
_BOOL, _INT64 = np.dtype(bool), np.dtype(np.int64)


# -- rules --------------------------------------------------------------------------------------------


def _searchable(name: str, line: int) -> Rule:
    return rule(
        f"the number of elements per partition of `{name}` must be from 8 to 16384",
        name,
        help="search parts of the tile, then search their results",
        source=f"{ISA}:{line}",
    )(lambda i, hw: EIGHT <= getattr(i, name).free_size <= _MOST)


def _axes_at_most(name: str, most: int, line: int) -> Rule:
    return rule(
        f"`{name}` must have at most {most} axes",
        name,
        help="merge free axes with flatten_dims or reshape",
        source=f"{ISA}:{line}",
    )(lambda i, hw: len(getattr(i, name).shape) <= most)


def _eight_elements(name: str, line: int) -> Rule:
    return rule(
        f"`{name}` must have exactly 8 elements per partition",
        name,
        help="slice 8 columns, e.g. t[:, 0:8]",
        source=f"{ISA}:{line}",
    )(lambda i, hw: getattr(i, name) is None or getattr(i, name).free_size == EIGHT)


@rule(
    "`imm` must be a number",
    "imm",
    help="e.g. imm=float('-inf')",
    source=f"{ISA}:3217",
)
def _number(i, hw):
    return type(i.imm) in (int, float)


# -- max8 ---------------------------------------------------------------------------------------------


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT),
    src=reads(SBUF, PSUM, shape=Shape.FLAT, along=over_free_axes(SEARCHED)),
    rules=(
        not_packed("dst", "src"),
        _axes_at_most("src", 3, 2422),
        _axes_at_most("dst", 2, 2422),
        _searchable("src", 2423),
        _eight_elements("dst", 2424),
        same_partitions("dst", "src"),
    ),
    order=Order.LAST,
)
def max8(dst, src, name=None) -> None:
    """Find the 8 largest values of each partition, the largest first.

    Values are compared in float32. Equal values are all counted, so one that occurs twice stands twice in `dst`. The
    free axes of `src` are one stream of 8 to 16384 elements. No page says what NaN does; here it counts as larger
    than everything, so that it shows.

    Source: nki/api/nki/isa/__init__.py:2415.
    """


@max8.semantics
def _(out, src):
    work = scratch(src.shape, FLOAT32, "max8")
    np.copyto(work, src)
    work.partition(work.shape[1] - EIGHT, axis=1)  # the largest 8 last, in any order
    largest = work[:, -EIGHT:]
    largest.sort(axis=1)
    np.copyto(out, largest[:, ::-1])


@max8.cost
def _(i, hw):
    yield stream(i, hw, "MAX8", hw.vector_copy_cycles, i.src.free_size)


# -- nc_find_index8, nc_match_replace8 ----------------------------------------------------------------


def _match(data: np.ndarray, vals: np.ndarray, slots: Iterable[int]) -> np.ndarray:
    """Return where `data` [P, N] holds each of `vals` [P, 8], -1 for nowhere.

    Each slot in turn takes the first element that equals its value and that no earlier slot has taken.
    """
    left = scratch(data.shape, FLOAT32, "left")
    np.copyto(left, data)
    equal = scratch(data.shape, _BOOL, "equal")
    places = np.empty(vals.shape, _INT64)
    rows = np.arange(len(data))
    for slot in slots:
        np.equal(left, vals[:, slot : slot + 1], out=equal)
        first = equal.argmax(axis=1)
        hit = equal[rows, first]
        left[rows[hit], first[hit]] = np.nan  # equals nothing from now on
        places[:, slot] = np.where(hit, first, -1)
    return places


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT, dtypes=_INDICES),
    data=reads(SBUF, PSUM, shape=Shape.FLAT, along=over_free_axes(SEARCHED)),
    vals=reads(SBUF, PSUM, shape=Shape.FLAT),
    rules=(
        not_packed("data", "vals"),
        _axes_at_most("data", 3, 3176),
        _axes_at_most("vals", 3, 3176),
        _axes_at_most("dst", 2, 3188),
        _searchable("data", 3177),
        _eight_elements("vals", 3178),
        _eight_elements("dst", 3179),
        same_partitions("dst", "data", "vals"),
    ),
    numerics=lambda i: {"dst": None},
    order=Order.LAST,
)
def nc_find_index8(dst, data, vals, name=None) -> None:
    """Find where each partition of `data` holds each of 8 values.

    `dst` [P, 8] gets the index, from 0, of the first element that equals the value in `vals`, compared in float32;
    the free axes of `data` are one stream. A value that stands several times in `vals` takes its occurrences in
    ascending order, the lowest slot the first (nc_match_replace8 does the opposite). A value that is not there, or
    not often enough, gives all ones: 0xFFFFFFFF, or 0xFFFF in uint16.

    Source: nki/api/nki/isa/__init__.py:3169; release-notes/components/nki.rst:75.
    """


@nc_find_index8.semantics
def _(out, data, vals):
    np.copyto(out, _match(data, vals, range(EIGHT)), casting="unsafe")


@nc_find_index8.cost
def _(i, hw):
    yield stream(i, hw, "NC_FIND_INDEX8", hw.vector_copy_cycles, i.data.free_size)


@instruction(
    engine=(VECTOR,),
    dst=writes(SBUF, PSUM, shape=Shape.FLAT),
    data=reads(SBUF, PSUM, shape=Shape.FLAT, along=over_free_axes(SEARCHED)),
    vals=reads(SBUF, PSUM, shape=Shape.FLAT),
    dst_idx=writes(SBUF, PSUM, shape=Shape.FLAT, optional=True, dtypes=_INDICES),
    rules=(
        not_packed("dst", "data", "vals"),
        _searchable("data", 3177),
        _eight_elements("vals", 3217),
        _eight_elements("dst_idx", 3218),
        _number,
        same_partitions("dst", "data", "vals", "dst_idx"),
        same_free_size("dst", "data"),
    ),
    numerics=lambda i: {"dst_idx": None},
    opaque=("imm",),
    order={"dst": Order.STREAM, "dst_idx": Order.LAST},
)
def nc_match_replace8(dst, data, vals, imm, dst_idx=None, name=None) -> None:
    """Replace the first occurrence of each of 8 values by a number.

    `dst` gets `data` with `imm` in place of the first element of the partition that equals each value of `vals`,
    compared in float32; `dst` may be `data`. `dst_idx` [P, 8], if given, receives where they were.

    Slots are served from the last to the first: of a value that stands several times in `vals` the highest slot takes
    the first occurrence (nc_find_index8 does the opposite). What was replaced is not matched again. For a value that
    is not there nothing is replaced; its index is all ones, as in nc_find_index8. The page states neither this nor
    limits of `data`; those of nc_find_index8 are taken.

    Source: nki/api/nki/isa/__init__.py:3193; release-notes/components/nki.rst:73.
    """


@nc_match_replace8.semantics
def _(out, out_dst_idx, data, vals, imm):
    places = _match(data, vals, range(EIGHT - 1, -1, -1))
    np.copyto(out, data)
    rows, slots = np.nonzero(places >= 0)
    out[rows, places[rows, slots]] = imm
    if out_dst_idx is not None:
        np.copyto(out_dst_idx, places, casting="unsafe")


@nc_match_replace8.cost
def _(i, hw):
    # The old page prints min(64, N); its other revisions give N, as for nc_find_index8.
    yield stream(i, hw, "NC_MATCH_REPLACE8", hw.vector_copy_cycles, i.data.free_size)
