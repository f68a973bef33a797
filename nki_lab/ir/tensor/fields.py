"""What a tensor consists of: its fields, what follows from them, and the values of the device it is addressed by.

A tensor names bytes that instructions already refer to, so its fields never change: another shape or dtype is another
view.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import prod
from typing import Any, NoReturn

from nki_lab.dtypes import DType
from nki_lab.errors import TileAssignment
from nki_lab.ir.tensor.layout import contiguous_strides
from nki_lab.ir.tensor.register import Register
from nki_lab.ir.tensor.storage import Address, Storage
from nki_lab.ir.tensor.trace import watch_of
from nki_lab.targets.spaces import ARGUMENT_HBM, MemoryRegion


class Addressing(Enum):
    """The three forms of dynamic addressing."""

    SCALAR = "scalar"  # one value moves the whole view
    VECTOR = "vector"  # a value per row of axis 0 replaces the row's place (HBM)
    ELEMENTS = (
        "elements"  # a value per element of the free axis, groups of partitions in turn (on chip)
    )

    __hash__ = object.__hash__


@dataclass(frozen=True, slots=True, eq=False)
class Dynamic:
    """What a view's address depends on.

    Attributes:
        kind: the form of addressing.
        index: register or tensor that holds the value or values.
        step: elements (of the view's dtype) that one unit of the index moves.
        limit: valid indices are 0 to limit - 1; 0 means that only the end of the storage limits them.
    """

    kind: Addressing
    index: Register | TensorFields
    step: int
    limit: int

    @property
    def key(self) -> Any:
        """What rules and costs can see of it."""
        index = self.index
        if isinstance(index, Register):
            return self.kind, index.dtype
        return (self.kind, index.shape, index.dtype, first_partition(index))


class TensorFields:
    """A tensor that is being made; then it becomes of a class that is `Fixed`."""

    __slots__ = ("storage", "shape", "strides", "offset", "dtype", "box", "dynamic")
    storage: Storage
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: DType
    box: Any
    dynamic: Dynamic | None

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
        wanted = contiguous_strides(self.shape)
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


_INSTEAD = {
    "shape": "{t}.reshape(shape)",
    "dtype": "{t}.view(dtype), or nl.copy({t}, dtype=...)",
}


class Fixed:
    """An object whose attributes are given once, before it is of this class."""

    __slots__ = ()
    name: Any

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        other = _INSTEAD.get(name, "your own object that holds it").format(t=self.name)
        raise TileAssignment(
            f"`{self.name}.{name}` cannot be assigned: the attributes of a tensor are fixed",
            help=f"make {other}" if name not in _INSTEAD else f"make another view: {other}",
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise TileAssignment(
            f"`{self.name}.{name}` cannot be deleted: the attributes of a tensor are fixed",
            help="leave the statement out",
        )

    def __copy__(self) -> Any:
        """Return the tensor itself: what does not change needs no copy."""
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        """Return the tensor itself: a copy of its storage would be no memory of the kernel."""
        return self


def first_partition(view: TensorFields) -> int:
    """Return the partition an on-chip view starts on; a tensor without an address starts on 0."""
    address = view.storage.address
    return view.start_partition + (address.partition if address is not None else 0)


def first_place(view: TensorFields) -> int:
    """Return where a view begins, as far as its form depends on it: the partition, or the byte in PSUM."""
    storage = view.storage
    address = storage.address
    partitions = (
        address.partition * (storage.row_bytes // storage.form_bytes) if address is not None else 0
    )
    return view.offset * view.dtype.itemsize // storage.form_bytes + partitions


def identity(view: TensorFields | Register) -> Any:
    """Return what is equal for two views that show the same elements in the same order."""
    if isinstance(view, Register):
        return id(view)
    dynamic = view.dynamic
    by = dynamic and (dynamic.kind, dynamic.step, identity(dynamic.index))
    return (view.storage.id, view.offset, view.shape, view.strides, view.dtype, by)
