"""Tensors, and the views of them that a kernel can make.

A view is shape, strides and offset over a storage, counted in elements of the view's dtype. On chip the first axis
is the partition axis; one step along it is the storage's free size. (nki/api/nki/language/__init__.py, NkiTensor)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nki_lab.dtypes import DType, int64
from nki_lab.errors import NotModelled, OutOfBounds, TileAssignment, ViewError
from nki_lab.ir.tensor import layout
from nki_lab.ir.tensor.arguments import (
    element_of,
    entries,
    integers,
    is_runtime,
    spelled_out,
    static_index,
)
from nki_lab.ir.tensor.fields import Addressing, Dynamic, Fixed, TensorFields
from nki_lab.ir.tensor.operators import TensorOperators
from nki_lab.ir.tensor.register import NkiScalar, Register
from nki_lab.ir.tensor.storage import Storage, leaves_storage, unreachable
from nki_lab.ir.tensor.trace import active
from nki_lab.targets.spaces import SBUF, MemoryRegion

# Partitions whose offsets stand together: Vector, Scalar and GpSimd; Tensor (API stub, NkiTensor.indirect).
_GROUP, _GROUP_TENSOR = 16, 32


class DynamicSlice(NamedTuple):
    """`nl.ds(start, size)`: `size` elements from `start` on."""

    start: Any
    size: int


class NkiTensor(Fixed, TensorOperators):
    """A view of a storage: what instructions read and write.

    Attributes:
        shape: elements along each axis; axis 0 is the partition axis in SBUF and PSUM.
        strides: steps along each axis, in elements of `dtype`.
        offset: first element, in elements of `dtype`.
        dtype: element type.
        dynamic: what the address depends on while the kernel runs, or None.
    """

    __slots__ = ()
    # What `t[...] = other` does; nki_lab.language gives it.
    _assign: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        storage: Storage,
        buffer: MemoryRegion | str = MemoryRegion.sbuf,
        name: str = "",
        address: Any = None,
    ) -> None:
        if not isinstance(storage, Storage) or address not in (None, storage.address):
            raise NotModelled(
                "NkiTensor binds a storage handle that nl.ndarray made, at the address it has",
                help="make tensors with nl.ndarray(shape, dtype, buffer=..., address=...)",
            )
        sizes = tuple(shape)
        view = self._make(storage, sizes, layout.contiguous_strides(sizes), 0, dtype)
        for slot in TensorFields.__slots__:
            object.__setattr__(self, slot, getattr(view, slot))

    @classmethod
    def _make(cls, storage, shape, strides, offset, dtype, dynamic=None) -> NkiTensor:
        view: Any = TensorFields.__new__(TensorFields)
        view.storage = storage
        view.shape = shape
        view.strides = strides
        view.offset = offset
        view.dtype = dtype
        view.box = None
        view.dynamic = dynamic
        view.__class__ = NkiTensor
        return view

    def _view(self, shape: Sequence[int], strides: Sequence[int], offset: int) -> NkiTensor:
        if self.dynamic is not None and self.dynamic.kind is Addressing.ELEMENTS:
            raise ViewError(
                f"a view of {self.describe()}, which has one element for each offset of an index tile",
                help="pass it to the instruction as it is: shapes may differ as long as the elements agree",
            )
        return NkiTensor._make(
            self.storage, tuple(shape), tuple(strides), offset, self.dtype, self.dynamic
        )

    @property
    def data(self) -> NkiTensor:
        """The tensor itself, so that code for grids takes tensors, too (nki.language.NkiTileGrid.html, example)."""
        return self

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
                f"nl.ds of {count} elements on axis {axis} of {self.describe()}: need 1 to {size}",
                help="clip the count to the tensor, e.g. with min(count, tensor.shape[axis] - start)",
            )
        return count

    def _element(self, entry: Any, axis: int, size: int) -> int:
        index = static_index(entry, "an index")
        if not -size <= index < size:
            raise OutOfBounds(
                f"index {index} on axis {axis} of {self.describe()}: valid are 0 to {size - 1}",
                help="loop over range(tensor.shape[axis]), or clip the index",
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
                help="fill it with nisa.memset(dst=tile[...], value=...), or give the view as dst of an instruction",
            )
        self._assign(part, value)

    # -- views ---------------------------------------------------------------------------------------------------

    def _axis(self, dim: int, what: str, partition_ok: bool = False) -> int:
        dim = static_index(dim, what)
        if not -self.ndim <= dim < self.ndim:
            raise ViewError(
                f"{what}: axis {dim} of {self.describe()}, which has {self.ndim} axes",
                help=f"count axes from 0 to {self.ndim - 1}, or from the end with -1",
            )
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
                f"slice({dim}, {start}, {end}, {step}) of {self.describe()}: need 0 <= start < end <= {size}"
                ", step >= 1",
                help=f"clip the end to {size}, and step forward",
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
                f"select({dim}, {index}) of {self.describe()}: valid are 0 to {self.shape[dim] - 1}",
                help="count from 0; negative numbers are for slices, such as t[:, -1:]",
            )
        return self[(np.s_[:],) * dim + (index,)]

    def permute(self, dims: Sequence[int]) -> NkiTensor:
        """Return the axes in the order `dims`; on chip axis 0 stays first."""
        dims = integers(dims, "permute")
        if sorted(dims) != list(range(self.ndim)):
            raise ViewError(
                f"permute{dims} of {self.describe()}: need each of 0 to {self.ndim - 1} once",
                help=f"give all axes, such as {(0, *reversed(range(1, self.ndim)))}",
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
                f"broadcast({dim}, {size}) of {self.describe()}: axis {dim} must have size 1, and get 1 or more",
                help="insert an axis with t.expand_dim(dim), and repeat that",
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
            raise ViewError(
                f"expand_dim({dim}) of {self.describe()}: need {least} to {self.ndim}",
                help=f"give the place of the new axis; {self.ndim} is behind all others",
            )
        shape, strides = list(self.shape), list(self.strides)
        strides.insert(dim, shape[dim] * strides[dim] if dim < self.ndim else 1)
        shape.insert(dim, 1)
        return self._view(shape, strides, self.offset)

    def squeeze_dim(self, dim: int) -> NkiTensor:
        """Remove axis `dim`, which must have size 1."""
        dim = self._axis(dim, "squeeze_dim")
        if self.shape[dim] != 1:
            raise ViewError(
                f"squeeze_dim({dim}) of {self.describe()}: axis {dim} has size {self.shape[dim]}, need 1",
                help=f"take one element of it: t.select({dim}, index)",
            )
        shape, strides = list(self.shape), list(self.strides)
        del shape[dim], strides[dim]
        return self._view(shape, strides, self.offset)

    def reshape_dim(self, dim: int, shape: Sequence[int]) -> NkiTensor:
        """Split axis `dim` into `shape`, one entry of which may be -1."""
        sizes = list(integers(shape, "reshape_dim"))
        dim = self._axis(dim, "reshape_dim", partition_ok=len(sizes) == 1)
        size = self.shape[dim]
        product = -prod(sizes)
        if sizes.count(-1) == 1 and product > 0 and size % product == 0:
            sizes[sizes.index(-1)] = size // product
        if prod(sizes) != size or min(sizes, default=0) < 1:
            raise ViewError(
                f"reshape_dim({dim}, {tuple(shape)}) of {self.describe()}: the sizes must multiply to {size}",
                help="write -1 for the one that follows from the others",
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
            raise ViewError(
                f"flatten_dims({start_dim}, {end_dim}): start is after end",
                help=f"write flatten_dims({end_dim}, {start_dim})",
            )
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
        """Return the same elements in another shape, where the layout allows it without a copy.

        Before NKI 0.5 fewer elements were taken, too: the first ones, on chip of each partition, as is assumed here.
        """
        sizes = integers(shape if isinstance(shape, (tuple, list)) else (shape,), "reshape")
        rows = self.shape[: self.storage.on_chip]
        needs = None
        is_less = active.builder and min(sizes) > 0 and prod(sizes) < self.size
        if is_less and rows == sizes[: len(rows)]:
            needs = active.builder.take_form("reshape on chip" if rows else "reshape in HBM")
            if needs is None:
                kept = (np.s_[:], np.s_[: prod(sizes[1:])]) if rows else np.s_[: prod(sizes)]
                return self.reshape((*rows, self.size // prod(rows)))[kept].reshape(sizes)
        if prod(sizes) != self.size or min(sizes, default=0) < 1:
            raise ViewError(
                f"reshape{sizes} of {self.describe()}: {prod(sizes)} elements, need {self.size}",
                help="write the size in place of -1; t.reshape_dim(dim, shape) takes one -1"
                if -1 in sizes
                else f"give sizes that multiply to {self.size}, or slice the tensor first",
                needs=needs,
            )
        if self.first_axis_stays and sizes[0] != self.shape[0]:
            raise ViewError(
                f"reshape{sizes} of {self.describe()}: axis 0 is the partition axis and must stay {self.shape[0]}",
                help="reshape the free axes only, or transpose with nisa.nc_transpose or nisa.dma_transpose",
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
            self.shape,
            src_pattern,
            dst_pattern,
            {} if fixed_sizes is None else fixed_sizes,
            self.describe(),
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
                f"view({wanted}) of {self.describe()}: its address is only known at run time",
                help="reinterpret the tensor first: t.view(dtype).select(...)",
            )
        return NkiTensor._make(self.storage, shape, strides, offset, wanted)

    reinterpret_cast = view

    # -- addresses that depend on values of the device ------------------------------------------------------------

    def ap(
        self,
        pattern: Sequence[Sequence[int]],
        offset: int | None = None,
        scalar_offset: Any = None,
        vector_offset: Any = None,
        indirect_dim: int = 0,
        dtype: DType | None = None,
    ) -> NkiTensor:
        """Return an explicit access pattern `[[stride, count], ...]` over the storage, in elements.

        `offset` is added to this view's own offset (API stub; the language guide also says it is ignored, the
        migration guide that it is absolute). `scalar_offset`, a register or a [1, 1] tile, moves the pattern by its
        value times the stride of `indirect_dim`; `vector_offset`, a [P, 1] tile, gives the row of each partition.
        (nki/deep-dives/nki-aps.rst)
        """
        self._only_dynamic(
            "ap"
        )  # its pattern addresses the storage, so what moves this view would be lost
        element = element_of(dtype, ViewError) if dtype is not None else self.dtype
        pairs = [integers(pair, "ap") for pair in entries(pattern, "ap")]
        shown = (
            f"ap(pattern={[list(pair) for pair in pairs]}, offset={offset}) of {self.describe()}"
        )
        if not pairs or any(len(pair) != 2 or pair[1] < 1 for pair in pairs):
            raise ViewError(
                f"{shown}: need [[stride, count], ...] with counts of 1 or more",
                help="write for example [[t.shape[1], t.shape[0]], [1, t.shape[1]]] for a whole tensor of two axes",
            )
        if scalar_offset is not None and vector_offset is not None:
            raise ViewError(
                f"{shown}: give scalar_offset or vector_offset, not both",
                help="add the scalar to the tile of the vector first, with nisa.tensor_scalar",
            )
        strides = tuple(pair[0] for pair in pairs)
        shape = tuple(pair[1] for pair in pairs)
        start_bytes = self.offset * self.dtype.itemsize
        if start_bytes % element.itemsize:
            raise ViewError(
                f"{shown}: its start is not a multiple of the {element.itemsize} bytes of {element}",
                help="let the pattern start at another element, or leave `dtype` out",
            )
        start = start_bytes // element.itemsize + (
            0 if offset is None else static_index(offset, "ap")
        )
        storage = self.storage
        if storage.on_chip:
            if len(shape) < 2:
                raise ViewError(
                    f"{shown}: on chip a pattern has a partition axis and at least one free axis",
                    help="write [[row, partitions], [1, count]]; row is the free size of the tensor",
                )
            row = storage.row_bytes // element.itemsize
            if shape[0] > 1 and strides[0] != row:
                raise ViewError(
                    f"{shown}: the partition stride is {strides[0]}, need {row}, the free size of the storage",
                    help=f"write [{row}, {shape[0]}] first; a free axis takes any stride",
                )
        dynamic = None
        static_shape = shape
        if scalar_offset is not None or vector_offset is not None:
            dim = self._axis(indirect_dim, "ap", partition_ok=True)
            step = self.strides[dim] * self.dtype.itemsize
            if step % element.itemsize:
                raise ViewError(
                    f"{shown}: axis {dim} does not step in whole elements of {element}",
                    help="leave `dtype` out, or give one whose size divides the step",
                )
            step //= element.itemsize
            if scalar_offset is not None:
                dynamic = self._by_scalar(dim, scalar_offset, step, 0, "ap")
            else:
                dynamic = self._by_vector(dim, vector_offset, shape[0], step, "ap")
                # The leading stride is the row of the base tensor, whatever the pattern says (nki-aps.rst).
                strides = (step, *strides[1:])
                static_shape = (1, *shape[1:])
        outside = leaves_storage(storage, static_shape, strides, start, element.itemsize)
        if outside:
            return unreachable(f"{shown} {outside}")
        return self._make(storage, shape, strides, start, element, dynamic)

    def vector_select(self, dim: int, vector_offset: NkiTensor) -> NkiTensor:
        """Return, for each partition, the element of axis 0 that a [P, 1] tile of indices names (HBM only)."""
        dim = self._axis(dim, "vector_select", partition_ok=True)
        rows = vector_offset.shape[0] if hasattr(vector_offset, "storage") else 0
        dynamic = self._by_vector(dim, vector_offset, rows, self.strides[dim], "vector_select")
        if vector_offset.free_size != 1:
            raise ViewError(
                f"vector_select by {vector_offset.describe()}: the index must have one element per partition",
                help="slice one column: index[:, 0:1]",
            )
        return self._make(
            self.storage, (rows, *self.shape[1:]), self.strides, self.offset, self.dtype, dynamic
        )

    def indirect(self, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Return elements along the free axis that a tile of offsets names, [P, num_elem] (Tensor Indirection).

        Offset i of each group of G partitions is index[i % G, i // G] of the group; G is 16, for the Tensor engine
        32. By default all offsets of a group of 16 are used; the API stub says `index.size`, which is that for one
        group. NeuronCore-v4 and later.
        """
        self._only_dynamic("indirect", index)
        if not hasattr(index, "storage") or index.buffer is not SBUF or index.ndim != 2:
            raise ViewError(
                f"indirect of {self.describe()}: the index must be an SBUF tile [P, K]; found {index!r}",
                help="load it with nisa.dma_copy into a tile of two axes",
            )
        if not self.storage.on_chip or index.shape[0] != self.shape[0]:
            raise ViewError(
                f"indirect of {self.describe()} by {index.describe()}: both need the same partitions, on chip",
                help="load the tensor into SBUF, or slice one of them: index[0:n]",
            )
        row = self.storage.row_bytes // self.dtype.itemsize
        if not self.is_contiguous() or (self.shape[0] > 1 and self.strides[0] != row):
            raise ViewError(
                f"indirect of {self.describe()}: the offsets count elements that lie side by side, on adjacent"
                " partitions, but this view has a step",
                help="copy it into a new tile with nisa.tensor_copy, or compute the offsets for the whole tile",
            )
        if not index.dtype.is_integer:
            raise ViewError(
                f"indirect by {index.describe()}: the index must hold integers",
                help="cast it with nisa.tensor_copy into a tile of nl.uint32",
            )
        offsets = min(index.shape[0], _GROUP) * index.shape[1]
        count = offsets if num_elem is None else static_index(num_elem, "indirect")
        most = min(index.shape[0], _GROUP_TENSOR) * index.shape[1]
        if not 1 <= count <= most:
            raise ViewError(
                f"indirect: num_elem={count}, the index holds {most} offsets for each group",
                help=f"give 1 to {most}, or load more columns of offsets",
            )
        return self._make(
            self.storage, (self.shape[0], count), (row, 1), self.offset, self.dtype,
            Dynamic(Addressing.ELEMENTS, index, 1, self.free_size),
        )  # fmt: skip

    def _only_dynamic(self, what: str, index: Any = None) -> None:
        if self.dynamic is not None:
            raise ViewError(
                f"{what} of {self.describe()}: its address is already computed at run time",
                help="a tensor can be addressed dynamically once; copy the part into a tile first",
            )
        if isinstance(index, NkiTensor) and index.dynamic is not None:
            raise NotModelled(
                f"{what} of {self.describe()} by {index.describe()}: the position of the index itself is only"
                " known at run time",
                help="copy the index into a tile first: with nl.load from HBM, with nisa.tensor_copy on chip",
            )

    def _by_scalar(
        self,
        dim: int,
        index: Any,
        step: int,
        limit: int,
        what: str,
    ) -> Dynamic:
        """Return the dynamic part of a view that one value of the device moves along axis `dim`."""
        self._only_dynamic(what, index)
        if dim == 0 and self.storage.on_chip:
            raise ViewError(
                f"{what} of {self.describe()} along axis 0: the partition axis cannot be addressed by a run-time value",
                help="address a free axis; to choose rows, copy the tile to HBM with nisa.dma_copy, and gather them"
                " from there with nisa.dma_copy(dst=rows, src=tensor.vector_select(0, index))",
            )
        if (
            isinstance(index, NkiScalar)
            and index._operand().dtype is int64
            and self.storage.on_chip
        ):
            raise ViewError(
                f"{what} of {self.describe()} along axis {dim} by a scalar of 64 bits: on chip the offset must have"
                " 32 bits",
                help="load it from an int32 tile; 64 bits are for tensors in HBM of 4 GB and more",
            )
        good = hasattr(index, "storage") and index.buffer is SBUF and index.dtype.is_integer
        if not isinstance(index, Register) and not (good and index.size == 1):
            raise ViewError(
                f"{what} of {self.describe()} along axis {dim} by {_shown(index)}: the index must be one integer in"
                " SBUF, shape [1, 1], or a register",
                help=self._index_help(dim, index),
            )
        return Dynamic(Addressing.SCALAR, index, step, limit)

    def _index_help(self, dim: int, index: Any) -> str:
        """Return what to write for an index that is not one integer in SBUF."""
        if not hasattr(index, "storage"):
            return "load the index into a tile of integers in SBUF first, with nl.load"
        if not index.dtype.is_integer:
            return f"use a tile of integers: `{index.name}` holds {index.dtype}"
        if not index.storage.on_chip:
            return f"load the index first: tile = nl.load({index.name})"
        if dim == 0 and index.free_size == 1:
            return (
                f"gather rows with nisa.dma_copy(dst=rows, src={self.name}.vector_select(0, {index.name})); for one"
                f" element write {index.name}[0:1, 0:1]"
            )
        return f"slice one element: {index.name}[0:1, 0:1]"

    def _by_vector(
        self,
        dim: int,
        index: Any,
        rows: int,
        step: int,
        what: str,
    ) -> Dynamic:
        """Return the dynamic part of a view whose rows a tile of indices names.

        The rows are as many as the partitions of the tile, [rows, 1]; an indirect dma_transpose also takes [128, K]
        with at least as many indices as rows, column by column (nki/api/nki/isa/__init__.py:889).
        """
        self._only_dynamic(what, index)
        if self.storage.on_chip or dim != 0:
            raise ViewError(
                f"{what} of {self.describe()} along axis {dim}: rows are chosen along axis 0 of an HBM tensor",
                help="keep the rows in HBM on axis 0; on chip nisa.nc_n_gather chooses elements",
            )
        good = hasattr(index, "storage") and index.buffer is SBUF and index.dtype.is_integer
        one_per_row = good and index.shape[0] == rows and index.free_size == 1
        if not one_per_row and not (good and index.ndim == 2 and index.size >= rows):
            raise ViewError(
                f"{what} of {self.describe()} along axis {dim} by {_shown(index)}: the index must be integers in SBUF,"
                f" shape [{rows}, 1]",
                help="load it with nisa.dma_copy, one integer per partition: index[:, 0:1]",
            )
        return Dynamic(Addressing.VECTOR, index, step, self.shape[0])


def _shown(index: Any) -> str:
    return index.describe() if hasattr(index, "storage") else repr(index)


def whole_view(storage: Storage) -> NkiTensor:
    """Return the view of all elements of a storage, in row-major order."""
    shape = storage.shape
    return NkiTensor._make(storage, shape, layout.contiguous_strides(shape), 0, storage.dtype)
