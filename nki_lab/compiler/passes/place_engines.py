"""Chooses the engine of each instruction."""

from __future__ import annotations

from nki_lab.choices import Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.ir.program.nodes import Kernel


@compiler_pass()
def place_engines(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with its placement made visible.

    The engine of an instruction follows from its form (`.place` of the definition), so nothing else changes.
    """
    return kernel.with_(placed=True)
