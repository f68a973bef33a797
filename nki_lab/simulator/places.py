"""Where is each element of a view that a tile of indices addresses?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nki_lab.errors import AddressOutOfRange
from nki_lab.ir.dynamic import Addressing
from nki_lab.ir.instruction import Instruction
from nki_lab.ir.layout import contiguous_strides
from nki_lab.ir.tensor import NkiTensor
from nki_lab.targets.engines import TENSOR

_GROUP, _GROUP_TENSOR = 16, 32  # nki/api/nki/language/__init__.py, NkiTensor.indirect


class Places(NamedTuple):
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


def places_of(i: Instruction | None, view: NkiTensor, index: np.ndarray) -> Places:
    """Return where the elements of `view` are; `index` is what its tile of indices holds."""
    dynamic = view.dynamic
    assert dynamic is not None
    index = index.astype(np.int64)
    if dynamic.kind is Addressing.VECTOR:
        return _rows(view, index)
    return _elements(i, view, index)


def _rows(view: NkiTensor, index: np.ndarray) -> Places:
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
    return Places(window, (np.where(valid, start + low, 0),), valid, chosen)


def _elements(i: Instruction | None, view: NkiTensor, index: np.ndarray) -> Places:
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
    return Places(window, (row, start + np.where(valid, chosen, 0)), valid, chosen)
