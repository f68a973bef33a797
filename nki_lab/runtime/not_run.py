"""Views of a compiled kernel that has not run.

Its program, where its tensors lie, and what was found. Where the program alone tells which instructions are executed,
their times are modelled, too; how often a device loop runs is known only from running it.
"""

from __future__ import annotations

from nki_lab.compiler.program import CompiledKernel
from nki_lab.ir.program.execution import Execution
from nki_lab.profiler.profile import Profile
from nki_lab.runtime.view_data import make_view_data
from nki_lab.timing import simulate_cores, simulate_time
from nki_lab.views.run import ViewData


def view_before_run(compiled: CompiledKernel) -> ViewData:
    """Return the views' data of a compiled kernel that has not run; its profile is empty where it has device loops."""
    return make_view_data(compiled, profile_before_run(compiled), compiled.findings_before_run)


def has_times(compiled: CompiledKernel) -> bool:
    """Tell whether the times of a program can be modelled without running it."""
    return not any(kernel.has_loops for kernel in (compiled.kernel, *compiled.others))


def profile_before_run(compiled: CompiledKernel) -> Profile:
    """Return the modelled profile of a compiled kernel that has not run; it is empty where it has device loops."""
    if not has_times(compiled):
        name = compiled.kernel.name
        return Profile.from_tables(compiled.target, {}, is_simulation=True, name=name)
    kernels = (compiled.kernel, *compiled.others)
    executions = [Execution.in_program_order(kernel) for kernel in kernels]
    if len(executions) == 1:
        return simulate_time(executions[0])
    return simulate_cores(executions)
