"""Advice: finds changes that would make a kernel faster, and times the program with each of them.

Every rule looks for one thing, and proposes a change that can be timed: other costs for some instructions, fewer
waits, another machine. The gain of a proposal is the difference to the same program timed again with it.

To add a rule, write a file with a `Rule` and list it in `RULES`.
"""

from __future__ import annotations

from nki_lab.profiler.analyses.advice import Advice, Advices
from nki_lab.progress import phase
from nki_lab.timing.advice import (
    array_fill,
    balance,
    float32_products,
    narrow_transfers,
    overlap,
    psum_banks,
    ramp_up,
    reloads,
    small_transfers,
    strided_transfers,
    table_loads,
    transposes,
    vector_modes,
)
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, counted
from nki_lab.timing.program import QueuedProgram
from nki_lab.timing.schedule import times_of
from nki_lab.timing.timeline import Timeline

#: Every rule, in the order in which equal gains are listed.
RULES: tuple[AdviceRule, ...] = (
    reloads.RULE,
    small_transfers.RULE,
    strided_transfers.RULE,
    narrow_transfers.RULE,
    overlap.RULE,
    array_fill.RULE,
    float32_products.RULE,
    transposes.RULE,
    vector_modes.RULE,
    balance.RULE,
    psum_banks.RULE,
    table_loads.RULE,
    ramp_up.RULE,
)

#: Advice that saves less of the run is not worth a line.
LEAST_GAIN = 0.01
#: Programs up to this size are timed again without being asked: some 2 us per instruction and proposal.
TIMED_AT_ONCE = 30_000
#: So many proposals are looked at, those whose instructions take the most time by themselves: without being asked, and
#: when somebody asks.
MOST_AT_ONCE, MOST_ASKED = 6, 16


def advise(timeline: Timeline, exact: bool | None = None) -> Advices:
    """Return advice on a program, the largest gain first.

    Args:
        timeline: the run.
        exact: time the program again for every proposal; False gives upper bounds from what the changed instructions
            take by themselves; None decides by the size of the program.
    """
    evidence = Evidence(timeline)
    most_told = MOST_AT_ONCE if exact is None else MOST_ASKED
    if exact is None:
        exact = len(evidence.records) <= TIMED_AT_ONCE
    least = LEAST_GAIN * evidence.total_ns
    found = [
        (rule, proposal, most)
        for rule in RULES
        for proposal in rule.find(evidence)
        if (most := _most_ns(evidence, proposal)) > least
    ]
    found.sort(key=lambda candidate: -candidate[2])  # equal ones in the order of the rules
    told = []
    tried = found[:most_told]
    with phase("timing advice", total=len(tried)) as asked:
        for asked.at, (rule, proposal, most) in enumerate(tried):
            gain, bound = (
                (_gain_ns(evidence, proposal), proposal.bound)
                if exact
                else (most, _untimed(evidence))
            )
            if gain > least:
                told.append(
                    Advice(
                        rule=rule.name,
                        message=proposal.message,
                        help=proposal.help,
                        places=evidence.places(proposal.entries),
                        gain_ns=gain,
                        total_ns=evidence.total_ns,
                        bound=bound,
                    )
                )
    return Advices(sorted(told, key=lambda advice: -advice.gain_ns))


def _most_ns(evidence: Evidence, proposal: Proposal) -> int:
    """Return what a proposal can save at most, without timing it."""
    if proposal.unmodelled_ns:
        return proposal.unmodelled_ns
    saved = evidence.saved_ns(proposal.changes)
    # Where instructions take as long as before and only wait less, the busiest part of the core is the limit.
    return min(saved, evidence.total_ns) if saved else evidence.total_ns - evidence.busiest_ns


def _gain_ns(evidence: Evidence, proposal: Proposal) -> int:
    """Return what a proposal saves, timing the program again."""
    if proposal.unmodelled_ns:
        return proposal.unmodelled_ns
    timeline, program = evidence.timeline, evidence.timeline.program
    changed = QueuedProgram(
        program.positions,
        evidence.changed(proposal.changes) if proposal.changes else program.records,
        proposal.waits or program.waits,
        program.queues,
    )
    board = times_of(changed, proposal.target or evidence.target)
    return timeline.total_ns - Timeline(timeline.execution, timeline.options, board).total_ns


def _untimed(evidence: Evidence) -> str:
    count = counted(len(evidence.records), "instruction")
    return f"what the change takes away by itself; {count}, not timed again"
