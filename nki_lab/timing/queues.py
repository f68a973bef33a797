"""Times the in-order queue of one engine.

A queue is a generator: it runs ahead as far as times are known, yields the entry it has to wait for, and is resumed
when that entry's time is known.
"""

from __future__ import annotations

from nki_lab.ir.definition.cost import Port
from nki_lab.targets.engines import Engine
from nki_lab.timing.board import NEVER, Board, Running, last_unknown


def engine_queue(engine: Engine, entries: list[int], board: Board) -> Running:
    """Run an engine that shares nothing.

    An instruction starts when the one before it has used up its interval and what it waits for is done; its results
    are visible a latency later. An activation table is loaded as soon as the engine is free, ahead of the data.
    """
    records, waits, hop = board.records, board.waits, board.hop
    start, end, done = board.start, board.end, board.done
    waiting, runnable = board.waiting, board.runnable
    free = last = 0
    loaded = None
    for n in entries:
        record = records[n]
        table = record.table
        if table is not None and table != loaded:
            board.table_loads.append((n, free))
            loaded = table
            free += board.table_load
        time = free
        for w in waits[n]:
            heard = done[w]
            while heard < 0:
                yield last_unknown(waits[n], w, done)
                heard = done[w]
            if heard > time:
                if records[w].queue is engine:
                    heard -= hop
                if heard > time:
                    time = heard
        start[n] = time
        free = time + record.interval
        heard = free + record.latency
        if heard < last:  # results come in order
            heard = last
        end[n] = last = heard
        done[n] = heard + hop
        if n in waiting:
            runnable += waiting.pop(n)


class SharingQueue:
    """An engine that shares ports with another one, or that writes descriptors between its instructions.

    Attributes:
        free: when the engine can start its next instruction.
        ready: since when its next instruction could start; NEVER while that is not known.
        heads: the running queue, which sets `ready` for one instruction after the other.
    """

    __slots__ = (
        "free",
        "ready",
        "heads",
        "_entry",
        "_since",
        "_last",
        "_loaded",
        "_board",
        "_contested",
    )

    def __init__(
        self, engine: Engine, entries: list[int], board: Board, contested: set[Port]
    ) -> None:
        self.free = 0
        self.ready = NEVER
        self.heads = self._heads(engine, entries)
        self._entry = -1
        self._since = 0
        self._last = 0
        self._loaded: str | None = None
        self._board = board
        self._contested = contested

    def _heads(self, engine: Engine, entries: list[int]) -> Running:
        board = self._board
        records, done = board.records, board.done
        for n in entries:
            time = self._since
            for w in board.waits[n]:
                while done[w] < 0:
                    yield last_unknown(board.waits[n], w, done)
                end = done[w] - (board.hop if records[w].queue is engine else 0)
                if end > time:
                    time = end
            table = records[n].table
            if table is not None and table != self._loaded:
                board.table_loads.append((n, self.free))
                self._loaded = table
                self.free += board.table_load
            self._entry = n
            self.ready = time
            yield None
            self.ready = NEVER

    def commit(self, time: int) -> int:
        """Start the next instruction at `time`, or when its ports are free, and return its entry."""
        board, n = self._board, self._entry
        record = board.records[n]
        ports = [p for p in record.ports if p in self._contested]
        for port in ports:
            time = max(time, board.ports[port])
        board.start[n] = time
        self.free = self._since = time + record.interval
        for port in ports:
            board.ports[port] = self.free
        board.end[n] = self._last = max(self.free + record.latency, self._last)
        board.done[n] = board.end[n] + board.hop
        self.ready = NEVER
        return n
