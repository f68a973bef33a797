"""Which functions of nki.language are not modelled, and what happens when a kernel calls one?"""

from __future__ import annotations

from typing import NoReturn

from nki_lab.ir.tensor import NkiTensor
from nki_lab.language.operands import not_modelled


def device_print(print_prefix: str, tensor: NkiTensor) -> NoReturn:
    """Refuse to print a tensor while the kernel runs: not modelled yet."""
    raise not_modelled(
        "device_print",
        "printing from the device is",
        "return the tensor as an output, or look at its tile",
    )
