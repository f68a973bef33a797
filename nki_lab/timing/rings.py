"""Times queues of DMA transfers, which wait for their issuer and for the DMA engines."""

from __future__ import annotations

from collections import deque

from nki_lab.timing.board import NEVER, Board, Running, last_unknown
from nki_lab.timing.queues import SharingQueue


class Ring:
    """A queue of transfers that the DMA engines serve in order.

    Partitions are dealt to the DMA engines in order, so every transfer has descriptors on the first engine and none
    has more on another: that engine finishes each of them last and stands for all sixteen. A transfer is then one
    amount of work, and rings share the engines by halving, thirding, ... the rate.

    A ring whose transfer is under way is looked at again when that transfer has ended. What others did to the issuer
    meanwhile is kept in `taken`, so that the next transfer can still be issued in the time that was left.

    Attributes:
        owner: the engine that spends its own time to issue transfers, else None. Then transfers are issued while
            earlier ones are under way, because the owner has other things to do.
        rivals: other rings that share the issuer.
        heads: the running queue, which sets `entry` and `ready` for one transfer after the other.
        entry: the next transfer to issue.
        ready: since when it could be issued; NEVER while that is not known.
        since: when its last transfer had been issued: the next one waits from then on.
        free: when the issuer was last known to be free for this ring.
        taken: times after `free` at which the issuer serves another ring.
        issued: transfers on their way to the DMA engines: (time of arrival, entry).
        serving: the transfer the DMA engines work on, or -1.
        left: the work it has left.
    """

    __slots__ = (
        "owner", "rivals", "heads", "entry", "ready", "free", "taken", "issued", "serving", "left", "since",
    )  # fmt: skip

    def __init__(self, entries: list[int], owner: SharingQueue | None, board: Board) -> None:
        self.owner = owner
        self.rivals: list[Ring] = []
        self.heads = self._heads(entries, board)
        self.entry = -1
        self.ready = NEVER
        self.free = 0
        self.taken: deque[tuple[int, int]] = deque()
        self.issued: deque[tuple[int, int]] = deque()
        self.serving = -1
        self.left = 0
        self.since = 0

    def _heads(self, entries: list[int], board: Board) -> Running:
        waits, done = board.waits, board.done
        for n in entries:
            time = self.since
            for w in waits[n]:
                end = done[w]
                if end < 0:
                    self.ready = NEVER
                    while end < 0:
                        yield last_unknown(waits[n], w, done)
                        end = done[w]
                if end > time:
                    time = end
            self.entry = n
            self.ready = time
            yield None
        self.ready = NEVER

    def next_issue(self, cost: int) -> int:
        """Return when the issuer can take the next transfer, which takes it `cost`."""
        if self.owner is not None:
            return max(self.ready, self.owner.free)
        time = max(self.ready, self.free)
        while self.taken and time + cost > self.taken[0][0]:
            time = max(time, self.taken.popleft()[1])
            self.free = max(self.free, time)
        return time

    def issue(self, begin: int, end: int) -> None:
        """Take the issuer from `begin` to `end`."""
        self.free = self.since = end
        if self.owner is not None:
            self.owner.free = end
        for rival in self.rivals:
            under_way = rival.serving >= 0 or bool(rival.issued)
            fits = max(rival.ready, rival.free) + end - begin <= begin
            if under_way and fits:
                rival.taken.append((begin, end))
            elif rival.free < end:
                rival.free = end
