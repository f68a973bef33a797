"""Runs a kernel from Python and returns its Result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nki_lab.choices import Choices, taken_choices, with_keywords
from nki_lab.runtime.jit import KernelFunction, as_kernel
from nki_lab.runtime.result import Result


@with_keywords("nki_lab.run")
def run(kernel: KernelFunction | Callable[..., Any], *args: Any, **kwargs: Any) -> Result:
    """Compile and simulate a kernel and return its Result.

    Args:
        kernel: a function decorated with `nki.jit`, or a plain function, or a functools.partial of one.
        args, kwargs: its arguments; arrays may be NumPy, PyTorch (CPU) or JAX arrays.
        {choices}

    What is not given, or None, is as `nki_lab.use`, else the environment chooses it.
    """
    called, choices, args, kwargs = kernel_call("nki_lab.run", kernel, args, kwargs)
    return called.launch_with(choices, args, kwargs)


def kernel_call(
    function: str, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[KernelFunction, Choices, tuple[Any, ...], dict[str, Any]]:
    """Return the kernel, the choices and the arguments of a call of `nki_lab.run` or one of its relatives.

    Arguments of a functools.partial come first; keywords that are choices of `function` are taken out.
    """
    while isinstance(kernel, partial):
        args, kwargs = (*kernel.args, *args), kernel.keywords | kwargs
        kernel = kernel.func
    called = as_kernel(kernel)
    kwargs = dict(kwargs)
    parameters = called.source.signature.parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return called, taken_choices(function, kwargs, parameters, takes_any), args, kwargs
