"""PyTorch and JAX where they are needed: nothing loads them before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from nki_lab.errors import ToolchainError

_TITLES = {"jax": "JAX", "torch": "PyTorch"}


@contextmanager
def needs(package: str) -> Iterator[None]:
    """Import modules that need "torch" or "jax" inside of this: without the package, an error says how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise ToolchainError(
            f"{_TITLES[package]} is not installed", help=f"pip install {package}"
        ) from None


def operator_or_decorator(
    make: Callable[[str, Any, Mapping[str, Any]], Any],
    name: str,
    kernel: Any,
    options: Mapping[str, Any],
) -> Any:
    """Return the operator of a kernel; without a kernel, the decorator that makes it.

    A kernel of the library brings options of its own, among them its backward; those that are given count first.
    """
    if kernel is None:
        return lambda kernel: operator_or_decorator(make, name, kernel, options)
    brought = getattr(kernel, "operator", {})
    chosen = {key: brought.get(key) if value is None else value for key, value in options.items()}
    return make(name, kernel, chosen)
