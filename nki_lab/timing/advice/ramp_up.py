"""Advice on a Tensor engine that runs below its full rate because it was idle before.

tools/neuron-explorer/overview-summary-page.rst:131: after idling it starts at about half of its rate and takes some 3
us of work to reach all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nki_lab.percent import percent
from nki_lab.targets.engines import TENSOR
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, duration
from nki_lab.timing.tensor_queue import CurrentLimit

#: Slower by this than the same products without gaps, and it is worth a word.
LEAST_STRETCH = 1.1


def _find(evidence: Evidence) -> Iterator[Proposal]:
    target = evidence.target
    groups = evidence.groups_of(TENSOR)
    if target.pe_throttle_fraction is None or not groups:
        return
    work = evidence.busy_ns(TENSOR)
    _, begins, ends = evidence.timeline.board.products
    took = sum(ends) - sum(begins)
    limit = CurrentLimit.of(target)
    if not work or limit is None:
        return
    at_once = limit.stretched(0, 0, 1000 * work)  # the same products without a gap
    if took < LEAST_STRETCH * at_once:
        return
    unlimited = replace(target, pe_throttle_fraction=None, pe_throttle_window_ns=None)
    entries = np.sort(np.concatenate([group.entries for group in groups]))
    yield Proposal(
        f"products that take {duration(work)} at the full rate took {duration(took / 1000)}: after idling the "
        f"Tensor engine starts at {percent(target.pe_throttle_fraction, 0)} of its rate, and needs "
        f"{(target.pe_throttle_window_ns or 0) / 1000:g} us of work to reach it",
        "keep the Tensor engine busy without gaps: load ahead, multiply larger tiles back to back, and do more work "
        "in one kernel",
        entries,
        target=unlimited,
        most_ns=(took - at_once) // 1000,
        bound="as if the products followed each other without a gap",
    )


RULE = AdviceRule("ramp-up", _find)
