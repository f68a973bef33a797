"""Finds the elements that each operand of an instruction reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import prod
from typing import Any

import numpy as np

from nki_lab.views.entries import operation_entry
from nki_lab.views.layout.model import Box, boxes, grid_of
from nki_lab.views.run import ShownAccess, Slice, Tensor, ViewData, contracted
from nki_lab.widgets.packing import pack

#: Boxes of one instruction that are sent; the elements beyond are counted only.
BOXES_SENT = 20_000
#: Operands whose address the device computes are drawn element by element up to this size.
_GATHERED_ELEMENTS = 1 << 18


def access_parts(data: ViewData, position: int) -> bytes:
    """Return the operands of an instruction with the elements they stand for, packed."""
    accesses = data.accesses(position)
    summed = contracted(accesses)
    table: list[tuple[int, ...]] = []
    operands = []
    for k, access in enumerate(accesses):
        tensor = data.tensors[access.tensor]
        entry = _describe(access, tensor, summed)
        parts, note = _boxes(data, position, k, access, tensor)
        first = len(table)
        kept = list(islice(parts, max(0, BOXES_SENT - first) + 1))
        if len(kept) > BOXES_SENT - first:
            note = note or "too many separate elements to draw: the first are drawn"
            kept = kept[: BOXES_SENT - first]
        size = access.itemsize
        table += [
            (b.row, b.rows, b.row_step, b.column * size, b.columns, b.column_step * size, size)
            for b in kept
        ]
        operands.append(entry | {"boxes": [first, len(table)], "note": note})
    meta = operation_entry(data, position) | {
        "count": len(data.operations),
        "operands": operands,
        "contracted": summed,
        "multiplies": bool(summed),
    }
    flat = np.array(table, dtype=np.int64).reshape(-1)
    large = bool(len(flat)) and int(np.abs(flat).max()) > 2**31 - 1
    return pack(meta, {"boxes": flat.astype("f8" if large else "i4")})


def axis_facts(access: ShownAccess, on_chip: bool, summed: str) -> list[dict[str, Any]]:
    """Say for each axis of a view what it is: partition or free, broadcast, summed over, reduced, or computed."""
    facts = []
    for axis, (size, stride) in enumerate(zip(access.shape, access.strides, strict=True)):
        name = access.names[0] if axis == 0 else access.names[1]
        words = []
        if on_chip:
            words.append("partition" if axis == 0 else "free")
        if name:
            words.append(f"{name}, summed over" if name == summed else name)
        if axis in access.along:
            words.append(access.along[axis])
        if access.per_partition and axis == 1:
            words.append("one value for each partition")
        if stride == 0 and size > 1:
            words.append("broadcast")
        elif stride < 0:
            words.append("backwards")
        elif axis == len(access.shape) - 1 and stride > 1 and size > 1:
            words.append(f"every {stride}th element")
        gather = access.gather
        if gather is not None and gather.kind == "vector" and axis == 0:
            words.append(f"rows that {gather.index} names")
        if gather is not None and gather.kind == "elements" and axis == 1:
            words.append(f"elements that {gather.index} names")
        facts.append({"size": size, "stride": stride, "words": ", ".join(words)})
    return facts


def runs_of(elements: np.ndarray, row_elements: int) -> list[Box]:
    """Return boxes that hold exactly the given elements: stretches of rows, negative numbers left out."""
    numbers = np.unique(elements[elements >= 0])
    if not len(numbers):
        return []
    new_run = np.diff(numbers) != 1
    new_run |= numbers[1:] % row_elements == 0
    starts = np.concatenate(([0], np.flatnonzero(new_run) + 1))
    ends = np.concatenate((starts[1:], [len(numbers)]))
    return [
        Box(int(numbers[a]) // row_elements, 1, 1, int(numbers[a]) % row_elements, int(b - a), 1)
        for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    ]


def _boxes(
    data: ViewData, position: int, k: int, access: ShownAccess, tensor: Tensor
) -> tuple[Sequence[Box] | Any, str]:
    _, row_elements = grid_of(tensor)
    scale = row_elements * tensor.itemsize // access.itemsize
    if scale * access.itemsize != row_elements * tensor.itemsize:
        return [], "its elements do not fit into the rows of the tensor"
    if access.gather is None:
        shape, strides = access.shape, access.strides
        return boxes(Slice("", shape, strides, access.offset, access.itemsize), scale), ""
    if prod(access.shape) > _GATHERED_ELEMENTS:
        return [], "too many elements with separate addresses to draw"
    places = data.places(position, k)
    if places is None:
        return [], f"where it lies is decided by {access.gather.index} while the kernel runs"
    lost = int((places < 0).sum())
    notes = [f"{lost:,} elements have an index out of range"] if lost else []
    passes = int((data.steps.order == position).sum())
    if passes > 1:
        notes.append(f"drawn where it lies in the first of its {passes:,} passes")
    return runs_of(places.reshape(-1), scale), "; ".join(notes)


def _describe(access: ShownAccess, tensor: Tensor, summed: str) -> dict[str, Any]:
    gather = access.gather
    touched = prod(access.shape)
    distinct = prod(n for n, s in zip(access.shape, access.strides, strict=True) if s)
    rows, row_elements = grid_of(tensor)
    return {
        "operand": access.operand,
        "way": access.way,
        "number": access.tensor,
        "name": tensor.name,
        "memory": tensor.memory,
        "dtype": access.dtype,
        "text": access.text,
        "tensor_shape": list(tensor.shape),
        "tensor_dtype": tensor.dtype,
        "itemsize": access.itemsize,
        "tensor_itemsize": tensor.itemsize,
        "rows": rows,
        "row_bytes": row_elements * tensor.itemsize,
        "on_chip": tensor.on_chip,
        "address": tensor.address,
        "shape": list(access.shape),
        "strides": list(access.strides),
        "offset": access.offset,
        "axes": axis_facts(access, tensor.on_chip, summed),
        "elements": touched,
        "repeats": touched // max(1, distinct) if gather is None else 1,
        "gather": None
        if gather is None
        else {
            "kind": gather.kind,
            "index": gather.index,
            "step": gather.step,
            "limit": gather.limit,
        },
    }
