"""The instructions of the machine: one definition each, in a module per family.

Importing this package fills `registry`. A new family adds its import below.
"""

from __future__ import annotations

from nki_lab.ir.definition.instruction import Definition, registry
from nki_lab.isa import (  # noqa: F401
    activate2,
    activation,
    activations,
    collectives,
    collectives_permute,
    collectives_variable,
    control,
    copies,
    dma,
    dma_compute,
    dma_transpose,
    elementwise,
    gather,
    matmul,
    matmul_mx,
    multicore,
    positions,
    quantize,
    random,
    random_states,
    reduction,
    scans,
    search,
    search_gpsimd,
    selection,
    statistics,
    transform_reduce,
    transpose,
)

__all__ = ["instructions_of", "registry"]


def instructions_of(module: str) -> dict[str, Definition]:
    """Return the instructions of an official module, such as nki.isa, by name."""
    return {
        name: definition for name, definition in registry.items() if definition.module == module
    }
