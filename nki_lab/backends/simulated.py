"""The simulator as a backend: values from NumPy, times from the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from nki_lab.backends.backend import Backend, Run
from nki_lab.choices import Choices
from nki_lab.compiler.cores import pair_shared
from nki_lab.compiler.pipeline import compile_again
from nki_lab.compiler.program import CompiledKernel
from nki_lab.compiler.retrace import Retrace
from nki_lab.compiler.reuse import Programs
from nki_lab.errors import LoopsDiffer, SimulationError, UninitializedRead
from nki_lab.ir.program.execution import Execution, Iterations, first_difference
from nki_lab.ir.program.nodes import Finding, Kernel
from nki_lab.profiler.profile import Profile
from nki_lab.simulator import EagerRun, Program, RaceWatch, run_ranks
from nki_lab.timing import TimingOptions, simulate_cores, simulate_time, total_ns
from nki_lab.timing.two_cores import schedule_cores


class SimulatedRun(Run):
    """A run of the simulator.

    Args:
        compiled: the program.
        trips: for each core, how often its device loops ran.
        outputs, findings: as in `Run`.
        retrace: traces the kernel again, to read its loop variables; None for a kernel from a file or another process.
    """

    def __init__(
        self,
        compiled: CompiledKernel,
        trips: Sequence[Sequence[int]],
        outputs: Sequence[np.ndarray],
        findings: Sequence[Finding],
        retrace: Retrace | None = None,
    ) -> None:
        kernels = (compiled.kernel, *compiled.others)
        executions = [Execution.of(k, t) for k, t in zip(kernels, trips, strict=True)]
        for other in executions[1:]:
            if different := first_difference(executions[0], other):
                loop, *counts = different
                raise LoopsDiffer(
                    f"core 0 makes {counts[0]:,} passes through a device loop, and core 1 makes {counts[1]:,}",
                    stack=loop.stack,
                    help="give the loop one bound or condition on both cores, and skip work with a mask",
                )
        super().__init__(Simulator.name, outputs, findings, executions, "modelled")
        self._compiled, self._retrace = compiled, retrace

    @classmethod
    def of(
        cls,
        compiled: CompiledKernel,
        cores: Sequence[Program | EagerRun],
        outputs: Sequence[np.ndarray],
        retrace: Retrace | None,
    ) -> SimulatedRun:
        """Return what the cores have computed."""
        unique: dict[Any, Finding] = {}  # each fact once for all cores
        for core in cores:
            for finding in core.noticed():
                unique.setdefault((finding.message, finding.stack), finding)
        trips = [core.trips for core in cores]
        return cls(compiled, trips, outputs, tuple(unique.values()), retrace)

    def __reduce__(self) -> tuple[Any, ...]:
        trips = [execution.trips for execution in self.executions]
        return SimulatedRun, (self._compiled, trips, self.outputs, self.findings)

    def profile(self) -> Profile:
        """Return the modelled timeline."""
        iterations = [self._iterations(execution.kernel) for execution in self.executions]
        programs, retrace = self._compiled.programs, self._retrace
        replay = None if programs is None or retrace is None else _Edited(programs, retrace.options)
        if len(self.executions) == 1:
            return simulate_time(self.executions[0], iterations=iterations[0], replay=replay)
        return simulate_cores(self.executions, iterations=iterations, replay=replay)

    def _iterations(self, kernel: Kernel) -> Callable[[], Iterations | None]:
        retrace = self._retrace
        return lambda: None if retrace is None else retrace.iterations(kernel)


class _Edited:
    """Compiles and times a program that advice has changed (`timing.advice.evidence.Replay`)."""

    def __init__(self, programs: Programs, options: Choices) -> None:
        self.traced = programs.traced
        self._serious = _serious(programs.kernels)
        self._options = options

    def total_ns(self, kernels: Sequence[Kernel]) -> int | None:
        """Return the time of changed programs; None where a change makes them race, or read what nobody wrote."""
        compiled = compile_again(kernels, self._options)
        if _serious(compiled) > self._serious:
            return None
        executions = [Execution.in_program_order(kernel) for kernel in compiled]
        if len(executions) == 1:
            return total_ns(executions[0])
        return max(t.total_ns for t in schedule_cores(executions, TimingOptions()))


def _serious(kernels: Sequence[Kernel]) -> int:
    return sum(finding.is_serious for kernel in kernels for finding in kernel.findings)


class Simulator(Backend):
    """Computes values on this machine and models times."""

    name = "simulator"

    def run(
        self,
        compiled: CompiledKernel,
        arrays: Sequence[np.ndarray],
        options: Choices,
        retrace: Retrace | None = None,
    ) -> SimulatedRun:
        """Run on one core, or on those of a logical core."""
        return self.run_ranks(compiled, [arrays], options, retrace)[0]

    def run_ranks(
        self,
        compiled: CompiledKernel,
        ranks: Sequence[Sequence[np.ndarray]],
        options: Choices,
        retrace: Retrace | None = None,
    ) -> Sequence[SimulatedRun]:
        """Run as several ranks, in turns."""
        with binding(compiled, options, len(ranks)) as (programs, pairs):
            with _told_before(programs):
                if len(ranks) > 1 or len(programs[0]) > 1:
                    outputs = run_ranks(programs, ranks, pairs)
                else:
                    try:
                        outputs = [programs[0][0].run(ranks[0])]
                    except SimulationError as error:
                        # An uninitialised read is an error of this run if it is strict, which steps need not be.
                        error.can_be_stepped = not isinstance(error, UninitializedRead)
                        raise
            return [
                SimulatedRun.of(compiled, cores, values, retrace)
                for cores, values in zip(programs, outputs, strict=True)
            ]


@contextmanager
def _told_before(programs: Sequence[Sequence[Program]]) -> Iterator[None]:
    """Add to what ends a run what it read unwritten before: an index nobody wrote is often the cause."""
    try:
        yield
    except SimulationError as error:
        runs = [run for cores in programs for run in cores]
        told = (finding for run in runs for finding in run.unwritten.findings(run.kernel, None))
        error.notes = tuple(dict.fromkeys((*error.notes, *(f.message for f in told))))
        raise


# -- memories --------------------------------------------------------------------------------------------------------
#
# Binding a kernel to its memories takes as long as running small tiles. A binding is taken while a run uses it, so that
# two threads never share one, and given back without the caller's arrays. It goes when its program goes.

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
