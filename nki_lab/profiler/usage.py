"""Computes how full the on-chip memories were over time.

The maker of a profile knows which tensor lies where, and from when to when; these functions turn
that into the tables SbufUsage, PsumUsage and SbufAllocation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nki_lab.profiler.columns import Strings, take
from nki_lab.profiler.intervals import steps
from nki_lab.targets import Target

#: Partitions that Explorer's SBUF tables look at.
PROBED_PARTITIONS = (0, 32, 64, 96)


@dataclass(frozen=True)
class Allocations:
    """Bytes of on-chip memory in use, one row per tensor and time it is in use.

    Attributes:
        start_ns, end_ns: from first to last access.
        address, size: first byte and bytes, within a partition.
        partition, partitions: first partition and their number.
        tensor: names.
        origin: further columns of SbufAllocation, about what wrote the tensor first.
    """

    start_ns: np.ndarray
    end_ns: np.ndarray
    address: np.ndarray
    size: np.ndarray
    partition: np.ndarray
    partitions: np.ndarray
    tensor: Strings
    origin: Mapping[str, Any] = field(default_factory=dict)

    def covering(self, partition: int) -> np.ndarray:
        """Return which rows occupy `partition`."""
        return (self.partition <= partition) & (partition < self.partition + self.partitions)


def sbuf_usage(allocations: Allocations, target: Target) -> Mapping[str, Any]:
    """Make the table SbufUsage: fullness of all partitions and of the probed ones over time.

    Fractions are of the physical partition, reserved bytes included.
    """
    whole = target.partitions * target.sbuf_bytes_per_partition
    result = _fullness(allocations, allocations.size * allocations.partitions / whole)
    for partition in PROBED_PARTITIONS:
        used = np.where(
            allocations.covering(partition),
            allocations.size / target.sbuf_bytes_per_partition,
            0.0,
        )
        name = f"partition_{partition}_util_percent"
        result[name] = _fullness(allocations, used)["avg_util_percent"]
    return result


def psum_usage(allocations: Allocations, target: Target) -> Mapping[str, Any]:
    """Make the table PsumUsage: fullness of PSUM and of each of its banks over time."""
    share = allocations.partitions / target.partitions
    result = _fullness(
        allocations, allocations.size * share / (target.psum_banks * target.psum_bank_bytes)
    )
    end = allocations.address + allocations.size
    for bank in range(target.psum_banks):
        low = bank * target.psum_bank_bytes
        inside = np.minimum(end, low + target.psum_bank_bytes) - np.maximum(
            allocations.address, low
        )
        used = np.maximum(inside, 0) * share / target.psum_bank_bytes
        result[f"bank_{bank}_util_percent"] = _fullness(allocations, used)["avg_util_percent"]
    return result


def sbuf_allocation(allocations: Allocations) -> Mapping[str, Any]:
    """Make the table SbufAllocation: who lies where in the probed partitions, and when."""
    chosen = [np.flatnonzero(allocations.covering(p)) for p in PROBED_PARTITIONS]
    rows = np.concatenate(chosen)
    order = np.lexsort((allocations.address[rows], allocations.start_ns[rows]))
    probed = np.repeat(PROBED_PARTITIONS, [len(part) for part in chosen])[order]
    rows = rows[order]
    return {
        "start_ts": allocations.start_ns[rows],
        "end_ts": allocations.end_ns[rows],
        "start_address": allocations.address[rows],
        "end_address": allocations.address[rows] + allocations.size[rows] - 1,  # inclusive
        "partition": probed,
        "tensor_name": take(allocations.tensor, rows),
        **{name: take(column, rows) for name, column in allocations.origin.items()},
        "pcore_idx": 0,
    }


def _fullness(allocations: Allocations, weight: np.ndarray) -> dict[str, Any]:
    if not len(weight):
        return {"timestamp": np.zeros(0, dtype=np.int64), "avg_util_percent": np.zeros(0)}
    times, used = steps(allocations.start_ns, allocations.end_ns, weight)
    # Adding and taking away fractions leaves crumbs: an empty memory must read 0.
    used = np.where(np.abs(used) < 1e-12, 0.0, used)
    return {"timestamp": times, "avg_util_percent": used, "pcore_idx": 0}
