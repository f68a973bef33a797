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


def best(*calls: Callable[[], object], times: int = 5, least: float = 0.0) -> list[float]:
    """Return the shortest wall time of each call, in seconds.

    The calls take turns, so that a busy moment of the machine meets all of them.

    Args:
        calls: functions without arguments.
        times: rounds at least.
        least: go on for this many seconds.
    """
    found = [float("inf")] * len(calls)
    rounds, start = 0, time.perf_counter()
    while rounds < times or time.perf_counter() - start < least:
        for k, call in enumerate(calls):
            before = time.perf_counter()
            call()
            found[k] = min(found[k], time.perf_counter() - before)
        rounds += 1
    return found
