"""Removes the waits of an instruction that other waits imply.

Who waits for an instruction also waits for all that it had waited for, and, on an engine that finishes in order, for
all before it. Transfers finish in any order, so each is a fact to itself. Looking at the latest candidates first
leaves the transitive reduction: no wait that others imply.
"""

from __future__ import annotations

from collections.abc import Sequence

from nki_lab.targets.engines import COMPUTE, SYNC, Engine

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
        # Transfer -> in-order engines, each with the position of its first instruction that knew it had finished.
        self._known: dict[int, list[tuple[int, int]]] = {}
        self._chained: dict[int, tuple[int, ...]] = {}  # transfer -> transfers it waits for
        self._lanes: list[int] = []  # of each instruction; -1 for a transfer

    def reduce(self, candidates: Sequence[int], engine: Engine) -> tuple[int, ...]:
        """Add an instruction of `engine`, and return in order those it must wait for.

        Args:
            candidates: positions of earlier instructions it may have to wait for, the latest first.
            engine: the engine that runs it.
        """
        clocks, lanes = self._clocks, self._lanes
        n = len(clocks)
        lane = _LANE.get(engine, -1)
        clock = self._latest[lane] if lane >= 0 else self._nothing
        kept: list[int] = []
        moved: list[int] = []  # transfers that have finished, because of its own waits
        for k in candidates:
            if k >= n:  # a broken program: kept for `verify` to tell
                kept.append(k)
                continue
            other = lanes[k]
            if other >= 0:
                if clock[other] >= k:
                    continue
            elif k in moved or self._heard(k, clock, lane):
                continue
            kept.append(k)
            theirs = clocks[k]
            if clock is self._nothing:
                clock = theirs
            elif theirs is not clock and theirs is not self._nothing:
                clock = tuple(map(max, clock, theirs))
            if other >= 0:
                clock = (*clock[:other], k, *clock[other + 1 :])
            else:
                self._add(k, moved)
        if len(kept) > 1:
            kept.sort()
        clocks.append(clock)
        lanes.append(lane)
        if lane >= 0:
            self._latest[lane] = clock
            for transfer in moved:
                implied = self._known.setdefault(transfer, [])
                if all(engine != lane for engine, _ in implied):
                    implied.append((lane, n))
        elif moved:
            self._chained[n] = tuple(k for k in kept if k < n and lanes[k] < 0)
        return tuple(kept)

    def _heard(self, transfer: int, clock: Clock, lane: int) -> bool:
        """Tell whether this engine, or an instruction that has finished by `clock`, knew that a transfer has."""
        for engine, at in self._known.get(transfer, ()):  # noqa: SIM110, a generator takes twice as long
            if engine == lane or clock[engine] >= at:
                return True
        return False

    def _add(self, transfer: int, moved: list[int]) -> None:
        """Add a transfer to those that have finished, and the ones it waits for."""
        if transfer not in self._chained:
            moved.append(transfer)
            return
        stack, steps = [transfer], 0
        while stack and steps < _WALK:
            k = stack.pop()
            steps += 1
            if k not in moved:
                moved.append(k)
                stack += self._chained.get(k, ())
