"""Names parts of a tensor, and tells which memory it is in."""

from __future__ import annotations

from typing import Any

from nki_lab.errors import TensorArgument
from nki_lab.ir.tensor.view import DynamicSlice
from nki_lab.targets.spaces import HBM, PSUM, SBUF, MemoryRegion


def ds(start: Any, size: int) -> DynamicSlice:
    """Return an index for `size` elements from `start` on: `t[:, nl.ds(start, size)]`."""
    return DynamicSlice(start, size)


def is_hbm(buffer: MemoryRegion) -> bool:
    """Tell whether a memory is private or shared HBM."""
    return _memory("is_hbm", buffer) in HBM


def is_sbuf(buffer: MemoryRegion) -> bool:
    """Tell whether a memory is SBUF."""
    return _memory("is_sbuf", buffer) is SBUF


def is_psum(buffer: MemoryRegion) -> bool:
    """Tell whether a memory is PSUM."""
    return _memory("is_psum", buffer) is PSUM


def is_on_chip(buffer: MemoryRegion) -> bool:
    """Tell whether a memory is SBUF or PSUM."""
    return _memory("is_on_chip", buffer).on_chip


def _memory(name: str, buffer: Any) -> MemoryRegion:
    if not isinstance(buffer, MemoryRegion):
        raise TensorArgument(
            f"nl.{name} takes a memory of nki.language, found {type(buffer).__name__}",
            help=f"write nl.{name}(tensor.buffer)",
        )
    return buffer
