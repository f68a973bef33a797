"""Gives each instruction the earlier instructions that it waits for.

Engines run side by side, so an instruction waits for the writers of what it reads, and for the readers and writers of
what it overwrites. Bytes decide, not tensors: a tile placed where another one was waits for that one's last users.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.compiler.passes.dependences import dependences_of
from nki_lab.compiler.passes.implied_waits import ImpliedWaits
from nki_lab.ir.program.nodes import Kernel
from nki_lab.targets.engines import DMA


@compiler_pass()
def insert_waits(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with, for every instruction, the positions of those it waits for.

    In a device loop these are the waits of its first pass; each later pass waits for the one before. Waits that others
    imply are left out (`implied_waits`). For an earlier instruction of its own engine, which began before it, an
    instruction waits only when it reads what that one wrote: overwriting keeps the order, and adding onto an operand
    is pipelined.
    """
    implied = ImpliedWaits()
    waits = [
        implied.reduce(candidates, i.form.engine)
        for candidates, i in zip(_candidates(kernel), kernel.instructions, strict=True)
    ]
    return kernel.with_(waits=tuple(waits), dependences=None)


def _candidates(kernel: Kernel) -> Iterator[list[int]]:
    """Yield, per instruction, the earlier ones it may have to wait for, the latest first."""
    before, after, result = kernel.dependences or dependences_of(kernel, ordered=True)
    touches = kernel.touches
    engine = np.array([form.engine.value for form in touches.forms])[touches.form]
    looks = touches.per_form(lambda form: form.definition.observes)
    by_engine = (engine[before] != engine[after]) | (engine[after] == DMA.value)
    # What only looks takes no time, and nothing waits for it; but the author may ask for that.
    chosen = ~looks[after] & (result | (by_engine & ~looks[before]))
    before, after = before[chosen], after[chosen]
    order = np.lexsort((-before, after))
    ends = np.cumsum(np.bincount(after, minlength=len(kernel.instructions))).tolist()
    candidates = before[order].tolist()
    start = 0
    for end in ends:
        yield candidates[start:end]
        start = end
