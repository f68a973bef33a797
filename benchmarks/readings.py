"""Reads a published number's counterpart off a run.

A reading is a number in the row's terms (times in nanoseconds) and, for times, the roofline: the least time that
documented peaks allow for the same work, or None where peaks say nothing (a gap, a table load).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from benchmarks.running import Run


class Reading(NamedTuple):
    """What the model says, and the least time by documented peaks (None: they say nothing of it)."""

    value: float
    roofline_ns: float | None = None


Read = Callable[[Run], Reading | None]


def latency(run: Run) -> Reading:
    """Read the time of the whole program."""
    return Reading(run.total_ns, run.roofline_ns)


def duration(name: str, which: int = -1) -> Read:
    """Read the duration of an instruction as profiles show it: from its start until its results are visible."""

    def read(run: Run) -> Reading:
        ran = run.instructions(name)[which]
        return Reading(ran.end - ran.start, run.engine_floor_ns(ran))

    return read


def pace(name: str, first: int = -2) -> Read:
    """Read the time from the start of one instruction to that of the next of its name."""

    def read(run: Run) -> Reading:
        a, b = run.instructions(name)[first], run.instructions(name)[first + 1]
        return Reading(b.start - a.start, run.engine_floor_ns(a))

    return read


def load_of_weights(run: Run) -> Reading:
    """Read the duration of the last load of weights."""
    start, end = run.rows("LDWEIGHTS")[-1]
    return Reading(end - start)


def product(run: Run) -> Reading:
    """Read the duration of the last pass of a product, until its sums are visible."""
    start, end = run.rows("MATMUL")[-1]
    (ran,) = run.instructions("nc_matmul")[-1:]
    return Reading(end - start, run.engine_floor_ns(ran))


def transfer(which: int) -> Read:
    """Read the duration of a transfer, from its first byte to its last one."""

    def read(run: Run) -> Reading:
        ran = run.transfers[which]
        return Reading(ran.end - ran.start, run.dma_floor_ns(ran))

    return read


def start_of_transfer(which: int) -> Read:
    """Read the time from the end of the instruction that triggers a transfer to its first byte."""

    def read(run: Run) -> Reading:
        ran = run.transfers[which]
        return Reading(ran.start - ran.issued)

    return read


def table_load(run: Run) -> Reading:
    """Read the duration of a load of an activation table."""
    return Reading(run.table_load_ns)


def unknown(run: Run) -> None:
    """Read nothing: the source does not tell what the number is of."""


def share(engine: str) -> Read:
    """Read the percentage of the whole time in which an engine, or `dma`, was active."""
    return lambda run: Reading(run.active_percent(engine))


#: Metrics that mean the same for every program. Any metric with `latency` or `threshold` in its name is a latency, too.
KNOWN: dict[str, Read] = {
    "total": latency,
    "window": latency,
    "pe_active": share("tensor"),
    "dve_active": share("vector"),
    "act_active": share("scalar"),
    "pool_active": share("gpsimd"),
    "dma_active": share("dma"),
    "hbm_bytes": lambda run: Reading(run.hbm_bytes),
    "hfu": lambda run: Reading(run.hfu_percent),
    "mfu": lambda run: Reading(run.mfu_percent),
    "mbu": lambda run: Reading(run.mbu_percent),
}


def reader_of(metric: str, own: Mapping[str, Read]) -> Read | None:
    """Return how a metric is read: by the replay's own reader, or as for every program; None for an unknown one."""
    if own.get(metric) is unknown:
        return None
    if metric not in own and ("latency" in metric or "threshold" in metric):
        return latency
    return own.get(metric) or KNOWN.get(metric)
