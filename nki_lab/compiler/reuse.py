"""Finds what the passes made of an earlier trace of the same program.

Calling a kernel always traces it: globals, closures and objects it reads may have changed. Where the trace is the same
as one seen before, for the same target and choices, so is everything that follows from it. Nothing is kept alive here:
programs live as long as a result, a compiled kernel or a kernel object holds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

from nki_lab.compiler.options import CompileOptions
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.program.same_program import same_program
from nki_lab.source import Span


@dataclass(frozen=True, eq=False)
class Programs:
    """What the passes made of one trace.

    Attributes:
        traced: the program of each core, before the passes.
        kernels: the program of each core, after them.
        stages: (pass name, program after it) of the first core, the traced program first.
    """

    traced: tuple[Kernel, ...]
    kernels: tuple[Kernel, ...]
    stages: tuple[tuple[str, Kernel], ...]


class Reuse:
    """The programs that are alive, by their traces.

    Attributes:
        hits: how often the programs of an equal trace were returned.
    """

    def __init__(self) -> None:
        self.hits = 0
        self._alive: WeakValueDictionary[Any, Programs] = WeakValueDictionary()

    def find(self, traced: Sequence[Kernel], options: CompileOptions) -> Programs | None:
        """Return what was made of an equal trace, one kernel per core, under the same options."""
        programs = self._alive.get(_key(traced, options))
        if programs is None or not all(map(same_program, traced, programs.traced)):
            return None
        self.hits += 1
        return programs

    def note(self, programs: Programs, options: CompileOptions) -> None:
        """Let programs be found by their trace while something else holds them."""
        self._alive[_key(programs.traced, options)] = programs

    def clear(self) -> None:
        """Forget everything."""
        self._alive.clear()


def _key(traced: Sequence[Kernel], options: CompileOptions) -> Any:
    """Return what tells most programs apart at once; equality is looked at in full afterwards."""
    first = traced[0]
    shapes = tuple((s.shape, str(s.dtype)) for s in first.inputs)
    sizes = tuple((len(k.instructions), len(k.storages)) for k in traced)
    files = tuple(_files(k) for k in traced)
    return first.name, first.target.name, options, shapes, sizes, files


def _files(kernel: Kernel) -> tuple[tuple[str, ...], ...]:
    """Return the files of every place in the author's text; code objects of two files may be equal."""
    stacks = {id(i.stack): i.stack for i in kernel.instructions}
    return tuple(
        tuple(p.filename if isinstance(p, Span) else p[0].co_filename for p in stack)
        for stack in stacks.values()
    )


#: Of this process.
reuse = Reuse()
