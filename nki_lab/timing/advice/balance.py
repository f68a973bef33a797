"""Advice to move work from an engine to one that could do it at the same time, or sooner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.percent import percent
from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR, Engine
from nki_lab.timing.advice.draft import Draft
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted

#: An engine that works for less of the run is not worth relieving.
BUSY = 0.05
#: Where the program is not compiled again, the engine must be busy for this part of the run, and the other one for less
#: than this part of its time.
CLEAR = 0.5
#: Which of the instructions of a line to move, in the words of the help.
_SHARES = {2: "every second of them", 1: "them", 3: "every third of them"}
_ENGINES = (VECTOR, SCALAR, GPSIMD)
#: Engines that are advised. The times of GpSimd are assumed for most instructions (`timing.limits`), so that no advice
#: may rest on it being quick.
_OFFERED = (VECTOR, SCALAR)


def _find(evidence: Evidence) -> Iterator[Proposal]:
    busy = {engine: evidence.busy_ns(engine) for engine in _ENGINES}
    for engine in _ENGINES:
        if busy[engine] < BUSY * evidence.total_ns:
            continue
        for other in _OFFERED:
            movable = [] if other is engine else _movable(evidence, engine, other)
            if not movable:
                continue
            entries = np.sort(np.concatenate(movable))
            names = evidence.labels(entries)
            clear = busy[engine] >= CLEAR * evidence.total_ns and busy[other] < CLEAR * busy[engine]
            for every, words in _SHARES.items():
                if len(entries) < every or not (clear or evidence.can_edit):
                    continue
                moved = np.sort(np.concatenate([part[every - 1 :: every] for part in movable]))
                here, there = _times(evidence, moved, other)
                busiest = max(busy[engine] - here, busy[other] + there)
                as_if = f"as if {len(moved):,} of them took no time where they are"
                yield Proposal(
                    f"{engine.name} is busy {percent(busy[engine] / evidence.total_ns, 0)} of the time, {other.name} "
                    f"{percent(busy[other] / evidence.total_ns, 0)}; "
                    f"{counted(len(entries), 'instruction')} of {engine.name} could run on either",
                    f"give {words} engine=nisa.engine.{other.name}",
                    entries,
                    changes=((moved, None),),
                    most_ns=max(evidence.total_ns - busiest, 0),
                    bound=as_if if clear and every == 2 else "",
                    edit=partial(_moved, lines=names, engine=engine, other=other, every=every),
                )


def _movable(evidence: Evidence, engine: Engine, other: Engine) -> list[np.ndarray]:
    """Return the entries of an engine, by line, that may run on another one while it goes on."""
    parts: dict[int, list[np.ndarray]] = {}
    for group in evidence.groups_of(engine):
        there = evidence.on_engine(group.record, other)
        # Engines that share a port take turns whoever does what; a faster one gains all the same.
        if there is None:
            continue
        if there.interval < group.record.interval or not {*there.ports} & {*group.record.ports}:
            parts.setdefault(group.line, []).append(group.entries)
    return [np.sort(np.concatenate(entries)) for entries in parts.values()]


def _times(evidence: Evidence, moved: np.ndarray, other: Engine) -> tuple[int, int]:
    """Return the time of some entries where they are, and on another engine, in ns."""
    here = there = 0
    for record, count in Counter(evidence.records[n] for n in moved.tolist()).items():
        new = evidence.on_engine(record, other)
        here += count * record.interval
        there += count * (record if new is None else new).interval
    return here // 1000, there // 1000


def _moved(
    draft: Draft, lines: frozenset[str], engine: Engine, other: Engine, every: int
) -> Kernel:
    """Return the program with some of the instructions of each line on the other engine.

    Where the compiler chose their engine, those that stay get it, so that it does not choose again.
    """
    counts: dict[str, int] = {}
    changed = list(draft.instructions)
    for n in draft.at(lines):
        i = draft.instructions[n]
        if "engine" not in i.definition.position or i.form.engine is not engine:
            continue
        if other not in i.definition.engines:
            continue
        label = draft.labels[n]
        counts[label] = counts.get(label, 0) + 1
        to = other if counts[label] % every == 0 else engine
        changed[n] = _on(draft, i, to)
    return draft.done(changed)


def _on(draft: Draft, i: Instruction, engine: Engine) -> Instruction:
    return draft.formed(i.with_args(engine=engine))


RULE = AdviceRule("engine imbalance", _find)
