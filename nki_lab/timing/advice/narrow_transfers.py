"""Advice on transfers that fill too few partitions to keep the DMA engines busy.

A transfer's descriptors are dealt to the DMA engines by partition, the same number of partitions to each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nki_lab.ir.definition.cost import Transfer
from nki_lab.ir.definition.form_times import engines_used
from nki_lab.targets.spec import Target
from nki_lab.timing.advice.evidence import (
    TRANSPOSED,
    AdviceRule,
    Evidence,
    Proposal,
    counted,
    duration,
    size,
)

#: With at least this part of the engines at work, the rest would save less than the time again.
LEAST_ENGINES = 0.5


def _find(evidence: Evidence) -> Iterator[Proposal]:
    target = evidence.target
    for group in evidence.groups:
        moves = group.record.moves
        if len(moves) != 1 or group.record.form.dynamic or not _is_narrow(moves[0], target):
            continue
        (move,) = moves
        wider = evidence.costing(group.record, [_spread(move, target)])
        if wider.work >= group.record.work:
            continue
        yield Proposal(
            f"{counted(len(group.entries), 'transfer')} of {size(max(move.bytes_read, move.bytes_written))} on "
            f"{counted(move.partitions, 'partition')} with {engines_used(move, target)} of {target.dma_engines} DMA "
            f"engines: {duration(group.record.work / 1000)} each, with all of them {duration(wider.work / 1000)}",
            f"spread the data over {target.partitions} partitions, by another shape of the tile or by taking several "
            "rows together",
            group.entries,
            changes=((group.entries, wider),),
        )


def _is_narrow(move: Transfer, target: Target) -> bool:
    on_chip = "sbuf" in (move.source, move.destination) and move.opcode != TRANSPOSED
    return on_chip and engines_used(move, target) < LEAST_ENGINES * target.dma_engines


def _spread(move: Transfer, target: Target) -> Transfer:
    """Return the transfer with the same descriptors, or pieces of them, on all partitions."""
    more = target.partitions // move.partitions
    moved = max(move.bytes_read, move.bytes_written)
    descriptors = max(move.descriptors, min(move.descriptors * more, moved))
    return replace(
        move,
        partitions=target.partitions,
        descriptors=descriptors,
        descriptor_bytes=max(1, moved // descriptors),
    )


RULE = AdviceRule("few DMA engines", _find)
