"""The module `neuronxcc.nki.typing`: what parameters and tiles of kernels are annotated with.

No page lists its names; the examples of the documentation use them (general/nki/examples, general/nki/test).
"""

from __future__ import annotations

from typing import Any

from nki_lab.errors import NotModelled

__all__ = ["immutable", "mutable", "mutable_tensor", "scalar", "tensor"]


class tensor:  # the names that kernels write
    """A tensor, of a shape or of any: `x: tensor[128, 512] = ...`.

    `tensor[[250, 512], nl.float32]` stands for an array in a call of a kernel of nki.benchmark, whose values do not
    matter.

    Attributes:
        shape: the sizes that an annotation gives, or None.
        dtype: the element type that it gives, or None.
    """

    shape: tuple[Any, ...] | None = None
    dtype: Any = None

    def __class_getitem__(cls, shape: Any) -> type:
        """Return the annotation of a tensor with a shape, or with a shape and an element type."""
        sizes, dtype = shape if isinstance(shape, tuple) else (shape,), None
        if len(sizes) == 2 and isinstance(sizes[0], (list, tuple)):
            sizes, dtype = tuple(sizes[0]), sizes[1]
        return type(cls.__name__, (cls,), {"shape": sizes, "dtype": dtype})


class mutable_tensor(tensor):
    """A tensor that the kernel writes."""


class scalar:
    """A number that is only known while the kernel runs."""

    def __init__(self, *value: Any) -> None:
        raise NotModelled(
            "nt.scalar(...): a number that the kernel computes while it runs, for a loop of unknown length",
            help="give the number of trips to the kernel as an int, and loop over nl.sequential_range",
        )


class mutable:
    """What a kernel writes."""


class immutable:
    """What a kernel only reads."""
