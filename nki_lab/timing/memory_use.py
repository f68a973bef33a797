"""Computes how full SBUF and PSUM were while a program ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nki_lab.ir.definition.form_times import RingKey
from nki_lab.ir.program.lifetimes import Lifetime
from nki_lab.profiler import usage
from nki_lab.profiler.columns import Strings, Texts
from nki_lab.profiler.tables import to_ns
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
    """Return every tensor of a memory that is used, from the start of its first to the end of its last access.

    One that starts anew in each pass of a loop is listed once per pass. One whose place the last access gives to
    another tensor ends when that access starts.
    """
    kernel = timeline.execution.kernel
    addresses = kernel.addresses or {}
    storages, start, end, handed_over = [], [], [], []
    spans = _Spans(timeline)
    for key, life in kernel.lifetimes.items():
        storage = kernel.storages[key]
        if storage.buffer is space and key in addresses:
            for first, last in spans.of(life, each=kernel.starts_anew(storage)):
                storages.append((storage, addresses[key]))
                start.append(first)
                end.append(last)
                handed_over.append(key in kernel.handed_over)
    start_ns = to_ns(timeline.start[np.array(start, np.intp)])
    entries = np.array(end, np.intp)
    ends = np.where(handed_over, timeline.start[entries], timeline.end[entries])
    return usage.Allocations(
        start_ns=start_ns,
        end_ns=np.maximum(to_ns(ends), start_ns),
        address=np.array([a.byte for _, a in storages], dtype=np.int64),
        size=np.array([s.row_bytes for s, _ in storages], dtype=np.int64),
        partition=np.array([a.partition for _, a in storages], dtype=np.int64),
        partitions=np.array([s.partitions for s, _ in storages], dtype=np.int64),
        tensor=Strings.of([s.name for s, _ in storages]),
        origin=_origin(timeline, start),
    )


class _Spans:
    """Finds the entries of a timeline between which a tensor is in use."""

    def __init__(self, timeline: Timeline) -> None:
        kernel, positions = timeline.execution.kernel, timeline.positions
        self._entries = np.argsort(positions, kind="stable")
        count = len(kernel.instructions)
        self._bounds = np.searchsorted(positions[self._entries], np.arange(count + 1)).tolist()
        self._observes = [i.definition.observes for i in kernel.instructions]

    def of(self, life: Lifetime, each: bool) -> Iterable[tuple[int, int]]:
        """Yield the first and last entry of each pass that uses a tensor, or of all passes together."""
        first, last = self._of_instruction(life.first), self._of_instruction(life.last)
        if not len(first) or not len(last):
            return ()
        if each and len(first) == len(last):
            return zip(first.tolist(), last.tolist(), strict=True)
        return ((int(first[0]), int(last[-1])),)

    def _of_instruction(self, n: int) -> np.ndarray:
        """Return its entries in order: in a loop it has several."""
        while n and self._observes[n]:  # a use that ends with it ends with what ran before
            n -= 1
        return self._entries[self._bounds[n] : self._bounds[n + 1]]


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
