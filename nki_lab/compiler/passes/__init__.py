"""Compiler passes: one file each. A pass takes a kernel and returns another one.

The pipeline lists them in their order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nki_lab.choices import Choices
from nki_lab.ir.program.nodes import Kernel

_Run = Callable[[Kernel, Choices], Kernel]


@dataclass(frozen=True)
class Pass:
    """A pass of the compiler.

    Attributes:
        name: how options, stages and reports name it.
        run: returns the kernel after it.
        skippable: a program can run without it. Other passes give it addresses, waits, or what its values depend on.
    """

    name: str
    run: _Run
    skippable: bool

    def __call__(self, kernel: Kernel, options: Choices) -> Kernel:
        """Return the kernel after this pass."""
        return self.run(kernel, options)


def compiler_pass(*, skippable: bool = False) -> Callable[[_Run], Pass]:
    """Declare a function to be the pass of its name."""
    return lambda run: Pass(run.__name__, run, skippable)
