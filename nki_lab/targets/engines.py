"""The engines of a NeuronCore."""

from __future__ import annotations

from nki_lab.targets.choice import NamedChoice


class Engine(NamedChoice):
    """Engines of a NeuronCore, under the names and values of `nki.isa.engine`."""

    unknown = 0
    tensor = 1
    scalar = 2
    gpsimd = 3
    dma = 4
    vector = 5
    sync = 6

    @classmethod
    def official_name(cls) -> str:
        """Return the name kernels write it by."""
        return "nisa.engine"


TENSOR = Engine.tensor
SCALAR = Engine.scalar
GPSIMD = Engine.gpsimd
DMA = Engine.dma
VECTOR = Engine.vector
SYNC = Engine.sync
#: Engines that compute on tiles.
COMPUTE = frozenset((TENSOR, SCALAR, GPSIMD, VECTOR))
#: Name in a profile -> how texts and views write it, as the pages of NKI do.
ENGINE_LABELS = {
    "dma": "DMA",
    "sync": "Sync",
    "tensor": "Tensor",
    "vector": "Vector",
    "scalar": "Scalar",
    "gpsimd": "GpSimd",
}
