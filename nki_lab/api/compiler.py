"""The module `nki.compiler`: its names are documented only in examples, and none is modelled."""

from typing import Any

from nki_lab.errors import NotModelled

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotModelled(
        f"nki.compiler.{name} is not modelled",
        help="leave it out: kernels compile without directives to the compiler",
    )
