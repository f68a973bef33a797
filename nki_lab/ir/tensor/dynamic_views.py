"""Which views address by an explicit pattern, or by values of the device?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nki_lab.dtypes import DType
from nki_lab.errors import NotModelled, OutOfBounds, ViewError
from nki_lab.ir.tensor.arguments import element_of
from nki_lab.ir.tensor.bounds import leaves_storage
from nki_lab.ir.tensor.dynamic import Addressing, Dynamic
from nki_lab.ir.tensor.indices import entries, integers, static_index
from nki_lab.ir.tensor.register import Register
from nki_lab.targets.spaces import SBUF

if TYPE_CHECKING:
    from nki_lab.ir.tensor.view import NkiTensor


# Partitions whose offsets stand together: Vector, Scalar and GpSimd; Tensor (API stub, NkiTensor.indirect).
_GROUP, _GROUP_TENSOR = 16, 32


class DynamicViews:
    """Methods of NkiTensor; `self` is one."""

    __slots__ = ()

    def ap(
        self: Any,
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
            raise ViewError(f"{shown}: need [[stride, count], ...] with counts of 1 or more")
        if scalar_offset is not None and vector_offset is not None:
            raise ViewError(f"{shown}: give scalar_offset or vector_offset, not both")
        strides = tuple(pair[0] for pair in pairs)
        shape = tuple(pair[1] for pair in pairs)
        start_bytes = self.offset * self.dtype.itemsize
        if start_bytes % element.itemsize:
            raise ViewError(
                f"{shown}: its start is not a multiple of the {element.itemsize} bytes of {element}"
            )
        start = start_bytes // element.itemsize + (
            0 if offset is None else static_index(offset, "ap")
        )
        storage = self.storage
        if storage.on_chip:
            if len(shape) < 2:
                raise ViewError(
                    f"{shown}: on chip a pattern has a partition axis and at least one free axis"
                )
            row = storage.row_bytes // element.itemsize
            if shape[0] > 1 and strides[0] != row:
                raise ViewError(
                    f"{shown}: the partition stride is {strides[0]}, need {row}, the free size of the storage"
                )
        dynamic = None
        static_shape = shape
        if scalar_offset is not None or vector_offset is not None:
            dim = self._axis(indirect_dim, "ap", partition_ok=True)
            step = self.strides[dim] * self.dtype.itemsize
            if step % element.itemsize:
                raise ViewError(f"{shown}: axis {dim} does not step in whole elements of {element}")
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
            raise OutOfBounds(f"{shown} {outside}")
        return self._make(storage, shape, strides, start, element, dynamic)

    def vector_select(self: Any, dim: int, vector_offset: NkiTensor) -> NkiTensor:
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

    def indirect(self: Any, index: NkiTensor, num_elem: int | None = None) -> NkiTensor:
        """Return elements along the free axis that a tile of offsets names, [P, num_elem] (Tensor Indirection).

        Offset i of each group of G partitions is index[i % G, i // G] of the group; G is 16, for the Tensor engine
        32. By default all offsets of a group of 16 are used; the API stub says `index.size`, which is that for one
        group. NeuronCore-v4 and later.
        """
        self._only_dynamic("indirect", index)
        if not hasattr(index, "storage") or index.buffer is not SBUF or index.ndim != 2:
            raise ViewError(
                f"indirect of {self.describe()}: the index must be an SBUF tile [P, K]; found {index!r}"
            )
        if not self.storage.on_chip or index.shape[0] != self.shape[0]:
            raise ViewError(
                f"indirect of {self.describe()} by {index.describe()}: both need the same partitions, on chip"
            )
        row = self.storage.row_bytes // self.dtype.itemsize
        if not self.is_contiguous() or (self.shape[0] > 1 and self.strides[0] != row):
            raise ViewError(
                f"indirect of {self.describe()}: the offsets count elements that lie side by side, on adjacent"
                " partitions, and this view has a step",
                help="copy it into a tile of its own with nisa.tensor_copy, or compute the offsets for the whole tile",
            )
        if not index.dtype.is_integer:
            raise ViewError(f"indirect by {index.describe()}: the index must hold integers")
        offsets = min(index.shape[0], _GROUP) * index.shape[1]
        count = offsets if num_elem is None else static_index(num_elem, "indirect")
        most = min(index.shape[0], _GROUP_TENSOR) * index.shape[1]
        if not 1 <= count <= most:
            raise ViewError(
                f"indirect: num_elem={count}, the index holds {most} offsets for each group"
            )
        return self._make(
            self.storage, (self.shape[0], count), (row, 1), self.offset, self.dtype,
            Dynamic(Addressing.ELEMENTS, index, 1, self.free_size),
        )  # fmt: skip

    # -- checks --------------------------------------------------------------------------------------------------

    def _only_dynamic(self: Any, what: str, index: Any = None) -> None:
        if self.dynamic is not None:
            raise ViewError(
                f"{what} of {self.describe()}: its address already depends on a value of the device",
                help="a tensor can be addressed dynamically once; copy the part into a tile first",
            )
        if getattr(index, "dynamic", None) is not None:
            raise NotModelled(
                f"{what} of {self.describe()} by {index.describe()}: where the index lies depends on a value of the"
                " device, too",
                help="copy the index into a tile first: with nl.load from HBM, with nisa.tensor_copy on chip",
            )

    def _by_scalar(
        self: Any,
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
                f"{what} of {self.describe()}: the partition axis cannot be addressed by a value of the device",
                help="address a free axis; to choose rows, copy the tile to HBM with nisa.dma_copy, and gather them"
                " from there with nisa.dma_copy(dst=rows, src=tensor.vector_select(0, index))",
            )
        good = hasattr(index, "storage") and index.buffer is SBUF and index.dtype.is_integer
        if not isinstance(index, Register) and not (good and index.size == 1):
            raise ViewError(
                f"{what} of {self.describe()} by {_shown(index)}: the index must be one integer in SBUF,"
                " shape [1, 1], or a register",
                help=self._index_help(dim, index),
            )
        return Dynamic(Addressing.SCALAR, index, step, limit)

    def _index_help(self: Any, dim: int, index: Any) -> str:
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
        self: Any,
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
                f"{what} of {self.describe()} along axis {dim}: rows are chosen along axis 0 of an HBM tensor"
            )
        good = hasattr(index, "storage") and index.buffer is SBUF and index.dtype.is_integer
        one_per_row = good and index.shape[0] == rows and index.free_size == 1
        if not one_per_row and not (good and index.ndim == 2 and index.size >= rows):
            raise ViewError(
                f"{what} of {self.describe()} by {_shown(index)}: the index must be integers in SBUF, shape [{rows}, 1]"
            )
        return Dynamic(Addressing.VECTOR, index, step, self.shape[0])


def _shown(index: Any) -> str:
    return index.describe() if hasattr(index, "storage") else repr(index)
