"""Times programs by the timing model while they are compiled, so that a pass keeps only what gains time.

A device loop runs trip by trip, and a trip begins when everything before it is complete. So a run is a row of
stretches between two such moments, and of all trips those between the first and the last take the same time. Where a
loop runs often, or values decide how often, some few trips show every stretch there can be; a program is then faster
if none of them takes longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from nki_lab.choices import Choices
from nki_lab.compiler.passes.insert_waits import insert_waits
from nki_lab.ir.program.execution import Execution
from nki_lab.ir.program.nodes import Instruction, Kernel, Loop
from nki_lab.timing import total_ns
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.program import LOOP_TRIP, program_of
from nki_lab.timing.schedule import times_of
from nki_lab.timing.two_cores import schedule_cores

_MOST_ENTRIES = 2_000  # that are executed where loops are timed as they run
_FEW = 3  # trips: the first, the last, and one between
_DECIDED = (0, 1, _FEW)  # trips of a loop whose number of trips values decide
_MOST_RUNS = 9  # that are timed of one program
_LONG = 5_000  # instructions

Trips = Mapping[int, int]  # by the number of the loop


def fastest(kernel: Kernel, others: Sequence[Kernel]) -> Kernel:
    """Return the program that takes the least time; `kernel` where no other is faster.

    `others` are `kernel` in other orders or on other engines, the best by some estimate first. Of long programs the
    first that is faster is taken. None is looked at where values decide how often more than two loops run.
    """
    if not others:
        return kernel
    runs, exact = _runs(kernel)
    if len(runs) > _MOST_RUNS:
        return kernel
    best, least = kernel, _stretches(kernel, runs)
    for other in others:
        times = _stretches(other, runs)
        if times.sum() < least.sum() and (exact or bool((times <= least).all())):
            best, least = other, times
            if len(kernel.instructions) > _LONG:
                break
    return best


def modelled_ns(*kernels: Kernel) -> int:
    """Return the modelled time of the programs of a logical core's cores, in their present order, in nanoseconds.

    Device loops run a few times where values decide how often, or where they run often.
    """
    executions = [
        _execution(insert_waits(kernel, Choices()), _runs(kernel)[0][-1]) for kernel in kernels
    ]
    if len(executions) > 1:
        return max(t.total_ns for t in schedule_cores(executions, TimingOptions()))
    return total_ns(executions[0])


def _runs(kernel: Kernel) -> tuple[list[Trips], bool]:
    """Return how often the loops run in those runs that are timed, and whether that is how they always run."""
    trips = {r.loop.number: _trips_of(r.loop) for r in kernel.loops}
    fixed_trips = {n: count for n, count in trips.items() if count is not None}
    decided = [n for n in trips if n not in fixed_trips]
    if not decided and _executed(kernel.body, fixed_trips) <= _MOST_ENTRIES:
        return [fixed_trips], True
    few = {n: min(count, _FEW) for n, count in fixed_trips.items()}
    counts = product(_DECIDED, repeat=len(decided))
    return [few | dict(zip(decided, some, strict=True)) for some in counts], False


def _trips_of(loop: Loop) -> int | None:
    """Return how often a loop runs; None where values decide it."""
    if loop.kind != "for" or not all(type(bound) is int for bound in loop.bounds):
        return None
    return len(range(*loop.bounds))


def _executed(body: tuple[Instruction | Loop, ...], trips: Trips) -> int:
    """Return how many instructions a body executes."""
    return sum(
        _executed(node.body, trips) * trips[node.number] if isinstance(node, Loop) else 1
        for node in body
    )


def _stretches(kernel: Kernel, runs: Sequence[Trips]) -> np.ndarray:
    """Return the times of all stretches of some runs of a program, in picoseconds."""
    kernel = insert_waits(kernel, Choices())
    times: list[int] = []
    for trips in runs:
        board = times_of(program_of(_execution(kernel, trips), 1.0), kernel.target)
        ends = [0]
        if kernel.has_loops:
            at = np.flatnonzero(np.asarray(board.program.positions) == LOOP_TRIP)
            ends += [board.start[n] for n in at.tolist()]
        times += np.diff([*ends, max(board.end, default=0)]).tolist()
    return np.array(times, np.int64)


def _execution(kernel: Kernel, trips: Trips) -> Execution:
    return Execution.of(kernel, tuple(_entered(kernel.body, trips)))


def _entered(body: tuple[Instruction | Loop, ...], trips: Trips) -> Iterator[int]:
    """Yield how often each loop runs, as often as it is entered."""
    for node in body:
        if isinstance(node, Loop):
            count = trips[node.number]
            yield count
            for _ in range(count):
                yield from _entered(node.body, trips)
