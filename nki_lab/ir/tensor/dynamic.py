"""How can the address of a view depend on values of the device?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from nki_lab.ir.tensor.register import Register

if TYPE_CHECKING:
    from nki_lab.ir.tensor.view import NkiTensor


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
    index: Register | NkiTensor
    step: int
    limit: int

    @property
    def key(self) -> Any:
        """What rules and costs can see of it."""
        index = self.index
        if isinstance(index, Register):
            return self.kind
        return (self.kind, index.shape, index.dtype, first_partition(index))


def first_partition(view: NkiTensor) -> int:
    """Return the partition an on-chip view starts on; a tensor without an address starts on 0."""
    address = view.storage.address
    return view.start_partition + (address.partition if address is not None else 0)


def first_place(view: NkiTensor) -> int:
    """Return where a view begins, as far as its form depends on it: the partition, or the byte in PSUM."""
    storage = view.storage
    address = storage.address
    partitions = (
        address.partition * (storage.row_bytes // storage.form_bytes) if address is not None else 0
    )
    return view.offset * view.dtype.itemsize // storage.form_bytes + partitions


def identity(view: NkiTensor | Register) -> Any:
    """Return what is equal for two views that show the same elements in the same order."""
    if isinstance(view, Register):
        return id(view)
    dynamic = view.dynamic
    by = dynamic and (dynamic.kind, dynamic.step, identity(dynamic.index))
    return (view.storage.id, view.offset, view.shape, view.strides, view.dtype, by)
