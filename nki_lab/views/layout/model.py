"""Data of the layout view: the bytes of a tensor that its slices cover.

A tensor is shown as rows (partitions; in HBM all axes but the last) by elements. The elements a slice
covers are a union of boxes: rows and columns with a step each. The boxes are exact: no element is
left out, none is added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any

import numpy as np

from nki_lab.views.entries import operation_entry, place_entry
from nki_lab.views.run import Slice, Tensor, ViewData
from nki_lab.widgets.packing import pack

#: Boxes and slices of one tensor that are sent to the browser; the rest is counted.
BOXES_SHOWN = 20_000
SLICES_SHOWN = 2_000
#: Instructions named per tensor, and at most per slice and way (read, written).
USES_SHOWN = 1_000
_USES_OF_SLICE = 10
#: Tensors listed.
TENSORS_SHOWN = 3_000


@dataclass(frozen=True)
class Box:
    """Rows and columns with a step each, counted in elements of the slice's own type."""

    row: int
    rows: int
    row_step: int
    column: int
    columns: int
    column_step: int


def boxes(part: Slice, row_elements: int) -> Iterator[Box]:
    """Yield boxes that together hold exactly the elements of a slice, each at least once.

    Args:
        part: the slice.
        row_elements: elements of one row of the tensor, counted in the slice's type.
    """
    axes = _merged(part, row_elements)
    start = part.offset + sum((n - 1) * s for n, s in axes if s < 0)
    axes = sorted(((n, abs(s)) for n, s in axes), key=lambda axis: axis[1])
    across = [axis for axis in axes if axis[1] % row_elements]
    down = [axis for axis in axes if axis[1] % row_elements == 0]
    reach = start % row_elements + sum((n - 1) * s for n, s in across)
    if reach >= row_elements:  # it runs over the end of a row
        yield from _runs(start, axes, row_elements)
        return
    # One axis each way becomes the box; further ones repeat it.
    width, *more_across = across or [(1, 1)]
    height, *more_down = down or [(1, row_elements)]
    for steps in product(*(range(0, n * s, s) for n, s in (*more_down, *more_across))):
        row, column = divmod(start + sum(steps), row_elements)
        yield Box(row, height[0], height[1] // row_elements, column, *width)


def _merged(part: Slice, row_elements: int) -> list[tuple[int, int]]:
    """Return (size, stride) of the axes that move; neighbours that one stride walks are one.

    An axis that walks whole rows stays apart from those that walk inside a row.
    """
    axes: list[tuple[int, int]] = []
    walked = [(n, s) for n, s in zip(part.shape, part.strides, strict=True) if n > 1 and s]
    for size, stride in sorted(walked, key=lambda axis: -abs(axis[1])):
        alike = axes and (axes[-1][1] % row_elements == 0) == (stride % row_elements == 0)
        if alike and axes[-1][1] == size * stride:
            axes[-1] = (axes[-1][0] * size, stride)
        else:
            axes.append((size, stride))
    return axes


def _runs(start: int, axes: list[tuple[int, int]], row_elements: int) -> Iterator[Box]:
    """Yield boxes of a slice that does not respect rows: whole rows, or one stretch of a row each."""
    (size, step), *outer = axes
    for steps in product(*(range(0, n * s, s) for n, s in outer)):
        at, remaining = start + sum(steps), size
        while remaining:
            row, column = divmod(at, row_elements)
            rows, fits = 1, min(remaining, -(-(row_elements - column) // step))
            if step == 1 and column == 0 and remaining >= 2 * row_elements:
                rows, fits = remaining // row_elements, row_elements
            yield Box(row, rows, 1, column, fits, step)
            at += rows * fits * step
            remaining -= rows * fits


def tensor_list(data: ViewData) -> list[dict[str, Any]]:
    """Describe every tensor in a few words, for the list to choose from."""
    tensors = []
    for tensor in data.tensors[:TENSORS_SHOWN]:
        shape = " x ".join(map(str, tensor.shape))
        tensors.append(
            {
                "name": tensor.name,
                "memory": tensor.memory,
                "shape": shape,
                "dtype": tensor.dtype,
                "origin": tensor.origin,
            }
        )
    return tensors


def tensor_layout(data: ViewData, number: int) -> bytes:
    """Return one tensor with the slices that instructions touch, packed."""
    tensor = data.tensors[number]
    slices = data.slices(number)
    rows, row_elements = grid_of(tensor)
    row_bytes = row_elements * tensor.itemsize
    shown = []
    table: list[tuple[int, ...]] = []
    uses = max(1, min(_USES_OF_SLICE, USES_SHOWN // (2 * len(slices) + 1)))
    for part in slices[:SLICES_SHOWN]:
        scale = row_bytes // part.itemsize
        if scale * part.itemsize != row_bytes:
            continue
        space = BOXES_SHOWN - len(table)
        drawn = list(islice(boxes(part, scale), space + 1))
        if len(drawn) > space:
            break
        first = len(table)
        table += [
            (b.row, b.rows, b.row_step, b.column * part.itemsize, b.columns, b.column_step * part.itemsize,
             part.itemsize) for b in drawn
        ]  # fmt: skip
        label = slice_label(tensor, part)
        shown.append(_describe(data, part, uses) | {"label": label, "boxes": [first, len(table)]})
    meta = {
        "number": number,
        "name": tensor.name,
        "memory": tensor.memory,
        "shape": list(tensor.shape),
        "dtype": tensor.dtype,
        "itemsize": tensor.itemsize,
        "on_chip": tensor.on_chip,
        "rows": rows,
        "row_bytes": row_bytes,
        "outer": outer_axes(tensor),
        "nbytes": tensor.nbytes,
        "address": tensor.address,
        "origin": tensor.origin,
        **place_entry(tensor.place),
        "axes": axis_labels(tensor),
        "slices": shown,
        "more": len(slices) - len(shown),
    }
    flat = np.array(table, dtype=np.int64).reshape(-1, 7)
    return pack(
        meta, {"boxes": flat.astype("f8" if tensor.nbytes > 2**31 - 1 else "i4").reshape(-1)}
    )


def grid_of(tensor: Tensor) -> tuple[int, int]:
    """Return rows and elements of a row as a tensor is drawn.

    On chip a row is a partition. In HBM it is the last axis, and all other axes run down: of more than two axes an
    index chooses the outer ones (`outer_axes`).
    """
    if tensor.on_chip or len(tensor.shape) < 2:
        return tensor.rows, tensor.row_elements
    return prod(tensor.shape[:-1]), tensor.shape[-1]


def outer_axes(tensor: Tensor) -> list[dict[str, Any]]:
    """Return the axes that an index chooses: their number, size, and how far one step moves, in rows or bytes."""
    shape = tensor.shape
    axes = []
    if tensor.on_chip:
        for axis in range(1, len(shape) - 1):
            step = prod(shape[axis + 1 :]) * tensor.itemsize
            axes.append({"axis": axis, "size": shape[axis], "step": step, "of": "bytes"})
    else:
        for axis in range(len(shape) - 2):
            step = prod(shape[axis + 1 : -1])
            axes.append({"axis": axis, "size": shape[axis], "step": step, "of": "rows"})
    return axes


def axis_labels(tensor: Tensor) -> list[str]:
    """Say what runs down and what runs across: partition and free axes, or axes of device memory."""
    rank = len(tensor.shape)
    if tensor.on_chip:
        sizes = " x ".join(f"{n:,}" for n in tensor.shape[1:])
        numbers = ", ".join(map(str, range(1, rank)))
        axes = f"{'axis' if rank == 2 else 'axes'} {numbers}"
        return [
            f"partition axis: axis 0 ({tensor.rows:,})",
            f"free {axes}: {sizes} {tensor.dtype} per partition ({tensor.row_bytes:,} bytes)",
        ]
    _, across = grid_of(tensor)
    down = f"axis {rank - 2} ({tensor.shape[-2]:,})" if rank > 1 else ""
    of = " per row" if down else ""
    size = f"{across * tensor.itemsize:,} bytes"
    return [down, f"axis {max(0, rank - 1)}: {across:,} {tensor.dtype}{of} ({size})"]


def slice_label(tensor: Tensor, part: Slice) -> str:
    """Return the index of a slice, or what all of its tensor is: partitions by elements, or elements alone."""
    if "[" in part.text:
        return part.text[part.text.index("[") :]
    if tensor.on_chip:
        return f"all {tensor.rows:,} partitions x {tensor.row_elements:,} elements"
    return f"all {' x '.join(f'{size:,}' for size in tensor.shape)} elements"


def _describe(data: ViewData, part: Slice, uses: int) -> dict[str, Any]:
    return {
        "text": part.text,
        "elements": int(np.prod(part.shape, dtype=np.int64)),
        "shape": list(part.shape),
        "dynamic": part.dynamic,
        "reads": len(part.readers),
        "writes": len(part.writers),
        "uses": [
            operation_entry(data, position) | {"way": way}
            for way, positions in (("reads", part.readers), ("writes", part.writers))
            for position in positions[:uses]
        ],
    }


def first_tensor(tensors: Sequence[Tensor]) -> int:
    """Choose the tensor that is shown first: the first input, else the first of all."""
    for number, tensor in enumerate(tensors[:TENSORS_SHOWN]):
        if tensor.origin == "input":
            return number
    return 0
