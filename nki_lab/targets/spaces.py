"""Which memories can a tensor live in?"""

from __future__ import annotations

from enum import Enum


class MemoryRegion(Enum):
    """Memory a tensor lives in, under the names of `nki.language.MemoryRegion`."""

    sbuf = "sbuf"
    psum = "psum"
    private_hbm = "private_hbm"
    shared_hbm = "shared_hbm"

    def __repr__(self) -> str:
        return f"nl.{self.name}"

    @property
    def on_chip(self) -> bool:
        """True for SBUF and PSUM, whose first axis is the partition axis."""
        return self in _ON_CHIP

    __hash__ = object.__hash__  # members are singletons; Enum's hash costs a Python call


SBUF = MemoryRegion.sbuf
PSUM = MemoryRegion.psum
PRIVATE_HBM = MemoryRegion.private_hbm
SHARED_HBM = MemoryRegion.shared_hbm
HBM = (PRIVATE_HBM, SHARED_HBM)
_ON_CHIP = frozenset((SBUF, PSUM))
