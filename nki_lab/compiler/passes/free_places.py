"""Chooses a free place for a new tile."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nki_lab.ir.program.lifetimes import Lifetime

_NEVER = -1


class FreePlaces:
    """Free byte ranges of one memory, each with the time it was last used.

    A tile first takes memory nobody has used, then the place of its own size that has been free the longest; only
    when neither is there are neighbouring places joined. The common case costs a few operations.
    """

    def __init__(self, capacity: int, taken: Sequence[tuple[int, int]]) -> None:
        self._unused: list[tuple[int, int]] = []
        low = 0
        for start, end in taken:
            if low < min(start, capacity):
                self._unused.append((low, min(start, capacity)))
            low = max(low, end)
        if low < capacity:
            self._unused.append((low, capacity))
        self._largest_unused = capacity
        self._by_size: dict[int, deque[tuple[int, int]]] = {}

    def take(self, size: int, align: int) -> int | None:
        """Return the first byte of a free place of `size` bytes, or None."""
        if size <= self._largest_unused:
            for n, (low, high) in enumerate(self._unused):
                start = -(-low // align) * align
                if start + size <= high:
                    if start > low:
                        self._keep(low, start, _NEVER)
                    self._unused[n : n + 1] = [(start + size, high)] if start + size < high else []
                    return start
            self._largest_unused = max((high - low for low, high in self._unused), default=0)
        same = self._by_size.get(size)
        if same and same[0][0] % align == 0:
            return same.popleft()[0]
        return self._take_joined(size, align)

    def give_back(self, byte: int, size: int, time: int) -> None:
        """Note that the place at `byte` is free since `time`."""
        self._keep(byte, byte + size, time)

    def _keep(self, low: int, high: int, time: int) -> None:
        self._by_size.setdefault(high - low, deque()).append((low, time))

    def _take_joined(self, size: int, align: int) -> int | None:
        pieces = [(low, high, _NEVER) for low, high in self._unused]
        pieces += [
            (low, low + length, time)
            for length, kept in self._by_size.items()
            for low, time in kept
        ]
        pieces.sort()
        best: tuple[int, int, int] | None = None  # (latest use, start, index of the first piece)
        for n, (low, _, _) in enumerate(pieces):
            start = -(-low // align) * align
            latest, end, k = _NEVER, low, n
            while k < len(pieces) and pieces[k][0] == end and end < start + size:
                latest, end = max(latest, pieces[k][2]), pieces[k][1]
                k += 1
            if end >= start + size and (best is None or (latest, start) < best[:2]):
                best = (latest, start, n)
        if best is None:
            return None
        _, start, _ = best
        self._unused = []
        self._by_size = {}
        for low, high, time in pieces:
            for a, b in ((low, min(high, start)), (max(low, start + size), high)):
                if a < b:
                    if time == _NEVER:
                        self._unused.append((a, b))
                    else:
                        self._keep(a, b, time)
        self._largest_unused = max((high - low for low, high in self._unused), default=0)
        for kept in self._by_size.values():
            ordered = sorted(kept, key=lambda entry: entry[1])
            kept.clear()
            kept.extend(ordered)
        return start


def lowest_places(
    wanted: Sequence[tuple[int, int, int, Lifetime]],
    reserved: Sequence[tuple[int, int, Lifetime]],
    capacity: int,
    heirs: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, int] | None:
    """Place tiles as low as possible, around what is in use at the same time.

    Args:
        wanted: (key, bytes, alignment, lifetime), in order of first use.
        reserved: (first byte, end byte, lifetime) of what is placed already.
        capacity: bytes of the memory.
        heirs: key -> key of what hands its place over in the first use, where that is not reserved for later.

    Returns:
        Key -> first byte, or None where they do not fit this way.
    """
    result: dict[int, int] = {}
    active: list[tuple[int, int, int]] = []  # (first byte, end byte, last use)
    for key, size, align, life in wanted:
        active = [a for a in active if a[2] >= life.first]
        later = [(a, b) for a, b, r in reserved if r.first <= life.last and r.last >= life.first]
        blocked = sorted([(a, b) for a, b, _ in active] + later)
        start = result[heirs[key]] if key in heirs else 0
        if key in heirs and not any(a < start + size and start < b for a, b in later):
            result[key] = start
            active.append((start, start + size, life.last))
            continue
        start = 0
        for low, high in blocked:
            if high <= start:
                continue
            if low - start >= size:
                break
            start = -(-max(start, high) // align) * align
        if start + size > capacity:
            return None
        result[key] = start
        active.append((start, start + size, life.last))
    return result
