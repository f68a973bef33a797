"""How long does a kernel take: one call, and one of many?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from nki_lab.compiler.options import CompileOptions
from nki_lab.compiler.passes.insert_waits import insert_waits
from nki_lab.ir.execution import Execution
from nki_lab.ir.nodes import Kernel
from nki_lab.ir.repeat import repeated
from nki_lab.profiler.profile import Profile
from nki_lab.runtime.jit import KernelFunction, jit, use_target
from nki_lab.settings import override
from nki_lab.targets.spec import Target
from nki_lab.timing import TimingOptions, simulate_time
from nki_lab.timing.schedule import schedule

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
    """

    name: str
    target: str
    latency_ns: int
    steady_ns: int
    instructions: int
    profile: Profile = field(repr=False, compare=False)

    def __repr__(self) -> str:
        return (
            f"{self.name} on {self.target}: {self.latency_ns / 1000:,.3f} us for one call, "
            f"{self.steady_ns / 1000:,.3f} us for each further call right behind it (modelled, not measured)"
        )


def benchmark(
    kernel: KernelFunction | Callable[..., Any],
    *args: Any,
    target: str | Target | None = None,
    capacity: str | None = None,
    skip_passes: str | None = None,
    program_overhead: bool = False,
    **kwargs: Any,
) -> Benchmark:
    """Model how long a kernel takes, to the nanosecond: the same on every machine, and never by a clock.

    Values are computed only where the kernel has loops that the device runs, whose number of passes depends on them.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function, or a functools.partial of one.
        args, kwargs: its arguments.
        target: trn1, trn2, trn3 or an alias; by default NEURON_PLATFORM_TARGET_OVERRIDE, else trn3.
        capacity, skip_passes: as for `nki_lab.run`.
        program_overhead: count in `latency_ns` what a loaded program spends before its first transfer.
    """
    while isinstance(kernel, partial):
        args, kwargs = (*kernel.args, *args), kernel.keywords | kwargs
        kernel = kernel.func
    made = kernel if isinstance(kernel, KernelFunction) else jit(kernel)
    with override(capacity=capacity, skip_passes=skip_passes), use_target(target):
        compiled = made.compile(*args, **kwargs)
        program = compiled.compiled.kernel
        execution = (
            compiled.launch(*args, **kwargs).execution
            if program.has_loops
            else Execution.in_program_order(program)
        )
    share = 1 / (1 + len(compiled.compiled.others))
    options = TimingOptions(program_overhead=program_overhead, hbm_share=share)
    profile = simulate_time(execution, options=options)
    return Benchmark(
        name=program.name,
        target=program.target.name,
        latency_ns=profile.total_ns,
        steady_ns=_steady_ns(program, execution.trips, share),
        instructions=len(execution.order),
        profile=profile,
    )


def _steady_ns(kernel: Kernel, trips: tuple[int, ...], hbm_share: float) -> int:
    """Return the mean time between the ends of calls in the steady state."""
    program = insert_waits(repeated(kernel, CALLS), CompileOptions())
    execution = Execution.of(program, trips * CALLS)
    timeline = schedule(execution, TimingOptions(hbm_share=hbm_share))
    end = timeline.end
    if not len(end):
        return 0
    call = timeline.positions // len(kernel.instructions)
    first, last = (int(end[call == n].max()) for n in (1, CALLS - 2))
    return int(np.rint((last - first) / (CALLS - 3) / 1000))
