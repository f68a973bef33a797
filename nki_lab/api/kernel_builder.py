"""The module `nki.compiler.kernel_builder`: it builds programs for a device, so every name is refused."""

import sys
from typing import Any

from nki_lab.errors import NotModelled
from nki_lab.source import is_of_library

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    # Frameworks look through all modules for names of theirs; an author's use of a name is refused with a reason.
    if name.startswith("__") or is_of_library(sys._getframe(1).f_code.co_filename):
        raise AttributeError(name)
    raise NotModelled(
        f"nki.compiler.kernel_builder.{name} is for the official compiler, which nki_lab does not call",
        help="decorate the function with @nki.jit and call it with arrays, or use nki.simulate(kernel)",
    )
