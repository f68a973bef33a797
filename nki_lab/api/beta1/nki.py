"""The module `neuronxcc.nki`: what runs kernels, the class of tensors, and the other modules.

Each name is fetched from its room when it is first used.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from nki_lab.beta1.tile import Tile as tensor
from nki_lab.errors import NotModelled, UnknownName, close_matches
from nki_lab.runtime.beta1 import baremetal, benchmark, jit, profile, simulate_kernel, trace

# Importing the old package adds this level: programs say `logging.disable(logging.OFF)`.
vars(logging).setdefault("OFF", logging.CRITICAL + 10)

# The import system asks a module with submodules for this; they are found by name, not in a folder.
__path__: list[str] = []

_MODULES = {name: f"nki_lab.api.beta1.{name}" for name in ("compiler", "isa", "language", "typing")}
__all__ = [
    "FrameworkKernel", "baremetal", "benchmark", "jit", "profile", "simulate_kernel", "tensor", "trace", *_MODULES,
]  # fmt: skip


class FrameworkKernel:
    """What writes a kernel into the program of a framework; there is no such program here."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotModelled(
            f"{type(self).__name__}: it writes a kernel into a framework's HLO, which only the Neuron compiler reads",
            help="call the kernel with tensors of PyTorch or JAX",
        )

    def dump_config(self, *args: Any, **kwargs: Any) -> Any:
        """Return the configuration of the call in HLO."""

    def is_framework_tensor(self, t: Any) -> Any:
        """Tell whether a value is a tensor of the framework."""

    def map_framework_tensor(self, t: Any) -> Any:
        """Return the shape and dtype of a tensor of the framework."""

    def translate_to_neuron_dtype(self, _dtype: Any) -> Any:
        """Return the dtype that stands for one of the framework."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name.startswith("__"):
        raise AttributeError(name)
    raise UnknownName(f"neuronxcc.nki has no `{name}`", help=close_matches(name, __all__))
