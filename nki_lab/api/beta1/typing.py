"""The module `neuronxcc.nki.typing`: what parameters of kernels are annotated with."""

from __future__ import annotations

from typing import Any

__all__ = ["mutable_tensor", "scalar", "tensor"]


class tensor:
    """A tensor of a shape: `x: tensor[128, 512] = ...`."""

    def __class_getitem__(cls, shape: Any) -> type:
        """Return the annotation of a tensor with a shape."""
        return cls


class mutable_tensor(tensor):
    """A tensor that the kernel writes."""


class scalar:
    """A number known while the kernel runs."""
