"""Advice on loads and computation that wait for each other although they could overlap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted, duration
from nki_lab.timing.advice.psum_banks import common_ns

#: Less than this part of the run is too little to hide.
LEAST_PART = 0.15
#: From this part of the shorter one on, moving and computing overlap as they should.
OVERLAPPING = 0.6


def _find(evidence: Evidence) -> Iterator[Proposal]:
    moving, computing = evidence.dma_spans, evidence.compute_spans
    times = [int((ends - starts).sum()) for starts, ends in (moving, computing)]
    shorter = min(times)
    if shorter < LEAST_PART * evidence.total_ns:
        return
    common = common_ns(moving, computing)
    if common >= OVERLAPPING * shorter:
        return
    waits = list(evidence.timeline.program.waits)
    held = [n for n in evidence.loads.tolist() if _only_for_its_tile(evidence, n) and waits[n]]
    if not held:
        return
    for n in held:
        waits[n] = ()
    yield Proposal(
        f"transfers move for {duration(times[0])} and engines compute for {duration(times[1])}, but both at "
        f"one time only for {duration(common)}: {counted(len(held), 'load')} held up by what still uses the tile",
        "load into another tile while this one is in use: make the tile inside the loop, or take turns between two",
        np.array(held, dtype=np.int64),
        waits=waits,
    )


def _only_for_its_tile(evidence: Evidence, entry: int) -> bool:
    """Tell whether a load reads what nobody writes, so that it can only wait for the place it writes to."""
    if evidence.records[entry].form.dynamic:
        return False
    return evidence.ends(entry)[1].storage.id not in evidence.written


RULE = AdviceRule("no overlap", _find)
