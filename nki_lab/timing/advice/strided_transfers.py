"""Advice on transfers of scattered elements, which need many descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nki_lab.ir.definition.cost import Transfer
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

#: Descriptors per row of a transfer: one is contiguous; with two the cut is in the middle of it.
LEAST_CUTS = 4


def _find(evidence: Evidence) -> Iterator[Proposal]:
    target = evidence.target
    for group in evidence.groups:
        if not group.record.moves or group.record.form.dynamic:
            continue
        better = [_contiguous(move, target) for move in group.record.moves]
        if all(new is old for new, old in zip(better, group.record.moves, strict=True)):
            continue
        changed = evidence.costing(group.record, better)
        yield Proposal(
            _message(evidence, group, changed.work),
            "move whole rows: let the last axis of both sides be contiguous, and reorder the elements on chip "
            "(a view costs an engine less), or store the tensor in the order it is loaded",
            group.entries,
            changes=((group.entries, changed),),
        )


def _contiguous(move: Transfer, target: Target) -> Transfer:
    """Return the transfer with one descriptor per partition, where it has many small ones."""
    if move.opcode == TRANSPOSED or "sbuf" not in (move.source, move.destination):
        return move
    cuts = move.descriptors / move.partitions
    small = move.descriptor_bytes < target.dma_efficient_bytes_per_partition
    if cuts < LEAST_CUTS or not small:
        return move
    whole = max(move.bytes_read, move.bytes_written) // move.partitions
    return replace(move, descriptors=move.partitions, descriptor_bytes=whole)


def _message(evidence: Evidence, group: Group, work: int) -> str:
    move = group.record.moves[0]
    i = evidence.instruction(int(group.entries[0]))
    outside = next((t for t in (*i.read(), *i.written()) if not t.storage.on_chip), i.read()[0])
    return (
        f"{counted(len(group.entries), 'transfer')} of `{outside.name}` with {move.descriptors:,} descriptors of "
        f"{size(move.descriptor_bytes)} (shape {list(outside.shape)}, strides {list(outside.strides)}): "
        f"{duration(group.record.work / 1000)} each, contiguous {duration(work / 1000)}"
    )


RULE = AdviceRule("non-contiguous DMA", _find)
