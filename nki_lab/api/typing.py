"""The module `nki.typing`: the annotation `tensor[128, 512]` for parameters of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["tensor"]


@dataclass(frozen=True)
class TensorShape:
    """The shape that an annotation `tensor[...]` expects of an argument."""

    shape: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"nki.typing.tensor[{', '.join(map(str, self.shape))}]"


class tensor:
    """Annotation of a kernel parameter: `tensor`, or `tensor[128, 512]`.

    The shape documents what the kernel expects; the instructions find one that does not fit.
    (nki/migration/index.rst, "nki.typing module")
    """

    def __class_getitem__(cls, shape: Any) -> TensorShape:
        return TensorShape(shape if isinstance(shape, tuple) else (shape,))
