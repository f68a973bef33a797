"""Advice on activation tables that replace each other again and again."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.ir.definition.form_times import Record
from nki_lab.isa.operators import Op
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted, duration


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
        "apply one function to several tiles before the next one, or use functions of one table",
        loads,
        changes=tuple(changes),
    )


def _function(record: Record) -> str | None:
    """Return the name of the function that an instruction applies."""
    operators = [value for value in record.form.example.args if isinstance(value, Op)]
    return operators[0].name if operators else None


RULE = AdviceRule("table reloads", _find)
