"""What runs compiled kernels: one backend in each file, found by its name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from nki_lab.backends.backend import BACKENDS, Backend, Run, backend_named, refuse_others

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["BACKENDS", "Backend", "Run", "backend_named", "refuse_others"]
