"""Waits: finds what every instruction and every transfer waited for before it began.

Everything is read from the tables Instruction, DmaPacketAggregated and Flow, so that a measured profile, or one read
from a file, answers as well as one that was modelled here.

    start       nothing came before
    order       the instruction before it on its engine
    semaphore   the result of an instruction of another engine, or of its own, which it reads or overwrites
    dma         a transfer that had to arrive
    issue       its trigger (of a transfer)
    ring        the DMA engines, which served another transfer
    port        a memory port or bus that another engine held
    issuer      descriptors of other transfers that were made first
    loop        the pass of a device loop before it
    unknown     nothing in the tables explains it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nki_lab.profiler.analyses.source_lines import dependences, issuers
from nki_lab.profiler.columns import known
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import ENGINES, TRANSFERS
from nki_lab.progress import doing

REASONS = (
    "start", "order", "semaphore", "dma", "issue", "ring", "port", "issuer", "loop", "core", "unknown",
)  # fmt: skip
_START, _ORDER, _SEMAPHORE, _DMA, _ISSUE, _RING, _PORT, _ISSUER, _LOOP, _CORE, _UNKNOWN = range(11)

#: Engines that share a memory port or a bus (trainium_inferentia2_arch.rst:176, trainium2_arch.rst:268).
_SHARING = {"vector": ("gpsimd", "scalar"), "gpsimd": ("vector",), "scalar": ("vector",)}
#: Times are rounded to nanoseconds, so that a sum of two may be one off.
_ROUNDING_NS = 1


@dataclass(frozen=True, eq=False)
class Waits:
    """Why every event began when it did; an event is a row of Instruction, or after those of DmaPacketAggregated.

    Attributes:
        profile: where the events are from.
        start, end: of each event, in ns.
        waited: time it stood at the head of its queue, in ns.
        reason: a position in `REASONS`.
        before: the event it waited for, -1 where there is none; it began earlier, or at the same time and stands
            before it in the program.
    """

    profile: ProfileData
    start: np.ndarray
    end: np.ndarray
    waited: np.ndarray
    reason: np.ndarray
    before: np.ndarray

    @property
    def instructions(self) -> int:
        """Number of events that are instructions."""
        return self.profile.count("Instruction")

    def lane(self, event: int) -> str:
        """Return the engine of an instruction, or the queue of a transfer."""
        if event < self.instructions:
            return self.profile.strings("Instruction", "engine")[event] or ""
        row = event - self.instructions
        return self.profile.strings(TRANSFERS, "queue_name")[row] or "dma"

    def what(self, event: int) -> str:
        """Return the opcode of an instruction, or the tensor a transfer moves."""
        if event < self.instructions:
            return self.profile.strings("Instruction", "opcode")[event] or ""
        return self.profile.strings(TRANSFERS, "variable")[event - self.instructions] or ""

    def place(self, event: int) -> str:
        """Return the line an event comes from; of a transfer, that of its trigger. Empty where unknown."""
        if event >= self.instructions:
            event = int(self._issuers[event - self.instructions])
        if event < 0:
            return ""
        return self.profile.strings("Instruction", "nki_source_location")[event] or ""

    @cached_property
    def _issuers(self) -> np.ndarray:
        return issuers(self.profile)


@doing("finding what events waited for")
def _search(profile: ProfileData) -> tuple[np.ndarray, ...]:
    return _Search(profile).found()


def waits(profile: ProfileData) -> Waits:
    """Return what every event of a profile waited for; it is searched once, and the profile keeps the columns."""
    if waits not in profile.answers:
        profile.answers[waits] = _search(profile)
    return Waits(profile, *profile.answers[waits])


class _Search:
    def __init__(self, profile: ProfileData) -> None:
        self.profile = profile
        self.count = profile.count("Instruction")
        starts = [profile.numbers(t, "start_ts") for t in ("Instruction", TRANSFERS)]
        self.start = np.concatenate(starts)
        self.end = np.concatenate(
            [profile.numbers(t, "end_ts") for t in ("Instruction", TRANSFERS)]
        )
        self.engine = profile.strings("Instruction", "engine")
        self.engines = [self.engine.equal_to(name) for name in ENGINES]
        self.reason = np.full(len(self.start), _START)
        self.before = np.full(len(self.start), -1)
        self.waited = np.zeros(len(self.start), dtype=np.int64)
        issuer = issuers(profile)
        self.issuer = issuer
        self.triggers = np.zeros(self.count, dtype=bool)
        self.triggers[issuer[issuer >= 0]] = True

    def found(self) -> tuple[np.ndarray, ...]:
        if self.count:
            self._in_order()
            self._explain()
        if len(self.start) > self.count:
            self._transfers()
        return self.start, self.end, self.waited, self.reason, self.before

    # -- instructions -------------------------------------------------------------------------------------------------

    def _in_order(self) -> None:
        """Let every instruction follow the one before it in its queue, and note how long it stood at the head."""
        start, count = self.start[: self.count], self.count
        recorded = self.profile.column("Instruction", "evt_wait_time_ns")
        for rows in self.engines:
            # A model may let triggers run beside the instructions of their engine; each follows its own kind.
            for kind in (rows & self.triggers, rows & ~self.triggers):
                line = np.flatnonzero(kind)
                line = line[np.lexsort((line, start[line]))]
                self.before[line[1:]] = line[:-1]
                self.reason[line[1:]] = _ORDER
                if recorded is None and len(line):
                    gap = start[line[1:]] - self.end[line[:-1]]
                    self.waited[line[1:]] = np.maximum(gap, 0)
                    self.waited[line[0]] = start[line[0]]
        if recorded is not None:
            assert isinstance(recorded, np.ndarray)
            self.waited[:count] = np.maximum(known(recorded), 0)
        self._loads_of_weights(start)

    def _loads_of_weights(self, start: np.ndarray) -> None:
        """Let a product follow the load of its weights where that ended last, else the product before."""
        opcode = self.profile.strings("Instruction", "opcode")
        loads = opcode.equal_to("LDWEIGHTS")
        if not loads.any():
            return
        line = np.flatnonzero(self.engine.equal_to("tensor"))
        line = line[np.lexsort((line, start[line]))]
        loading = loads[line]
        number = np.arange(len(line))
        product = np.maximum.accumulate(np.where(loading, -1, number))
        # After a load whose end nobody waited for comes the product before it.
        after_load = ~loading[1:] & loading[:-1]
        late = np.abs(self.end[line[:-1]] - start[line[1:]]) <= _ROUNDING_NS
        other = after_load & ~late & (product[:-1] >= 0)
        self.before[line[1:][other]] = line[product[:-1][other]]

    def _explain(self) -> None:
        """Find who was waited for."""
        waiting = np.flatnonzero(self.waited[: self.count] > 0)
        giver = self._latest_giver()[waiting]
        has = giver >= 0
        explained = has.copy()
        if self.profile.is_simulation:  # of a device nothing better is known than what ended last
            late = self.start[waiting[has]] - self._heard(giver[has], waiting[has])
            explained[has] = late <= _ROUNDING_NS
        rows = waiting[explained]
        self.before[rows] = giver[explained]
        self.reason[rows] = np.where(giver[explained] >= self.count, _DMA, _SEMAPHORE)
        self._explain_rest(waiting[~explained])

    def _explain_rest(self, rest: np.ndarray) -> None:
        """Find what held up instructions that waited for no result."""
        if not len(rest):
            return
        start = self.start[: self.count]
        of_engine = {name: _Sorted(self.engine.equal_to(name), start) for name in ENGINES}
        sharing = {name: _Sorted(self._sharers(name), start) for name in ENGINES}
        ended = _Sorted(np.ones(len(self.end), dtype=bool), self.end)
        loops, meets = self._begins_a_pass(), self._meets()
        for row in rest.tolist():
            begin = int(self.start[row])
            name = self.engine[row] or ""
            holder = sharing[name].last_before(begin) if name in sharing else -1
            if meets[row]:
                self._follow(row, _CORE, self._last_ended(ended, begin))
            elif loops[row]:
                self._follow(row, _LOOP, self._last_ended(ended, begin))
            elif self.triggers[row]:
                self._follow(row, _ISSUER, of_engine[name].last_before(begin))
            elif holder >= 0:
                self._follow(row, _PORT, holder)
            else:
                self._follow(row, _UNKNOWN, self._last_ended(ended, begin))

    def _meets(self) -> np.ndarray:
        """Tell in which instructions a core meets the other one."""
        profile = self.profile
        names = profile.strings("CoreBarriers", "engine_name").to_list()
        ends = profile.numbers("CoreBarriers", "end_ts").tolist()
        meetings = {((name or "").lower(), end) for name, end in zip(names, ends, strict=True)}
        if not meetings:
            return np.zeros(self.count, dtype=bool)
        rows = zip(self.engine.to_list(), self.end[: self.count].tolist(), strict=True)
        return np.array([row in meetings for row in rows], dtype=bool)

    def _follow(self, row: int, reason: int, before: int) -> None:
        self.reason[row] = reason if before >= 0 else _START
        self.before[row] = before

    def _sharers(self, name: str) -> np.ndarray:
        rows = np.zeros(self.count, dtype=bool)
        for other in _SHARING.get(name, ()):
            rows |= self.engine.equal_to(other)
        return rows & ~self.triggers

    def _last_ended(self, ended: _Sorted, begin: int) -> int:
        """Return the event that ended last, not after `begin`, having begun before that."""
        return next((e for e in ended.down_from(begin) if self.start[e] < begin), -1)

    def _latest_giver(self) -> np.ndarray:
        """Return, per instruction, what it was to wait for that it heard of last; -1 where there is nothing."""
        result = np.full(self.count, -1)
        giver, taker = dependences(self.profile)
        use = (taker >= 0) & (taker < self.count) & (giver >= 0)
        taker, giver = taker[use], giver[use]
        order = np.lexsort((giver, self._heard(giver, taker), taker))
        result[taker[order]] = giver[order]  # the last of equal takers stays
        return result

    def _heard(self, giver: np.ndarray, taker: np.ndarray) -> np.ndarray:
        """Return when instructions may begin as far as one of those they wait for is concerned."""
        target = self.profile.target
        moved = giver >= self.count
        sender = self.engine.codes[np.where(moved, 0, giver)]
        same_engine = ~moved & (sender == self.engine.codes[taker]) & ~self.triggers[taker]
        later = np.full(len(giver), target.semaphore_hop_ns)
        later[moved] = target.dma_completion_ns
        later[same_engine] = 0
        return self.end[giver] + later

    def _begins_a_pass(self) -> np.ndarray:
        """Tell which instructions are the first of their queue in a pass of a device loop: the program goes back."""
        pc = self.profile.column("Instruction", "compiler_pc")
        result = np.zeros(self.count, dtype=bool)
        if pc is None:
            return result
        assert isinstance(pc, np.ndarray)
        place = known(pc)
        before = self.before[: self.count]
        has = (before >= 0) & (before < self.count)
        result[has] = place[before[has]] >= place[: self.count][has]
        return result

    # -- transfers ----------------------------------------------------------------------------------------------------

    def _transfers(self) -> None:
        count, issuer = self.count, self.issuer
        events = np.arange(count, len(self.start))
        issued = issuer >= 0
        self.before[events[issued]] = issuer[issued]
        self.reason[events[issued]] = _ISSUE
        if not issued.any():
            return
        on_way = self.start[events] - np.where(issued, self.end[issuer], 0)
        lead = self.profile.target.dma_start_ns
        if not self.profile.is_simulation:
            lead = int(on_way[issued].min())  # of a transfer that found the engines idle
        lead += _ROUNDING_NS
        late = events[issued & (on_way > lead)]
        # What was served before: the transfer that ended last, not after this one began.
        ended = _Sorted(np.arange(len(self.end)) >= count, self.end)
        for event in late.tolist():
            earlier = ended.down_from(int(self.start[event]) + _ROUNDING_NS)
            other = next((e for e in earlier if self._serves_before(e, event)), -1)
            arrived = int(self.end[issuer[event - count]]) + lead - _ROUNDING_NS
            if other >= 0 and self.end[other] > self.end[issuer[event - count]]:
                self._follow(event, _RING, other)
                # At the head of its queue it stood while the other one was served.
                self.waited[event] = self.start[event] - max(arrived, int(self.start[other]))

    def _serves_before(self, other: int, event: int) -> bool:
        begin, start = int(self.start[other]), int(self.start[event])
        return begin < start or (begin == start and other < event)


class _Sorted:
    """Some events in the order of a time of theirs."""

    def __init__(self, chosen: np.ndarray, times: np.ndarray) -> None:
        events = np.flatnonzero(chosen)
        self._events = events[np.lexsort((events, times[events]))]
        self._times = times[self._events]

    def last_before(self, time: int) -> int:
        """Return the last event with an earlier time, -1 where there is none."""
        place = int(np.searchsorted(self._times, time)) - 1
        return int(self._events[place]) if place >= 0 else -1

    def down_from(self, time: int) -> Iterator[int]:
        """Yield the events with a time of at most `time`, the latest first."""
        for place in range(int(np.searchsorted(self._times, time, side="right")) - 1, -1, -1):
            yield int(self._events[place])
