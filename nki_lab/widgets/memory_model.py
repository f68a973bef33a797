"""Who occupies which bytes of SBUF and PSUM, from which instruction to which?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_lab.profiler import intervals
from nki_lab.profiler.view_data import ViewData
from nki_lab.profiler.view_text import PLACES_TAKEN
from nki_lab.widgets.packing import pack, smallest


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
        """Return the most bytes in use in any one partition, and the first instruction with so many."""
        best, moment = 0, 0
        starts = np.unique(np.concatenate((self.partition, self.partition + self.partitions)))
        for partition in starts[starts < partitions].tolist():  # nothing changes in between
            moments, used = self.in_use(partition)
            if len(used) and int(used.max()) > best:
                best, moment = int(used.max()), int(moments[np.argmax(used)])
        return best, moment


def occupancy(data: ViewData, memory: str) -> Occupancy:
    """Return the tiles of `memory` that have an address and are touched."""
    rows = []
    for number, tensor in enumerate(data.tensors):
        if tensor.memory == memory and tensor.address is not None and tensor.lifetime is not None:
            partition, byte = tensor.address
            rows.append((number, *tensor.lifetime, byte, tensor.row_bytes, partition, tensor.rows))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 7).T
    return Occupancy(memory, *columns)


def memory_map(data: ViewData) -> bytes:
    """Return both on-chip memories with their tiles and limits, packed."""
    target = data.profile.target
    limits = {
        "sbuf": (
            target.sbuf_bytes_per_partition, target.sbuf_usable_bytes_per_partition, 0
        ),
        "psum": (
            target.psum_bytes_per_partition, target.psum_bytes_per_partition, target.psum_bank_bytes
        ),
    }  # fmt: skip
    memories: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    names: dict[str, int] = {}
    places: dict[tuple[str, str], int] = {}
    for memory, (capacity, usable, bank) in limits.items():
        tiles = occupancy(data, memory)
        tensors = [data.tensors[n] for n in tiles.tensor.tolist()]
        peak, moment = tiles.peak(target.partitions)
        end = int((tiles.address + tiles.size).max(initial=0))
        memories[memory] = {
            "capacity": capacity,
            "usable": usable,
            "bank": bank,
            "peak": peak,
            "peak_at": moment,
            "end": end,
            "tiles": len(tensors),
            "partitions": target.partitions,
        }
        made = [(t.place.heading, t.place.text) if t.place else ("", "") for t in tensors]
        columns = {
            "tensor": tiles.tensor,
            "name": np.array([names.setdefault(t.name, len(names)) for t in tensors]),
            "kind": np.array([names.setdefault(f"{list(t.shape)} {t.dtype}", len(names)) for t in tensors]),
            "place": np.array([places.setdefault(place, len(places)) for place in made]),
            "first": tiles.first,
            "last": tiles.last,
            "address": tiles.address,
            "size": tiles.size,
            "partition": tiles.partition,
            "partitions": tiles.partitions,
        }  # fmt: skip
        for name, column in columns.items():
            arrays[f"{memory}.{name}"] = smallest(column.astype(np.int64))
    meta = {
        "memories": memories,
        "operations": len(data.operations),
        "note": PLACES_TAKEN,
        "names": list(names),
        "places": [list(place) for place in places],
    }
    return pack(meta, arrays)
