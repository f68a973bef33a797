"""Finds the tiles that had a place in on-chip memory before."""

from __future__ import annotations

from bisect import bisect_right

from nki_lab.ir.tensor.storage import Address, Storage

Occupant = tuple[Storage, Address]


class Occupants:
    """The latest tiles at every byte of a partition; several where they lie in different partitions."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._ranges: list[tuple[int, int, tuple[Occupant, ...]]] = []

    def replace(self, storage: Storage, address: Address) -> list[Storage]:
        """Put a tile at its address and return those that had any of its bytes before."""
        low, high = address.byte, address.byte + storage.row_bytes
        start = bisect_right(self._ends, low)
        if start < len(self._ranges):
            first, last, occupants = self._ranges[start]
            if (
                first == low and last == high and len(occupants) == 1
            ):  # tiles of one size take turns
                ((other, place),) = occupants
                if place.partition == address.partition and other.partitions <= storage.partitions:
                    self._ranges[start] = (low, high, ((storage, address),))
                    return [other]
        stop = start
        while stop < len(self._ranges) and self._ranges[stop][0] < high:
            stop += 1
        hit = self._ranges[start:stop]
        before: dict[int, Storage] = {}
        pieces: list[tuple[int, int, tuple[Occupant, ...]]] = []
        top, end = address.partition, address.partition + storage.partitions
        new = (storage, address)
        at = low
        for first, last, occupants in hit:
            kept: tuple[Occupant, ...] = ()
            for occupant in occupants:
                other, place = occupant
                other_end = place.partition + other.partitions
                if place.partition < end and top < other_end:
                    before[other.id] = other
                if place.partition < top or other_end > end:
                    kept = (*kept, occupant)
            if first < low:
                pieces.append((first, low, occupants))
            if kept:
                if at < max(first, low):
                    pieces.append((at, first, (new,)))
                at = min(last, high)
                pieces.append((max(first, low), at, (new, *kept)))
            if last > high:
                if at < high:
                    pieces.append((at, high, (new,)))
                at = last
                pieces.append((high, last, occupants))
        if at < high:
            pieces.append((at, high, (new,)))
        self._ranges[start:stop] = pieces
        self._ends[start:stop] = [p[1] for p in pieces]
        return list(before.values())
