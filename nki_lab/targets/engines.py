"""Which engines does a NeuronCore have?"""

from __future__ import annotations

from enum import Enum


class Engine(Enum):
    """Engines of a NeuronCore, under the names and values of `nki.isa.engine`."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6

    def __repr__(self) -> str:
        return f"nisa.engine.{self.name}"

    __hash__ = object.__hash__  # members are singletons; Enum's hash costs a Python call


TENSOR = Engine.tensor
SCALAR = Engine.scalar
GPSIMD = Engine.gpsimd
DMA = Engine.dma
VECTOR = Engine.vector
SYNC = Engine.sync
#: Engines that compute on tiles.
COMPUTE = frozenset((TENSOR, SCALAR, GPSIMD, VECTOR))
