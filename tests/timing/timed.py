"""Compile a kernel and ask when its instructions ran; every time here is in nanoseconds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.pipeline import compile_kernel
from nki_lab.compiler.trace import TensorSpec
from nki_lab.dtypes import dtype_of
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.nodes import Kernel
from nki_lab.profiler.profile import Profile
from nki_lab.targets import get_target
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.schedule import schedule
from nki_lab.timing.tables import make_profile
from nki_lab.timing.timeline import Timeline


class Ran(NamedTuple):
    """One executed instruction.

    Attributes:
        start: it began; of a transfer, its first byte.
        end: its results were visible; of a transfer, its last byte had arrived.
        trigger: the issue of a transfer began.
    """

    start: float
    end: float
    trigger: float

    @property
    def duration(self) -> float:
        return self.end - self.start


def compiled(
    function: Callable[..., Any], *specs: tuple[tuple[int, ...], str], target: str
) -> Kernel:
    """Compile a kernel for arguments of these shapes and dtypes; its instructions stay in the author's order."""
    arguments = tuple(TensorSpec(shape, dtype_of(dtype)) for shape, dtype in specs)
    options = Choices(record=False, skip_passes=("schedule",))
    source = SourceKernel.of(function)
    return compile_kernel(source, arguments, {}, get_target(target), options).kernel


def timed(
    function: Callable[..., Any],
    *specs: tuple[tuple[int, ...], str],
    target: str = "trn2",
    **options: Any,
) -> Run:
    """Compile a kernel and run the timing model over it."""
    kernel = compiled(function, *specs, target=target)
    execution = Execution.in_program_order(kernel)
    return Run(schedule(execution, TimingOptions(**options)))


class Run:
    """A timed kernel."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.kernel = timeline.execution.kernel
        self.total = timeline.total_ns

    @cached_property
    def profile(self) -> Profile:
        """The tables of the run."""
        return make_profile(self.timeline)

    def of(self, name: str) -> list[Ran]:
        """Return when the instructions called `name` ran, in the order of the program."""
        board = self.timeline.board
        instructions = self.kernel.instructions
        return [
            Ran(board.start[n] / 1000, board.end[n] / 1000, board.trigger[n] / 1000)
            for n, position in enumerate(self.timeline.program.positions)
            if instructions[position].definition.name == name
        ]

    @property
    def transfers(self) -> list[Ran]:
        """When the transfers ran, in the order of the program."""
        board = self.timeline.board
        return [
            Ran(board.start[n] / 1000, board.end[n] / 1000, board.trigger[n] / 1000)
            for n in self.timeline.transfers.tolist()
        ]
