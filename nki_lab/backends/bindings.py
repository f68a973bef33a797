"""Keeps the memories that a compiled kernel was bound to for its next run.

Binding takes as long as running small tiles. A binding is taken while a run uses it, so that two threads never share
one, and given back without the caller's arrays. It goes when the program it belongs to goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from nki_lab.choices import Choices
from nki_lab.compiler.cores import pair_shared
from nki_lab.compiler.program import CompiledKernel
from nki_lab.compiler.reuse import Programs
from nki_lab.simulator import Program, RaceWatch

#: Programs whose bindings are kept, each with on-chip memories and tensors in private HBM.
KEPT = 8


class Binding(NamedTuple):
    """A compiled kernel with its memories.

    Attributes:
        programs: per rank, those of its cores.
        pairs: shared HBM tensors, as (of core 0, of core 1).
    """

    programs: list[list[Program]]
    pairs: list[Any]

    def release(self) -> None:
        """Forget the caller's arrays and the results of the last run."""
        for cores in self.programs:
            for program in cores:
                program.release()


_Free = dict[tuple[Choices, int], Binding]
#: The bindings that no run uses, by their program, the one used last at the end.
_free: WeakKeyDictionary[Programs | CompiledKernel, _Free] = WeakKeyDictionary()


@contextmanager
def binding(compiled: CompiledKernel, options: Choices, ranks: int = 1) -> Iterator[Binding]:
    """Give a binding for one run inside a `with` block; what failed is not used again."""
    program, form = compiled.programs or compiled, (options, ranks)
    bound = _free.get(program, {}).pop(form, None) or _bind(compiled, options, ranks)
    yield bound
    bound.release()
    free = _free.pop(program, {})
    free[form] = bound
    _free[program] = free
    while len(_free) > KEPT:
        _free.pop(next(iter(_free)), None)


def _bind(compiled: CompiledKernel, options: Choices, ranks: int) -> Binding:
    kernels = (compiled.kernel, *compiled.others)
    pairs = pair_shared(*kernels) if compiled.others else []
    programs = []
    for rank in range(ranks):
        watch = RaceWatch(kernels, compiled.watched)
        programs.append(
            [
                Program(kernel, options, rank, ranks, checks=watch.checks(core))
                for core, kernel in enumerate(kernels)
            ]
        )
    return Binding(programs, pairs)
