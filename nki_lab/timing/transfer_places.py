"""Finds the partitions, bytes and steps that a transfer reads and writes.

As the table DmaPacketAggregated tells it. Steps count elements, the outermost axis first; on chip a partition is as
many elements further as one partition of the tensor has. Offsets count bytes: in HBM from the start of the tensor, on
chip within the partition. Places known only while the kernel runs are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.program.touches import distinct
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.profiler.columns import Strings, Texts

Ends = Callable[[Instruction], tuple[NkiTensor, NkiTensor]]


def places(kernel: Kernel, positions: np.ndarray, ends: Ends) -> Mapping[str, Any]:
    """Return the columns about places of transfers.

    Args:
        kernel: the program.
        positions: position in the program of each transfer.
        ends: gives the tensors that an instruction writes and reads.
    """
    columns: dict[str, Any] = {}
    count = len(kernel.instructions)
    for way, side in (("write", 0), ("read", 1)):
        views = {n: ends(kernel.instructions[n])[side] for n in distinct(positions).tolist()}
        plain = {n for n, view in views.items() if view.dynamic is None}
        on_chip = {n for n, view in views.items() if view.storage.on_chip}
        for name, write, known in (
            (f"{way}_sbuf_partitions", _partitions, plain & on_chip),
            (f"{way}_offset", _offset, plain),
            (f"{way}_steps", _steps, plain),
        ):
            there = np.zeros(count, dtype=bool)
            there[list(known)] = True
            texts = Texts(count, _writer(kernel, views, write))
            columns[name] = Strings(np.where(there[positions], positions, -1), texts)
    return columns


def _writer(
    kernel: Kernel, views: Mapping[int, NkiTensor], write: Callable[[NkiTensor, Kernel], str]
) -> Callable[[int], str]:
    return lambda n: write(views[n], kernel) if n in views else ""


def _partitions(view: NkiTensor, kernel: Kernel) -> str:
    """Write partitions as `0-127`, or one by one where they do not follow each other."""
    row = view.storage.row_bytes // view.dtype.itemsize
    first = _base(view, kernel)[0] + view.offset // row
    step, count = view.strides[0] // row, view.shape[0]
    if count == 1:
        return str(first)
    if step == 1:
        return f"{first}-{first + count - 1}"
    return ",".join(str(first + step * n) for n in range(count))


def _offset(view: NkiTensor, kernel: Kernel) -> str:
    offset = view.offset * view.dtype.itemsize
    if view.storage.on_chip:
        offset = _base(view, kernel)[1] + offset % view.storage.row_bytes
    return f"[{hex(offset)}]"


def _steps(view: NkiTensor, kernel: Kernel) -> str:
    return str(list(view.strides))


def _base(view: NkiTensor, kernel: Kernel) -> tuple[int, int]:
    """Return partition and byte at which a tensor on chip begins."""
    address = (kernel.addresses or {}).get(view.storage.id)
    return (0, 0) if address is None else (address.partition, address.byte)
