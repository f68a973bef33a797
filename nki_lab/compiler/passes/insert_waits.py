"""Gives each instruction the earlier instructions that it waits for.

Engines run side by side, so an instruction waits for the writers of what it reads, and for the readers and writers of
what it overwrites. Bytes decide, not tensors: a tile placed where another one was waits for that one's last users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.passes import compiler_pass
from nki_lab.compiler.passes.dependences import dependences_of
from nki_lab.ir.program.nodes import Kernel
from nki_lab.targets.engines import COMPUTE, DMA, SYNC, Engine


@compiler_pass()
def insert_waits(kernel: Kernel, options: Choices) -> Kernel:
    """Return the kernel with, for every instruction, the positions of those it waits for.

    In a device loop these are the waits of its first pass; each later pass waits for the one before. Waits that others
    imply are left out (`implied_waits`). For an earlier instruction of its own engine, which began before it, an
    instruction waits only when it reads what that one wrote: overwriting keeps the order, and adding onto an operand
    is pipelined.
    """
    implied = ImpliedWaits()
    waits = [
        implied.reduce(candidates, i.form.engine)
        for candidates, i in zip(_candidates(kernel), kernel.instructions, strict=True)
    ]
    return kernel.with_(waits=tuple(waits), dependences=None)


def _candidates(kernel: Kernel) -> Iterator[list[int]]:
    """Yield, per instruction, the earlier ones it may have to wait for, the latest first."""
    before, after, result = kernel.dependences or dependences_of(kernel, ordered=True)
    touches = kernel.touches
    engine = np.array([form.engine.value for form in touches.forms])[touches.form]
    looks = touches.per_form(lambda form: form.definition.observes)
    by_engine = (engine[before] != engine[after]) | (engine[after] == DMA.value)
    # What only looks takes no time, and nothing waits for it; but the author may ask for that.
    chosen = ~looks[after] & (result | (by_engine & ~looks[before]))
    before, after = before[chosen], after[chosen]
    order = np.lexsort((-before, after))
    ends = np.cumsum(np.bincount(after, minlength=len(kernel.instructions))).tolist()
    candidates = before[order].tolist()
    start = 0
    for end in ends:
        yield candidates[start:end]
        start = end


# -- implied waits ----------------------------------------------------------------------------------------------------
# Who waits for an instruction also waits for all that it had waited for, and, on an engine that finishes in order, for
# all before it. Transfers finish in any order, so each is a fact to itself. Looking at the latest candidates first
# leaves the transitive reduction: no wait that others imply.

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
