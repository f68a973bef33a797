"""What does a tensor consist of, and why can an author not change it?

A tensor names bytes that instructions already refer to: another shape or dtype is another view.
"""

from __future__ import annotations

from typing import Any, NoReturn

from nki_lab.dtypes import DType
from nki_lab.errors import TileAssignment
from nki_lab.ir.tensor.dynamic import Dynamic
from nki_lab.ir.tensor.storage import Storage

_INSTEAD = {
    "shape": "{t}.reshape(shape)",
    "dtype": "{t}.view(dtype), or nl.copy({t}, dtype=...)",
}


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


class Fixed:
    """An object whose attributes are given once, before it is of this class."""

    __slots__ = ()
    name: Any

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        other = _INSTEAD.get(name, "an object of your own that holds it").format(t=self.name)
        raise TileAssignment(
            f"`{self.name}.{name}` cannot be assigned: a tensor stays what it is",
            help=f"make {other}" if name not in _INSTEAD else f"make another view: {other}",
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise TileAssignment(f"`{self.name}.{name}` cannot be deleted: a tensor stays what it is")

    def __copy__(self) -> Any:
        """Return the tensor itself: what does not change needs no copy."""
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        """Return the tensor itself: a copy of its storage would be no memory of the kernel."""
        return self
