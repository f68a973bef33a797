"""The module `nki`: each name is fetched from its room when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from nki_lab.errors import UnknownName, close_matches
from nki_lab.rewrite import instead

# The import system asks a module with submodules for this; they are found by name, not in a folder.
__path__: list[str] = []

_FUNCTIONS = {"jit": "nki_lab.runtime", "simulate": "nki_lab.runtime"}
_MODULES = {
    "collectives": "nki_lab.api.collectives",
    "compiler": "nki_lab.api.compiler",
    "dtype": "nki_lab.api.dtype",
    "isa": "nki_lab.api.isa",
    "language": "nki_lab.language",
    "tensor": "nki_lab.api.tensor",
    "typing": "nki_lab.api.typing",
}
_BEFORE = {
    "baremetal": "nki.jit, and call the kernel",
    "benchmark": "nki.jit, and look at the profile of the result",
    "profile": "nki.jit, and look at the profile of the result",
    "simulate_kernel": "nki.simulate(kernel)(...)",
    "trace": "nki.jit",
}

__all__ = sorted({*_FUNCTIONS, *_MODULES})


def __getattr__(name: str) -> Any:
    if name in _FUNCTIONS:
        value = getattr(import_module(_FUNCTIONS[name]), name)
    elif name in _MODULES:
        value = import_module(_MODULES[name])
    elif name.startswith("__"):
        raise AttributeError(name)
    else:
        help = instead(name, _BEFORE) or close_matches(name, __all__)
        raise UnknownName(f"nki has no `{name}`", help=help)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
