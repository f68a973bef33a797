"""The tensor that an author of the older dialect holds.

A tile whose places are known is a view of the IR. Where it is not one, it keeps the places: a part that lies outside
its tensor (a mask says later what is accessed), several blocks, or rows that a tile of indices names.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from math import prod
from sys import getrefcount
from typing import Any, NoReturn

from nki_lab.beta1.index import Box, Index
from nki_lab.beta1.indexing import (
    By,
    Moved,
    accessed,
    check_fixed,
    moved,
    outside,
    part_of,
    positions,
)
from nki_lab.beta1.keywords import refusing
from nki_lab.beta1.masks import Mask, boxes, whole
from nki_lab.beta1.notes import noted
from nki_lab.beta1.promotion import dtype_named, integer, integers
from nki_lab.dtypes import DType
from nki_lab.errors import NotModelled, RuleBroken, UnknownName, ViewError, WrongCall, WrongOperand
from nki_lab.errors.beta1 import BadIndexing, BadMask, OutsideTensor, TileTruth, older
from nki_lab.ir.building.device_loops import find_loop, position_of
from nki_lab.ir.definition.instruction import Instruction
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
        only: the box that the mask of an operand leaves, `t[i_f < 64]`; None for all of it.
    """

    __slots__ = ("base", "axes", "shape", "by", "zeros", "made", "covers", "only", "__weakref__")

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
        self.only: Box | None = None

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
        base = self.base
        return base.storage.on_chip if type(base) is NkiTensor else base.buffer.on_chip

    @property
    def in_psum(self) -> bool:
        """Whether it is in PSUM."""
        base = self.base
        return (base.storage if type(base) is NkiTensor else base).buffer is PSUM

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
        if not self.on_chip:  # published kernels ask so whether an optional tensor was given
            return True
        one = self.size == 1
        frame = sys._getframe(1)
        if (
            one
            and find_loop(frame.f_code, position_of(frame.f_code, frame.f_lasti), ast.While)
            is not None
        ):
            code = "err_while_loop_requires_unconditional_entry"
        elif one:
            code = "err_dynamic_control_flow_not_supported"
        else:
            code = "err_ambiguous_tensor_truth_value"
        raise TileTruth(
            f"control flow depends on {self.describe()}, "
            + ("a value that is only known at run time" if one else "which has many values"),
            notes=[older(code)],
            help="ask whether there is a tensor with `is not None`; choose by data with nl.where",
        )

    def __iter__(self) -> NoReturn:
        raise BadIndexing(
            f"{self.describe()} cannot be the range of a loop, and cannot be taken apart",
            help="for i in nl.affine_range(t.shape[0]): work on t[i]",
        )

    __hash__ = object.__hash__

    def _number(self) -> NoReturn:
        raise TileTruth(
            f"Python's int, float and range need the value of {self.describe()}, which is only known at run time",
            notes=[older("err_dynamic_control_flow_not_supported")],
            help="compute with tiles: t * other; give numbers that decide something to the kernel as arguments",
        )

    __int__ = __index__ = __float__ = _number  # type: ignore[assignment]

    def __matmul__(self, other: Any) -> NoReturn:
        raise WrongCall(
            f"`@` with {self.describe()}: tiles have no such operator",
            help="write nl.matmul(x, y, transpose_x=...)",
        )

    __rmatmul__ = __matmul__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnknownName(
            f"a tile has no `{name}`",
            help=_FUNCTIONS_FOR.get(name)
            or f"tiles have {', '.join(_OFFERED)}; functions of nki.language take them: nl.{name}(t) if it is there",
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        """Refuse NumPy's functions of tiles; operators between a scalar of NumPy and a tile are those of tiles."""
        name = _OF_UFUNCS.get(ufunc.__name__, ufunc.__name__)
        scalars = len(inputs) == 2 and any(type(x).__module__ == "numpy" for x in inputs)
        if method == "__call__" and scalars and name in _OPERATOR_NAMES:
            return _MEANING["operator"](name, *inputs)
        raise WrongCall(
            f"np.{ufunc.__name__} of a tile: NumPy does not know its values while the kernel is traced",
            help=f"write the function of nki.language, such as nl.{name}",
        )

    @refusing("t.assert_shape")
    def assert_shape(self, shape: Sequence[int]) -> Tile:
        """Return the tile; raise unless it has this shape."""
        if self.shape != tuple(shape):
            raise RuleBroken(
                f"{self.describe()} should have the shape {list(shape)}",
                help="correct the shape that the kernel asserts, or what makes the tile",
            )
        return self

    # -- parts ---------------------------------------------------------------------------------------------------

    @property
    def block_axes(self) -> int:
        """How many of its axes are block axes; they lead."""
        base = self.base
        return max(0, self.ndim - len(base.shape) + base.count) if type(base) is Blocks else 0

    def __getitem__(self, key: Any) -> Tile:
        base, zeros = self.base, self.zeros
        if type(key) is Mask:
            return self._masked(key)
        if self.only is not None:
            raise self._no_product()
        if self.axes is None:
            if type(base) is Blocks:
                block, key = base.begun(key)
                if block is not None:
                    return block[key]
            else:
                part = part_of(self, base, key)
                if part is not None:
                    return Tile(part, zeros=zeros)
        indices, shape, by = positions(self, key)
        if self.axes is not None:
            if by is not None:
                by = self._outer(by)
            indices = tuple([axis.compose(indices, shape) for axis in self.axes])
        by = by or self.by
        if type(base) is Blocks:
            count = base.count
            if by is not None or any(any(index.coef) for index in indices[:count]):
                return Tile(base, indices, shape, by)
            # A block begins here: what stands to the right of `t[k] +=` is evaluated after it.
            block = base.block(tuple(index.const for index in indices[:count]))
            base, zeros, indices = block.base, block.zeros, indices[count:]
        if by is None:
            try:
                part = accessed(base, indices, whole(shape))
                return Tile(part, zeros=zeros)
            except (BadIndexing, OutsideTensor):
                pass  # a mask may leave what can be accessed
        return Tile(base, indices, shape, by, zeros)

    def _masked(self, mask: Mask) -> Tile:
        """Return the tile as the operand of a product, of which a mask leaves one box (NKI API Masking)."""
        covered = boxes(mask, self.shape)
        if len(covered) > 1:
            raise BadMask(
                f"the mask of an operand leaves {len(covered)} boxes of {self.describe()}: a product takes one",
                help="compare one axis at a time: lhs[i_f < 64]",
            )
        tile = Tile(self.base, self.axes, self.shape, self.by, self.zeros)
        tile.only = covered[0] if covered else tuple((0, 0) for _ in self.shape)
        return tile

    def unmasked(self) -> tuple[Tile, Box]:
        """Return the operand of a product without its mask, and the box that this leaves."""
        if self.only is None:
            return self, whole(self.shape)
        return Tile(self.base, self.axes, self.shape, self.by, self.zeros), self.only

    def _no_product(self) -> BadMask:
        return BadMask(
            f"{self.describe()} has a mask as an index: only the operands of products take one",
            help="give the mask to the call: nl.exp(t, mask=i_f < 64)",
        )

    def _outer(self, by: By) -> By:
        """Return a tile of indices with the axis of `base` that it selects."""
        assert self.axes is not None
        along = [n for n, axis in enumerate(self.axes) if axis.coef[by.axis]]
        if len(along) != 1:
            raise NotModelled(
                f"a tile of indices on a derived axis of {self.describe()}",
                help="index an axis of the tensor itself, before it is reshaped or split",
            )
        return by._replace(axis=along[0])

    @refusing("t.view")
    def view(self, dtype: Any) -> Tile:
        """Return a tile of another dtype with the same bytes."""
        return Tile(self.target().view(dtype_named(dtype)))

    def read(self, box: Box | None = None) -> NkiTensor:
        """Return what instructions read: all of the tile, or a box of it; an error where that is outside its tensor."""
        base, zeros = self.base, self.zeros
        if box is None and self.axes is None is self.only and type(base) is NkiTensor:
            view = base
        else:
            view = self.target(box)
        if zeros is not None:
            zeros.settle(view)
        return view

    def target(self, box: Box | None = None) -> NkiTensor:
        """Return what instructions write, like `read`; zeros of PSUM need not be there."""
        base, axes, by = self.base, self.axes, self.by
        if self.only is not None:
            raise self._no_product()
        if type(base) is Blocks:
            if by is not None:
                by = by._replace(axis=by.axis - base.count)
            base, axes = base.accessed(axes or identity(base.shape), box or whole(self.shape))
        if axes is None:
            return base if box is None else _boxed(base, box)
        return accessed(base, axes, box or whole(self.shape), by)

    # -- shapes --------------------------------------------------------------------------------------------------

    @refusing("t.reshape")
    def reshape(self, shape: Any) -> Tile:
        """Return the same elements in another shape; on the chip elements stay in their partitions."""
        sizes = list(integers(shape, "a size of a shape"))
        if sizes.count(-1) == 1 and 0 not in sizes:
            sizes[sizes.index(-1)] = self.size // -prod(sizes)
        if prod(sizes) != self.size or min(sizes, default=1) < 1:
            raise ViewError(
                f"{self.describe()} has {self.size} elements, and the shape {list(integers(shape, 'a size'))} has not",
                help="give a shape with as many elements; one size may be -1",
            )
        if self.on_chip and len(sizes) > 1 and sizes[0] != self.shape[0]:
            raise ViewError(
                f"reshape of {self.describe()} to {sizes}: elements would move to other partitions",
                help=f"keep the partition axis, {self.shape[0]}; nl.transpose and nl.store move elements across",
            )
        return self.reshaped(sizes)

    def reshaped(self, sizes: Sequence[int]) -> Tile:
        """Return the same elements in another shape with as many, in whatever partitions they then are."""
        view = self.read()
        strides = reshape_strides(view.shape, view.strides, sizes)
        if strides is None:
            raise ViewError(
                f"reshape of {self.describe()} to {sizes} needs a copy",
                help="copy the tile first: nl.copy(t).reshape(shape)",
            )
        return Tile(view._view(sizes, strides, view.offset))

    @refusing("t.expand_dims")
    def expand_dims(self, axis: int) -> Tile:
        """Return the tile with an axis of size 1 before `axis`."""
        axis = integer(axis, "expand_dims: `axis`")
        if not -self.ndim <= axis + 1 <= self.ndim + 1:
            raise WrongOperand(
                f"expand_dims: axis {axis} of {self.describe()}",
                help=f"a new axis can stand at 1 to {self.ndim}",
            )
        axis = axis + self.ndim + 1 if axis < 0 else axis
        return self[(*[slice(None)] * axis, None)]

    @refusing("t.broadcast_to")
    def broadcast_to(self, shape: Any) -> Tile:
        """Return the tile with axes of size 1 repeated."""
        return _MEANING["broadcast_to"](self, integers(shape, "a size of a shape"))

    @refusing("t.astype")
    def as_tile(self) -> Tile:
        """Return the tile; published kernels ask so for the part that an index selects."""
        return self

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
        base = self.base
        if (
            key is ...
            and type(base) is NkiTensor
            and base.dynamic is None is self.axes is self.only
        ):
            part = self
        else:
            part = self[key]
        _MEANING["assign"](part, value, temporary)


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
#: Functions of NumPy that its operators call, where nki.language names them otherwise.
_OF_UFUNCS = {
    "true_divide": "divide", "remainder": "mod", "greater_equal": "greater_equal", "absolute": "abs",
}  # fmt: skip
_OPERATOR_NAMES = {*_OPERATORS.values(), *_COMPARISONS.values()}
#: What authors may ask of a tile.
_OFFERED = (
    "shape", "dtype", "ndim", "itemsize", "as_tile", "assert_shape", "astype", "broadcast_to", "expand_dims", "reshape",
    "view",
)  # fmt: skip
#: What arrays of NumPy have under names that tiles do not have -> what to write.
_FUNCTIONS_FOR = {
    "T": "write nl.transpose(t), or load it transposed with nl.load_transpose2d",
    "sum": "write nl.sum(t, axis=1)", "mean": "write nl.mean(t, axis=1)", "max": "write nl.max(t, axis=1)",
    "min": "write nl.min(t, axis=1)", "transpose": "write nl.transpose(t)", "copy": "write nl.copy(t)",
    "dot": "write nl.matmul(x, y)", "flatten": "write t.reshape(shape)", "squeeze": "write t.reshape(shape)",
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
        block = self._blocks.get(place)
        if block is None:
            for n, (at, size) in enumerate(zip(place, self.shape)):  # noqa: B905
                if not 0 <= at < size:
                    raise outside(self.name, n, at, at, self.shape)
            block = self._blocks[place] = self._make(place)
        return block

    def made(self, place: tuple[int, ...]) -> Tile | None:
        """Return a block if it has been touched."""
        return self._blocks.get(place)

    def take(self, place: tuple[int, ...], block: Tile) -> None:
        """Take a tensor for a block that has not been touched."""
        self._blocks[place] = block

    def begun(self, key: Any) -> tuple[Tile | None, Any]:
        """Return the block that the integers at the beginning of a key choose, if they do, and the rest of the key."""
        entries = key if isinstance(key, tuple) else (key,)
        place = entries[: self.count]
        if len(place) < self.count:
            return None, key
        for k in place:
            if not isinstance(k, int) or type(k) is bool:
                return None, key
        sizes = self.shape
        if (notes := noted()) is not None:
            for k in place:
                notes.sign(k)
        block = self.block(tuple([k + n if k < 0 else int(k) for k, n in zip(place, sizes)]))  # noqa: B905
        return block, entries[self.count :] or ...

    def accessed(self, axes: tuple[Index, ...], box: Box) -> tuple[NkiTensor, tuple[Index, ...]]:
        """Return the one block that an access is about, and the positions in it."""
        ranges = [index.range(box) for index in axes[: self.count]]
        if any(low != high for low, high in ranges):
            raise BadIndexing(
                f"one access of several blocks of `{self.name}` {list(self.shape)} is no tile: the first axis of a tile"
                " is the partition axis",
                notes=[older("err_failed_to_infer_tile_from_local_tensor")],
                help="loop over the block axes, which stand before par_dim, and work on t[i]",
            )
        return self.block(tuple(low for low, _ in ranges)).read(), axes[self.count :]


def identity(shape: tuple[int, ...]) -> tuple[Index, ...]:
    """Return for each axis its own positions over a grid of `shape`."""
    rank = len(shape)
    return tuple(
        Index(
            tuple([n if k == d else 1 for k in range(rank)]),
            tuple([int(k == d and n > 1) for k in range(rank)]),
            0,
        )
        for d, n in enumerate(shape)
    )


def _boxed(view: NkiTensor, box: Box) -> NkiTensor:
    shape = tuple([b - a for a, b in box])
    if shape == view.shape:
        return view
    check_fixed(view)
    offset = view.offset + sum([a * s for (a, _), s in zip(box, view.strides, strict=True)])
    return view._view(shape, view.strides, offset)
