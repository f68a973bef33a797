"""How is a kernel run from Python, with everything known about the run kept?"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nki_lab.runtime.jit import KernelFunction, jit
from nki_lab.runtime.result import Result
from nki_lab.settings import override
from nki_lab.targets.spec import Target


def run(
    kernel: KernelFunction | Callable[..., Any],
    *args: Any,
    target: str | Target | None = None,
    capacity: str | None = None,
    skip_passes: str | None = None,
    strict: bool | None = None,
    allow: str | None = None,
    max_trips: int | None = None,
    debug: bool | None = None,
    **kwargs: Any,
) -> Result:
    """Compile and simulate a kernel and return its Result.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function, or a functools.partial of one.
        args, kwargs: its arguments; arrays may be NumPy, PyTorch (CPU) or JAX arrays.
        target: a chip, such as trn2, or an alias; by default NEURON_PLATFORM_TARGET_OVERRIDE, else trn3.
        capacity: "error", or "finding" to run a kernel that does not fit into SBUF or PSUM.
        skip_passes: names of compiler passes to leave out, separated by commas; "schedule" keeps the author's order.
        strict: findings are errors.
        allow: codes of errors, separated by commas, that are findings instead, so that a kernel written for an older
            NKI runs: "NKI206" are integers for members of enumerations.
        max_trips: trips that the device loops of the run may make together; more are an error.
        debug: run instructions while they are traced, so that `print(tile)` and `breakpoint()` in the kernel see
            values. One core only.

    None leaves a choice to its environment variable: NKI_LAB_CAPACITY, NKI_LAB_SKIP_PASSES, NKI_LAB_STRICT,
    NKI_LAB_ALLOW, NKI_LAB_MAX_TRIPS, NKI_LAB_DEBUG.
    """
    while isinstance(kernel, partial):
        args, kwargs = (*kernel.args, *args), kernel.keywords | kwargs
        kernel = kernel.func
    made = kernel if isinstance(kernel, KernelFunction) else jit(kernel)
    with override(
        capacity=capacity,
        skip_passes=skip_passes,
        strict=_text(strict),
        allow=allow,
        max_trips=None if max_trips is None else str(max_trips),
        debug=_text(debug),
    ):
        return made.launch(*args, target=target, **kwargs)


def _text(choice: bool | None) -> str | None:
    return None if choice is None else str(int(choice))
