"""Which changes of a kernel would make it faster, and by how much?

Every rule looks for one thing, and proposes a change that can be timed: other costs for some instructions, fewer
waits, another machine. The gain of a proposal is the difference to the same program timed again with it.

To add a rule, write a file with a `Rule` and list it in `RULES`.
"""

from __future__ import annotations

from nki_lab.profiler.advice import Advice, Advices
from nki_lab.timing.advice import (
    array_fill,
    balance,
    float32_products,
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
from nki_lab.timing.advice.evidence import Evidence, Proposal, Rule, counted
from nki_lab.timing.program import Program
from nki_lab.timing.schedule import times_of
from nki_lab.timing.timeline import Timeline

#: Every rule, in the order in which equal gains are told.
RULES: tuple[Rule, ...] = (
    reloads.RULE,
    small_transfers.RULE,
    strided_transfers.RULE,
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
#: Programs up to this size are timed again for every proposal without being asked: a tenth of a second for all.
TIMED_AT_ONCE = 20_000


def advise(timeline: Timeline, exact: bool | None = None) -> Advices:
    """Return advice on a program, the largest gain first.

    Args:
        timeline: the run.
        exact: time the program again for every proposal; False gives upper bounds from what the changed instructions
            take by themselves; None decides by the size of the program.
    """
    evidence = Evidence(timeline)
    if exact is None:
        exact = len(evidence.records) <= TIMED_AT_ONCE
    found = []
    for rule in RULES:
        for proposal in rule.find(evidence):
            gain, bound = _gain(evidence, proposal, exact)
            if gain > LEAST_GAIN * evidence.total_ns:
                found.append(
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
    return Advices(sorted(found, key=lambda a: -a.gain_ns))  # equal ones in the order of the rules


def _gain(evidence: Evidence, proposal: Proposal, exact: bool) -> tuple[int, str]:
    """Return what a proposal saves, and why that is only an upper bound ("" where it is not)."""
    if proposal.unmodelled_ns:
        return proposal.unmodelled_ns, proposal.bound
    timeline, program = evidence.timeline, evidence.timeline.program
    if exact:
        changed = Program(
            program.positions,
            proposal.records or program.records,
            proposal.waits or program.waits,
            program.queues,
        )
        board = times_of(changed, proposal.target or evidence.target)
        again = Timeline(timeline.execution, timeline.options, board)
        return timeline.total_ns - again.total_ns, proposal.bound
    saved = 0
    if proposal.records is not None:
        for old, new in zip(program.records, proposal.records, strict=True):
            if old is not new:
                saved += max(
                    old.interval + old.load - new.interval - new.load,
                    old.issue - new.issue,
                    old.work - new.work,
                )
    else:
        saved = 1000 * (evidence.total_ns - evidence.busiest_ns)
    bound = f"what the change takes away by itself; {counted(len(program.records), 'instruction')}, not timed again"
    return min(saved // 1000, evidence.total_ns), bound
