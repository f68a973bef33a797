"""The module `nki.compiler`: configurations of kernels. Directives of the older dialect are not modelled."""

from typing import Any

from nki_lab.errors import NotModelled
from nki_lab.runtime.configuration import AddressRotation, CompileConfig, SpecializationConfig

__all__ = ["AddressRotation", "CompileConfig", "SpecializationConfig"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotModelled(
        f"nki.compiler.{name} is not modelled",
        help="leave it out: kernels compile without directives to the compiler",
    )
