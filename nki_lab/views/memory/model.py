"""Data of the memory view: what occupies which bytes of SBUF and PSUM, from which instruction to which."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.views.entries import operation_entry
from nki_lab.views.memory.occupancy import IN_TIME, PLACES_TAKEN, Occupancy, occupancy
from nki_lab.views.run import ViewData
from nki_lab.widgets.packing import pack, smallest

#: Readers and writers of one tile that are listed.
USES_SHOWN = 50


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
            "overlaps": _overlaps(tiles),
            "free": _free(tiles, moment, usable),
        }
        created = [(t.place.heading, t.place.text) if t.place else ("", "") for t in tensors]
        columns = {
            "tensor": tiles.tensor,
            "name": np.array([names.setdefault(t.name, len(names)) for t in tensors]),
            "kind": np.array([names.setdefault(f"{list(t.shape)} {t.dtype}", len(names)) for t in tensors]),
            "place": np.array([places.setdefault(place, len(places)) for place in created]),
            "first": tiles.first,
            "last": tiles.last,
            "address": tiles.address,
            "size": tiles.size,
            "partition": tiles.partition,
            "partitions": tiles.partitions,
        }  # fmt: skip
        columns["moment"], columns["used"] = tiles.in_use(tiles.fullest(target.partitions))
        for name, column in columns.items():
            arrays[f"{memory}.{name}"] = smallest(column.astype(np.int64))
    meta = {
        "memories": memories,
        "operations": len(data.operations),
        "note": data.about_places or f"{PLACES_TAKEN}; {IN_TIME}",
        "names": list(names),
        "places": [list(place) for place in places],
    }
    return pack(meta, arrays)


def _overlaps(tiles: Occupancy) -> list[list[int]] | None:
    overlaps = tiles.overlaps()
    return None if overlaps is None else [list(overlap) for overlap in overlaps]


def _free(tiles: Occupancy, moment: int, usable: int) -> dict[str, Any]:
    """Return what is free when most is in use."""
    free = tiles.free(moment, usable)
    return {**free._asdict(), "fragmentation": free.fragmentation}


def tile_uses(data: ViewData, number: int) -> bytes:
    """Return the instructions that write and read a tensor, packed; of many, the first and how many more."""
    positions: dict[str, set[int]] = {"writers": set(), "readers": set()}
    for part in data.slices(number):
        positions["writers"] |= set(part.writers)
        positions["readers"] |= set(part.readers)
    meta: dict[str, Any] = {"tensor": number, "name": data.tensors[number].name}
    for way, numbers in positions.items():
        meta[way] = [operation_entry(data, position) for position in sorted(numbers)[:USES_SHOWN]]
        meta[f"more_{way}"] = max(0, len(numbers) - USES_SHOWN)
    return pack(meta)
