"""In which packets did the transfers move, and on which DMA engine?

There can be hundreds per transfer, so the table is only made when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from nki_lab.ir.form_times import Record, RingKey, busiest_engine, engines_used
from nki_lab.profiler.columns import Strings
from nki_lab.profiler.profile import to_ns
from nki_lab.timing.timeline import Timeline
from nki_lab.timing.transfers import ring_name, ring_type, rings_of, transfer_ids


class _Packets(NamedTuple):
    """Columns of some packets, one array element per packet."""

    start: np.ndarray
    end: np.ndarray
    transfer: np.ndarray
    place: np.ndarray
    engine: np.ndarray
    read: np.ndarray
    written: np.ndarray
    ring: np.ndarray


def packet_table(timeline: Timeline) -> Mapping[str, Any]:
    """Make the table DmaPacket: one row per descriptor, served in order by the engine it was dealt to.

    The descriptors of the busiest engine fill the time from the transfer's first byte to its last one; those of an
    engine with fewer are shown just as long.
    """
    rings = rings_of(timeline.program)
    ids = transfer_ids(timeline)
    parts = [
        part
        for record, entries in timeline.entries_by_record.items()
        if isinstance(record.queue, RingKey)
        for part in _packets(timeline, record, entries, ids, rings[record.queue])
    ]
    if not parts:
        return {}
    whole = _Packets(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    order = np.lexsort((whole.place, whole.transfer, whole.start))
    p = _Packets(*(column[order] for column in whole))
    return {
        "start_ts": to_ns(p.start),
        "end_ts": to_ns(p.end),
        "pcore_idx": 0,
        "id": np.arange(1, len(order) + 1),
        "packet_idx": p.place,
        "packet_aggregation_id": p.transfer,
        "engine_idx": p.engine,
        "read_bytes": p.read,
        "write_bytes": p.written,
        "transfer_bytes": np.maximum(p.read, p.written),
        "queue_type": Strings(p.ring, [ring_type(key) for key in rings]),
        "queue_name": Strings(p.ring, [ring_name(key) for key in rings]),
        "queue_idx": p.ring,
    }


def _packets(
    timeline: Timeline, record: Record, entries: np.ndarray, ids: np.ndarray, ring: int
) -> Iterator[_Packets]:
    target = timeline.execution.kernel.target
    slots = sum(busiest_engine(move, target)[0] for move in record.moves)
    begin = timeline.start[entries][:, None]
    length = timeline.end[entries][:, None] - begin
    first_slot = first_index = 0
    for move in record.moves:
        most, size = busiest_engine(move, target)
        moved = max(move.bytes_read, move.bytes_written)
        count = max(1, min(round(moved / size), most * engines_used(move, target)))
        index = np.arange(count)
        slot = first_slot + index % most
        start = begin + length * slot // slots
        yield _Packets(
            start.ravel(),
            (begin + length * (slot + 1) // slots).ravel(),
            np.repeat(ids[entries], count),
            np.tile(first_index + index, len(entries)),
            np.tile(index // most, len(entries)),
            np.full(start.size, move.bytes_read // count),
            np.full(start.size, move.bytes_written // count),
            np.full(start.size, ring),
        )
        first_slot += most
        first_index += count
