"""Finds the places in memory that are only used as a whole, and the order of their uses.

Most tiles are: every access is to the same rectangle, and tiles that take turns at a place are of one kind. There it is
enough to know the order of accesses, which columns give for the whole program at once.
"""

from __future__ import annotations

import numpy as np

from nki_lab.ir.program.nodes import Dependences, Kernel
from nki_lab.ir.tensor.footprint import footprint
from nki_lab.targets.spaces import PSUM, SBUF


def whole_places(kernel: Kernel) -> np.ndarray:
    """Return, per storage id, the number of its place where that is used as a whole, else -1."""
    touches, addresses = kernel.touches, kernel.addresses or {}
    shared = {member for group in kernel.overlaps for member in group}
    numbers: dict[object, int] = {}
    place = np.full(len(kernel.storages), -1, np.int64)
    for key in dict.fromkeys(touches.storage.tolist()):
        storage = kernel.storages[key]
        if key in shared:
            continue
        at = addresses.get(key)
        kind = key if at is None else (storage.buffer, at, storage.row_bytes, storage.partitions)
        place[key] = numbers.setdefault(kind, len(numbers))
    used = place[touches.storage]
    # Rectangles are compared by identity: most equal ones are one object, and where not, only time is lost.
    boxes = np.array([id(view.box or footprint(view)) for view in touches.views], np.int64)
    used, boxes = used[used >= 0], boxes[used >= 0]
    least, most = (np.zeros(len(numbers), np.int64) for _ in range(2))
    least[used] = most[used] = boxes
    np.minimum.at(least, used, boxes)
    np.maximum.at(most, used, boxes)
    whole = np.append(least == most, False)  # the last one stands for no place
    whole[_meeting(kernel, place)] = False
    place[~whole[place]] = -1
    return place


def _meeting(kernel: Kernel, place: np.ndarray) -> list[int]:
    """Return the numbers of the places some of whose bytes belong to other ones, too."""
    meeting: set[int] = set()
    for space in (SBUF, PSUM):
        ranges = set()
        for key, address in (kernel.addresses or {}).items():
            storage = kernel.storages[key]
            if storage.buffer is space:
                ranges.add((address.byte, address.byte + storage.row_bytes, int(place[key])))
        end, last = -1, -1
        for low, high, number in sorted(ranges):
            if low < end:
                meeting |= {number, last}
            if high > end:
                end, last = high, number
    return sorted(meeting - {-1})


def dependences_in(kernel: Kernel, place: np.ndarray) -> Dependences:
    """Return who follows whom because of bytes in places with a number."""
    touches = kernel.touches
    inside = np.flatnonzero(place[touches.storage] >= 0)
    where, at = place[touches.storage[inside]], touches.at[inside]
    writes, reads = touches.writes[inside], touches.reads[inside] & ~touches.writes[inside]
    # By place, then in program order; an instruction reads before it writes.
    order = np.lexsort((writes, at, where))
    where, at, writes, reads = where[order], at[order], writes[order], reads[order]
    number = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(writes, number, -1))
    writer = np.concatenate(([-1], latest[:-1]))[: len(order)]  # the latest one before each access
    after_write = (writer >= 0) & (where[writer] == where)
    following = np.minimum.accumulate(np.where(writes, number, len(order))[::-1])[::-1]
    overwritten = reads & (following < len(order))
    overwritten[overwritten] = where[following[overwritten]] == where[overwritten]
    before = np.concatenate((at[writer[after_write]], at[overwritten]))
    after = np.concatenate((at[after_write], at[following[overwritten]]))
    result = np.concatenate((reads[after_write], np.zeros(np.count_nonzero(overwritten), bool)))
    other = before != after
    return Dependences(before[other], after[other], result[other])
