"""Computes what occupies an on-chip memory over the program: free bytes, peaks and overlaps.

Occupancy     the tiles of one memory as columns
Overlap       two tiles that have bytes in common while both are in use
FreeBytes     what no tile covers at a moment, and in how many stretches
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nki_lab.profiler import intervals
from nki_lab.targets import Target
from nki_lab.views.run import ViewData

#: The most overlapping pairs that are listed.
OVERLAPS_TOLD = 100
#: Tiles among which overlaps are looked for.
OVERLAP_TILES = 20_000

#: Why addresses go higher than the bytes in use at one time; compiler/passes/allocate.py does it.
PLACES_TAKEN = (
    "a tile gets the address that has been free for longest,"
    " so that fewer instructions wait for an earlier tile"
)
#: What tells the most bytes of this view from the peak of a report.
IN_TIME = (
    "in program order one instruction follows the other; in time loads run ahead, and more tiles are in use together:"
    " the report has that peak"
)


class Overlap(NamedTuple):
    """Two tiles with bytes in common.

    Attributes:
        one, other: their numbers among the tiles; `one` is in use first.
        first, last: instructions during which both are in use.
        address, size: bytes they have in common, within a partition.
    """

    one: int
    other: int
    first: int
    last: int
    address: int
    size: int


class FreeBytes(NamedTuple):
    """Bytes that no tile covers in any partition.

    Attributes:
        free: how many there are.
        largest: the longest stretch of them, which is the largest tile of all partitions that still fits.
        stretches: how many stretches there are.
    """

    free: int
    largest: int
    stretches: int

    @property
    def fragmentation(self) -> float:
        """Share of the free bytes that lie outside the longest stretch: 0 where they are in one piece."""
        return 1 - self.largest / self.free if self.free else 0.0


@dataclass(frozen=True, eq=False)
class Occupancy:
    """The tiles of one on-chip memory that are used, as columns.

    Attributes:
        memory: "sbuf" or "psum".
        tensor: numbers of the tensors.
        first, last: first and last instruction that touch each.
        address, size: first byte and bytes, within a partition.
        partition, partitions: first partition and their number.
    """

    memory: str
    tensor: np.ndarray
    first: np.ndarray
    last: np.ndarray
    address: np.ndarray
    size: np.ndarray
    partition: np.ndarray
    partitions: np.ndarray

    def in_use(self, partition: int) -> tuple[np.ndarray, np.ndarray]:
        """Return at which instructions the bytes in use in a partition change, and to how many."""
        here = (self.partition <= partition) & (partition < self.partition + self.partitions)
        return intervals.steps(self.first[here], self.last[here] + 1, self.size[here])

    def peak(self, partitions: int) -> tuple[int, int]:
        """Return the most bytes in use in any one partition, and the first instruction at which that holds."""
        moments, used = self.in_use(self.fullest(partitions))
        return (int(used.max()), int(moments[np.argmax(used)])) if len(used) else (0, 0)

    def fullest(self, partitions: int) -> int:
        """Return the first partition with the most bytes in use at one time."""
        best, fullest = 0, 0
        starts = np.unique(np.concatenate((self.partition, self.partition + self.partitions)))
        for partition in starts[starts < partitions].tolist():  # nothing changes in between
            most = int(self.in_use(partition)[1].max(initial=0))
            if most > best:
                best, fullest = most, partition
        return fullest

    def live(self, instruction: int) -> np.ndarray:
        """Return the numbers of the tiles that are in use at an instruction."""
        return np.flatnonzero((self.first <= instruction) & (instruction <= self.last))

    def free(self, instruction: int, usable: int) -> FreeBytes:
        """Return what is free at an instruction of the `usable` bytes that each partition has."""
        live = self.live(instruction)
        start = np.minimum(self.address[live], usable)
        end = np.minimum(start + self.size[live], usable)
        covered = intervals.merge(start, end)
        edges = np.concatenate(([0], np.stack(covered, 1).reshape(-1), [usable]))
        gaps = edges[1::2] - edges[::2]
        gaps = gaps[gaps > 0]
        return FreeBytes(int(gaps.sum()), int(gaps.max(initial=0)), len(gaps))

    def overlaps(self, limit: int = OVERLAPS_TOLD) -> list[Overlap] | None:
        """Return pairs of tiles with bytes in common while both are in use, at most `limit`.

        Among more than OVERLAP_TILES tiles they are not looked for, and this is None.
        """
        if len(self.tensor) > OVERLAP_TILES:
            return None
        overlaps: list[Overlap] = []
        order = np.lexsort((self.address, self.first))
        active = order[:0]
        for k in order.tolist():
            active = active[self.last[active] >= self.first[k]]
            low = np.maximum(self.address[active], self.address[k])
            high = np.minimum(
                self.address[active] + self.size[active], self.address[k] + self.size[k]
            )
            rows = np.minimum(
                self.partition[active] + self.partitions[active],
                self.partition[k] + self.partitions[k],
            ) - np.maximum(self.partition[active], self.partition[k])
            for n in np.flatnonzero((low < high) & (rows > 0)).tolist():
                other = int(active[n])
                last = min(int(self.last[other]), int(self.last[k]))
                overlaps.append(
                    Overlap(other, k, int(self.first[k]), last, int(low[n]), int(high[n] - low[n]))
                )
                if len(overlaps) == limit:
                    return overlaps
            active = np.append(active, k)
        return overlaps


def usable_bytes(target: Target) -> dict[str, int]:
    """Return how many bytes of a partition kernels have of each on-chip memory."""
    return {
        "sbuf": target.sbuf_usable_bytes_per_partition,
        "psum": target.psum_bytes_per_partition,
    }


def occupancy(data: ViewData, memory: str) -> Occupancy:
    """Return the tiles of `memory` that have an address and are touched."""
    rows = []
    for number, tensor in enumerate(data.tensors):
        if tensor.memory == memory and tensor.address is not None and tensor.lifetime is not None:
            partition, byte = tensor.address
            rows.append((number, *tensor.lifetime, byte, tensor.row_bytes, partition, tensor.rows))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 7).T
    return Occupancy(memory, *columns)
