"""Curves: numbers that change during a run, such as memory in use, transfers waiting, bytes and products per second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nki_lab.profiler import intervals
from nki_lab.profiler.data import ProfileData
from nki_lab.profiler.schema import TABLES

#: Table -> title, column, factor and unit of its curve.
_CURVES = {
    "SbufUsage": ("SBUF usage", "avg_util_percent", 100.0, "%"),
    "PsumUsage": ("PSUM usage", "avg_util_percent", 100.0, "%"),
    "PendingDma": ("Pending DMA", "value", 1.0, "transfers"),
    "DmaUsage": ("DMA throughput", "current_throughput", 1e-9, "GB/s"),
    "HbmUsage": ("HBM throughput", "current_throughput", 1e-9, "GB/s"),
}


class Curve(NamedTuple):
    """A number over time.

    Attributes:
        title, unit: what it says.
        core: the core it is of.
        times: when it changes, in ns.
        values: what it is from then on.
        limit: the most it can be, 0 where nothing limits it.
    """

    title: str
    unit: str
    core: int
    times: np.ndarray
    values: np.ndarray
    limit: float = 0.0


def most_text(curve: Curve, most: float) -> str:
    """Say how far a curve gets, and how far it could: "at most 324 of 368 GB/s"; of memory, of what is usable."""
    digits = 0 if most >= 100 or curve.unit == "transfers" else 1 if most >= 10 else 2
    of = f" of {curve.limit:,.0f}" if curve.limit and curve.unit != "%" else ""
    # Not of the fullest partition, and of SBUF without what is reserved.
    memory = " of usable" if curve.title.endswith(" usage") else ""
    return f"at most {most:,.{digits}f}{of} {curve.unit}{memory}"


def curves(profile: ProfileData) -> Iterator[Curve]:
    """Yield the curves of a run, kind by kind; those of which nothing is known are left out."""
    target = profile.target
    limits = {
        "%": 100.0,
        "DMA throughput": float(target.dma_bytes_per_ns_all_engines),
        "HBM throughput": float(target.hbm_stack_bytes_per_ns),
    }
    for table, (title, column, scale, unit) in _CURVES.items():
        assert column in TABLES[table]
        times = profile.numbers(table, "timestamp")
        values = profile.numbers(table, column) * scale
        if table == "SbufUsage":  # Neuron Explorer's table counts reserved bytes; the views do not
            share = target.sbuf_bytes_per_partition / target.sbuf_usable_bytes_per_partition
            values = values * share
        core = profile.numbers(table, "pcore_idx")
        limit = limits.get(title, limits.get(unit, 0.0))
        for number in np.unique(core).tolist():
            rows = (core == number) & (times >= 0)
            yield Curve(title, unit, number, times[rows], values[rows], limit)
    yield from _utilisation(profile)


def _utilisation(profile: ProfileData) -> Iterator[Curve]:
    """Yield how much of what its Tensor engine can multiply each core did, as `mfu_estimated_percent` counts it."""
    flops = profile.numbers("Instruction", "raw_flops") - profile.numbers(
        "Instruction", "flops_transpose"
    )
    start = profile.numbers("Instruction", "start_ts")
    end = profile.numbers("Instruction", "end_ts")
    core = profile.numbers("Instruction", "pcore_idx")
    peak = profile.target.tensor_peak_flops_per_ns
    for number in profile.cores:
        rows = np.flatnonzero((flops > 0) & (core == number) & (end > start))
        if len(rows):
            share = flops[rows] / ((end - start)[rows] * peak)
            times, values = intervals.steps(start[rows], end[rows], 100.0 * share)
            # Adding and taking away fractions leaves crumbs.
            yield Curve("MFU", "%", number, times, np.where(values < 1e-9, 0.0, values), 100.0)
