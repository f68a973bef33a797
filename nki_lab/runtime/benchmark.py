"""Models how long a kernel takes, by itself and behind others of its calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nki_lab.backends import BACKENDS, backend_named
from nki_lab.choices import with_keywords
from nki_lab.ir.program.execution import Execution
from nki_lab.runtime.jit import KernelFunction
from nki_lab.runtime.recording import warn_of_findings
from nki_lab.runtime.repeated_calls import benchmark_of
from nki_lab.runtime.run import kernel_call
from nki_lab.timing import TimingOptions


@with_keywords("nki_lab.benchmark")
def benchmark(
    kernel: KernelFunction | Callable[..., Any],
    *args: Any,
    program_overhead: bool = False,
    **kwargs: Any,
) -> Any:
    """Model how long a kernel takes, to the nanosecond: the same on every machine, and never by a clock.

    With `backend="neuron"` a device runs it many times, and its counters tell the latency.

    Values are computed only where the kernel has loops that the device runs, whose number of passes depends on them, or
    where they decide whether memory is read that nothing has written, or whether two cores race.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function, or a functools.partial of one.
        args, kwargs: its arguments.
        program_overhead: count in `latency_ns` what a loaded program spends before its first transfer.
        {choices}
    """
    called, choices, args, kwargs = kernel_call("nki_lab.benchmark", kernel, args, kwargs)
    if backend_named(called.choices(choices).backend) is not BACKENDS["simulator"]:
        other = called.launch_with(choices, args, kwargs).run
        measured = other.benchmark()
        if measured is None:
            raise backend_named(other.backend).unsupported("modelling the time of calls")
        return measured
    compiled = called.compile_with(choices, args, kwargs)
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
