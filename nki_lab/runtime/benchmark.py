"""Models how long a kernel takes, by itself and behind others of its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from nki_lab.ir.program.execution import Execution
from nki_lab.runtime.chosen import within
from nki_lab.runtime.jit import KernelFunction, jit
from nki_lab.runtime.recording import warn_of_findings
from nki_lab.runtime.repeated_calls import Benchmark, benchmark_of
from nki_lab.settings import override
from nki_lab.targets.spec import Target
from nki_lab.timing import TimingOptions


def benchmark(
    kernel: KernelFunction | Callable[..., Any],
    *args: Any,
    target: str | Target | None = None,
    capacity: str | None = None,
    skip_passes: str | None = None,
    allow: str | None = None,
    program_overhead: bool = False,
    **kwargs: Any,
) -> Benchmark:
    """Model how long a kernel takes, to the nanosecond: the same on every machine, and never by a clock.

    Values are computed only where the kernel has loops that the device runs, whose number of passes depends on them, or
    where they decide whether memory is read that nothing has written, or whether two cores race.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function, or a functools.partial of one.
        args, kwargs: its arguments.
        target: a chip, such as trn2, or an alias; by default NEURON_PLATFORM_TARGET_OVERRIDE, else trn3.
        capacity, skip_passes, allow: as for `nki_lab.run`.
        program_overhead: count in `latency_ns` what a loaded program spends before its first transfer.
    """
    while isinstance(kernel, partial):
        args, kwargs = (*kernel.args, *args), kernel.keywords | kwargs
        kernel = kernel.func
    made = kernel if isinstance(kernel, KernelFunction) else jit(kernel)
    with override(capacity=capacity, skip_passes=skip_passes, allow=allow), within(target):
        compiled = made.compile(*args, **kwargs)
        programs = (compiled.compiled.kernel, *compiled.compiled.others)
        if compiled.compiled.needs_a_run:
            run = compiled.launch(*args, **kwargs)
            executions, findings = (run.execution, *run.others), run.findings
        else:
            findings = compiled.compiled.findings
            executions = tuple(map(Execution.in_program_order, programs))
    warn_of_findings(finding for finding in findings if finding.is_serious)
    timed = benchmark_of(executions, TimingOptions(program_overhead=program_overhead))
    return replace(timed, findings=findings)
