"""Models how long a program takes, and what each part of the core does meanwhile.

    profile = simulate_time(Execution.in_program_order(compiled.kernel))

The model is built from public documents, not from measurements: `limits.LIMITS` lists what it leaves out or assumes,
and `nki_lab.targets` holds its numbers with the page of each. One axis of integer picoseconds; the same execution
always gives the same profile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nki_lab.errors import NotModelled
from nki_lab.ir.program.execution import Execution, Iterations
from nki_lab.profiler.analyses.cores import join_cores
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.span import MOST_EVENTS
from nki_lab.timing.advice.evidence import Replay
from nki_lab.timing.model import ModelledTimeline
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.schedule import schedule
from nki_lab.timing.two_cores import schedule_cores

__all__ = ["TimingOptions", "simulate_cores", "simulate_time", "total_ns"]


def simulate_time(
    execution: Execution,
    *,
    options: TimingOptions | None = None,
    iterations: Callable[[], Iterations | None] | None = None,
    replay: Replay | None = None,
) -> Profile:
    """Model when every instruction and transfer of an execution runs.

    Args:
        execution: the executed stream of one core, of a kernel that went through every compiler pass.
        options: what to include; by default the kernel alone, with all of its core's HBM bandwidth.
        iterations: gives the loop variables of the instructions when somebody asks; None where they are unknown.
        replay: compiles and times an edited program, for advice.

    Returns the tables of Neuron Explorer with `is_simulation` set; all but the times are made when asked for.
    """
    _refuse_more([execution])
    timeline = schedule(execution, options or TimingOptions())
    return ModelledTimeline(timeline, iterations, replay).profile


def simulate_cores(
    executions: Sequence[Execution],
    *,
    options: TimingOptions | None = None,
    iterations: Sequence[Callable[[], Iterations | None] | None] = (None, None),
    replay: Replay | None = None,
) -> Profile:
    """Model both cores of a logical core, which wait for each other where they meet.

    Args:
        executions: the executed stream of each core.
        options: what to include; `hbm_share` is that of each core.
        iterations: gives the loop variables of each core's instructions.
        replay: compiles and times edited programs, for advice.

    Returns one profile with the rows of both; `pcore_idx` tells them apart.
    """
    _refuse_more(executions)
    timelines = schedule_cores(executions, options or TimingOptions())
    return join_cores(
        [
            ModelledTimeline(mine, read, replay, other).profile
            for mine, other, read in zip(timelines, timelines[::-1], iterations, strict=True)
        ]
    )


def total_ns(execution: Execution, *, options: TimingOptions | None = None) -> int:
    """Return only the modelled time from start to the end of the last event, in nanoseconds."""
    return schedule(execution, options or TimingOptions()).total_ns


def _refuse_more(executions: Sequence[Execution]) -> None:
    """Raise NotModelled where more instructions ran than a profile may have."""
    count = sum(len(execution.order) for execution in executions)
    if count > MOST_EVENTS:
        raise NotModelled(
            f"{executions[0].kernel.name}: {count:,} instructions ran, more than the {MOST_EVENTS:,} that are put on a"
            " timeline together",
            help="let its loops run fewer times, or take a smaller tensor: `nki_lab.timing.total_ns(result.execution)`"
            " gives the time alone",
        )
