"""A scoreboard: records the times that are settled, and who waits for the others."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from nki_lab.ir.definition.cost import Port
from nki_lab.targets.spec import Target
from nki_lab.timing.program import QueuedProgram

#: A time after everything.
NEVER = 1 << 62

#: A queue that runs: yields the entry it waits for, or None when somebody else has to let it go on.
Running = Iterator[int | None]


class Board:
    """Times in picoseconds, one per entry of the program; -1 where not known yet.

    Attributes:
        program: the executed stream.
        start: an instruction begins, or the first byte of a transfer moves.
        end: results are visible to the same engine, or the last byte has arrived.
        done: a waiting instruction of another queue may start.
        trigger: the issue of a transfer begins.
        table_loads: (entry, start) of each activation table that had to be loaded for an entry.
        products: (start of loading weights, start and end of the products) per entry of the Tensor queue.
        ports: when each shared port is free.
        waiting: entry -> queues that wait for its time.
        runnable: queues that can go on.
        hop: a semaphore's way from engine to engine.
    """

    def __init__(self, program: QueuedProgram, target: Target) -> None:
        size = len(program.records)
        self.program = program
        self.records = program.records
        self.waits = program.waits
        self.start = [-1] * size
        self.end = [-1] * size
        self.done = [-1] * size
        self.trigger = [-1] * size
        self.table_loads: list[tuple[int, int]] = []
        self.products: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.ports: dict[Port, int] = dict.fromkeys(Port, 0)
        self.waiting: dict[int, list[Running]] = {}
        self.runnable: list[Running] = []
        self.hop = target.semaphore_hop_ns * 1000
        self.table_load = target.scalar_table_load_ns * 1000

    def settled(self) -> int:
        """Return how many entries have their times; those of a queue get them in order."""
        queues = self.program.queues.values()
        return sum(bisect_left(queue, True, key=lambda n: self.done[n] < 0) for queue in queues)


def last_unknown(waits: tuple[int, ...], first: int, done: list[int]) -> int:
    """Return what to wait for when the time of `first` is not known: the last entry likely to be known last."""
    return waits[-1] if done[waits[-1]] < 0 else first
