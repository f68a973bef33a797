"""Estimates how long a straight piece of a program takes, in its own order or scheduled.

The estimate knows what the queues of the timing model know of each instruction (ir/definition/form_times.py) and
leaves out what they share: ports, GpSimd writing descriptors, and the DMA engines serving two rings at once (here one
after the other).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from nki_lab.ir.definition.form_times import Queue, Record, RingKey
from nki_lab.targets.engines import TENSOR
from nki_lab.targets.spec import Target

_NEVER = 1 << 62
_LOOKED_AT = 8  # instructions that could start, of which one with the loaded table is looked for


class Edges(NamedTuple):
    """Who follows whom in a piece: its instructions in order, and behind them steps that only gather others.

    Attributes:
        nodes: number of instructions and steps.
        before, after: per edge, the two nodes; the edges of one `before` stand together, and no edge comes twice.
        result: per edge, the later one needs the result of the earlier one, and must not only come after it.
    """

    nodes: int
    before: np.ndarray
    after: np.ndarray
    result: np.ndarray

    @classmethod
    def of(cls, nodes: int, before: np.ndarray, after: np.ndarray, result: np.ndarray) -> Edges:
        """Return edges given in any order; one that is there as a result and not is one of a result."""
        keys = (before.astype(np.int64) * nodes + after) * 2 + ~result
        keys.sort()
        pairs = keys >> 1
        first = np.ones(len(keys), bool)
        np.not_equal(pairs[1:], pairs[:-1], out=first[1:])
        pairs = pairs[first]
        return cls(nodes, pairs // nodes, pairs % nodes, (keys[first] & 1) == 0)


class Piece:
    """A straight piece of a program as the queues of one core see it.

    Args:
        records: the costs of its instructions; None for those that only look.
        edges: who follows whom.
        target: the machine.
    """

    def __init__(self, records: Sequence[Record | None], edges: Edges, target: Target) -> None:
        self.records = records
        self.table_load = target.scalar_table_load_ns * 1000
        keys: dict[Queue | None, int] = {}
        numbers = [-1 if r is None else keys.setdefault(r.queue, len(keys)) for r in records]
        self.lanes: list[Queue | None] = list(keys)
        self.lane_of = numbers + [-1] * (edges.nodes - len(records))
        lane = np.array(self.lane_of, np.int64)
        ring = np.array([isinstance(key, RingKey) for key in (*keys, None)], bool)
        earlier, later = lane[edges.before], lane[edges.after]
        # What is added to the end of the earlier one: nothing on one queue or behind a step, else the time of a signal.
        # An engine keeps the order of what it starts, so that alone asks for no time at all.
        delay = np.where(earlier < 0, 0, target.semaphore_hop_ns * 1000)
        same = (earlier == later) & (earlier >= 0)
        delay[same] = np.where(edges.result | ring[later], 0, -_NEVER)[same]
        self.followers = edges.after.tolist()
        self.delays = delay.tolist()
        ends = np.cumsum(np.bincount(edges.before, minlength=edges.nodes))
        self.ends = [0, *ends.tolist()]
        self.left = np.bincount(edges.after, minlength=edges.nodes).tolist()

    def least_time(self) -> int:
        """Return a time in picoseconds that no order is faster than: that of the busiest queue, or of all transfers."""
        busy, moving = self._busy()
        return max(*busy, sum(moving), 0)

    def time_in_order(self) -> int:
        """Return the time in picoseconds if the queues take their instructions in the order given."""
        return _Queues(self, in_order=True).fill()[1]

    def order_by_readiness(self, ranks: Sequence[int] | None = None) -> tuple[list[int], int]:
        """Return an order in which no queue waits while it has something to do, and its time in picoseconds.

        List scheduling: of the queues, the one that can start something first takes, of the instructions that can start
        by then, the one of the lowest rank. A Scalar engine first takes what needs the activation table it has.

        Args:
            ranks: a permutation of the nodes' numbers; by default the order given.
        """
        return _Queues(self, in_order=False, ranks=ranks).fill()

    def ranks_by_path(self, lane: int | None = None) -> list[int]:
        """Return the ranks of nodes by the work that has to follow each of them, the most first.

        Args:
            lane: count only the work of one queue, such as the busiest; by default the time of all, with the signals
                between them: the critical path.
        """
        nodes = len(self.lane_of)
        work = [0] * nodes
        for n, record in enumerate(self.records):
            if record is not None and (lane is None or self.lane_of[n] == lane):
                transfer = isinstance(record.queue, RingKey)
                work[n] = record.work + record.issue if transfer else _occupied(record)
        path = work.copy()
        # Steps behind the last instruction are followed by instructions, so numbers do not order the nodes: each is
        # done when all its followers are.
        before: list[list[int]] = [[] for _ in range(nodes)]
        open_followers = [0] * nodes
        for n in range(nodes):
            for follower in self.followers[self.ends[n] : self.ends[n + 1]]:
                before[follower].append(n)
                open_followers[n] += 1
        waiting = [n for n in range(nodes) if not open_followers[n]]
        while waiting:
            n = waiting.pop()
            for earlier in before[n]:
                path[earlier] = max(path[earlier], work[earlier] + path[n])
                open_followers[earlier] -= 1
                if not open_followers[earlier]:
                    waiting.append(earlier)
        ranks = [0] * nodes
        for rank, n in enumerate(sorted(range(nodes), key=lambda n: (-path[n], n))):
            ranks[n] = rank
        return ranks

    def busiest(self) -> int:
        """Return the queue with the most work."""
        busy, moving = self._busy()
        return max(range(len(self.lanes)), key=lambda lane: busy[lane] + moving[lane])

    def _busy(self) -> tuple[list[int], list[int]]:
        """Return how long each queue issues or computes, and how long its transfers move data."""
        busy, moving = [0] * len(self.lanes), [0] * len(self.lanes)
        for record, lane in zip(self.records, self.lane_of, strict=False):
            if record is None:
                continue
            if isinstance(record.queue, RingKey):
                busy[lane] += record.issue
                moving[lane] += record.work
            else:
                busy[lane] += _occupied(record)
        return busy, moving


def _occupied(record: Record) -> int:
    """Return how long an instruction keeps its engine from the next one."""
    behind = record.load if record.queue is TENSOR else 0
    return max(record.interval, behind)


class _Queues:
    """The queues of one core while they are filled from the start of time on; each list has an entry per queue."""

    def __init__(self, piece: Piece, in_order: bool, ranks: Sequence[int] | None = None) -> None:
        self.piece = piece
        nodes = range(len(piece.left))
        self.rank: Sequence[int] = nodes if ranks is None else ranks
        self.node: Sequence[int] = nodes if ranks is None else sorted(nodes, key=ranks.__getitem__)
        self.in_order = in_order
        self.left = piece.left.copy()  # per node: how many it follows are still to be run
        self.could = [0] * len(piece.left)  # per node: when those that were run let it start
        count = len(piece.lanes)
        self.free = [0] * count  # when it can start the next instruction
        self.last = [0] * count  # when its latest result is visible
        self.table: list[str | None] = [None] * count
        self.next = [_NEVER] * count  # when it can start something that it has
        self.coming: list[list[tuple[int, int]]] = [[] for _ in piece.lanes]  # heaps: when, what
        self.ready: list[list[int]] = [[] for _ in piece.lanes]  # heaps of what could have started
        self.line: list[list[int]] = [[] for _ in piece.lanes]  # in order: what is left, reversed
        if in_order:
            for n in range(len(piece.records) - 1, -1, -1):
                if piece.lane_of[n] >= 0:
                    self.line[piece.lane_of[n]].append(n)
        self.moved = 0  # when the DMA engines have moved all that was given to them
        self.end = 0  # when everything is done
        self.aside: list[int] = []  # heap of what runs on no queue, and takes no time

    def fill(self) -> tuple[list[int], int]:
        """Give the queues everything, and return the order in which that was done, and the end."""
        piece, records = self.piece, self.piece.records
        order: list[int] = []
        for n, left in enumerate(piece.left):
            if not left:
                self._give(n)
        while True:
            while self.aside:
                n = heappop(self.aside)
                if n < len(records):
                    order.append(n)
                self._done(n, self.could[n])
            first = min(self.next, default=_NEVER)
            if first == _NEVER:
                break
            lane = self.next.index(first)
            n = self.line[lane].pop() if self.in_order else self._take(lane, first)
            done = self._run(n, lane, first)
            order.append(n)
            self._look(lane)
            self._done(n, done)
        assert len(order) == len(records), "instructions wait for each other"
        return order, self.end

    def _give(self, n: int) -> None:
        """Take note of a node that follows nothing which is still to be run."""
        lane = self.piece.lane_of[n]
        if lane < 0:
            heappush(self.aside, n)
            return
        if not self.in_order:
            heappush(self.coming[lane], (self.could[n], self.rank[n]))
        elif self.line[lane][-1] != n:
            return
        time = max(self.could[n], self.free[lane])
        if time < self.next[lane]:
            self.next[lane] = time

    def _look(self, lane: int) -> None:
        """Find out when a queue can start something after what it has taken."""
        free, line, coming = self.free[lane], self.line[lane], self.coming[lane]
        if self.ready[lane]:
            self.next[lane] = free
        elif coming:
            self.next[lane] = max(coming[0][0], free)
        elif line and not self.left[line[-1]]:
            self.next[lane] = max(self.could[line[-1]], free)
        else:
            self.next[lane] = _NEVER

    def _run(self, n: int, lane: int, start: int) -> int:
        """Start an instruction on its queue, and return when it is done."""
        record = self.piece.records[n]
        assert record is not None
        if isinstance(record.queue, RingKey):
            issued = start + record.issue
            begins = max(issued + record.lead, self.moved)
            self.moved = begins + record.work
            # At most one transfer is queued behind the active one. More are not fixed early: one that could have been
            # issued at any time does not stand before one that is needed sooner.
            self.free[lane] = max(issued, begins - record.lead - record.issue)
            return self.moved + record.tail
        if record.table is not None and record.table != self.table[lane]:
            self.table[lane] = record.table
            start = max(start, self.free[lane] + self.piece.table_load)
        free = self.free[lane] = start + _occupied(record)
        done = self.last[lane] = max(free + record.latency, self.last[lane])
        return done

    def _done(self, n: int, done: int) -> None:
        """Let those that follow a node know that it is done."""
        if done > self.end:
            self.end = done
        piece, left, could = self.piece, self.left, self.could
        low, high = piece.ends[n], piece.ends[n + 1]
        for follower, delay in zip(piece.followers[low:high], piece.delays[low:high], strict=True):
            if done + delay > could[follower]:
                could[follower] = done + delay
            left[follower] -= 1
            if not left[follower]:
                self._give(follower)

    def _take(self, lane: int, now: int) -> int:
        """Take an instruction that can start: the earliest, but rather one that needs no other activation table."""
        ready, coming = self.ready[lane], self.coming[lane]
        while coming and coming[0][0] <= now:
            heappush(ready, heappop(coming)[1])
        passed: list[int] = []
        chosen = -1
        while ready and len(passed) < _LOOKED_AT:
            rank = heappop(ready)
            record = self.piece.records[self.node[rank]]
            assert record is not None
            if record.table is None or record.table == self.table[lane]:
                chosen = rank
                break
            passed.append(rank)
        if chosen < 0:
            chosen = passed.pop(0)
        for rank in passed:
            heappush(ready, rank)
        return self.node[chosen]
