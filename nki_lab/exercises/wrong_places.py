"""Which part of an array is marked, in words: its last column, the rows from 128 on, partition 127?"""

from __future__ import annotations

import numpy as np

_PARTITIONS = 128


def where(mask: np.ndarray) -> str:
    """Return which elements of an array a mask marks, as the subject of a sentence."""
    count = int(mask.sum())
    first = [int(n) for n in np.argwhere(mask)[0]]
    if count == 1:
        return f"element {first}"
    if mask.all():
        return "all elements"
    if mask.ndim == 2:
        rows: np.ndarray = np.all(mask, axis=1)
        columns: np.ndarray = np.all(mask, axis=0)
        if columns.any() and np.array_equal(mask, np.broadcast_to(columns, mask.shape)):
            return _axis("column", columns)
        if rows.any() and np.array_equal(mask, np.broadcast_to(rows[:, None], mask.shape)):
            return _axis("row", rows)
    return f"{count} of {mask.size} elements (the first at {first})"


def _axis(name: str, marked: np.ndarray) -> str:
    at = np.flatnonzero(marked)
    size = len(marked)
    first, last, count = int(at[0]), int(at[-1]), len(at)
    if count == 1:
        which = "last" if first == size - 1 else "first" if first == 0 else ""
        return f"all elements of the {which} {name}" if which else f"all elements of {name} {first}"
    if last == size - 1 and count == size - first:
        tile = (
            f" (all but the first tile of {first})"
            if first == _PARTITIONS and name == "row"
            else ""
        )
        return f"the {name}s from {first} on{tile}"
    if count == last - first + 1:
        return f"the {name}s {first} to {last}"
    steps = set(np.diff(at).tolist())
    if len(steps) == 1:
        return f"every {_ordinal(steps.pop())} {name}, from {first} on,"
    return f"{count} of {size} {name}s (the first is {first})"


def _ordinal(n: int) -> str:
    return {2: "second", 3: "third", 4: "fourth"}.get(n, f"{n}th")
