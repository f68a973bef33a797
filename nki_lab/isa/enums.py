"""Named choices that instructions take, with the names and values of nki/api/nki/isa/__init__.py."""

from __future__ import annotations

from typing import Any

from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.choice import NamedChoice


class reduce_cmd(NamedChoice):
    """What an instruction does with the accumulator registers of its engine."""

    idle = 0  # leaves them alone
    reset = 1  # sets them to the initial value
    reduce = 2  # accumulates onto what they hold
    reset_reduce = 3  # resets, then accumulates
    load_reduce = 4  # loads a value, then accumulates


class dge_mode(NamedChoice):
    """Who makes the descriptors of a DMA transfer."""

    unknown = 0  # the compiler decides
    swdge = 1  # software, run by GpSimd
    hwdge = 2  # the hardware block
    none = 3  # they lie ready in memory


class oob_mode(NamedChoice):
    """What an access outside its tensor does at run time."""

    error = 0
    skip = 1


class matmul_perf_mode(NamedChoice):
    """How fast a matmul runs and what it asks of its operands."""

    none = "none"
    double_row = "double_row"  # two FP8 rows at a time


class Generation(NamedChoice):
    """Generation of a NeuronCore; published kernels compare them by age, e.g. `<= nc_version.gen2`."""

    def __lt__(self, other: object) -> bool:
        return self.value < other.value if isinstance(other, Generation) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.value <= other.value if isinstance(other, Generation) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.value > other.value if isinstance(other, Generation) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.value >= other.value if isinstance(other, Generation) else NotImplemented


_GENERATIONS = {f"gen{target.generation}": target.generation for target in ALL_TARGETS}
nc_version: Any = Generation("nc_version", _GENERATIONS, module=__name__)  # type: ignore[call-arg]


class dma_engine(NamedChoice):
    """Which DMA moves data between two cores."""

    dma = 1
    gpsimd_dma = 2
