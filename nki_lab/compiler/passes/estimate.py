"""How long does a straight piece of a program take, in its own order or in the order of readiness?

The estimate knows what the timing model's queues know of each instruction (ir/form_times.py) and leaves out what they
share: ports, GpSimd writing descriptors, and the DMA engines serving two rings at once (here one after the other).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from nki_lab.ir.form_times import Queue, Record, RingKey
from nki_lab.targets.engines import TENSOR
from nki_lab.targets.spec import Target

_NEVER = 1 << 62


class Edges(NamedTuple):
    """Per node of a piece, instructions in order and then steps that only gather others: whom it follows.

    Attributes:
        results: those whose results it needs.
        order: those it only has to come after: they read, or wrote, what it overwrites.
    """

    results: Sequence[Sequence[int]]
    order: Sequence[Sequence[int]]


class _Lane:
    """One queue while it is being filled."""

    __slots__ = ("coming", "free", "key", "known", "last", "line", "ready", "table")

    def __init__(self, key: Queue) -> None:
        self.key = key
        self.free = 0  # when it can start the next instruction
        self.last = 0  # when its latest result is visible
        self.table: str | None = None
        self.coming: list[tuple[int, int]] = []  # heap of (time it could start, instruction)
        self.line: list[
            int
        ] = []  # what it still has to take where it keeps an order, the next one last
        self.known: dict[int, int] = {}  # of those, when each could start
        self.ready: list[int] = []  # heap of those that could have started when the queue was free


class Machine:
    """Queues of one core that run instructions, each of which is given to them once all it follows was."""

    def __init__(self, records: Sequence[Record | None], edges: Edges, target: Target) -> None:
        self.records = records
        self.edges = edges
        self.hop = target.semaphore_hop_ns * 1000
        self.table_load = target.scalar_table_load_ns * 1000
        count = len(edges.order)
        self.start = [-1] * count
        self.done = [-1] * count
        self.moved = 0  # when the DMA engines have moved all that was given to them
        self.lanes: dict[Queue, _Lane] = {}
        self.lane_of = [
            None if r is None else self.lanes.setdefault(r.queue, _Lane(r.queue)) for r in records
        ]
        self.lane_of += [None] * (count - len(records))

    @property
    def end(self) -> int:
        """When everything is done."""
        return max(self.done, default=0)

    def earliest(self, n: int) -> int:
        """Return when what instruction `n` follows lets it start, in picoseconds."""
        lane, time = self.lane_of[n], 0
        for kind, others in enumerate((self.edges.results[n], self.edges.order[n])):
            for other in others:
                theirs = self.lane_of[other]
                if self.done[other] < 0:  # a step that gathers others, which all have been run
                    self.run(other, self.earliest(other))
                if theirs is None:
                    known = self.done[other]
                elif theirs is not lane:
                    known = self.done[other] + self.hop
                elif kind == 0 or isinstance(lane and lane.key, RingKey):
                    known = self.done[other]
                else:  # an engine keeps the order of what it starts
                    continue
                if known > time:
                    time = known
        return time

    def run(self, n: int, ready: int) -> None:
        """Start instruction `n`, which could start at `ready`, on its queue."""
        lane = self.lane_of[n]
        record = self.records[n] if lane is not None else None
        if record is None or lane is None:  # it only looks or gathers, and takes no time
            self.start[n] = self.done[n] = ready
            return
        if isinstance(record.queue, RingKey):
            start = max(ready, lane.free)
            issued = start + record.issue
            begins = max(issued + record.lead, self.moved)
            self.moved = begins + record.work
            # While one transfer is moved, one stands in line. More are not settled before: one that could have been
            # issued at any time does not stand before one that is needed sooner.
            lane.free = max(issued, begins - record.lead - record.issue)
            self.start[n], self.done[n] = start, self.moved + record.tail
            return
        if record.table is not None and record.table != lane.table:
            lane.table = record.table
            lane.free += self.table_load
        start = max(ready, lane.free)
        behind = record.load if record.queue is TENSOR else 0
        lane.free = start + max(record.interval, behind)
        self.start[n] = start
        self.done[n] = lane.last = max(lane.free + record.latency, lane.last)


def time_in_order(records: Sequence[Record | None], edges: Edges, target: Target) -> int:
    """Return the time in picoseconds of instructions whose queues take them in the order given."""
    return _filled(records, edges, target, in_order=True)[1]


def order_by_readiness(
    records: Sequence[Record | None], edges: Edges, target: Target
) -> tuple[list[int], int]:
    """Return an order in which no queue waits while it has something to do, and its time in picoseconds.

    List scheduling: of the queues, the one that can start something first takes the earliest instruction (in the order
    given) that can start by then. A Scalar engine first takes what needs the activation table it has.
    """
    return _filled(records, edges, target, in_order=False)


def _filled(
    records: Sequence[Record | None], edges: Edges, target: Target, in_order: bool
) -> tuple[list[int], int]:
    """Fill the queues from the start of time on, and return the order in which that was done, and the end."""
    machine = Machine(records, edges, target)
    followers: list[list[int]] = [[] for _ in edges.order]
    left = [0] * len(followers)
    for kind in edges:
        for n, others in enumerate(kind):
            left[n] += len(others)
            for other in others:
                followers[other].append(n)
    lanes = list(machine.lanes.values())
    if in_order:
        for n in range(len(records) - 1, -1, -1):
            lane = machine.lane_of[n]
            if lane is not None:
                lane.line.append(n)
    order: list[int] = []
    free: list[int] = [n for n, count in enumerate(left) if not count]  # given to no queue yet
    heapify(free)
    while len(order) < len(records):
        while free:
            n = heappop(free)
            lane = machine.lane_of[n]
            if lane is None:
                machine.run(n, machine.earliest(n))
                if n < len(records):
                    order.append(n)
                _release(n, followers, left, free)
            elif in_order:
                lane.known[n] = machine.earliest(n)
            else:
                heappush(lane.coming, (machine.earliest(n), n))
        best, first = None, _NEVER
        for lane in lanes:
            if lane.ready:
                time = lane.free
            elif lane.coming:
                time = max(lane.coming[0][0], lane.free)
            elif lane.line and lane.line[-1] in lane.known:
                time = max(lane.known[lane.line[-1]], lane.free)
            else:
                continue
            if time < first:
                best, first = lane, time
        if best is None:
            break
        while best.coming and best.coming[0][0] <= first:
            heappush(best.ready, heappop(best.coming)[1])
        n = best.line.pop() if in_order else _take(best, records)
        machine.run(n, first)
        order.append(n)
        _release(n, followers, left, free)
    assert len(order) == len(records), "instructions wait for each other"
    return order, machine.end


_LOOKED_AT = 8  # instructions that could start, of which one with the loaded table is looked for


def _take(lane: _Lane, records: Sequence[Record | None]) -> int:
    """Take an instruction that can start: the earliest, but rather one that needs no other activation table."""
    passed: list[int] = []
    found = -1
    while lane.ready and len(passed) < _LOOKED_AT:
        n = heappop(lane.ready)
        record = records[n]
        assert record is not None
        if record.table is None or record.table == lane.table:
            found = n
            break
        passed.append(n)
    if found < 0:
        found = passed.pop(0)
    for n in passed:
        heappush(lane.ready, n)
    return found


def _release(n: int, followers: list[list[int]], left: list[int], free: list[int]) -> None:
    for follower in followers[n]:
        left[follower] -= 1
        if not left[follower]:
            heappush(free, follower)
