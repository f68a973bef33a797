"""Data of the stepper: the executed instructions, and the values around one of them.

A small operand is sent element by element, of a large one a picture: the mean of the finite values of equal blocks,
with a mark where a block holds a NaN or an infinity, so that none is overlooked. Elements of a large operand are
looked up through a window of a few rows and columns.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nki_lab.views.entries import operation_entry, place_entry
from nki_lab.views.run import StepOperand, ViewData
from nki_lab.views.stepper.summary import TOGETHER, as_numbers, summarize
from nki_lab.widgets.packing import pack, smallest

#: Executed instructions up to which the browser is given their order, in which it searches.
ORDER_SHOWN = 4_000_000
#: Operands up to this size are tables, larger ones pictures with this number of blocks.
TABLE_ROWS, TABLE_COLUMNS = 16, 16
PICTURE_ROWS, PICTURE_COLUMNS = 64, 128
#: Rows and columns of a window on a large operand.
WINDOW_ROWS, WINDOW_COLUMNS = 8, 8
#: Executed instructions listed before and after the one that is shown.
BEFORE, AFTER = 5, 6
#: Tensors offered to be watched.
TENSORS_SHOWN = 3_000
#: Level of a picture that stands for 0.
LEVELS = 32_767
#: Marks of blocks that hold a NaN, an infinity, and of those that nothing had written.
NAN, INFINITE, UNWRITTEN = 1, 2, 4
_PRINTED_LETTERS = 4_000
#: Time that one answer to a search may take.
SEARCH_SECONDS = 1.0
_SEARCHED_TOGETHER = 64


def stepper_overview(data: ViewData) -> bytes:
    """Return what the stepper knows before it looks at an instruction, packed."""
    steps = data.steps
    count = len(steps.order)
    meta: dict[str, Any] = {
        "problem": steps.problem,
        "note": steps.note,
        "count": count,
        "searchable": 0 < count <= ORDER_SHOWN,
        "places": [],
        "tensors": [
            {
                "name": t.name,
                "kind": f"{' x '.join(map(str, t.shape))} {t.dtype}",
                "memory": t.memory,
            }
            for t in data.tensors[:TENSORS_SHOWN]
        ],
    }
    if not meta["searchable"]:
        return pack(meta)
    lines, places = data.lines if data.lines is not None else (np.zeros(0, np.int64), [])
    meta["places"] = [[place.heading, place.text] for place in places]
    touched: list[tuple[int, int, int]] = []
    for number in range(len(data.tensors)):
        for part in data.slices(number):
            touched += [(position, number, 0) for position in part.readers]
            touched += [(position, number, 1) for position in part.writers]
    table = np.array(sorted(set(touched)), dtype=np.int64).reshape(-1, 3)
    arrays = {
        "order": smallest(steps.order.astype(np.int64)),
        "line": smallest(lines.astype(np.int64) + 1),
        "touchPosition": smallest(table[:, 0]),
        "touchTensor": smallest(table[:, 1]),
        "touchWrites": table[:, 2].astype("u1"),
    }
    return pack(meta, arrays)


def stepper_step(data: ViewData, number: int) -> bytes:
    """Return one executed instruction with the values around it and its neighbours, packed."""
    step = data.steps.at(number)
    arrays: dict[str, np.ndarray] = {}
    meta = _instruction(data, number) | {
        "passes": [
            {
                **place_entry(p.place),
                "number": p.number,
                "total": p.total,
                "register": p.register,
                "value": p.value,
            }
            for p in step.passes
        ],
        "registers": dict(step.registers),
        "set": dict(step.registers_set),
        "printed": step.printed[:_PRINTED_LETTERS],
        "error": step.error,
        "operands": [_operand(operand, arrays) for operand in step.operands],
        "around": [
            _instruction(data, n)
            for n in range(max(0, number - BEFORE), min(len(data.steps.order), number + AFTER + 1))
        ],
    }
    return pack(meta, arrays)


def stepper_window(
    data: ViewData, number: int, operand: int, after: bool, row: int, column: int
) -> bytes:
    """Return the elements of a few rows and columns of an operand, packed; nothing where it has no values."""
    step = data.steps.at(number)
    chosen = step.operands[operand]
    values = chosen.after if after else chosen.before
    if values is None:
        return pack({"rows": 0, "columns": 0})
    grid = _grid(values)[row : row + WINDOW_ROWS, column : column + WINDOW_COLUMNS]
    numbers = as_numbers(grid)
    unwritten = None
    if chosen.unwritten is not None and not after:
        unwritten = _grid(chosen.unwritten)[
            row : row + WINDOW_ROWS, column : column + WINDOW_COLUMNS
        ]
    meta = {"row": row, "column": column, "rows": grid.shape[0], "columns": grid.shape[1]}
    return pack(meta, {"cells": _clean(numbers), "marks": _marks(numbers, unwritten)})


def not_finite(data: ViewData, start: int) -> bytes:
    """Look for an instruction that writes a NaN or an infinity, from `start` on; return it and how far was looked.

    A search takes a second or so at a time, so that the kernel can do other things and somebody can stop it.
    """
    count = len(data.steps.order)
    until = time.monotonic() + SEARCH_SECONDS
    position, looked = None, start
    while position is None and looked < count and (looked == start or time.monotonic() < until):
        end = min(count, looked + _SEARCHED_TOGETHER)
        position = data.steps.next_not_finite(looked, end)
        looked = end if position is None else position + 1
    return pack({"number": position, "looked": looked, "count": count})


def _instruction(data: ViewData, number: int) -> dict[str, Any]:
    return {"number": number} | operation_entry(data, int(data.steps.order[number]))


def _operand(operand: StepOperand, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    return {
        "name": operand.name,
        "text": operand.text,
        "tensor": operand.tensor,
        "way": operand.way,
        "shape": list(operand.shape),
        "dtype": operand.dtype,
        "memory": operand.memory,
        "skipped": operand.skipped,
        "before": _values(operand.before, operand.unwritten, arrays),
        "after": _values(operand.after, None, arrays) if operand.way != "reads" else None,
        "changed": _changed(operand),
    }


def _changed(operand: StepOperand) -> int | None:
    """Return how many elements an instruction has given other values; None where that is not known."""
    old, new = operand.before, operand.after
    if operand.way == "reads" or old is None or new is None or old.shape != new.shape:
        return None
    a, b = old.reshape(-1), new.reshape(-1)
    missing = None if operand.unwritten is None else operand.unwritten.reshape(-1)
    spans = (slice(k, k + TOGETHER) for k in range(0, old.size, TOGETHER))
    return sum(_differing(a[s], b[s], None if missing is None else missing[s]) for s in spans)


def _differing(old: np.ndarray, new: np.ndarray, unwritten: np.ndarray | None) -> int:
    a, b = as_numbers(old), as_numbers(new)
    other = (a != b) & ~(np.isnan(a) & np.isnan(b))
    return int((other if unwritten is None else other | unwritten).sum())


def _values(
    values: np.ndarray | None, unwritten: np.ndarray | None, arrays: dict[str, np.ndarray]
) -> dict[str, Any] | None:
    """Describe values; their elements or picture go to `arrays`, under the key in the description."""
    if values is None:
        return None
    grid = _grid(values)
    rows, columns = grid.shape
    missing = None if unwritten is None else _grid(unwritten)
    summary = summarize(grid if missing is None else grid[~missing])
    meta: dict[str, Any] = {
        "rows": rows,
        "columns": columns,
        "least": summary.least,
        "most": summary.most,
        "nan": summary.nan,
        "infinite": summary.infinite,
        "unwritten": grid.size - summary.size,
        "key": f"v{len(arrays) // 2}",
    }
    if rows <= TABLE_ROWS and columns <= TABLE_COLUMNS:
        meta["picture"] = None
        numbers = as_numbers(grid)
        cells, marks = _clean(numbers), _marks(numbers, missing)
    else:
        down, across = block_edges(rows, PICTURE_ROWS), block_edges(columns, PICTURE_COLUMNS)
        meta["picture"] = [len(down), len(across)]
        mean, marked = coarse(grid, missing, down, across)
        cells, marks = mean.reshape(-1), marked.astype("u1").reshape(-1)
        cells, meta["scale"] = _levels(cells)
    arrays[f"{meta['key']}.cells"] = cells
    arrays[f"{meta['key']}.marks"] = marks
    return meta


def _grid(values: np.ndarray) -> np.ndarray:
    """Return values as rows and columns: the first axis down, all others across."""
    if values.ndim == 0:
        return values.reshape(1, 1)
    return values.reshape(len(values), -1) if values.size else values.reshape(0, 0)


def _clean(numbers: np.ndarray) -> np.ndarray:
    return np.nan_to_num(numbers, nan=0.0, posinf=1.0, neginf=-1.0).reshape(-1)


def _marks(numbers: np.ndarray, unwritten: np.ndarray | None) -> np.ndarray:
    marks = np.isnan(numbers) * NAN + np.isinf(numbers) * INFINITE
    if unwritten is not None:
        marks = np.where(unwritten, UNWRITTEN, marks)
    return marks.astype("u1").reshape(-1)


def coarse(
    values: np.ndarray, unwritten: np.ndarray | None, down: np.ndarray, across: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the finite values of blocks, and the marks of what else they hold.

    Args:
        values: rows and columns.
        unwritten: elements that nothing had written, or None.
        down, across: first row and first column of every block.
    """
    for axis, edges in ((0, down), (1, across)):
        if (
            values.size > TOGETHER and len(edges) > 1
        ):  # half and half, so that little is float64 at once
            half = len(edges) // 2
            parts = []
            for first, end in ((0, half), (half, len(edges))):
                at = slice(edges[first], edges[end] if end < len(edges) else None)
                part = (at, slice(None)) if axis == 0 else (slice(None), at)
                widths = edges[first:end] - edges[first]
                missing = None if unwritten is None else unwritten[part]
                sides = (widths, across) if axis == 0 else (down, widths)
                parts.append(coarse(values[part], missing, *sides))
            (a, b), (c, d) = parts
            return np.concatenate((a, c), axis), np.concatenate((b, d), axis)
    numbers = as_numbers(values)
    is_written = np.ones(numbers.shape, bool) if unwritten is None else ~unwritten

    def added(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.add.reduceat(values, down, 0), across, 1)

    finite = np.isfinite(numbers) & is_written
    count = added(finite.astype(np.int64))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = added(np.where(finite, numbers, 0.0) / np.maximum(1, count.max(initial=1)))
        mean *= count.max(initial=1) / np.maximum(count, 1)
    marks = (added((np.isnan(numbers) & is_written).astype(np.int64)) > 0) * NAN
    marks = marks + (added((np.isinf(numbers) & is_written).astype(np.int64)) > 0) * INFINITE
    marks = np.where(added(is_written.astype(np.int64)) == 0, UNWRITTEN, marks)
    return np.nan_to_num(mean), marks


def _levels(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return values as 16-bit levels from -scale (0) over 0 (LEVELS) to scale (2 * LEVELS), and the scale."""
    scale = float(np.abs(values).max(initial=0.0)) or 1.0
    return np.rint(values / scale * LEVELS + LEVELS).astype("u2"), scale


def block_edges(count: int, most: int) -> np.ndarray:
    """Return the first of every block, where `count` things fall into at most `most` blocks."""
    blocks = min(count, most)
    return (np.arange(blocks) * count) // max(blocks, 1)
