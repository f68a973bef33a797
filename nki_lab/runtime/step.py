"""Goes through a kernel step by step from Python, also one that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nki_lab.backends import refuse_others
from nki_lab.choices import with_keywords
from nki_lab.runtime.jit import KernelFunction
from nki_lab.runtime.run import kernel_call
from nki_lab.runtime.steps import RunSteps
from nki_lab.simulator.stepping import Stepper


@with_keywords("nki_lab.step")
def step(kernel: KernelFunction | Callable[..., Any], *args: Any, **kwargs: Any) -> RunSteps:
    """Compile a kernel and return the steps of its run on copies of the arguments.

    A run that fails can be gone through up to the instruction that ends it, the last of `steps.order`; `steps.show()`
    shows them in a notebook.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function; on one core.
        args, kwargs: its arguments, which stay as they are.
        {choices}

    Raises:
        NotModelled: it is launched on two cores, which exchange data while they run.
    """
    called, choices, args, kwargs = kernel_call("nki_lab.step", kernel, args, kwargs)
    refuse_others(called.choices(choices), "going through a run step by step")
    compiled = called.compile_with(choices, args, kwargs)
    arrays = compiled.inputs(*args, **kwargs)
    stepper = Stepper(compiled.compiled.kernel, arrays, compiled.choices)
    return RunSteps(stepper, compiled.compiled)
