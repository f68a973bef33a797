"""Advice on activation tables that replace each other again and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from heapq import heappop, heappush

import numpy as np

from nki_lab.ir.definition.form_times import Record
from nki_lab.ir.program.nodes import Kernel
from nki_lab.isa.operators import Op
from nki_lab.targets.engines import COMPUTE
from nki_lab.timing.advice.draft import Draft, Refused, conflicts
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted, duration
from nki_lab.timing.advice.overlap import renewed


def _find(evidence: Evidence) -> Iterator[Proposal]:
    board = evidence.timeline.board
    loads = np.array([entry for entry, _ in board.table_loads], dtype=np.int64)
    if not len(loads):
        return
    tables = [evidence.records[n].table for n in loads.tolist()]
    if len(loads) <= len(set(tables)):
        return
    known: set[str | None] = set()
    changes = []
    for record, entries in evidence.timeline.entries_by_record.items():
        if record.table is None:
            continue
        # The first use of a table still loads it.
        rest = entries if record.table in known else entries[1:]
        known.add(record.table)
        changes.append((rest, record.with_(table=None)))
    names = dict.fromkeys(_function(evidence.records[n]) for n in loads.tolist())
    functions = " and ".join(f"nl.{name}" for name in names if name)
    yield Proposal(
        f"{counted(len(loads), 'load')} of {len(set(tables))} activation tables, "
        f"{duration(board.table_load / 1000)} each: {functions} take turns",
        "apply one function to several tiles, each with a result for itself, before the next one, or use functions of "
        "one table",
        loads,
        changes=tuple(changes),
        bound="as if a table were loaded once, whatever waits for it",
        edit=_table_by_table,
    )


def _table_by_table(draft: Draft) -> Kernel:
    """Return the program in which an instruction that needs another table comes last of those that are ready.

    Tiles that are filled again and again are others each time, since one tile would keep the order as it is.
    """
    with suppress(Refused):
        draft = Draft(renewed(draft))
    instructions = draft.instructions
    tables = [
        draft.record(n).table if i.form.engine in COMPUTE else None
        for n, i in enumerate(instructions)
    ]
    before = [0] * len(instructions)
    after: list[list[int]] = [[] for _ in instructions]
    for a, b in conflicts(instructions):
        before[b] += 1
        after[a].append(b)
    ready: dict[str | None, list[int]] = {}
    order: list[int] = []

    def release(n: int) -> None:
        heappush(ready.setdefault(tables[n], []), n)

    for n, count in enumerate(before):
        if not count:
            release(n)
    current = None
    while len(order) < len(instructions):
        heaps = [ready[table] for table in {None, current} if ready.get(table)]
        if not heaps:
            heaps = [min(filter(None, ready.values()))]
        n = heappop(min(heaps))
        current = tables[n] or current
        order.append(n)
        for b in after[n]:
            before[b] -= 1
            if not before[b]:
                release(b)
    return draft.reordered(instructions, order)


def _function(record: Record) -> str | None:
    """Return the name of the function that an instruction applies."""
    operators = [value for value in record.form.example.args if isinstance(value, Op)]
    return operators[0].name if operators else None


RULE = AdviceRule("table reloads", _find)
