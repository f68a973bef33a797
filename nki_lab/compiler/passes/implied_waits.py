"""Which waits of an instruction are implied by others?

Who waits for an instruction also waits for all that it had waited for, and, on an engine that finishes in order, for
all before it. Transfers finish in any order, so each is a fact of its own. Looking at the latest candidates first
leaves the transitive reduction: no wait that others imply.
"""

from __future__ import annotations

from collections.abc import Collection

from nki_lab.targets.engines import COMPUTE, DMA, SYNC, Engine

_NEVER = 1 << 62
_WALK = 64  # transfers that wait for each other in a chain: looked at so far; more waits than needed do no harm
_ENGINES: tuple[Engine, ...] = (*sorted(COMPUTE, key=lambda e: e.value), SYNC)
_LANE = {engine: lane for lane, engine in enumerate(_ENGINES)}

Clock = tuple[
    int, ...
]  # per in-order engine, the position up to which its instructions have finished


class ImpliedWaits:
    """What is known to have finished when each instruction starts; instructions come in program order."""

    def __init__(self) -> None:
        self._nothing: Clock = (-1,) * len(_ENGINES)
        self._clocks: list[Clock] = []  # of each instruction when it starts
        self._latest: list[Clock] = [self._nothing] * len(
            _ENGINES
        )  # of each engine's latest instruction
        # Per engine: transfer -> position of the first instruction that knew it had finished.
        self._known: list[dict[int, int]] = [{} for _ in _ENGINES]
        self._chained: dict[int, tuple[int, ...]] = {}  # transfer -> transfers it waits for
        self._engines: list[Engine] = []

    def reduce(self, candidates: Collection[int], engine: Engine) -> tuple[int, ...]:
        """Add an instruction of `engine`, and return in order those it must wait for of the earlier `candidates`."""
        n = len(self._clocks)
        ahead = [k for k in candidates if k >= n]  # a broken program: kept for `verify` to tell
        if ahead:
            candidates = [k for k in candidates if k < n]
        lane = _LANE.get(engine, -1)
        clock = self._latest[lane] if lane >= 0 else self._nothing
        kept: list[int] = []
        moved: set[int] = (
            set()
        )  # transfers that have finished, because of this instruction's own waits
        if len(candidates) == 1:
            (k,) = candidates
            if not self._implied(k, clock, moved, lane):
                kept.append(k)
                clock = self._after(k, clock, moved)
        elif candidates:
            for k in sorted(candidates, reverse=True):
                if not self._implied(k, clock, moved, lane):
                    kept.append(k)
                    clock = self._after(k, clock, moved)
            kept.reverse()
        self._clocks.append(clock)
        self._engines.append(engine)
        if lane >= 0:
            self._latest[lane] = clock
            known = self._known[lane]
            for transfer in moved:
                known.setdefault(transfer, n)
        else:
            chained = tuple(k for k in kept if self._engines[k] is DMA)
            if chained:
                self._chained[n] = chained
        return (*kept, *ahead)

    def _implied(self, k: int, clock: Clock, moved: set[int], lane: int) -> bool:
        other = _LANE.get(self._engines[k], -1)
        if other >= 0:
            return clock[other] >= k
        if k in moved or (lane >= 0 and k in self._known[lane]):
            return True
        return any(known.get(k, _NEVER) <= at for known, at in zip(self._known, clock, strict=True))

    def _after(self, k: int, clock: Clock, moved: set[int]) -> Clock:
        """Return what is known once `k` has finished, and add the transfers to `moved`."""
        theirs = self._clocks[k]
        if theirs is not clock and theirs is not self._nothing:
            clock = tuple(map(max, clock, theirs))
        other = _LANE.get(self._engines[k], -1)
        if other >= 0:
            return (*clock[:other], max(k, clock[other]), *clock[other + 1 :])
        stack = [k]
        steps = 0
        while stack and steps < _WALK:
            transfer = stack.pop()
            steps += 1
            if transfer not in moved:
                moved.add(transfer)
                stack += self._chained.get(transfer, ())
        return clock
