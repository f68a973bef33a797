"""The module `neuronxcc.nki.compiler`: where tensors are placed, and what else is asked of the compiler."""

from __future__ import annotations

from nki_lab.beta1.allocation import (
    PSUM_MEMORY,
    SBUF_MEMORY,
    allocation_scope,
    enable_stack_allocator,
    force_auto_alloc,
    multi_buffer,
    no_reorder,
    skip_middle_end_transformations,
)

sbuf, psum = SBUF_MEMORY, PSUM_MEMORY

__all__ = [
    "allocation_scope", "enable_stack_allocator", "force_auto_alloc", "multi_buffer", "no_reorder", "psum", "sbuf",
    "skip_middle_end_transformations",
]  # fmt: skip
