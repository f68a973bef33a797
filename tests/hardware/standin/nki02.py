"""The stand-in of the package `nki` 0.2: it compiles for frameworks only, and says what it does not have."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from nki_lab.dialects import NKI
from tests.hardware.standin.machine import Machine
from tests.hardware.standin.nki06 import put_modules


def become(name: str, machine: Machine) -> None:
    """Make a module the package."""
    machine.stage("import")
    package = sys.modules[name]

    def missing(api: str) -> Any:
        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise NotImplementedError(f"nki.{api} is not available in this release")

        return refuse

    def jit(fn: Any = None, mode: str = "auto", platform_target: str | None = None) -> Any:
        def standalone(*args: Any, **kwargs: Any) -> NoReturn:
            raise NotImplementedError("arguments are of no framework that nki.jit knows")

        return (lambda f: standalone) if fn is None else standalone

    vars(package).update(
        {api: missing(api) for api in machine.contract["nki-0.2"]["raising"]}, jit=jit
    )
    put_modules(package, name, NKI.modules)
