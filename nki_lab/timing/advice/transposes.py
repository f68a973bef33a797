"""Advice on transposes that delay the run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.ir.definition.cost import Stage
from nki_lab.ir.definition.form_times import Record
from nki_lab.timing.advice.evidence import (
    TRANSPOSED,
    AdviceRule,
    Evidence,
    Proposal,
    counted,
    duration,
)


def _find(evidence: Evidence) -> Iterator[Proposal]:
    for transposes, what, help in _KINDS:
        groups = [group for group in evidence.groups if transposes(group.record)]
        if not groups:
            continue
        entries = np.sort(np.concatenate([group.entries for group in groups]))
        took = sum((g.record.interval + g.record.work) * len(g.entries) for g in groups) / 1000
        yield Proposal(
            f"{counted(len(entries), 'transpose')} {what}, {duration(took)} in all",
            help,
            entries,
            changes=((entries, None),),
            bound="as if they took no time",
        )


def _by_products(record: Record) -> bool:
    return not any(step.macs for step in record.steps) and any(
        step.stage is Stage.MULTIPLY_MOVING for step in record.steps
    )


def _by_dma(record: Record) -> bool:
    return any(move.opcode == TRANSPOSED for move in record.moves)


_KINDS = (
    (
        _by_products,
        "by the Tensor engine",
        "swap the stationary and the moving tile, so that the product comes out transposed, or store the input in "
        "the order in which it is multiplied",
    ),
    (
        _by_dma,
        "by DMA",
        "store the input in the order in which it is used, or transpose a tile on chip while others are loaded",
    ),
)

RULE = AdviceRule("transposes", _find)
