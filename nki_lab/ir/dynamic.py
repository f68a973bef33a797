"""How can the address of a view depend on values of the device?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nki_lab.ir.register import Register
    from nki_lab.ir.tensor import NkiTensor


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
        shape = getattr(index, "shape", None)
        return (self.kind, shape, getattr(index, "dtype", None), getattr(index, "buffer", None))
