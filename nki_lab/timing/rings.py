"""How does a queue of DMA transfers stand in line for the DMA engines?"""

from __future__ import annotations

from collections import deque

from nki_lab.timing.board import NEVER, Board, Running
from nki_lab.timing.queues import Issuer


class Ring:
    """A queue of transfers that the DMA engines serve in order.

    Partitions are dealt to the DMA engines in order, so every transfer has descriptors on the first engine and none
    has more on another: that engine finishes each of them last and stands for all sixteen. A transfer is then one
    amount of work, and rings share the engines by halving, thirding, ... the rate.

    Attributes:
        issuer: what spends time to start a transfer.
        ahead: transfers are issued while earlier ones are under way, because the issuer has other things to do.
        rivals: other rings of the issuer.
        heads: the running queue, which sets `entry` and `ready` for one transfer after the other.
        since: when its last transfer had been issued: the next one stands in line from then on.
        entry: the next transfer to issue.
        ready: since when it could be issued; NEVER while that is not known.
        issued: transfers on their way to the DMA engines: (time of arrival, entry).
        serving: the transfer the DMA engines work on, or -1.
        left: the work it has left.
    """

    __slots__ = (
        "issuer",
        "ahead",
        "rivals",
        "since",
        "heads",
        "entry",
        "ready",
        "issued",
        "serving",
        "left",
    )

    def __init__(self, entries: list[int], issuer: Issuer, ahead: bool, board: Board) -> None:
        self.issuer = issuer
        self.ahead = ahead
        self.rivals: list[Ring] = []
        self.since = 0
        self.heads = self._heads(entries, board)
        self.entry = -1
        self.ready = NEVER
        self.issued: deque[tuple[int, int]] = deque()
        self.serving = -1
        self.left = 0

    def _heads(self, entries: list[int], board: Board) -> Running:
        waits, done = board.waits, board.done
        for n in entries:
            time = self.since
            for w in waits[n]:
                known = done[w]
                if known < 0:
                    self.ready = NEVER
                    while known < 0:
                        yield w
                        known = done[w]
                if known > time:
                    time = known
            self.entry = n
            self.ready = time
            yield None
        self.ready = NEVER
