"""What can the machine do? One definition per instruction, in a module per family.

Importing this package fills `registry`. A new family adds its import below.
"""

from __future__ import annotations

from nki_lab.ir.definition.instruction import registry
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

__all__ = ["registry"]
