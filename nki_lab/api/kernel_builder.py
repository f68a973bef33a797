"""The module `nki.compiler.kernel_builder`: it builds programs for a device, so every name is refused."""

from typing import Any

from nki_lab.errors import NotModelled

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotModelled(
        f"nki.compiler.kernel_builder.{name} is for the official compiler, which nki_lab does not call",
        help="decorate the function with @nki.jit and call it with arrays, or use nki.simulate(kernel)",
    )
