"""Which functions of nki.language are not modelled, and what happens when a kernel calls one?"""

from __future__ import annotations

from typing import Any, NoReturn

from nki_lab.dtypes import DType
from nki_lab.ir.tensor import NkiTensor
from nki_lab.language.operands import not_modelled
from nki_lab.targets.spaces import SBUF, MemoryRegion


def rand(shape: Any, dtype: DType, buffer: MemoryRegion = SBUF, name: str = "") -> NoReturn:
    """Refuse to make random numbers: not modelled yet."""
    raise _random("rand")


def random_seed(seed: NkiTensor) -> NoReturn:
    """Refuse to seed the random number generator: not modelled yet."""
    raise _random("random_seed")


def dropout(x: NkiTensor, rate: Any, dtype: DType | None = None) -> NoReturn:
    """Refuse to zero elements at random: not modelled yet."""
    raise _random("dropout")


def device_print(print_prefix: str, tensor: NkiTensor) -> NoReturn:
    """Refuse to print a tensor while the kernel runs: not modelled yet."""
    raise not_modelled(
        "device_print",
        "printing from the device is",
        "return the tensor as an output, or look at its tile",
    )


def _random(function: str) -> Exception:
    return not_modelled(
        function, "random numbers are", "pass an array of random numbers to the kernel"
    )
