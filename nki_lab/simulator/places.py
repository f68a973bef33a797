"""Finds the place of each element of a view that the device addresses, and which indices are valid."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nki_lab.errors import AddressOutOfRange
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.ir.tensor.layout import contiguous_strides
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import TENSOR

_GROUP, _GROUP_TENSOR = 16, 32  # nki/api/nki/language/__init__.py, NkiTensor.indirect


class DynamicPlaces(NamedTuple):
    """The places of a view: `window[at]` has its shape and elements.

    Attributes:
        window: static view of the same storage.
        at: indices into it.
        valid: whether the index was in range, in the shape of `at`; where it was not, `at` names another place.
        chosen: the index, in the shape of `at`.
    """

    window: NkiTensor
    at: tuple[np.ndarray, ...]
    valid: np.ndarray
    chosen: np.ndarray


def user_of(i: Instruction | None) -> str:
    """Return who uses a view: an instruction, or who looks at its values in between."""
    return i.definition.name if i is not None else "values"


def places_of(i: Instruction | None, view: NkiTensor, index: np.ndarray) -> DynamicPlaces:
    """Return where the elements of `view` are; `index` is what its tile of indices holds."""
    dynamic = view.dynamic
    assert dynamic is not None
    index = index.astype(np.int64)
    if dynamic.kind is Addressing.VECTOR:
        return _rows(view, index)
    return _elements(i, view, index)


def valid_indices(view: NkiTensor) -> range:
    """Return the indices with which each access of a dynamic view stays inside its storage."""
    dynamic, storage = view.dynamic, view.storage
    assert dynamic is not None
    if dynamic.kind is Addressing.ELEMENTS:
        return range(dynamic.limit)
    count = (storage.row_bytes if storage.on_chip else storage.nbytes) // view.dtype.itemsize
    start = view.offset % count  # on chip, within a partition
    # Axes that the index leaves where they are: all but the partitions, and but the rows that indices name.
    first = 1 if storage.on_chip or dynamic.kind is Addressing.VECTOR else 0
    free = list(zip(view.shape[first:], view.strides[first:], strict=True))
    low = start + sum((n - 1) * s for n, s in free if s < 0)
    high = start + sum((n - 1) * s for n, s in free if s > 0)
    step = dynamic.step
    if step == 0:
        return range(2**31 if low >= 0 and high < count else 0)
    # 0 <= low + index * step and high + index * step <= count - 1, rounded to whole indices inwards.
    lowest, highest = (-(low // step), (count - 1 - high) // step)
    if step < 0:
        lowest, highest = -((high - count + 1) // step), -low // step
    if dynamic.kind is Addressing.VECTOR or dynamic.limit:
        lowest = max(lowest, 0)
    if dynamic.limit and dynamic.kind is Addressing.SCALAR:
        highest = min(highest, dynamic.limit - 1)
    return range(lowest, highest + 1)


def out_of_range(
    i: Instruction | None, view: NkiTensor, value: int, where: str = ""
) -> AddressOutOfRange:
    """Return the error of an index that leaves the storage of a view; `where` names the partition that has it."""
    valid = valid_indices(view)
    limits = (
        "no index is valid"
        if not valid
        else f"only {valid[0]} is valid"
        if len(valid) == 1
        else f"valid are {valid[0]} to {valid[-1]}"
    )
    offset = f", counted from element {view.offset} on" if view.offset else ""
    return AddressOutOfRange(
        f"{user_of(i)}: index {value}{where} is out of range for {view.storage.describe()}{offset}: {limits}",
        stack=i.stack if i is not None else (),
        help="clip the indices, or pass oob_mode=nisa.oob_mode.skip where the instruction has it",
    )


def _rows(view: NkiTensor, index: np.ndarray) -> DynamicPlaces:
    """Return the places of rows in HBM, each named by one index."""
    assert view.dynamic is not None
    # Several columns are used one after the other (nki/api/nki/isa/__init__.py:907).
    chosen = index.reshape(len(index), -1).T.reshape(-1)[: view.shape[0]]
    free = list(zip(view.shape[1:], view.strides[1:], strict=True))
    low = sum((n - 1) * s for n, s in free if s < 0)
    high = sum((n - 1) * s for n, s in free if s > 0)
    elements = view.storage.nbytes // view.dtype.itemsize
    start = view.offset + chosen * view.dynamic.step
    valid = (chosen >= 0) & (start + low >= 0) & (start + high < elements)
    shape = (elements - high + low, *view.shape[1:])
    window = NkiTensor._make(view.storage, shape, (1, *view.strides[1:]), -low, view.dtype)
    return DynamicPlaces(window, (np.where(valid, start + low, 0),), valid, chosen)


def _elements(i: Instruction | None, view: NkiTensor, index: np.ndarray) -> DynamicPlaces:
    """Return the places of elements along the free axis; a group of partitions shares its offsets."""
    assert view.dynamic is not None
    group = _GROUP_TENSOR if i is not None and i.form.engine is TENSOR else _GROUP
    stack = i.stack if i is not None else ()
    count = view.shape[1]
    held = min(group, len(index)) * index.shape[1]
    if count > held:
        raise AddressOutOfRange(
            f"{user_of(i)}: {count} offsets are used, the index holds {held} for each group of {group}"
            " partitions",
            stack=stack,
            help="pass num_elem to indirect()",
        )
    groups = [index[g : g + group] for g in range(0, len(index), group)]
    if len(groups) > 1 and len(groups[-1]) < min(group, count):
        raise AddressOutOfRange(
            f"{user_of(i)}: {count} offsets are used, but the last group has only {len(groups[-1])} of {group}"
            " partitions to hold them",
            stack=stack,
            help=f"use a multiple of {group} partitions, or pass a smaller num_elem to indirect()",
        )
    chosen = np.concatenate(
        [np.broadcast_to(g.ravel(order="F")[:count], (len(g), count)) for g in groups]
    )
    valid = (chosen >= 0) & (chosen < view.dynamic.limit)
    storage = view.storage
    per_row = storage.row_bytes // view.dtype.itemsize
    first, start = divmod(view.offset, per_row)
    row = np.broadcast_to(first + np.arange(view.shape[0])[:, None], view.shape)
    shape = (storage.partitions, per_row)
    window = NkiTensor._make(storage, shape, contiguous_strides(shape), 0, view.dtype)
    return DynamicPlaces(window, (row, start + np.where(valid, chosen, 0)), valid, chosen)
