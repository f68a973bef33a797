"""The module `nki.tensor`: the class of tensors, and what kernels of NKI 0.1 and 0.2 take from it."""

from typing import Any

import numpy as np

from nki_lab.errors import UnknownName
from nki_lab.ir.tensor.arguments import element_of
from nki_lab.ir.tensor.trace import active
from nki_lab.ir.tensor.view import NkiTensor

__all__ = ["NkiTensor"]  # of `identity` newer kernels need not be told


def identity(n: int, dtype: Any) -> np.ndarray:
    """Return an identity matrix as an array for nl.shared_constant, in kernels for NKI 0.1 and 0.2.

    No page has it; kernels of nki-library at its tags 2.27 and 2.28 call it, and none does later.
    """
    builder = active.builder
    if builder is not None and builder.version.number > (0, 2):
        raise UnknownName(
            f"`nki.tensor.identity` ended with NKI 0.2, and the kernel is written for NKI {builder.version.name}",
            stack=builder.stack(),
            help="write nl.shared_identity_matrix(n, dtype), or `# nki: 0.2` above the kernel",
        )
    return np.identity(n, element_of(dtype).host)
