"""How long does a program take, and what does every part of the core do meanwhile?

    profile = simulate_time(Execution.in_program_order(compiled.kernel))

The model is built from public documents, not from measurements: `limits.LIMITS` lists what it leaves out or assumes,
and `nki_lab.targets` holds its numbers with the page of each. One axis of integer picoseconds; the same execution
always gives the same profile.
"""

from __future__ import annotations

from collections.abc import Callable

from nki_lab.ir.execution import Execution
from nki_lab.ir.iterations import Iterations
from nki_lab.profiler.profile import Profile
from nki_lab.timing.model import TimelineModel
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.schedule import schedule

__all__ = ["TimingOptions", "simulate_time", "total_ns"]


def simulate_time(
    execution: Execution,
    *,
    options: TimingOptions | None = None,
    iterations: Callable[[], Iterations | None] | None = None,
) -> Profile:
    """Model when every instruction and transfer of an execution runs.

    Args:
        execution: the executed stream of one core, of a kernel that went through every compiler pass.
        options: what to include; by default the kernel alone, with all of its core's HBM bandwidth.
        iterations: gives the loop variables of the instructions when somebody asks; None where they are unknown.

    Returns the tables of Neuron Explorer with `is_simulation` set; all but the times are made when asked for.
    """
    return TimelineModel(schedule(execution, options or TimingOptions()), iterations).profile


def total_ns(execution: Execution, *, options: TimingOptions | None = None) -> int:
    """Return only the modelled time from start to the end of the last event, in nanoseconds."""
    return schedule(execution, options or TimingOptions()).total_ns
