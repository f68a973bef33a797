"""The module `neuronxcc.nki.language.constants`: no page lists it, and published kernels take `sizeinbytes` from it."""

from __future__ import annotations

from typing import Any

from nki_lab.beta1.promotion import dtype_named

__all__ = ["sizeinbytes"]


def sizeinbytes(dtype: Any) -> int:
    """Return the bytes of an element of a dtype: one of nki.language or of NumPy, or its name."""
    return dtype_named(dtype).itemsize
