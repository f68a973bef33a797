"""What `t[...]` selects: for each axis of the tensor its position over the grid of the result.

Basic indices are integers, slices and None; advanced ones are index tensors, between which integers may stand. The two
are not mixed. (nki/programming_model.rst, Tensor Indexing; nki/api/nki.errors.rst)
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from nki_lab.beta1.index import Box, Index, common_shape
from nki_lab.beta1.masks import whole
from nki_lab.beta1.notes import noted
from nki_lab.errors import NkiError
from nki_lab.errors.beta1 import (
    BadIndexing,
    IndexExpression,
    IndirectIndex,
    OutsideTensor,
    older,
)
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.view import DynamicSlice, NkiTensor

_ALL = slice(None)


class Indexed(Protocol):
    """A tensor that is indexed.

    Attributes:
        shape: its shape, block axes first.
    """

    shape: tuple[int, ...]

    @property
    def block_axes(self) -> int:
        """How many of its axes are block axes."""
        ...

    @property
    def on_chip(self) -> bool:
        """Whether it is in SBUF or PSUM."""
        ...

    def describe(self) -> str:
        """Return what an error says about it."""
        ...


class By(NamedTuple):
    """A tile of indices: `kind` is "scalar" for one value, "vector" for one per row; `axis` of the tensor selected."""

    kind: str
    axis: int
    tile: Any


class Moved:
    """An index tensor that a value in a tile moves: `tile[0, 0] + i_f`."""

    __slots__ = ("tile", "index")
    __array_ufunc__ = None

    def __init__(self, tile: Any, index: Any) -> None:
        self.tile = tile
        self.index = index

    def __add__(self, other: Any) -> Moved:
        if isinstance(other, Moved) or hasattr(other, "on_chip"):
            raise IndirectIndex(
                "an index is the sum of two values that are only known at run time",
                help="add the tiles first, with nl.add, and index with the result",
            )
        return Moved(self.tile, self.index + other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Moved:
        return self + -other


def moved(tile: Any, index: Any) -> Moved:
    """Return the sum of a tile and an index tensor, which is a position and no tile."""
    if tile.size != 1:
        raise IndirectIndex(
            f"an index tensor is added to {tile.describe()}, which has more than one element",
            notes=[older("err_indirect_indices_free_dim")],
            help="make a tile of the index tensor: nl.add(tile, nisa.iota(index, dtype=nl.int32))",
        )
    return Moved(tile, index)


class Positions(NamedTuple):
    """What a key selects.

    Attributes:
        indices: for each axis of the tensor, its position over the grid of the result. They may lie outside the tensor:
            what a mask leaves is checked when it is accessed.
        shape: of the result.
        by: the tile of indices among them, whose values are added, or None.
    """

    indices: tuple[Index, ...]
    shape: tuple[int, ...]
    by: By | None


def positions(tile: Indexed, key: Any) -> Positions:
    """Return what `tile[key]` selects."""
    entries = key if isinstance(key, tuple) else (key,)
    advanced = False
    count = 0
    for k in entries:
        if k is None:
            continue
        count += 1
        if type(k) is Index or type(k) is Moved or hasattr(k, "on_chip"):
            advanced = True
        elif k is Ellipsis:
            count -= 1
            entries = _spelled_out(entries, len(tile.shape))
            return positions(tile, entries)
    if count > len(tile.shape):
        raise BadIndexing(
            f"{count} indices for {tile.describe()}, which has {len(tile.shape)} axes",
            help="index with at most one entry for each axis",
        )
    return _advanced(tile, entries) if advanced else _basic(tile, entries)


def _spelled_out(entries: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """Return a key with the slices that `...` stands for."""
    places = [at for at, k in enumerate(entries) if k is Ellipsis]
    if len(places) > 1:
        raise BadIndexing("an index can contain `...` only once", help="write `:` for each axis")
    (at,) = places
    more = rank - sum(k is not None for k in entries) + 1
    return entries[:at] + (_ALL,) * more + entries[at + 1 :]


# -- basic ---------------------------------------------------------------------------------------------------------


def _basic(tile: Indexed, entries: tuple[Any, ...]) -> Positions:
    rank = len(tile.shape)
    # (first position, step; size, or 0 for an axis that goes away); None for an axis that is added
    plan: list[tuple[int, int, int] | None] = []
    by = None
    axis = 0
    for k in entries:
        if k is None:
            plan.append(None)
            continue
        if type(k) is slice:
            plan.append(_slice(tile, axis, k))
        elif type(k) is DynamicSlice:
            start = k.start
            if hasattr(start, "on_chip"):
                by, start = _by_scalar(tile, axis, start), 0
            size = _integer(k.size, tile, axis)
            if (notes := noted()) is not None:
                notes.same.append(size)
            if size < 1:
                raise BadIndexing(
                    f"nl.ds of {size} elements on axis {axis} of {tile.describe()}",
                    help="write a size of 1 or more",
                )
            plan.append((_integer(start, tile, axis), 1, size))
        else:
            plan.append((_element(k, tile, axis), 1, 0))
        axis += 1
    plan += [(0, 1, n) for n in tile.shape[axis:]]
    _keep_axes(tile, plan)
    sizes = [1 if part is None else part[2] for part in plan if part is None or part[2]]
    shape = tuple(sizes) or (1,)
    indices: list[Index] = []
    before = 0
    for part in plan:
        if part is None:
            before += 1
            continue
        start, step, size = part
        grid, coef = [1] * len(shape), [0] * len(shape)
        if size:
            if size > 1:
                grid[before], coef[before] = size, step
            before += 1
        indices.append(Index(tuple(grid), tuple(coef), start))
    assert len(indices) == rank
    return Positions(tuple(indices), shape, by)


def _keep_axes(tile: Indexed, plan: list[tuple[int, int, int] | None]) -> None:
    """Keep what an integer selects as an axis of size 1 where a tile on the chip would have fewer than two axes.

    A tile has a partition axis and at least one free axis (nki/nki_known_issues.rst, Indexing): the partition axis
    always stays, and of the free axes the last ones that an integer selects.
    """
    if not tile.on_chip:
        return
    places = [at for at, part in enumerate(plan) if part is not None][tile.block_axes :]
    if not places:
        return
    kept = sum(part is None or part[2] > 0 for part in plan[places[0] :])
    for at in (places[0], *reversed(places[1:])):
        part = plan[at]
        if part is not None and not part[2] and (at == places[0] or kept < 2):
            plan[at] = (part[0], 1, 1)
            kept += 1


def _slice(tile: Indexed, axis: int, k: slice) -> tuple[int, int, int]:
    n = tile.shape[axis]
    start = 0 if k.start is None else _integer(k.start, tile, axis)
    stop = n if k.stop is None else _integer(k.stop, tile, axis)
    step = 1 if k.step is None else _integer(k.step, tile, axis)
    if (notes := noted()) is not None:
        notes.sign(start)
        notes.sign(stop)
    start = start + n if start < 0 else start
    stop = stop + n if stop < 0 else stop
    if notes is not None:
        notes.same += stop - start, step
    if step < 1:
        raise BadIndexing(
            f"slice step {step} on axis {axis} of {tile.describe()}",
            help="slices step forward: use a step of 1 or more",
        )
    if stop <= start:
        raise BadIndexing(
            f"slice {start}:{stop} on axis {axis} of {tile.describe()} selects nothing",
            help="leave the call out where there is nothing to do, for example with `if`",
        )
    return start, step, -(-(stop - start) // step)


def _element(k: Any, tile: Indexed, axis: int) -> int:
    at = _integer(k, tile, axis)
    if (notes := noted()) is not None:
        notes.sign(at)
    return at + tile.shape[axis] if at < 0 else at


def _integer(k: Any, tile: Indexed, axis: int) -> int:
    if type(k) is int:
        return k
    if k is not True and k is not False:
        try:
            return operator.index(k)
        except TypeError:
            pass
    if hasattr(k, "on_chip"):
        raise IndirectIndex(
            f"a bound of a slice on axis {axis} of {tile.describe()} is only known at run time",
            help="give the start to nl.ds(start, size), or index with start + nl.arange(size)[None, :]",
        )
    if type(k) is Index:
        raise IndexExpression(
            f"a bound of a slice on axis {axis} of {tile.describe()} is an index tensor, which has many values",
            help="index with the index tensor itself",
        )
    raise BadIndexing(
        f"axis {axis} of {tile.describe()} is indexed with {type(k).__name__}{_shown(k)}",
        help="use integers, slices, nl.ds, or the index tensors of nl.arange and nl.mgrid",
    )


def _shown(k: Any) -> str:
    return f" {k!r}" if isinstance(k, (bool, int, float, str)) else ""


# -- advanced ------------------------------------------------------------------------------------------------------


def _advanced(tile: Indexed, entries: tuple[Any, ...]) -> Positions:
    left_out = tile.shape[len(entries) :]
    if left_out and all(n == 1 for n in left_out):  # there is one place only
        entries = (*entries, *[0] * len(left_out))
    by: By | None = None
    grids: list[tuple[int, ...]] = []
    slices = len(entries) < len(tile.shape)
    for axis, k in enumerate(entries):
        if type(k) is Index:
            grids.append(k.shape)
        elif k is None or type(k) is slice or type(k) is DynamicSlice:
            slices = True
        elif type(k) is Moved or hasattr(k, "on_chip"):
            if by is not None:
                raise IndirectIndex(
                    f"{tile.describe()} is indexed with two values that are only known at run time",
                    notes=[older("err_indirect_indices_free_dim")],
                    help="index with one of them, copy the part, and index that with the other",
                )
            if type(k) is Moved:
                by = _by_scalar(tile, axis, k.tile)
                grids.append(k.index.shape)
            elif k.size == 1:
                by = _by_scalar(tile, axis, k)
            else:
                by = _by_rows(tile, axis, k, entries)
                rank = max(
                    [len(other.shape) for other in entries if type(other) is Index], default=2
                )
                grids.append((k.shape[0],) + (1,) * (rank - 1))
    if slices and (not by or by.kind == "vector" or any(type(k) is Index for k in entries)):
        raise _mixed(tile, entries)
    if slices:  # one value of a tile stands for an integer
        places = tuple(0 if type(k) is Moved or hasattr(k, "on_chip") else k for k in entries)
        return _basic(tile, places)._replace(by=by)
    shape = grids[0] if grids else (1, 1)
    one_axis = False
    for grid in grids:
        one_axis = one_axis or len(grid) == 1
        if grid != shape and not one_axis:
            shape = common_shape(shape, grid)
    rank = len(shape)
    if one_axis:
        raise BadIndexing(
            f"{tile.describe()} is indexed with a nl.arange of one axis",
            notes=[older("err_1d_arange_not_supported")],
            help="give it the axes of a tile: nl.arange(n)[:, None] for partitions, [None, :] for a free axis",
        )
    indices: list[Index] = []
    for axis, k in enumerate(entries):
        if type(k) is Index:
            indices.append(k if len(k.shape) == rank else k.lifted(rank))
        elif type(k) is Moved:
            indices.append(k.index.lifted(rank))
        elif hasattr(k, "on_chip"):
            coef = (1,) + (0,) * (rank - 1) if k.size > 1 else (0,) * rank
            indices.append(Index((k.shape[0],) + (1,) * (rank - 1), coef, 0))
        else:
            indices.append(_constant(rank, _element(k, tile, axis)))
    return Positions(tuple(indices), shape, by)


def _constant(rank: int, value: int) -> Index:
    return Index((1,) * rank, (0,) * rank, value)


def _mixed(tile: Indexed, entries: Sequence[Any]) -> BadIndexing:
    added = "None" if any(k is None for k in entries) else "slices"
    if len(entries) < len(tile.shape) and not any(
        type(k) in (slice, DynamicSlice) for k in entries
    ):
        added = (
            f"no index for the last {len(tile.shape) - len(entries)} of its {len(tile.shape)} axes"
        )
    return BadIndexing(
        f"{tile.describe()} is indexed with index tensors and {added}: basic and advanced indexing are not mixed",
        notes=[older("err_unsupported_mixing_basic_advanced_tensor_indexing")],
        help="write nl.arange(n)[None, :] in the place of a slice, one axis for each index",
    )


def _by_scalar(tile: Indexed, axis: int, index: Any) -> By:
    if index.size != 1:
        raise IndirectIndex(
            f"a slice of {tile.describe()} starts at {index.describe()}, which has more than one element",
            help="choose one element: nl.ds(tile[0, 0], size)",
        )
    if tile.on_chip and axis <= tile.block_axes:
        what = "the partition axis" if axis == tile.block_axes else "a block axis"
        raise IndirectIndex(
            f"axis {axis} of {tile.describe()} is {what}: a value that is only known at run time cannot choose from it",
            notes=[older("err_copy_dynamic_indirect_indices_not_natively_supported")],
            help="index a free axis, or load the rows from a tensor in HBM",
        )
    return By("scalar", axis, index)


def _by_rows(tile: Indexed, axis: int, index: Any, entries: Sequence[Any]) -> By:
    """Return a tile with one index per row; the hardware takes them for rows of a tensor in HBM only."""
    if tile.on_chip:
        raise IndirectIndex(
            f"{tile.describe()} is indexed with {index.describe()}: on the chip rows cannot be chosen at run time",
            notes=[older("err_copy_dynamic_indirect_indices_not_natively_supported")],
            help="move a tile by one value with nisa.tensor_copy_dynamic_src, or load the rows from HBM",
        )
    if index.size != index.shape[0]:
        raise IndirectIndex(
            f"{tile.describe()} is indexed with {index.describe()}: one index for each partition is needed",
            notes=[older("err_indirect_indices_free_dim")],
            help="write idx_tile[nl.arange(n)[:, None], 0]; a position of nl.mgrid covers the free axes, too",
        )
    if any(type(k) is Index and any(k.coef) for k in entries[:axis]):
        raise IndirectIndex(
            f"axis {axis} of {tile.describe()} is indexed with {index.describe()}, and an axis before it with an index"
            " tensor",
            notes=[older("err_indirect_indices_free_dim")],
            help="rows are chosen at run time along the first axis, or along one after integers only",
        )
    return By("vector", axis, index)


# -- what is accessed ----------------------------------------------------------------------------------------------


def outside(name: str, axis: int, low: int, high: int, shape: Sequence[int]) -> OutsideTensor:
    """Return the error for an access that reaches beyond an axis, after its mask."""
    return OutsideTensor(
        f"out-of-bound access for tensor `{name}` on dimension {axis}: index range [{low}, {high}] exceed dimension"
        f" size of {shape[axis]}",
        notes=[f"`{name}` has the shape {list(shape)}", older("err_tensor_access_out_of_bound")],
        help="correct the index, or mask what lies outside: mask=i_f < n",
    )


def check_partitions(
    describe: str, partition: Index, free: Sequence[Index], shape: Sequence[int]
) -> None:
    """Raise unless the first axis of a grid steps through adjacent partitions, and no other axis does.

    Args:
        describe: what an error says about the tensor.
        partition: positions along its partition axis.
        free: those along its free axes.
        shape: of the grid.
    """
    coef = partition.coef
    if any(coef[1:]) or (shape[0] > 1 and coef[0] != 1):
        problem = (
            "an axis of the grid other than its first steps through partitions"
            if any(coef[1:])
            else f"its partitions are taken in steps of {coef[0]}"
        )
        raise BadIndexing(
            f"{describe}: {problem}",
            help="index axis 0 with nl.arange(n)[:, None], whose step is 1; transpose, or load the rows apart",
        )
    if shape[0] > 1 and any(index.coef[0] for index in free):
        raise BadIndexing(
            f"{describe}: the position along a free axis differs from partition to partition",
            help="all partitions of an access start at the same place; use nisa.iota and nl.where, or load it so",
        )


# -- what is selected again and again ------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """What keys of one pattern select of views of one layout; their starts are added.

    Attributes:
        shape: of the result.
        strides: of the result.
        places: for each axis of the view, the first start that lies inside, the first one after it that does not, and
            the stride.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    places: tuple[tuple[int, int, int], ...]


#: (layout of the view, pattern of the key) -> plan; None where `positions` has more to say.
_plans: dict[Any, _Plan | None] = {}
_MOST_PLANS = 4096
_UNKNOWN: Any = object()


def part_of(tile: Indexed, view: NkiTensor, key: Any) -> NkiTensor | None:
    """Return what a key selects of a tile that is all of a view; None where only the slow way can tell.

    It is what `positions` and `accessed` give, remembered for keys that differ in where they start only, as those in
    the trips of a loop do.
    """
    entries = key if type(key) is tuple or isinstance(key, tuple) else (key,)
    if view.dynamic is not None:
        return None
    sizes = view.shape
    rank = len(sizes)
    pattern: list[Any] = [sizes, view.strides, view.storage.on_chip]
    starts: list[int] = []
    notes = noted()
    for k in entries:
        kind = type(k)
        if kind is Index:
            pattern.append((k.shape, k.coef))
            starts.append(k.const)
            continue
        axis = len(starts)
        if kind is slice:
            if axis == rank:
                return None
            n = sizes[axis]
            first, stop = k.start, k.stop
            if notes is not None:
                notes.sign(first if isinstance(first, int) else 0)
                notes.sign(stop if isinstance(stop, int) else 0)
            if first is None:
                first = 0
            elif not isinstance(first, int):
                return None
            elif first < 0:
                first += n
            if stop is None:
                stop = n
            elif not isinstance(stop, int):
                return None
            elif stop < 0:
                stop += n
            pattern.append((stop - first, k.step))
            if notes is not None:
                notes.same.append(stop - first)
            starts.append(first)
        elif k is None:
            pattern.append(None)
        elif kind is int or (isinstance(k, int) and kind is not bool):
            if axis == rank:
                return None
            pattern.append(1)
            if notes is not None:
                notes.sign(k)
            starts.append(k if k >= 0 else k + sizes[axis])
        else:
            return view if k is Ellipsis and len(entries) == 1 else None
    layout = tuple(pattern)
    plan = _plans.get(layout, _UNKNOWN)
    if plan is _UNKNOWN:
        if len(_plans) >= _MOST_PLANS:
            _plans.clear()
        plan = _plans[layout] = _plan_of(tile, view, key)
    if plan is None:
        return None
    shape, strides, places = plan
    if len(starts) < rank:
        starts += [0] * (rank - len(starts))
    offset = view.offset
    for start, (first, end, stride) in zip(starts, places):  # noqa: B905
        if notes is not None:
            notes.sign(start - first)
            notes.sign(end - 1 - start)
        if not first <= start < end:
            return None
        offset += start * stride
    return NkiTensor._make(view.storage, shape, strides, offset, view.dtype, view.dynamic)


def _plan_of(tile: Indexed, view: NkiTensor, key: Any) -> _Plan | None:
    try:
        indices, shape, by = positions(tile, key)
        if by is not None:
            return None
        strides = _strides(view, indices, shape)
    except NkiError:
        return None  # the slow way tells, if the access is one
    everywhere = whole(shape)
    places = []
    for index, size, stride in zip(indices, view.shape, view.strides, strict=True):
        low, high = index.range(everywhere)
        places.append((index.const - low, size - high + index.const, stride))
    shape, strides = _two_axes(view, shape, strides)
    return _Plan(shape, strides, tuple(places))


def check_fixed(view: NkiTensor) -> None:
    """Raise where a part of the rows would be taken of a view whose rows a tile of indices names."""
    if view.dynamic is not None and view.dynamic.kind is not Addressing.SCALAR:
        raise IndirectIndex(
            f"{view.describe()} is addressed by a tile of indices: a part of it cannot be taken",
            help="take the part of the tile of indices instead",
        )


def accessed(
    view: NkiTensor, indices: tuple[Index, ...], box: Box, by: By | None = None
) -> NkiTensor:
    """Return the elements of a view at the positions in a box of a grid.

    Args:
        view: all of a tensor.
        indices: for each of its axes, the positions over the grid.
        box: what a mask has left of the grid.
        by: the tile of indices among the positions; a mask that cuts the rows cuts it, too.
    """
    shape = tuple([end - first for first, end in box])
    offset = view.offset
    check_fixed(view)
    notes = noted()
    for axis, (index, stride) in enumerate(zip(indices, view.strides, strict=True)):
        low, high = index.range(box)
        if notes is not None:
            notes.sign(low)
            notes.sign(view.shape[axis] - 1 - high)
        if (low < 0 or high >= view.shape[axis]) and not (by is not None and by.axis == axis):
            raise outside(view.name, axis, low, high, view.shape)
        start = index.const
        for c, (first, _) in zip(index.coef, box, strict=True):
            start += c * first
        if by is None or by.kind == "scalar" or by.axis != axis:
            offset += stride * start
    strides = _strides(view, indices, shape)
    dynamic = view.dynamic
    if by is not None and by.kind == "scalar":
        low, high = indices[by.axis].range(box)
        limit = view.shape[by.axis] - high if low >= 0 and high < view.shape[by.axis] else 0
        dynamic = view._by_scalar(by.axis, by.tile.read(), view.strides[by.axis], limit, "an index")
    elif by is not None:
        if any(index.coef[0] for axis, index in enumerate(indices) if axis != by.axis):
            raise IndirectIndex(
                f"{view.describe()} is indexed with {by.tile.describe()}, and with a position that differs from row to"
                " row",
                help="rows that are chosen at run time all begin at the same place",
            )
        first, last = indices[by.axis].range(box)
        if last - first != shape[0] - 1:
            raise IndirectIndex(
                f"rows of {view.describe()} that {by.tile.describe()} names are taken in steps",
                help="take the steps in the tile of indices",
            )
        rows = by.tile.read(((first, last + 1), *[(0, n) for n in by.tile.shape[1:]]))
        chosen = view
        for index in indices[: by.axis]:
            chosen = chosen[index.const]
        dynamic = chosen._by_vector(0, rows, shape[0], view.strides[by.axis], "an index")
    shape, strides = _two_axes(view, shape, strides)
    return NkiTensor._make(view.storage, shape, strides, offset, view.dtype, dynamic)


def _strides(view: NkiTensor, indices: Sequence[Index], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of positions in a view; an error where no instruction takes them."""
    if view.storage.on_chip:
        check_partitions(view.describe(), indices[0], indices[1:], shape)
    strides = [0] * len(shape)
    for index, stride in zip(indices, view.strides, strict=True):
        for d, c in enumerate(index.coef):
            if c:
                strides[d] += stride * c
    for d, n in enumerate(shape):
        if n == 1:  # never walked; rules look at it
            strides[d] = strides[d] or (view.strides[0] if d == 0 else 1)
    return tuple(strides)


def _two_axes(
    view: NkiTensor, shape: tuple[int, ...], strides: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return a shape and strides on the chip with a free axis."""
    if len(shape) == 1 and view.storage.on_chip:
        return (*shape, 1), (*strides, 1)
    return shape, strides
