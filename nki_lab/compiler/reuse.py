"""When may what the passes made of an earlier trace be used again?

Calling a kernel always traces it: globals, closures and objects it reads may have changed. Where the trace is the same
as one seen before, for the same target and choices, so is everything that follows from it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nki_lab.compiler.options import CompileOptions
from nki_lab.ir.nodes import Kernel
from nki_lab.ir.same_program import same_program
from nki_lab.source import Span

if TYPE_CHECKING:
    from nki_lab.compiler.pipeline import CompiledKernel

#: Instructions of all programs that are kept, traced and compiled; about 5 kB each.
KEPT_INSTRUCTIONS = 50_000


class Reuse:
    """The compiled kernels of latest traces, the least recently used one dropped first.

    Attributes:
        hits: how often a compiled kernel was found.
    """

    def __init__(self, kept: int = KEPT_INSTRUCTIONS) -> None:
        self.kept = kept
        self.hits = 0
        self._known: OrderedDict[Any, tuple[tuple[Kernel, ...], CompiledKernel]] = OrderedDict()
        self._count = 0

    def find(self, traced: Sequence[Kernel], options: CompileOptions) -> CompiledKernel | None:
        """Return what was compiled of an equal trace, one kernel per core, under the same options."""
        key = _key(traced, options)
        known = self._known.get(key)
        if known is None or not all(map(same_program, traced, known[0])):
            return None
        self._known.move_to_end(key)
        self.hits += 1
        return known[1]

    def keep(
        self, traced: Sequence[Kernel], options: CompileOptions, compiled: CompiledKernel
    ) -> None:
        """Remember a compiled kernel by its trace."""
        size = _size(traced)
        if size > self.kept:
            return
        key = _key(traced, options)
        self._forget(key)
        self._known[key] = tuple(traced), compiled
        self._count += size
        while self._count > self.kept:
            self._forget(next(iter(self._known)))

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._count = 0

    def _forget(self, key: Any) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self._count -= _size(known[0])


def _size(traced: Sequence[Kernel]) -> int:
    return sum(len(kernel.instructions) + 1 for kernel in traced)


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
