"""The module `neuronxcc.nki.isa`: its instructions, and the named choices that they take, with the old numbers."""

from __future__ import annotations

from typing import Any

from nki_lab.beta1.enums import (
    dge_mode,
    engine,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from nki_lab.beta1.instructions import FUNCTIONS
from nki_lab.beta1.matmul import nc_matmul, nc_transpose
from nki_lab.beta1.reductions import tensor_reduce
from nki_lab.beta1.returning import fp32
from nki_lab.dialects.beta1 import BETA1
from nki_lab.errors import UnknownName, close_matches
from nki_lab.language.sizes import active_target
from nki_lab.targets.engines import DMA

# The import system asks a module with submodules for this; they are found by name, not in a folder.
__path__: list[str] = []


def get_nc_version() -> Any:
    """Return the generation of the NeuronCore that the kernel is compiled for."""
    return nc_version(active_target(BETA1.standard).generation)


tensor_engine = engine.tensor
vector_engine = engine.vector
scalar_engine = engine.scalar
gpsimd_engine = engine.gpsimd
unknown_engine = engine.unknown
dma_engine = DMA

globals().update(FUNCTIONS, tensor_reduce=tensor_reduce)

__all__ = [
    "dge_mode", "dma_engine", "engine", "fp32", "get_nc_version", "gpsimd_engine", "nc_matmul", "nc_transpose",
    "nc_version", "oob_mode", "reduce_cmd", "scalar_engine", "tensor_engine", "unknown_engine", "vector_engine",
    *FUNCTIONS,
]  # fmt: skip

# Names that public kernels use and no page describes.
_UNDOCUMENTED = {
    "_tiled_offloaded_memcpy": "copy with nisa.dma_copy, one tile after the other",
    "_fma": "write nisa.scalar_tensor_tensor, or nisa.tensor_scalar with two operators",
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    help = _UNDOCUMENTED.get(name) or close_matches(name, __all__)
    notes = ("no page describes it",) if name in _UNDOCUMENTED else ()
    raise UnknownName(f"neuronxcc.nki.isa has no `{name}`", help=help, notes=notes)
