"""Advice on a Tensor engine that runs below its full rate because it was idle before.

tools/neuron-explorer/overview-summary-page.rst:131: after idling it starts at about half of its rate and takes some 3
us of work to reach all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from nki_lab.targets.engines import TENSOR
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, duration

#: Slower than this by the limit, over all products, and it is worth a word.
LEAST_STRETCH = 1.1


def _find(evidence: Evidence) -> Iterator[Proposal]:
    target = evidence.target
    groups = evidence.groups_of(TENSOR)
    if target.pe_throttle_fraction is None or not groups:
        return
    work = evidence.busy_ns(TENSOR)
    _, begins, ends = evidence.timeline.board.products
    took = sum(ends) - sum(begins)
    if not work or took < 1000 * LEAST_STRETCH * work:
        return
    unlimited = replace(target, pe_throttle_fraction=None, pe_throttle_window_ns=None)
    entries = np.sort(np.concatenate([group.entries for group in groups]))
    yield Proposal(
        f"products that take {duration(work)} at the full rate took {duration(took / 1000)}: after idling the "
        f"Tensor engine starts at {100 * target.pe_throttle_fraction:.0f} % of its rate, and needs "
        f"{(target.pe_throttle_window_ns or 0) / 1000:g} us of work to reach it",
        "keep the Tensor engine busy without gaps: load ahead, multiply larger tiles back to back, and do more work "
        "in one kernel",
        entries,
        target=unlimited,
        bound="a short kernel cannot avoid all of it",
    )


RULE = AdviceRule("ramp-up", _find)
