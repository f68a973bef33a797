"""The modules `neuronxcc.nki.kernels.*` of Beta 1: what prebuilt kernels offer there by their field `official`.

A prebuilt kernel is written once, in today's dialect. Under its official name it is a kernel of the older dialect:
every program of the launch grid runs the same function, with its tiles as tensors of today's dialect. `launched.py` has
what a function says where the official grid splits its work.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import signature
from types import FunctionType, ModuleType
from typing import Any

from nki_lab.beta1.launch import held
from nki_lab.beta1.tile import Tile
from nki_lab.dialects.beta1 import BETA1, PREBUILT
from nki_lab.errors import NotModelled, close_matches
from nki_lab.kernels.prebuilt import get, names
from nki_lab.runtime.beta1 import jit
from nki_lab.runtime.jit import KernelFunction


def _views(value: Any) -> Any:
    """Return an argument with its tiles as tensors of today's dialect."""
    if isinstance(value, Tile):
        return value.read()
    if isinstance(value, (list, tuple)) and any(isinstance(item, Tile) for item in value):
        return [_views(item) for item in value]
    return value


def _of_beta1(function: Callable[..., Any], module: str) -> KernelFunction:
    """Return the kernel of the older dialect that runs a function of today's dialect."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return held(function(*map(_views, args), **{k: _views(v) for k, v in kwargs.items()}))

    name = call.__name__ = call.__qualname__ = function.__name__
    call.__code__ = call.__code__.replace(co_name=name, co_qualname=name)
    call.__doc__, call.__module__ = function.__doc__, module
    call.__signature__ = signature(function)  # type: ignore[attr-defined]
    kernel: KernelFunction = jit(call)
    return kernel


class _Module(ModuleType):
    """An official module; a name that no prebuilt kernel gives is an error."""

    __all__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        official = self.__name__.replace(__name__, PREBUILT)
        raise NotModelled(
            f"{official}: there is no prebuilt kernel `{name}`",
            help=close_matches(name, self.__all__)
            or "take its source from github.com/aws-neuron/nki-samples (src/nki_samples/reference), which runs here",
        )


def _fill() -> None:
    """Make the official modules, with what the prebuilt kernels offer there."""
    for official, home in BETA1.modules.items():
        if home.startswith(f"{__name__}."):
            sys.modules[home] = module = _Module(home, f"The module `{official}` of Beta 1.")
            vars(module).update(__all__=[], __path__=[], __file__=__file__)
            package, _, called = home.rpartition(".")
            setattr(sys.modules[package], called, module)
    for name in names():
        for official, value in get(name).official.items():
            where, _, called = official.rpartition(".")
            home = BETA1.modules[where]
            space = sys.modules[home]
            if isinstance(value, (KernelFunction, FunctionType)):
                value = _of_beta1(getattr(value, "func", value), home)
            elif isinstance(value, type):
                # A class of its own: the names in a kernel's text tell its dialect.
                value = type(called, (value,), {"__doc__": value.__doc__, "__module__": home})
            setattr(space, called, value)
            space.__all__.append(called)


#: No name stands in the package itself.
__path__: list[str] = []
__all__: list[str] = []
__getattr__ = _Module(__name__).__getattr__
_fill()
