"""Advice on transfers so small that their fixed cost dominates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

import numpy as np

from nki_lab.ir.definition.form_times import Record
from nki_lab.targets.engines import DMA
from nki_lab.targets.spec import Target
from nki_lab.timing.advice.evidence import (
    TRANSPOSED,
    AdviceRule,
    Evidence,
    Group,
    Proposal,
    counted,
    duration,
    size,
)

#: So many transfers of a line are taken for one at most: a tile cannot grow without end.
MOST_MERGED = 16


def _find(evidence: Evidence) -> Iterator[Proposal]:
    for group in evidence.groups_of(DMA):
        record = group.record
        if len(record.moves) != 1:
            continue
        (move,) = record.moves
        if {move.source, move.destination} != {"hbm", "sbuf"}:
            continue
        row = move.bytes_read // move.partitions
        enough = _enough(evidence.target, record.issue, move.partitions)
        if row >= enough or move.opcode == TRANSPOSED:
            continue
        for tensor, entries in _by_tensor(evidence, group):
            merged = min(ceil(enough / max(row, 1)), MOST_MERGED, len(entries))
            if merged < 2:
                continue
            larger = replace(
                move,
                descriptor_bytes=move.descriptor_bytes * merged,
                bytes_read=move.bytes_read * merged,
                bytes_written=move.bytes_written * merged,
            )
            taken = _taken(len(entries), merged, last=move.destination == "hbm")
            changes = (
                (entries[taken], evidence.costing(record, [larger])),
                (entries[~taken], None),
            )
            moved = max(move.bytes_read, move.bytes_written)
            rate = evidence.target.dma_bytes_per_ns_all_engines
            yield Proposal(
                f"{counted(len(entries), 'transfer')} of `{tensor}` with {size(moved)} each, "
                f"{size(row)} per partition: {duration(moved / rate)} of data and "
                f"{duration(_fixed(record) / 1000)} of fixed costs",
                f"move {merged} of these tiles with one transfer, at least {size(enough)} per partition",
                entries,
                changes=changes,
            )


def _taken(count: int, merged: int, last: bool) -> np.ndarray:
    """Return which of `count` transfers stand for the `merged` ones around them: the first of them, or the last.

    A tile that is loaded at once must be there for whoever needs the first part; one that is stored at once must wait
    for whoever makes the last part.
    """
    place = np.arange(count)
    if not last:
        return place % merged == 0
    return (place % merged == merged - 1) | (place == count - 1)


def _fixed(record: Record) -> int:
    return record.issue + record.lead + record.tail


def _enough(target: Target, issue: int, partitions: int) -> int:
    """Return the bytes per partition from which the data takes the time, not what surrounds it.

    The guide names a size (dma-bandwidth-guide, `dma_efficient_bytes_per_partition`); where making the descriptors of
    a transfer takes longer than moving that much, the data should take as long as that.
    """
    hidden = issue / 1000 * target.dma_bytes_per_ns_all_engines / partitions
    return max(target.dma_efficient_bytes_per_partition, int(hidden))


def _by_tensor(evidence: Evidence, group: Group) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the entries of a group by the tensor in device memory that they load from or store to."""
    by_tensor: dict[int, tuple[str, list[int]]] = {}
    for entry in group.entries.tolist():
        tensor = next(t for t in evidence.ends(entry) if not t.storage.on_chip)
        by_tensor.setdefault(tensor.storage.id, (tensor.name, []))[1].append(entry)
    for name, entries in by_tensor.values():
        yield name, np.array(entries, dtype=np.int64)


RULE = AdviceRule("small DMAs", _find)
