"""Advice on the two cores of a logical core: barriers that order nothing, and cores with unequal work."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.definition.operands import UPDATE
from nki_lab.ir.program.nodes import Kernel
from nki_lab.timing.advice.draft import Draft, Refused
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted, duration

#: Cores whose times differ by less of the longer one are equal.
LEAST_DIFFERENCE = 0.1


def _find_barriers(evidence: Evidence) -> Iterator[Proposal]:
    groups = [g for g in evidence.groups if _orders_only(g.record.form.example)]
    for line in dict.fromkeys(group.line for group in groups):
        entries = np.sort(np.concatenate([g.entries for g in groups if g.line == line]))
        if len(entries) < 2:
            continue
        names = evidence.labels(entries)
        tensor = evidence.instruction(int(entries[0])).read()[0].storage.name
        yield Proposal(
            f"{counted(len(entries), 'barrier')} on `{tensor}`, of which the last alone orders every use",
            "wait once, after both cores have written everything that the other one reads",
            entries,
            edit=partial(_only_last, lines=names),
        )


def _orders_only(i: Instruction) -> bool:
    """Tell whether cores meet in an instruction that moves nothing."""
    definition = i.definition
    return definition.meets and all(
        operand.role == UPDATE for operand in definition.operands.values()
    )


def _only_last(draft: Draft, lines: frozenset[str]) -> Kernel:
    meetings = [n for n in draft.at(lines) if _orders_only(draft.instructions[n])]
    gone = set(meetings[:-1])
    if not gone:
        raise Refused
    return draft.done(i for n, i in enumerate(draft.instructions) if n not in gone)


def _find_unequal(evidence: Evidence) -> Iterator[Proposal]:
    partner = evidence.partner
    if partner is None:
        return
    mine, other = evidence.total_ns, partner.total_ns
    if mine - other < LEAST_DIFFERENCE * mine:
        return
    shared = (evidence.busiest_ns + Evidence(partner).busiest_ns) // 2
    entries = np.concatenate([g.entries for g in evidence.groups])
    yield Proposal(
        f"this core takes {duration(mine)} and the other one {duration(other)}",
        "give both cores the same amount of work",
        np.sort(entries),
        most_ns=mine - max(shared, other),
        bound="as if all work could be divided and nothing waited",
    )


BARRIERS = AdviceRule("barriers", _find_barriers)
UNEQUAL = AdviceRule("unequal cores", _find_unequal)
