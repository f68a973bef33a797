"""Advice: finds changes that would make a kernel faster, and times the program with each of them.

Every rule looks for one thing, and proposes a change that can be timed: an edit of the traced program, which is
compiled and timed again as the author's own would be; or other costs for some instructions, fewer waits, another
machine, timed in the program as it is. The gain of a proposal is the difference to the same program with it.

To add a rule, write a file with a `Rule` and list it in `RULES`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from nki_lab.errors import NkiError
from nki_lab.profiler.analyses.advice import LEAST_GAIN, Advice, Advices
from nki_lab.progress import phase
from nki_lab.timing.advice import (
    array_fill,
    balance,
    float32,
    merging,
    narrow_transfers,
    needless,
    overlap,
    psum_banks,
    ramp_up,
    reloads,
    small_transfers,
    strided_transfers,
    table_loads,
    transposes,
    two_cores,
    vector_modes,
)
from nki_lab.timing.advice.draft import Draft, Refused
from nki_lab.timing.advice.evidence import AdviceRule, Evidence, Proposal, Replay, counted
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
    float32.PRODUCTS,
    float32.TILES,
    needless.COPIES,
    needless.TEMPORARIES,
    merging.PRODUCTS,
    merging.RULE,
    two_cores.BARRIERS,
    two_cores.UNEQUAL,
    transposes.RULE,
    vector_modes.RULE,
    balance.RULE,
    psum_banks.RULE,
    table_loads.RULE,
    ramp_up.RULE,
)

#: Programs up to this size are timed again without being asked: some 2 us per instruction and proposal.
TIMED_AT_ONCE = 30_000
#: So many instructions are compiled again over all edits, without being asked and when somebody asks: some 60 us each.
COMPILED_AT_ONCE, COMPILED_ASKED = 3_000, 60_000
#: With fewer edits than this a program is not edited.
_EDITS = 2
#: Part of the least gain that other costs must promise for an edit: the compiler may find a better order for it.
WORTH_AN_EDIT = 0.5
#: So many edits are tried.
EDITS_AT_ONCE, EDITS_ASKED = 10, 40
#: So many proposals are looked at, those whose instructions take the most time by themselves: without being asked, and
#: when somebody asks.
MOST_AT_ONCE, MOST_ASKED = 6, 16


def advise(
    timeline: Timeline,
    exact: bool | None = None,
    replay: Replay | None = None,
    partner: Timeline | None = None,
) -> Advices:
    """Return advice on a program, the largest gain first.

    Args:
        timeline: the run.
        exact: time the program again for every proposal; False gives upper bounds from what the changed instructions
            take by themselves; None decides by the size of the program.
        replay: compiles the program again with an edit; without it no edit is proposed that other costs cannot stand
            for.
        partner: the run of the other core of a logical core.
    """
    asked_for = exact is not None
    size = len(timeline.program.records)
    edits_most = (COMPILED_ASKED if asked_for else COMPILED_AT_ONCE) // max(size, 1)
    if exact is False or edits_most < _EDITS:
        replay = None
    evidence = Evidence(timeline, partner, can_edit=replay is not None)
    most_told = MOST_ASKED if asked_for else MOST_AT_ONCE
    if exact is None:
        exact = size <= TIMED_AT_ONCE
    least = LEAST_GAIN * evidence.total_ns
    edits: list[tuple[int, int, AdviceRule, Proposal]] = []
    costs: list[tuple[AdviceRule, Proposal, int]] = []
    for rule in RULES:
        variants: Counter[frozenset[str]] = Counter()
        for proposal in _joined(rule.find(evidence)):
            if proposal.edit is not None and replay is not None:
                lines = evidence.labels(proposal.entries)
                variants[lines] += 1
                edits.append((variants[lines], -_gain_ns(evidence, proposal), rule, proposal))
            elif proposal.edit is None or proposal.bound:
                costs.append((rule, proposal, _most_ns(evidence, proposal)))
    # The first variant of each edit comes before the second of any.
    edits = [edit for edit in edits if -edit[1] > least * WORTH_AN_EDIT]
    edits.sort(key=lambda edit: edit[:2])
    costs = [candidate for candidate in costs if candidate[2] > least]
    costs.sort(key=lambda candidate: -candidate[2])  # equal ones in the order of the rules
    most_edits = min(edits_most, EDITS_ASKED if asked_for else EDITS_AT_ONCE)
    tried = [
        *((rule, proposal, -most) for _, most, rule, proposal in edits[:most_edits]),
        *costs[:most_told],
    ]
    told: list[tuple[Advice, bool]] = []
    with phase("timing advice", total=len(tried)) as asked:
        for asked.at, (rule, proposal, most) in enumerate(tried):
            gain, bound = most, _untimed(evidence)
            after = None if replay is None else _edited_ns(replay, proposal)
            if after is not None:
                gain, bound = evidence.total_ns - after, ""
            elif proposal.edit is not None and not proposal.bound:
                continue
            elif exact:
                gain, bound = _gain_ns(evidence, proposal), proposal.bound
            if gain > least:
                advice = Advice(
                    rule=rule.name,
                    message=proposal.message,
                    help=proposal.help,
                    places=evidence.places(proposal.entries),
                    gain_ns=gain,
                    total_ns=evidence.total_ns,
                    bound=bound,
                )
                told.append((advice, proposal.edit is not None))
    return Advices(_one_per_cause(sorted(told, key=lambda pair: -pair[0].gain_ns)))


def _joined(proposals: Iterable[Proposal]) -> Iterator[Proposal]:
    """Yield proposals, with those one where lines need the same change of their costs."""
    alike: dict[object, list[Proposal]] = {}
    for number, proposal in enumerate(proposals):
        plain = proposal.changes and proposal.edit is None and proposal.waits is None
        alike.setdefault((proposal.help, proposal.bound) if plain else number, []).append(proposal)
    for first, *others in alike.values():
        if others:
            rest = np.concatenate([other.entries for other in others])
            first = replace(
                first,
                message=f"{first.message}; likewise {counted(len(rest), 'instruction')} of other lines",
                entries=np.concatenate((first.entries, rest)),
                changes=tuple(change for p in (first, *others) for change in p.changes),
            )
        yield first


def _one_per_cause(told: Iterable[tuple[Advice, bool]]) -> Iterator[Advice]:
    """Yield advice; of several edits by one rule on a line, which are alternatives, the best."""
    given: set[tuple[str, str]] = set()
    for advice, is_edit in told:
        causes = {(advice.rule, place) for place in advice.places} if is_edit else set()
        if not causes & given:
            given |= causes
            yield advice


def _edited_ns(replay: Replay, proposal: Proposal) -> int | None:
    """Return the time of the program with an edit; None where it has none, or the program refuses it."""
    if proposal.edit is None:
        return None
    kernels, edited = [], False
    for kernel in replay.traced:
        try:
            kernel = proposal.edit(Draft(kernel))
            edited = True
        except Refused:  # a core may have none of these instructions
            pass
        kernels.append(kernel)
    try:
        return replay.total_ns(kernels) if edited else None
    except NkiError:  # it does not fit, or does not compile
        return None


def _most_ns(evidence: Evidence, proposal: Proposal) -> int:
    """Return what a proposal can save at most, without timing it."""
    if proposal.unmodelled_ns:
        return proposal.unmodelled_ns
    if proposal.most_ns is not None:
        return proposal.most_ns
    saved = evidence.saved_ns(proposal.changes)
    # Where instructions take as long as before and only wait less, the busiest part of the core is the limit.
    return min(saved, evidence.total_ns) if saved else evidence.total_ns - evidence.busiest_ns


def _gain_ns(evidence: Evidence, proposal: Proposal) -> int:
    """Return what a proposal saves, timing the program again."""
    if proposal.unmodelled_ns or not proposal.costs:
        return _most_ns(evidence, proposal)
    timeline, program = evidence.timeline, evidence.timeline.program
    changed = QueuedProgram(
        program.positions,
        evidence.changed(proposal.changes) if proposal.changes else program.records,
        proposal.waits or program.waits,
        program.queues,
    )
    board = times_of(changed, proposal.target or evidence.target)
    gain = timeline.total_ns - Timeline(timeline.execution, timeline.options, board).total_ns
    return gain if proposal.most_ns is None else min(gain, proposal.most_ns)


def _untimed(evidence: Evidence) -> str:
    count = counted(len(evidence.records), "instruction")
    return f"what the change takes away by itself; {count}, not timed again"
