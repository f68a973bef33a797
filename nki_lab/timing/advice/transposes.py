"""Advice on transposes that delay the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from nki_lab.ir.definition.cost import Stage
from nki_lab.ir.definition.form_times import Record
from nki_lab.ir.program.nodes import Kernel
from nki_lab.isa.dma_transpose import on_tensor_engine
from nki_lab.targets.engines import DMA, TENSOR
from nki_lab.timing.advice.draft import Draft, Refused
from nki_lab.timing.advice.evidence import (
    TRANSPOSED,
    AdviceRule,
    Evidence,
    Proposal,
    counted,
    duration,
)


def _find(evidence: Evidence) -> Iterator[Proposal]:
    for transposes, what, help, edit in _KINDS:
        groups = [group for group in evidence.groups if transposes(group.record)]
        if not groups:
            continue
        entries = np.sort(np.concatenate([group.entries for group in groups]))
        names = evidence.labels(entries)
        took = sum((g.record.interval + g.record.work) * len(g.entries) for g in groups) / 1000
        yield Proposal(
            f"{counted(len(entries), 'transpose')} {what}, {duration(took)} in all; the Tensor engine works for "
            f"{duration(evidence.busy_ns(TENSOR))}",
            help,
            entries,
            changes=((entries, None),),
            bound="as if they took no time",
            edit=edit and partial(edit, lines=names),
        )


def _on_tensor(draft: Draft, lines: frozenset[str]) -> Kernel:
    """Return the program in which the Tensor engine transposes what transfers did."""
    chosen = set(draft.at(lines))
    changed = []
    for n, i in enumerate(draft.instructions):
        if n not in chosen or i.form.engine is not DMA or not _by_dma(draft.record(n)):
            changed.append(i)
            continue
        (source,), (to,) = i.read(), i.written()
        if source.dynamic or not to.storage.on_chip or len(source.shape) != 2:
            raise Refused
        for definition, tensors in on_tensor_engine(i, partial(draft.tile, to.storage)):
            changed.append(draft.added(definition, i, **tensors))
    return draft.done(changed)


def _by_products(record: Record) -> bool:
    return not any(step.macs for step in record.steps) and any(
        step.stage is Stage.MULTIPLY_MOVING for step in record.steps
    )


def _by_dma(record: Record) -> bool:
    return any(move.opcode == TRANSPOSED for move in record.moves)


#: What transposes, in words, what to write instead, and the edit that does.
_KINDS: tuple[tuple[Callable[[Record], bool], str, str, Callable[..., Kernel] | None], ...] = (
    (
        _by_products,
        "by the Tensor engine",
        "swap the stationary and the moving tile, so that the product comes out transposed, or store the input in "
        "the order in which it is multiplied",
        None,
    ),
    (
        _by_dma,
        "by DMA",
        "load the tile as it lies, transpose it with nisa.nc_transpose on the Tensor engine, and copy it out of PSUM; "
        "or store the input in the order in which it is used",
        _on_tensor,
    ),
)

RULE = AdviceRule("transposes", _find)
