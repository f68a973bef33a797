"""The module `nki.compiler`: configurations of kernels. Directives of the older dialect are not modelled."""

import sys
from typing import Any

from nki_lab.errors import NotModelled
from nki_lab.runtime.configuration import AddressRotation, CompileConfig, SpecializationConfig
from nki_lab.source import is_of_library

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]


def __getattr__(name: str) -> Any:
    # Frameworks look through all modules for names of theirs; an author's use of a name is refused with a reason.
    if name.startswith("__") or is_of_library(sys._getframe(1).f_code.co_filename):
        raise AttributeError(name)
    raise NotModelled(
        f"nki.compiler.{name} is not modelled",
        help="leave it out: kernels compile without directives to the compiler",
    )
