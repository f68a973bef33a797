"""When may memories that a compiled kernel was bound to be used for its next run?

Binding takes as long as running small tiles. A binding is taken while a run uses it, so that two threads never share
one, and given back without the caller's arrays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from nki_lab.compiler.cores import pair_shared
from nki_lab.compiler.pipeline import CompiledKernel
from nki_lab.simulator import Program, SimulatorOptions

#: Bindings kept, each with on-chip memories and tensors in private HBM of its own.
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


_free: OrderedDict[tuple[CompiledKernel, SimulatorOptions, int], Binding] = OrderedDict()


@contextmanager
def binding(
    compiled: CompiledKernel, options: SimulatorOptions, ranks: int = 1
) -> Iterator[Binding]:
    """Give a binding for one run inside a `with` block; what failed is not used again."""
    key = (compiled, options, ranks)
    bound = _free.pop(key, None) or _bind(compiled, options, ranks)
    yield bound
    bound.release()
    _free[key] = bound
    while len(_free) > KEPT:
        _free.popitem(last=False)


def _bind(compiled: CompiledKernel, options: SimulatorOptions, ranks: int) -> Binding:
    kernels = (compiled.kernel, *compiled.others)
    pairs = pair_shared(*kernels) if compiled.others else []
    programs = [[Program(k, options, rank, ranks) for k in kernels] for rank in range(ranks)]
    return Binding(programs, pairs)
