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
    """Return the operator of a kernel; without a kernel, the decorator that makes it."""
    if kernel is not None:
        return make(name, kernel, options)
    return lambda kernel: make(name, kernel, options)
