"""Measures times: the best of several, with one BLAS thread and the collector at rest."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from threadpoolctl import ThreadpoolController


@contextmanager
def quiet() -> Iterator[None]:
    """Measure inside: BLAS has one thread, and the cyclic collector does not run in between."""
    running = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with ThreadpoolController().limit(limits=1, user_api="blas"):
            yield
    finally:
        if running:
            gc.enable()


def best(
    *calls: Callable[[], object],
    times: int = 5,
    least: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the shortest time of each call, in seconds.

    The calls take turns, so that a busy moment of the machine meets all of them.

    Args:
        calls: functions without arguments.
        times: rounds at least.
        least: go on for this many seconds.
        clock: tells the time; by default that of a wall.
    """
    found = [float("inf")] * len(calls)
    rounds, start = 0, time.perf_counter()
    while rounds < times or time.perf_counter() - start < least:
        for k, call in enumerate(calls):
            before = clock()
            call()
            found[k] = min(found[k], clock() - before)
        rounds += 1
    return found
