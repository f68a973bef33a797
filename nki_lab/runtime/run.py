"""How is a kernel run from Python, with everything known about the run kept?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nki_lab.runtime.jit import KernelFunction, jit
from nki_lab.runtime.result import Result
from nki_lab.targets.spec import Target


def run(
    kernel: KernelFunction | Callable[..., Any],
    *args: Any,
    target: str | Target | None = None,
    **kwargs: Any,
) -> Result:
    """Compile and simulate a kernel and return its Result.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function.
        args, kwargs: its arguments; arrays may be NumPy, PyTorch (CPU) or JAX arrays.
        target: trn1, trn2, trn3 or an alias; by default NEURON_PLATFORM_TARGET_OVERRIDE, else trn3.
    """
    made = kernel if isinstance(kernel, KernelFunction) else jit(kernel)
    return made.launch(*args, target=target, **kwargs)
