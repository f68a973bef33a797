"""What is a tensor, and which views of it can a kernel make?

A view is shape, strides and offset over a storage, counted in elements of the view's dtype. On chip the first axis
is the partition axis; one step along it is the storage's free size. (nki/api/nki/language/__init__.py, NkiTensor)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nki_lab.dtypes import DType
from nki_lab.errors import NotModelled, OutOfBounds, TileAssignment, ViewError
from nki_lab.ir.tensor import layout
from nki_lab.ir.tensor.arguments import element_of
from nki_lab.ir.tensor.dynamic import Addressing
from nki_lab.ir.tensor.dynamic_views import DynamicViews
from nki_lab.ir.tensor.fixed import Fixed, TensorFields
from nki_lab.ir.tensor.indices import integers, is_runtime, spelled_out, static_index
from nki_lab.ir.tensor.operators import TensorOperators
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.ir.tensor.watch import watch_of
from nki_lab.targets.spaces import ARGUMENT_HBM, MemoryRegion


class DynamicSlice(NamedTuple):
    """`nl.ds(start, size)`: `size` elements from `start` on."""

    start: Any
    size: int


class NkiTensor(Fixed, DynamicViews, TensorOperators, TensorFields):
    """A view of a storage: what instructions read and write.

    Attributes:
        shape: elements along each axis; axis 0 is the partition axis in SBUF and PSUM.
        strides: steps along each axis, in elements of `dtype`.
        offset: first element, in elements of `dtype`.
        dtype: element type.
        dynamic: what the address depends on while the kernel runs, or None.
    """

    __slots__ = ()
    # What `t[...] = other` and `assert nl.equal(t, other)` do; nki_lab.language gives them.
    _assign: ClassVar[Callable[..., Any]]
    _assert_true: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        storage: Storage,
        buffer: MemoryRegion | str = MemoryRegion.sbuf,
        name: str = "",
    ) -> None:
        if not isinstance(storage, Storage):
            raise NotModelled(
                "NkiTensor binds a storage handle that nl.ndarray made",
                help="make tensors with nl.ndarray(shape, dtype, buffer=...)",
            )
        sizes = tuple(shape)
        made = self._make(storage, sizes, layout.contiguous_strides(sizes), 0, dtype)
        for slot in TensorFields.__slots__:
            object.__setattr__(self, slot, getattr(made, slot))

    @classmethod
    def _make(cls, storage, shape, strides, offset, dtype, dynamic=None) -> NkiTensor:
        made: Any = TensorFields.__new__(TensorFields)
        made.storage = storage
        made.shape = shape
        made.strides = strides
        made.offset = offset
        made.dtype = dtype
        made.box = None
        made.dynamic = dynamic
        made.__class__ = NkiTensor
        return made

    def _view(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> NkiTensor:
        if self.dynamic is not None and self.dynamic.kind is Addressing.ELEMENTS:
            raise ViewError(
                f"a view of {self.describe()}, which has one element for each offset of an index tile",
                help="pass it to the instruction as it is: shapes may differ as long as the elements agree",
            )
        return NkiTensor._make(
            self.storage, tuple(shape), tuple(strides), offset, self.dtype, self.dynamic
        )

    # -- facts ---------------------------------------------------------------------------------------------------

    @property
    def first_axis_stays(self) -> bool:
        """True where axis 0 must stay axis 0: the partition axis, or one that a tile of indices addresses."""
        dynamic = self.dynamic
        return self.storage.on_chip or (
            dynamic is not None and dynamic.kind is not Addressing.SCALAR
        )

    @property
    def buffer(self) -> MemoryRegion:
        """The memory the tensor lives in; that of a kernel's argument equals nl.hbm and nl.shared_hbm."""
        storage = self.storage
        return ARGUMENT_HBM if storage.origin == "input" else storage.buffer

    @property
    def name(self) -> str:
        """The name of the storage."""
        return self.storage.name

    @property
    def address(self) -> Address | None:
        """Start partition and byte the author gave the storage, or None (nki/library/kernel-utils/allocator.rst)."""
        return self.storage.address

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements of the view."""
        return prod(self.shape)

    @property
    def partitions(self) -> int:
        """Number of partitions the view covers (elements along axis 0)."""
        return self.shape[0]

    @property
    def free_size(self) -> int:
        """Elements per partition: the product of all axes but the first."""
        return prod(self.shape[1:])

    @property
    def free_bytes(self) -> int:
        """Bytes per partition of the view."""
        return self.free_size * self.dtype.itemsize

    @property
    def start_partition(self) -> int:
        """First partition of an on-chip view within its storage; 0 in HBM."""
        storage = self.storage
        return self.offset * self.dtype.itemsize // storage.row_bytes if storage.on_chip else 0

    def is_contiguous(self) -> bool:
        """Tell whether the view covers storage row-major; on chip per partition only."""
        wanted = layout.contiguous_strides(self.shape)
        first = 1 if self.storage.on_chip else 0
        return all(
            n == 1 or a == b
            for n, a, b in zip(
                self.shape[first:], self.strides[first:], wanted[first:], strict=True
            )
        )

    def get_pattern(self) -> list[list[int]]:
        """Return the access pattern as `[[stride, count], ...]`, in elements."""
        return [[s, n] for s, n in zip(self.strides, self.shape, strict=True)]

    def is_indirect(self) -> bool:
        """Tell whether the view's address depends on run-time values."""
        return self.dynamic is not None

    def describe(self) -> str:
        """Return name, shape, dtype and memory of the view as errors show them."""
        return f"`{self.name}` {list(self.shape)} {self.dtype} in {self.storage.buffer.name}"

    def __repr__(self) -> str:
        watch = watch_of(self.storage.owner)
        shown = f"<tensor {self.describe()}>"
        return shown if watch is None else f"{shown}\n{watch.shown(self)}"

    def __len__(self) -> int:
        return self.shape[0]

    # -- indexing ------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> NkiTensor:
        """Index with integers, slices, `...` and `nl.ds`; see the class for what is kept."""
        shape, strides, rank = self.shape, self.strides, len(self.shape)
        key = spelled_out(key if type(key) is tuple else (key,), rank)
        if len(key) > rank:
            raise OutOfBounds(
                f"{len(key)} indices for {self.describe()}, which has {rank} axes",
                help="index with at most one entry per axis",
            )
        new_shape: list[int] = []
        new_strides: list[int] = []
        offset = self.offset
        keep = 1 if self.storage.on_chip else 0  # axis 0 on chip never goes away
        last_dropped: int | None = None
        dynamic = self.dynamic
        for axis in range(rank):
            size, step = shape[axis], strides[axis]
            if axis >= len(key):
                new_shape.append(size)
                new_strides.append(step)
                continue
            entry = key[axis]
            if type(entry) is slice:
                start, stop, stride = self._bounds(entry, axis, size)
                offset += start * step
                new_shape.append(-(-(stop - start) // stride))
                new_strides.append(step * stride)
            elif isinstance(entry, DynamicSlice):
                start, count = entry
                if is_runtime(start):
                    limit = size - static_index(count, "nl.ds") + 1
                    dynamic = self._by_scalar(axis, start, step, limit, "nl.ds")
                    count = self._count(count, axis, size)
                else:
                    start = static_index(start, "nl.ds")
                    count = self._count(count, axis, size)
                    if not 0 <= start <= size - count:
                        start, _, _ = self._bounds(np.s_[start : start + count], axis, size)
                    offset += start * step
                new_shape.append(count)
                new_strides.append(step)
            else:
                if is_runtime(entry):
                    dynamic = self._by_scalar(axis, entry, step, size, "an index")
                else:
                    offset += self._element(entry, axis, size) * step
                if axis < keep:
                    new_shape.append(1)
                    new_strides.append(step)
                else:
                    last_dropped = step
        least = 2 if self.storage.on_chip else 1
        if len(new_shape) < least and last_dropped is not None:
            new_shape.append(1)
            new_strides.append(last_dropped)
        if self.dynamic is not None:
            self._keeps_dynamic(key)
        return NkiTensor._make(
            self.storage, tuple(new_shape), tuple(new_strides), offset, self.dtype, dynamic
        )

    def _keeps_dynamic(self, key: Sequence[Any]) -> None:
        """Refuse to cut the axis that a tile of indices addresses."""
        assert self.dynamic is not None
        if self.dynamic.kind is Addressing.SCALAR:
            return
        rows_stay = not key or (
            type(key[0]) is slice
            and self._bounds(key[0], 0, self.shape[0]) == (0, self.shape[0], 1)
        )
        if self.dynamic.kind is Addressing.ELEMENTS or not rows_stay:
            raise ViewError(
                f"{self.describe()} is addressed by a tile of indices: that axis cannot be sliced or selected again",
                help="slice the tile of indices instead",
            )

    def _bounds(self, entry: slice, axis: int, size: int) -> tuple[int, int, int]:
        start = 0 if entry.start is None else static_index(entry.start, "a slice")
        stop = size if entry.stop is None else static_index(entry.stop, "a slice")
        step = 1 if entry.step is None else static_index(entry.step, "a slice")
        step = min(step, size)  # a longer one takes the first element only, too
        start = start + size if start < 0 else start
        stop = stop + size if stop < 0 else stop
        if step < 1:
            raise ViewError(
                f"slice step {step} on axis {axis} of {self.describe()}",
                help="slices step forward: use a step of 1 or more",
            )
        if not 0 <= start < stop <= size:
            raise OutOfBounds(
                f"slice {start}:{stop} on axis {axis} of {self.describe()}: need 0 <= start < stop <= {size}",
                help="clip the slice to the tensor, e.g. with min(stop, tensor.shape[axis])",
            )
        return start, stop, step

    def _count(self, entry: Any, axis: int, size: int) -> int:
        count = static_index(entry, "nl.ds")
        if not 1 <= count <= size:
            raise OutOfBounds(
                f"nl.ds of {count} elements on axis {axis} of {self.describe()}: need 1 to {size}"
            )
        return count

    def _element(self, entry: Any, axis: int, size: int) -> int:
        index = static_index(entry, "an index")
        if not -size <= index < size:
            raise OutOfBounds(
                f"index {index} on axis {axis} of {self.describe()}: valid are 0 to {size - 1}",
            )
        return index + size if index < 0 else index

    def __setitem__(self, key: Any, value: Any) -> None:
        """Copy another tensor into a part of this one.

        The API has the method without a text; kernels of the migration guide and of nki-library copy by it.
        """
        part = self[key]
        if not isinstance(value, NkiTensor):
            raise TileAssignment(
                f"cannot assign {type(value).__name__} to elements of {self.describe()}",
                help="fill it by nisa.memset(dst=tile[...], value=...), or give the view as dst of an instruction",
            )
        self._assign(part, value)

    # -- views ---------------------------------------------------------------------------------------------------

    def _axis(self, dim: int, what: str, partition_ok: bool = False) -> int:
        dim = static_index(dim, what)
        if not -self.ndim <= dim < self.ndim:
            raise ViewError(f"{what}: axis {dim} of {self.describe()}, which has {self.ndim} axes")
        dim = dim + self.ndim if dim < 0 else dim
        if dim == 0 and self.first_axis_stays and not partition_ok:
            raise ViewError(
                f"{what}: axis 0 of {self.describe()} is the partition axis and must stay",
                help="only free axes (1 and up) of an SBUF or PSUM tensor can be changed",
            )
        return dim

    def slice(self, dim: int, start: int, end: int, step: int = 1) -> NkiTensor:
        """Return elements `start` to `end` (exclusive) of axis `dim`, every `step`-th."""
        dim = self._axis(dim, "slice", partition_ok=True)
        size = self.shape[dim]
        start, end, step = integers((start, end, step), "slice")
        if not (0 <= start < end <= size and step >= 1):
            raise OutOfBounds(
                f"slice({dim}, {start}, {end}, {step}) of {self.describe()}: need 0 <= start < end <= {size}, step >= 1"
            )
        return self[(np.s_[:],) * dim + (np.s_[start:end:step],)]

    def select(self, dim: int, index: Any) -> NkiTensor:
        """Return element `index` of axis `dim`, without that axis (kept at 1 where `t[index]` keeps it).

        `index` is an integer, a register, or a [1, 1] tile of an integer.
        """
        dim = self._axis(dim, "select", partition_ok=True)
        if is_runtime(index):
            return self[(np.s_[:],) * dim + (index,)]
        index = static_index(index, "select")
        if not 0 <= index < self.shape[dim]:
            raise OutOfBounds(
                f"select({dim}, {index}) of {self.describe()}: valid are 0 to {self.shape[dim] - 1}"
            )
        return self[(np.s_[:],) * dim + (index,)]

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Return the axes in the order `dims`; on chip axis 0 stays first."""
        dims = integers(dims, "permute")
        if sorted(dims) != list(range(self.ndim)):
            raise ViewError(
                f"permute{dims} of {self.describe()}: need each of 0 to {self.ndim - 1} once"
            )
        if self.first_axis_stays and dims[0] != 0:
            raise ViewError(
                f"permute{dims} of {self.describe()}: axis 0 is the partition axis and must stay first",
                help="transpose across partitions with nisa.nc_transpose or nisa.dma_transpose",
            )
        return self._view(
            [self.shape[d] for d in dims], [self.strides[d] for d in dims], self.offset
        )

    def broadcast(self, dim: int, size: int) -> NkiTensor:
        """Repeat axis `dim`, which must have size 1, `size` times without copying."""
        dim, size = self._axis(dim, "broadcast"), static_index(size, "broadcast")
        if self.shape[dim] != 1 or size < 1:
            raise ViewError(
                f"broadcast({dim}, {size}) of {self.describe()}: axis {dim} must have size 1, and get 1 or more"
            )
        shape, strides = list(self.shape), list(self.strides)
        shape[dim], strides[dim] = size, 0
        return self._view(shape, strides, self.offset)

    def expand_dim(self, dim: int) -> NkiTensor:
        """Insert an axis of size 1 at position `dim` (0 to ndim; on chip not 0)."""
        dim = static_index(dim, "expand_dim")
        dim = dim + self.ndim + 1 if dim < 0 else dim
        least = 1 if self.first_axis_stays else 0
        if not least <= dim <= self.ndim:
            raise ViewError(f"expand_dim({dim}) of {self.describe()}: need {least} to {self.ndim}")
        shape, strides = list(self.shape), list(self.strides)
        strides.insert(dim, shape[dim] * strides[dim] if dim < self.ndim else 1)
        shape.insert(dim, 1)
        return self._view(shape, strides, self.offset)

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Remove axis `dim`, which must have size 1."""
        dim = self._axis(dim, "squeeze_dim")
        if self.shape[dim] != 1:
            raise ViewError(
                f"squeeze_dim({dim}) of {self.describe()}: axis {dim} has size {self.shape[dim]}, need 1"
            )
        shape, strides = list(self.shape), list(self.strides)
        del shape[dim], strides[dim]
        return self._view(shape, strides, self.offset)

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """Split axis `dim` into `shape`, one entry of which may be -1."""
        sizes = list(integers(shape, "reshape_dim"))
        dim = self._axis(dim, "reshape_dim", partition_ok=len(sizes) == 1)
        size = self.shape[dim]
        known = -prod(sizes)
        if sizes.count(-1) == 1 and known > 0 and size % known == 0:
            sizes[sizes.index(-1)] = size // known
        if prod(sizes) != size or min(sizes, default=0) < 1:
            raise ViewError(
                f"reshape_dim({dim}, {tuple(shape)}) of {self.describe()}: the sizes must multiply to {size}"
            )
        strides = [s * self.strides[dim] for s in layout.contiguous_strides(tuple(sizes))]
        return self._view(
            (*self.shape[:dim], *sizes, *self.shape[dim + 1 :]),
            (*self.strides[:dim], *strides, *self.strides[dim + 1 :]),
            self.offset,
        )

    def flatten_dims(self, start_dim: int, end_dim: int) -> NkiTensor:
        """Merge axes `start_dim` to `end_dim` (inclusive) into one."""
        start = self._axis(start_dim, "flatten_dims")
        end = self._axis(end_dim, "flatten_dims")
        if start > end:
            raise ViewError(f"flatten_dims({start_dim}, {end_dim}): start is behind end")
        merged = layout.merge_axes(self.shape[start : end + 1], self.strides[start : end + 1])
        if merged is None:
            raise self._not_contiguous(f"flatten_dims({start_dim}, {end_dim})")
        size, stride = merged
        return self._view(
            (*self.shape[:start], size, *self.shape[end + 1 :]),
            (*self.strides[:start], stride, *self.strides[end + 1 :]),
            self.offset,
        )

    def reshape(self, shape: Sequence[int]) -> NkiTensor:
        """Return the same elements in another shape, where the layout allows it without a copy."""
        sizes = integers(shape if isinstance(shape, (tuple, list)) else (shape,), "reshape")
        if prod(sizes) != self.size or min(sizes, default=0) < 1:
            raise ViewError(
                f"reshape{sizes} of {self.describe()}: {prod(sizes)} elements, need {self.size}"
            )
        if self.first_axis_stays and sizes[0] != self.shape[0]:
            raise ViewError(
                f"reshape{sizes} of {self.describe()}: axis 0 is the partition axis and must stay {self.shape[0]}"
            )
        strides = layout.reshape_strides(self.shape, self.strides, sizes)
        if strides is None:
            raise self._not_contiguous(f"reshape{sizes}")
        return self._view(sizes, strides, self.offset)

    def _not_contiguous(self, what: str) -> ViewError:
        return ViewError(
            f"{what} of {self.describe()} with strides {list(self.strides)}: the axes are not contiguous in memory",
            help="copy the view into a new tile first: nisa.tensor_copy(dst=tile, src=view)",
        )

    def rearrange(
        self,
        src_pattern: Sequence[Any],
        dst_pattern: Sequence[Any],
        fixed_sizes: dict[str, int] | None = None,
    ) -> NkiTensor:
        """Split, reorder and merge axes by name: `t.rearrange(("b", ("h", "w")), ("b", "w", "h"), {"h": 4})`."""
        split, order, groups = layout.rearrange_axes(
            self.shape, src_pattern, dst_pattern, fixed_sizes or {}, self.describe()
        )
        view = self
        for axis in reversed(range(len(split))):
            if len(split[axis]) != 1:
                view = view.reshape_dim(axis, split[axis])
        view = view.permute(order)
        for start, size in enumerate(groups):
            if size == 0:
                view = view.expand_dim(start)
            elif size > 1:
                view = view.flatten_dims(start, start + size - 1)
        return view

    def view(self, dtype: DType) -> NkiTensor:
        """Reinterpret the bytes as `dtype`; the last axis scales by the ratio of the sizes."""
        wanted = element_of(dtype, ViewError)
        shape, strides, offset = layout.rescale_axes(
            self.shape, self.strides, self.offset, self.dtype.itemsize, wanted.itemsize,
            f"view({wanted}) of {self.describe()}",
        )  # fmt: skip
        if self.dynamic is not None:
            raise ViewError(
                f"view({wanted}) of {self.describe()}: its address depends on a value of the device",
                help="reinterpret the tensor first: t.view(dtype).select(...)",
            )
        return NkiTensor._make(self.storage, shape, strides, offset, wanted)

    reinterpret_cast = view
