"""Storage: the memory behind a tensor, and whether an access pattern stays inside it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from nki_lab.dtypes import DType
from nki_lab.errors import OutOfBounds
from nki_lab.ir.tensor.trace import active
from nki_lab.source import Stack
from nki_lab.targets.spaces import MemoryRegion


class Address(NamedTuple):
    """A place in SBUF or PSUM: start partition and byte within the partition."""

    partition: int
    byte: int


class Storage:
    """Memory behind one or more views.

    Attributes:
        id: position among the kernel's storages.
        called: the name it was to have, before that was made unique.
        shape, dtype, buffer: as created.
        address: the place the author asked for, or None.
        origin: "input", "constant" or "temporary".
        data: initial contents of a constant (NumPy array), else None.
        row_bytes: bytes of one partition on chip; all bytes in HBM.
        form_bytes: views that begin so far apart may have different forms: a row, and in PSUM, which has banks, a byte.
        stack: where it was created.
        named: the author gave the name.
        masked: a mask leaves elements of it unwritten, which the author knows; what is computed from them is as unset.
        loop: number of the device loop it was made in (from 1 on), or 0; it is dead after that loop.
        owner: the builder of the trace it belongs to; a tensor kept from another trace is an error.
    """

    __slots__ = (
        "id", "name", "shape", "dtype", "buffer", "address", "origin", "data",
        "on_chip", "partitions", "row_bytes", "form_bytes", "nbytes", "stack", "owner", "loop", "named",
        "masked", "called",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        name: str,
        shape: tuple[int, ...],
        dtype: DType,
        buffer: MemoryRegion,
        *,
        address: Address | None = None,
        origin: str = "temporary",
        data: np.ndarray | None = None,
        stack: Stack = (),
        owner: Any = None,
        loop: int = 0,
        named: bool = False,
    ) -> None:
        self.id = id
        self.name = self.called = name
        self.shape = shape
        self.dtype = dtype
        self.buffer = buffer
        self.address = address
        self.origin = origin
        self.data = data
        self.on_chip = on_chip = buffer.on_chip
        self.partitions, self.row_bytes, self.nbytes = _sizes(shape, dtype.itemsize, on_chip)
        self.form_bytes = 1 if buffer is MemoryRegion.psum else self.row_bytes
        self.stack = stack
        self.owner = owner
        self.loop = loop
        self.named = named
        self.masked = False

    def again(self, id: int, name: str, called: str, owner: Any) -> Storage:
        """Return memory alike, with another name."""
        other = Storage.__new__(Storage)
        other.id, other.name, other.called, other.owner = id, name, called, owner
        other.shape, other.dtype, other.buffer = self.shape, self.dtype, self.buffer
        other.address, other.origin, other.data = self.address, self.origin, self.data
        other.on_chip, other.partitions, other.row_bytes = (
            self.on_chip,
            self.partitions,
            self.row_bytes,
        )
        other.form_bytes, other.nbytes, other.stack = self.form_bytes, self.nbytes, self.stack
        other.loop, other.named, other.masked = self.loop, self.named, self.masked
        return other

    def describe(self) -> str:
        """Return name, shape, dtype and memory as errors show them."""
        return f"`{self.name}` {list(self.shape)} {self.dtype} in {self.buffer.name}"


@lru_cache(maxsize=4096)  # kernels make thousands of tiles of few shapes
def _sizes(shape: tuple[int, ...], itemsize: int, on_chip: bool) -> tuple[int, int, int]:
    """Return partitions, bytes of a partition, and bytes of all."""
    all_bytes = prod(shape) * itemsize
    return (
        (shape[0], prod(shape[1:]) * itemsize, all_bytes) if on_chip else (1, all_bytes, all_bytes)
    )


def leaves_storage(
    storage: Storage, shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int
) -> str:
    """Return how a pattern leaves `storage`, as the end of a sentence; empty when it stays inside.

    On chip the axes behind the first must stay within the bytes of one partition, whatever the partition.

    Args:
        storage: the memory addressed.
        shape, strides, offset: the pattern, in elements; the partition axis first on chip.
        itemsize: bytes of one element.
    """
    first = 1 if storage.on_chip else 0
    row = storage.row_bytes // itemsize
    start, low_row, high_row = offset, 0, 0
    if storage.on_chip:
        low_row, start = divmod(offset, row)
        step, rest = divmod(strides[0], row)
        if rest and shape[0] > 1:
            return f"steps {strides[0]} elements along the partitions, which hold {row} each"
        high_row = low_row + step * (shape[0] - 1)
        low_row, high_row = min(low_row, high_row), max(low_row, high_row)
    if low_row < 0 or high_row >= storage.partitions:
        return f"reaches partitions {low_row} to {high_row} of {storage.partitions}"
    free = list(zip(shape[first:], strides[first:], strict=True))
    low = start + sum((n - 1) * s for n, s in free if s < 0)
    high = start + sum((n - 1) * s for n, s in free if s > 0)
    if low < 0 or high >= row:
        where = " of each partition" if storage.on_chip else ""
        return f"reaches elements {low} to {high}{where}, which has {row}"
    return ""


class Unreachable:
    """An access pattern that leaves its storage: an error once anything is asked of it.

    Published kernels make some before the condition that keeps them from being used.
    """

    __slots__ = ("error",)

    def __init__(self, error: OutOfBounds) -> None:
        self.error = error

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name) if name.startswith("__") else self.error

    def _fail(self, *_: Any) -> Any:
        raise self.error

    __getitem__ = __setitem__ = __repr__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = (
        _fail
    )


def unreachable(message: str) -> Any:
    """Return a pattern that leaves its storage, while a kernel is traced; raise its error at any other time."""
    builder = active.builder
    error = OutOfBounds(
        message,
        stack=builder.stack(3) if builder is not None else (),
        help="lower the offset, a stride or a count: the last element is offset + the sum of stride * (count - 1)",
    )
    if builder is None:
        raise error
    return Unreachable(error)
