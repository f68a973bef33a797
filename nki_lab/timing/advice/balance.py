"""Advice to move work from a busy engine to one that is idle."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR, Engine
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted

#: An engine that is busy for less of the run does not hold it up.
BUSY = 0.5
#: An engine is idle enough to help when it is busy for less than this part of the other one's time.
IDLE = 0.5
_ENGINES = (VECTOR, SCALAR, GPSIMD)


def _find(evidence: Evidence) -> Iterator[Proposal]:
    busy = {engine: evidence.busy_ns(engine) for engine in _ENGINES}
    most = max(_ENGINES, key=lambda engine: busy[engine])
    if busy[most] < BUSY * evidence.total_ns:
        return
    for other in _ENGINES:
        if other is most or busy[other] >= IDLE * busy[most]:
            continue
        movable = _movable(evidence, most, other)
        if not len(movable):
            continue
        time = sum(evidence.records[n].interval for n in movable.tolist()) / 1000
        wanted = (busy[most] - busy[other]) / 2
        every = max(2, round(time / max(wanted, 1)))
        moved = movable[::every]
        yield Proposal(
            f"{most.name} is busy {100 * busy[most] / evidence.total_ns:.0f} % of the time, {other.name} "
            f"{100 * busy[other] / evidence.total_ns:.0f} %; "
            f"{counted(len(movable), 'instruction')} of {most.name} could run on either",
            f"give some of them engine=nisa.engine.{other.name}, or let another instruction of {other.name} do the "
            "same",
            movable,
            changes=((moved, None),),
            bound=f"as if {len(moved):,} of them took no time where they are",
        )


def _movable(evidence: Evidence, engine: Engine, other: Engine) -> np.ndarray:
    """Return the entries of an engine that may run on another one while it goes on."""
    parts = []
    for group in evidence.groups_of(engine):
        there = evidence.on_engine(group.record, other)
        # Engines that share a port take turns whoever does what.
        if there is not None and not set(there.ports) & set(group.record.ports):
            parts.append(group.entries)
    return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)


RULE = AdviceRule("engine imbalance", _find)
