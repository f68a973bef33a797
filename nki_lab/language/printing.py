"""Prints values while a kernel runs."""

from __future__ import annotations

from nki_lab.ir.building.builder import current
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa import observing as printing
from nki_lab.isa.observing import assert_true


def device_print(print_prefix: str, tensor: NkiTensor) -> None:
    """Print a prefix and the values of a tensor when the kernel gets there.

    It prints in every run, and in every pass of a device loop. `tensor` is in HBM or SBUF. Printing takes no time
    here, since no page gives any; on the device the runtime exports the tensor to files. Python's `print` shows what
    is known while the kernel is traced instead. On two cores what is printed begins with the core.

    Source: nki/api/nki/language/__init__.py:2660.
    """
    core, cores = current().program
    printing.device_print(print_prefix, tensor, core if cores > 1 else None)


NkiTensor._assert_true = staticmethod(assert_true)
