"""How is a kernel gone through from Python, also one that fails?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nki_lab.runtime.chosen import within
from nki_lab.runtime.compiled import simulation_options
from nki_lab.runtime.jit import KernelFunction, jit
from nki_lab.runtime.steps import RunSteps
from nki_lab.settings import Settings, override
from nki_lab.simulator.stepping import Stepper
from nki_lab.targets.spec import Target


def step(
    kernel: KernelFunction | Callable[..., Any],
    *args: Any,
    target: str | Target | None = None,
    allow: str | None = None,
    **kwargs: Any,
) -> RunSteps:
    """Compile a kernel and return the steps of its run on copies of the arguments.

    A run that fails can be gone through up to the instruction that ends it, the last of `steps.order`; `steps.show()`
    shows them in a notebook.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function; on one core.
        args, kwargs: its arguments, which stay as they are.
        target: a chip, such as trn2, or an alias; by default NEURON_PLATFORM_TARGET_OVERRIDE, else trn3.
        allow: codes of errors that are findings instead, as for `nki_lab.run`.

    Raises:
        NotModelled: it is launched on two cores, which exchange data while they run.
    """
    while isinstance(kernel, partial):
        args, kwargs = (*kernel.args, *args), kernel.keywords | kwargs
        kernel = kernel.func
    made = kernel if isinstance(kernel, KernelFunction) else jit(kernel)
    with within(target), override(allow=allow):
        compiled = made.compile(*args, **kwargs)
    arrays = compiled.inputs(*args, **kwargs)
    stepper = Stepper(compiled.compiled.kernel, arrays, simulation_options(Settings.read()))
    return RunSteps(stepper, compiled.compiled)
