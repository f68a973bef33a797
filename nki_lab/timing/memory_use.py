"""How full were SBUF and PSUM while a program ran?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nki_lab.ir.form_times import RingKey
from nki_lab.profiler import usage
from nki_lab.profiler.columns import Strings, Texts
from nki_lab.profiler.profile import to_ns
from nki_lab.targets.spaces import PSUM, SBUF, MemoryRegion
from nki_lab.timing.operands import operand_text
from nki_lab.timing.timeline import Timeline
from nki_lab.timing.transfers import ring_name, transfer_ids


def sbuf_usage(timeline: Timeline) -> Mapping[str, Any]:
    """Make the table SbufUsage."""
    return usage.sbuf_usage(allocations(timeline, SBUF), timeline.execution.kernel.target)


def psum_usage(timeline: Timeline) -> Mapping[str, Any]:
    """Make the table PsumUsage."""
    return usage.psum_usage(allocations(timeline, PSUM), timeline.execution.kernel.target)


def sbuf_allocation(timeline: Timeline) -> Mapping[str, Any]:
    """Make the table SbufAllocation."""
    return usage.sbuf_allocation(allocations(timeline, SBUF))


def allocations(timeline: Timeline, space: MemoryRegion) -> usage.Allocations:
    """Return every tensor of a memory that is used, from the start of its first to the end of its last access."""
    kernel = timeline.execution.kernel
    addresses = kernel.addresses or {}
    found = [
        (kernel.storages[key], life, addresses[key])
        for key, life in kernel.lifetimes.items()
        if kernel.storages[key].buffer is space and key in addresses
    ]
    entries = timeline.positions
    # In a loop an instruction has several entries: the first begins, the last ends the use.
    first = np.full(len(kernel.instructions), -1)
    last = np.full(len(kernel.instructions), -1)
    number = np.arange(len(entries))
    ran = entries >= 0
    last[entries[ran]] = number[ran]
    first[entries[ran][::-1]] = number[ran][::-1]
    for n, i in enumerate(kernel.instructions):
        if n and i.definition.observes:  # a use that ends with it ends with what ran before
            last[n] = last[n - 1]
    found = [f for f in found if first[f[1].first] >= 0 and last[f[1].last] >= 0]
    start = timeline.start[[first[life.first] for _, life, _ in found]] if found else np.zeros(0)
    end = timeline.end[[last[life.last] for _, life, _ in found]] if found else np.zeros(0)
    return usage.Allocations(
        start_ns=to_ns(start),
        end_ns=np.maximum(to_ns(end), to_ns(start)),
        address=np.array([a.byte for _, _, a in found], dtype=np.int64),
        size=np.array([s.row_bytes for s, _, _ in found], dtype=np.int64),
        partition=np.array([a.partition for _, _, a in found], dtype=np.int64),
        partitions=np.array([s.partitions for s, _, _ in found], dtype=np.int64),
        tensor=Strings.of([s.name for s, _, _ in found]),
        origin=_origin(timeline, [int(first[life.first]) for _, life, _ in found]),
    )


def _origin(timeline: Timeline, entries: list[int]) -> dict[str, Any]:
    """Return the columns about the operations that used tensors first, from their entries."""
    kernel, records = timeline.execution.kernel, timeline.program.records
    queues = [records[n].queue for n in entries]
    transfer = np.array([isinstance(queue, RingKey) for queue in queues], dtype=bool)
    position = timeline.positions[entries] if entries else np.zeros(0, dtype=np.int64)
    texts = Texts(len(kernel.instructions), lambda n: operand_text(kernel.instructions[n], kernel))
    block = transfer_ids(timeline)[entries] - 1 if entries else position
    return {
        "op_source_type": Strings(transfer.astype(np.int32), ("instruction", "dma")),
        "opcode": Strings.of(
            [records[n].steps[-1].opcode if records[n].steps else None for n in entries]
        ),
        "operands": Strings(np.where(transfer, -1, position), texts),
        "queue_name": Strings.of(
            [ring_name(q) if isinstance(q, RingKey) else None for q in queues]
        ),
        "block_id": np.ma.MaskedArray(block, ~transfer),
    }
