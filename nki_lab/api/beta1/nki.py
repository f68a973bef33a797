"""The module `neuronxcc.nki`: the decorators that run kernels."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nki_lab.dialects.beta1 import BETA1
from nki_lab.runtime.jit import KernelFunction, decorated

# The import system asks a module with submodules for this; they are found by name, not in a folder.
__path__: list[str] = []

_MODULES = {name: f"nki_lab.api.beta1.{name}" for name in ("compiler", "isa", "language", "typing")}
__all__ = ["jit", "simulate_kernel", "trace", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'neuronxcc.nki' has no attribute {name!r}")
    return import_module(_MODULES[name])


def jit(func: Any = None, **keywords: Any) -> Any:
    """Make a function a kernel: `@nki.jit`, or `@nki.jit(mode=...)`; all modes run on the simulator."""
    return decorated(BETA1, func, keywords)


trace = jit


def simulate_kernel(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a kernel on the simulator with NumPy arrays, and return what it returns."""
    function = kernel if isinstance(kernel, KernelFunction) else jit(kernel)
    return function(*args, **kwargs)
