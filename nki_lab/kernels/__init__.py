"""Prebuilt kernels: `nki_lab.kernels.get("rmsnorm")`, or `from nki_lab.kernels import rmsnorm` for the function alone.

Each kernel is one module of `library`, found by its name: its function, its reference, its sizes and its work.
"""

from __future__ import annotations

from typing import Any

from nki_lab.kernels.comparisons import COMPARISONS, Comparison, compare
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Size, Step, Work, get, names

__all__ = [
    "COMPARISONS",
    "Comparison",
    "Prebuilt",
    "Refused",
    "Size",
    "Step",
    "Work",
    "compare",
    "get",
    "names",
]


def __getattr__(name: str) -> Any:
    if name in names():
        return get(name).kernel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *names()})
