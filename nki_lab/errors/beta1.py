"""Errors of kernels in the older dialect, `neuronxcc.nki`: index tensors, masks and what they select."""

from __future__ import annotations

from nki_lab.errors.language import OutOfBounds, ViewError


def older(code: str) -> str:
    """Return the note that names an error as the compiler of the older dialect named it."""
    return f"the compiler of the older dialect calls this {code}"


class IndexExpression(ViewError, TypeError):
    """An index tensor is used as something that it cannot be: as data, in control flow, not affine."""


class BadMask(ViewError):
    """A mask is no conjunction of affine comparisons, or does not belong to the access it is given to."""


class BadIndexing(ViewError):
    """A tensor is indexed in a way that selects no tile."""


class IndirectIndex(BadIndexing):
    """A tile of indices stands where the hardware takes none."""


class OutsideTensor(OutOfBounds):
    """What an access reaches after its mask is not inside the tensor."""
