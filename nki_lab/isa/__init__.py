"""What can the machine do? One definition per instruction, in a module per family.

Importing this package fills `registry`. A new family adds its import below.
"""

from __future__ import annotations

from nki_lab.ir.instruction import registry
from nki_lab.isa import dma, dma_transpose, matmul, positions, selection, transpose  # noqa: F401
from nki_lab.isa import activations as activations

__all__ = ["registry"]
