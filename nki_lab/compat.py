"""Names of other official packages, on request and on the simulator: `torch_neuronx`, `jax_neuronx` and `wrap_nki`.

    nki_lab.compat.install()        from now on `from torch_neuronx import nki_jit` finds nki_lab

A package that is installed is never hidden.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from nki_lab.api.install import AliasLoader
from nki_lab.api.install import install as install_nki
from nki_lab.frameworks.library import needs

__all__ = ["install", "uninstall", "wrap_nki"]

_MODULES = {
    "jax_neuronx": "nki_lab.frameworks.jax_neuronx",
    "torch_neuronx": "nki_lab.frameworks.torch_neuronx",
}


class _Finder:
    """Finds the packages that nothing before it has found."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, AliasLoader(_MODULES[name])) if name in _MODULES else None


_finder = _Finder()


def install() -> None:
    """Make `import torch_neuronx`, `jax_neuronx` and `nki` find nki_lab, each where nothing of that name is installed.

    `torch_neuronx` has nki_jit, nki_op and nki; `jax_neuronx` has nki_call.
    """
    install_nki()
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)  # type: ignore[arg-type]


def uninstall() -> None:
    """Take `torch_neuronx` and `jax_neuronx` back; `nki_lab.uninstall` does so with `nki`."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)  # type: ignore[arg-type]
        for name, ours in _MODULES.items():
            if name in sys.modules and sys.modules[name] is sys.modules.get(ours):
                del sys.modules[name]


def wrap_nki(kernel: Callable[..., Any]) -> Any:
    """Return what calls a kernel as vLLM-Neuron does: `wrap_nki(kernel)[grid](x=x, scale=2.0)`, also in torch.compile.

    A gradient that is asked for is an error, as is a kernel that writes its arguments.
    """
    with needs("torch"):
        from nki_lab.frameworks.torch_neuronx import NkiCaller
    return NkiCaller(kernel)
