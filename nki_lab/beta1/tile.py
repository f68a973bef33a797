"""The tensor that an author of the older dialect holds.

A tile whose places are known is a view of the IR. Where it is not one, it keeps the places: a part that lies outside
its tensor (a mask says later what is accessed), several blocks, or rows that a tile of indices names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from sys import getrefcount
from typing import Any

from nki_lab.beta1.index import Box, Index
from nki_lab.beta1.indexing import By, Moved, moved, positions
from nki_lab.dtypes import DType
from nki_lab.errors import NotModelled, OutOfBounds, RuleBroken, ViewError
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.fields import Dynamic
from nki_lab.ir.tensor.layout import reshape_strides
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.spaces import PSUM, MemoryRegion


class _Probe:
    """Counts what refers to a value while it is assigned or added."""

    count = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        self.count = getrefcount(value)

    def __iadd__(self, value: Any) -> _Probe:
        self.count = getrefcount(value)
        return self


# How many references there are to a value that only the statement holds, in `t[...] = value` and in `t += value`.
_probe = _Probe()
_probe[0] = object()
_TEMPORARY_SET = _probe.count
_probe += object()
_TEMPORARY_ADD = _probe.count

#: What operators and methods do, by name: modules that need tiles themselves say it with `means`.
_MEANING: dict[str, Callable[..., Any]] = {}


def means(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator: the function is what tiles do at `name`."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _MEANING[name] = function
        return function

    return register


class Tile:
    """A tensor: `base`, or the part of it at `axes`.

    Attributes:
        base: a view of the IR, or a tensor with block axes (`Blocks`).
        axes: for each axis of `base`, its position over the grid of this tile; None where the tile is all of `base`.
        shape: of the tile.
        by: the tile of indices whose values are added to a position, or None.
        zeros: the zeros of PSUM that it is part of, or None.
        made: the instructions that made it, one for each box of `covers`; empty where these are not known.
        covers: the boxes that a mask left when it was made; None for all of it.
    """

    __slots__ = ("base", "axes", "shape", "by", "zeros", "made", "covers", "__weakref__")
    __array_ufunc__ = None

    def __init__(
        self,
        base: Any,
        axes: tuple[Index, ...] | None = None,
        shape: tuple[int, ...] | None = None,
        by: By | None = None,
        zeros: Any = None,
    ) -> None:
        self.base, self.axes, self.by, self.zeros = base, axes, by, zeros
        self.shape: tuple[int, ...] = base.shape if shape is None else shape
        self.made: tuple[Instruction, ...] = ()
        self.covers: list[Box] | None = None

    # -- facts ---------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.base.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.base.dtype.itemsize

    @property
    def buffer(self) -> MemoryRegion:
        """The memory it is in."""
        return self.base.buffer

    @property
    def on_chip(self) -> bool:
        """Whether it is in SBUF or PSUM."""
        return self.base.buffer.on_chip

    @property
    def in_psum(self) -> bool:
        """Whether it is in PSUM."""
        return self.base.buffer is PSUM

    @property
    def name(self) -> str:
        """The name of its tensor."""
        return self.base.name

    def describe(self) -> str:
        """Return what an error says about it."""
        return f"`{self.name}` {list(self.shape)} {self.dtype} in {self.buffer.name}"

    def __repr__(self) -> str:
        return f"<tile {self.describe()}>"

    def __len__(self) -> int:
        return self.shape[0]

    def __bool__(self) -> bool:
        return True

    __hash__ = object.__hash__

    def assert_shape(self, shape: Sequence[int]) -> Tile:
        """Return the tile; raise unless it has this shape."""
        if self.shape != tuple(shape):
            raise RuleBroken(f"{self.describe()} should have the shape {list(shape)}")
        return self

    # -- parts ---------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tile:
        indices, shape, by = positions(self, key)
        base, zeros = self.base, self.zeros
        if self.axes is not None:
            if by is not None:
                by = self._outer(by)
            indices = tuple(axis.compose(indices, shape) for axis in self.axes)
        by = by or self.by
        if isinstance(base, Blocks):
            count = base.count
            if by is not None or any(any(index.coef) for index in indices[:count]):
                return Tile(base, indices, shape, by)
            # A block begins here: what stands to the right of `t[k] +=` is evaluated after it.
            block = base.block(tuple(index.const for index in indices[:count]))
            base, zeros, indices = block.base, block.zeros, indices[count:]
        if by is None and _inside(base, indices, shape):
            return Tile(_view(base, indices, shape), zeros=zeros)
        return Tile(base, indices, shape, by, zeros)

    def _outer(self, by: By) -> By:
        """Return a tile of indices with the axis of `base` that it selects."""
        assert self.axes is not None
        along = [n for n, axis in enumerate(self.axes) if axis.coef[by.axis]]
        if len(along) != 1:
            raise NotModelled(f"a tile of indices on a derived axis of {self.describe()}")
        return by._replace(axis=along[0])

    def view(self, box: Box | None = None) -> NkiTensor:
        """Return what instructions read: all of the tile, or a box of it; an error where that is outside its tensor."""
        view = self.target(box)
        if self.zeros is not None:
            self.zeros.settle(view)
        return view

    def target(self, box: Box | None = None) -> NkiTensor:
        """Return what instructions write, like `view`; zeros of PSUM need not be there."""
        base, axes = self.base, self.axes
        if axes is None:
            return base if box is None else _boxed(base, box)
        if isinstance(base, Blocks):
            base, axes = base.accessed(axes, box or tuple((0, n) for n in self.shape))
        box = box or tuple((0, n) for n in self.shape)
        for n, (index, size) in enumerate(zip(axes, base.shape, strict=True)):
            low, high = index.range(box)
            if (low < 0 or high >= size) and not (self.by is not None and self.by.axis == n):
                raise OutOfBounds(
                    f"index range [{low}, {high}] exceed dimension size of {size}: axis {n} of `{base.name}`"
                    f" {list(base.shape)}"
                )
        shape = tuple(b - a for a, b in box)
        starts = [
            index.const + sum(c * a for c, (a, _) in zip(index.coef, box, strict=True))
            for index in axes
        ]
        shifted = tuple(Index(shape, i.coef, s) for i, s in zip(axes, starts, strict=True))
        return self._gathered(base, shifted, shape, box)

    def _gathered(
        self, base: NkiTensor, axes: tuple[Index, ...], shape: tuple[int, ...], box: Box
    ) -> NkiTensor:
        """Return the view, addressed by the tile of indices where there is one."""
        if self.by is None:
            return _view(base, axes, shape)
        kind, axis, tile = self.by
        if kind == "scalar":
            dynamic = base._by_scalar(axis, tile.view(), base.strides[axis], 0, "an index")
            return _addressed(_view(base, axes, shape), dynamic)
        rows = tile.view((box[0], *[(0, n) for n in tile.shape[1:]]))
        for leading in range(axis):
            base = base[axes[leading].const]
        dynamic = base._by_vector(0, rows, shape[0], base.strides[0], "an index")
        view = _view(base, (Index(shape, axes[axis].coef, 0), *axes[axis + 1 :]), shape)
        return _addressed(view._view(shape, (base.strides[0], *view.strides[1:]), view.offset), dynamic)  # fmt: skip

    # -- shapes --------------------------------------------------------------------------------------------------

    def reshape(self, *shape: Any, **keywords: Any) -> Tile:
        """Return the same elements in another shape."""
        (wanted,) = keywords.values() if keywords else shape if len(shape) == 1 else (shape,)
        sizes = [int(n) for n in wanted]
        if -1 in sizes:
            sizes[sizes.index(-1)] = self.size // -prod(sizes)
        view = self.view()
        strides = reshape_strides(view.shape, view.strides, sizes)
        if strides is None:
            raise ViewError(f"reshape of {self.describe()} to {sizes} needs a copy")
        return Tile(view._view(sizes, strides, view.offset))

    def expand_dims(self, axis: int) -> Tile:
        """Return the tile with an axis of size 1 before `axis`."""
        axis = axis + self.ndim + 1 if axis < 0 else axis
        return self[(*[slice(None)] * axis, None)]

    def broadcast_to(self, shape: Any, **keywords: Any) -> Tile:
        """Return the tile with axes of size 1 repeated."""
        return _MEANING["broadcast_to"](self, tuple(int(n) for n in shape))

    def astype(self, dtype: Any) -> Tile:
        """Return a copy in another dtype."""
        return _MEANING["astype"](self, dtype)

    def __neg__(self) -> Tile:
        return _MEANING["operator"]("multiply", self, -1.0)

    def __invert__(self) -> Tile:
        return _MEANING["operator"]("bitwise_xor", self, -1)

    # -- writing -------------------------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        temporary = getrefcount(value) <= _TEMPORARY_SET
        _MEANING["assign"](self[key], value, temporary)


def _augmented(name: str) -> Callable[..., Any]:
    def method(self: Tile, other: Any) -> Any:
        temporary = getrefcount(other) <= _TEMPORARY_ADD
        return _MEANING["augment"](self, other, name, temporary)

    return method


def _operator(name: str, reverse: bool = False) -> Callable[..., Any]:
    def method(self: Tile, other: Any) -> Any:
        if name == "add" and isinstance(other, (Index, Moved)):
            return moved(self, other)
        x, y = (other, self) if reverse else (self, other)
        return _MEANING["operator"](name, x, y)

    return method


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "mod",
    "pow": "power", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift",
    "rshift": "right_shift",
}  # fmt: skip
_COMPARISONS = {
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
for _name, _function in _OPERATORS.items():
    setattr(Tile, f"__{_name}__", _operator(_function))
    setattr(Tile, f"__r{_name}__", _operator(_function, reverse=True))
    setattr(Tile, f"__i{_name}__", _augmented(_function))
for _name, _function in _COMPARISONS.items():
    setattr(Tile, f"__{_name}__", _operator(_function))


class Blocks:
    """A tensor with block axes: one tensor for each block, made when it is first touched.

    Attributes:
        shape: with the block axes, which lead.
        count: of block axes.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        count: int,
        dtype: DType,
        buffer: MemoryRegion,
        name: str,
        make: Callable[[tuple[int, ...]], Tile],
    ) -> None:
        self.shape, self.count, self.dtype, self.buffer, self.name = (
            shape,
            count,
            dtype,
            buffer,
            name,
        )
        self._make, self._blocks = make, dict[tuple[int, ...], Tile]()

    def block(self, place: tuple[int, ...]) -> Tile:
        """Return a block."""
        for n, (at, size) in enumerate(zip(place, self.shape)):  # noqa: B905
            if not 0 <= at < size:
                raise OutOfBounds(
                    f"index range [{at}, {at}] exceed dimension size of {size}: axis {n} of `{self.name}`"
                    f" {list(self.shape)}"
                )
        if place not in self._blocks:
            self._blocks[place] = self._make(place)
        return self._blocks[place]

    def accessed(self, axes: tuple[Index, ...], box: Box) -> tuple[NkiTensor, tuple[Index, ...]]:
        """Return the one block that an access is about, and the positions in it."""
        ranges = [index.range(box) for index in axes[: self.count]]
        if any(low != high for low, high in ranges):
            raise NotModelled(
                f"one access of several blocks of `{self.name}` {list(self.shape)}",
                help="loop over the block axes, which stand before par_dim",
            )
        return self.block(tuple(low for low, _ in ranges)).view(), axes[self.count :]


def identity(shape: tuple[int, ...]) -> tuple[Index, ...]:
    """Return for each axis its own positions over a grid of `shape`."""
    rank = len(shape)
    return tuple(
        Index(
            tuple(n if k == d else 1 for k in range(rank)),
            tuple(int(k == d) for k in range(rank)),
            0,
        )
        for d, n in enumerate(shape)
    )


def _inside(base: NkiTensor, axes: Sequence[Index], shape: tuple[int, ...]) -> bool:
    """Tell whether all positions exist."""
    for index, size in zip(axes, base.shape, strict=True):
        low = high = index.const
        for n, c in zip(shape, index.coef, strict=True):
            if c > 0:
                high += c * (n - 1)
            elif c:
                low += c * (n - 1)
        if low < 0 or high >= size:
            return False
    return True


def _view(base: NkiTensor, axes: Sequence[Index], shape: tuple[int, ...]) -> NkiTensor:
    """Return the elements of `base` at these positions."""
    strides, offset = [0] * len(shape), base.offset
    for index, stride in zip(axes, base.strides, strict=True):
        offset += stride * index.const
        for d, c in enumerate(index.coef):
            if c:
                strides[d] += stride * c
    for d, n in enumerate(shape):
        if n == 1:  # never walked; rules look at it
            strides[d] = strides[d] or (base.strides[0] if d == 0 else 1)
    if len(shape) == 1 and base.storage.on_chip:
        shape, strides = (*shape, 1), [*strides, 1]
    return NkiTensor._make(base.storage, shape, tuple(strides), offset, base.dtype, base.dynamic)


def _boxed(view: NkiTensor, box: Box) -> NkiTensor:
    offset = view.offset + sum(a * s for (a, _), s in zip(box, view.strides, strict=True))
    shape = tuple(b - a for a, b in box)
    return view._view(shape, view.strides, offset)


def _addressed(view: NkiTensor, dynamic: Dynamic) -> NkiTensor:
    return NkiTensor._make(view.storage, view.shape, view.strides, view.offset, view.dtype, dynamic)
