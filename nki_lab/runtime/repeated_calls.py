"""Times a program: one call by itself, and one of many right behind each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.passes.insert_waits import insert_waits
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.nodes import Finding
from nki_lab.ir.program.repeat import repeated
from nki_lab.profiler.profile import Profile
from nki_lab.progress import doing
from nki_lab.source import printable
from nki_lab.timing import TimingOptions, simulate_cores, simulate_time
from nki_lab.timing.schedule import schedule
from nki_lab.timing.timeline import Timeline
from nki_lab.timing.two_cores import schedule_cores

#: Calls that are timed one behind the other. The first finds everything idle and the second still gains by that; the
#: last has nothing behind it that shares its resources. Those between are in the steady state.
CALLS = 5


@dataclass(frozen=True)
class Benchmark:
    """Modelled times of a kernel.

    Attributes:
        name: of the kernel.
        target: name of the chip.
        latency_ns: time of one call by itself, from its first instruction to the end of its last transfer.
        steady_ns: time of one of many calls that are issued one right behind the other on the same queues, from the
            end of one to the end of the next: the next call's loads go on while this one still computes and stores,
            as far as the places of its tiles are free. The mean of the calls of `CALLS` between the second and the
            last.
        instructions: executed by one call.
        profile: the timeline of the call by itself.
        findings: what the author should know; those that may make the result wrong on a device are warnings, too.
    """

    name: str
    target: str
    latency_ns: int
    steady_ns: int
    instructions: int
    profile: Profile = field(repr=False, compare=False)
    findings: tuple[Finding, ...] = field(default=(), repr=False, compare=False)

    def __repr__(self) -> str:
        return printable(
            f"{self.name} on {self.target}: {self.latency_ns / 1000:,.3f} us for one call, "
            f"{self.steady_ns / 1000:,.3f} us for each further call right behind it (modelled, not measured)"
        )


@doing("timing calls behind each other")
def benchmark_of(
    executions: Sequence[Execution], options: TimingOptions | None = None
) -> Benchmark:
    """Model how long the program of which the cores executed these streams takes.

    Args:
        executions: that of each core.
        options: what to include in the time of one call.
    """
    options = options or TimingOptions()
    if len(executions) == 1:
        profile = simulate_time(executions[0], options=options)
    else:
        profile = simulate_cores(executions, options=options)
    kernel = executions[0].kernel
    return Benchmark(
        name=kernel.name,
        target=kernel.target.name,
        latency_ns=profile.total_ns,
        steady_ns=_steady_ns(executions),
        instructions=sum(len(execution.order) for execution in executions),
        profile=profile,
    )


def _steady_ns(executions: Sequence[Execution]) -> int:
    """Return the mean time between the ends of calls in the steady state; a call ends with its last core."""
    calls = [
        Execution.of(
            insert_waits(repeated(execution.kernel, CALLS), Choices()),
            execution.trips * CALLS,
        )
        for execution in executions
    ]
    options = TimingOptions()
    timelines = schedule_cores(calls, options) if len(calls) > 1 else [schedule(calls[0], options)]
    ends = [_end(timeline, call) for call in (1, CALLS - 2) for timeline in timelines]
    first, last = max(ends[: len(calls)]), max(ends[len(calls) :])
    return int(np.rint((last - first) / (CALLS - 3) / 1000))


def _end(timeline: Timeline, call: int) -> int:
    """Return when a call of a repeated program has ended, in ps."""
    length = len(timeline.execution.kernel.instructions) // CALLS
    of_call = timeline.positions // max(length, 1) == call
    return int(timeline.end[of_call].max(initial=0))
