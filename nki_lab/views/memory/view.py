"""The tiles in SBUF and PSUM over the program."""

from __future__ import annotations

from nki_lab.profiler.text_table import text_table
from nki_lab.views.memory.model import memory_map, tile_uses
from nki_lab.views.memory.occupancy import IN_TIME, PLACES_TAKEN, Occupancy, occupancy, usable_bytes
from nki_lab.views.memory.picture import memory_picture
from nki_lab.views.registry import Needs, View
from nki_lab.views.run import ViewData


def memory_text(data: ViewData, limit: int | None) -> list[str]:
    """Return a table of the tiles, and how full each memory gets."""
    rows = []
    for tensor in data.tensors:
        if not tensor.on_chip or tensor.lifetime is None:
            continue
        first, last = tensor.lifetime
        place = tensor.place.label if tensor.place else ""
        use = f"{first} to {last}"
        rows.append((tensor.memory, tensor.name, f"{tensor.row_bytes:,}", use, place))
    count = len(data.operations)
    heads = ("memory", "tile", "bytes/partition", f"in use (of {count} instructions)", "made at")
    reached = _reached(data)
    room = None if limit is None else limit - len(reached)
    return [*text_table(heads, sorted(rows, key=lambda row: row[0] != "sbuf"), room), *reached]


def _reached(data: ViewData) -> list[str]:
    """Return lines on the most bytes in use of each on-chip memory, on what is free then, and on overlaps."""
    target = data.profile.target
    lines = []
    for memory, size in usable_bytes(target).items():
        tiles = occupancy(data, memory)
        if not len(tiles.tensor):
            continue
        peak, moment = tiles.peak(target.partitions)
        free = tiles.free(moment, size)
        end = int((tiles.address + tiles.size).max())
        lines += [
            f"{memory}: at most {peak:,} of {size:,} bytes per partition in program order ({peak / size:.1%}), at"
            f" instruction {moment:,}; the highest byte used is {end - 1:,}",
            f"{memory}: then {free.free:,} bytes are free in every partition, {free.largest:,} of them in one piece"
            f" (fragmentation {free.fragmentation:.1%}); {_overlaps(data, tiles)}",
        ]
    about = [data.about_places] if data.about_places else [PLACES_TAKEN, IN_TIME]
    return [*lines, *about] if lines else []


def _overlaps(data: ViewData, tiles: Occupancy) -> str:
    overlaps = tiles.overlaps()
    if overlaps is None:
        return f"overlaps were not looked for among {len(tiles.tensor):,} tiles"
    if not overlaps:
        return "no tiles overlap"
    first = overlaps[0]
    one, other = (data.tensors[int(tiles.tensor[k])].name for k in (first.one, first.other))
    more = f", and {len(overlaps) - 1:,} more pairs" if len(overlaps) > 1 else ""
    return (
        f"{one} and {other} overlap in {first.size:,} bytes from {first.address:,} on, in use together from"
        f" instruction {first.first:,} to {first.last:,}{more}"
    )


VIEW = View(
    name="memory",
    title="Memory",
    needs=Needs.PROGRAM,
    text=memory_text,
    words="Tiles in SBUF and PSUM over the program",
    parts={"memory": memory_map, "memory/tile/{tensor}": tile_uses},
    first=("memory",),
    saved=("memory/tile/{tensor}",),
    picture=memory_picture,
    if_small=True,
)
