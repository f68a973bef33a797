"""Does an access pattern stay inside its storage?"""

from __future__ import annotations

from collections.abc import Sequence

from nki_lab.ir.tensor.storage import Storage


def leaves_storage(
    storage: Storage, shape: Sequence[int], strides: Sequence[int], offset: int, itemsize: int
) -> str:
    """Return how a pattern leaves `storage`, as the end of a sentence; empty when it stays inside.

    On chip the axes behind the first must stay within the bytes of one partition, whatever the partition.

    Args:
        storage: the memory addressed.
        shape, strides, offset: the pattern, in elements; the partition axis first on chip.
        itemsize: bytes of one element.
    """
    first = 1 if storage.on_chip else 0
    row = storage.row_bytes // itemsize
    start, low_row, high_row = offset, 0, 0
    if storage.on_chip:
        low_row, start = divmod(offset, row)
        step, rest = divmod(strides[0], row)
        if rest and shape[0] > 1:
            return f"steps {strides[0]} elements along the partitions, which hold {row} each"
        high_row = low_row + step * (shape[0] - 1)
        low_row, high_row = min(low_row, high_row), max(low_row, high_row)
    if low_row < 0 or high_row >= storage.partitions:
        return f"reaches partitions {low_row} to {high_row} of {storage.partitions}"
    free = list(zip(shape[first:], strides[first:], strict=True))
    low = start + sum((n - 1) * s for n, s in free if s < 0)
    high = start + sum((n - 1) * s for n, s in free if s > 0)
    if low < 0 or high >= row:
        where = " of each partition" if storage.on_chip else ""
        return f"reaches elements {low} to {high}{where}, which has {row}"
    return ""
