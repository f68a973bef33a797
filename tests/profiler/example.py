"""A small profile whose every number was chosen by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.profiler.columns import Strings
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.usage import Allocations, psum_usage, sbuf_allocation, sbuf_usage
from nki_lab.targets import TRN2

#: Four instructions back to back on Vector of 1100, 200, 300 and 400 ns, a gap of 100 ns before
#: the last, behind a trigger on Sync and a matmul; two transfers that overlap in time.
INSTRUCTION: dict[str, Any] = {
    "start_ts": [0, 1000, 2100, 2300, 2700, 500],
    "end_ts": [50, 2100, 2300, 2600, 3100, 800],
    "engine": ["sync", "vector", "vector", "vector", "vector", "tensor"],
    "timeline_track": [None, None, None, None, None, "TensorMatrix"],
    "opcode": ["DMA_TRIGGER", "TENSOR_TENSOR", "COPY", "COPY", "COPY", "MATMUL"],
    "operands": "",
    "id": [1, 2, 3, 4, 5, 6],
    "pc": [0, 0, 1, 2, 3, 0],
    "compiler_pc": [0, 0, 1, 2, 3, 0],
    "kernel_instruction_name": [f"inst.{n}:0" for n in (0, 2, 3, 4, 5, 1)],
    "nki_source_location": ["cell:3", "cell:4", "cell:5", "cell:5", "add.py:12", None],
    "evt_wait_time_ns": [0, 1000, None, None, 100, 450],
    "pcore_idx": 0,
    "raw_flops": [None, None, None, None, None, 2 * 128 * 128 * 512],
    "flops_transpose": 0,
    "adjusted_flops": [None, None, None, None, None, 2 * 128 * 128 * 512],
    "psum_read_sbuf_write_bytes": [0, 0, 4096, 0, 0, 0],
}
DMA: dict[str, Any] = {
    "start_ts": [100, 400],
    "end_ts": [900, 2400],
    "id": [1, 2],
    "pcore_idx": 0,
    "queue_name": "qSyncStatic0",
    "queue_type": ["input", "hardware_dynamic"],
    "op": ["read", "write"],
    "variable": ["x", "y"],
    "source": ["[INPUT]", "[SB]"],
    "dest": ["[SB]", "[OUTPUT]"],
    "read_bytes": [8000, 40000],
    "write_bytes": [8000, 40000],
    "transfer_bytes": [8000, 40000],
}
FLOW: dict[str, Any] = {
    "in_id": [1, 1],
    "out_id": [1, 2],
    "in_table": ["instruction", "dma_block"],
    "out_table": ["dma_block", "instruction"],
    "dependency_type": "FLOW_DEPENDENCE",
    "gap_time": [50, 100],
}
WARNING: dict[str, Any] = {
    "message": ["the cost of `rng` on GpSimd is assumed"],
    "category": "not modelled",
}


def allocations() -> Allocations:
    """Two SBUF tensors, the second on the upper half of the partitions."""
    return Allocations(
        start_ns=np.array([100, 1000]),
        end_ns=np.array([2100, 3100]),
        address=np.array([0, 2048]),
        size=np.array([2048, 4096]),
        partition=np.array([0, 64]),
        partitions=np.array([128, 64]),
        tensor=Strings.of(["x", "y"]),
    )


def bank_allocations() -> Allocations:
    """One PSUM tensor in banks 1 and 2."""
    return Allocations(
        start_ns=np.array([500]),
        end_ns=np.array([2300]),
        address=np.array([2048]),
        size=np.array([4096]),
        partition=np.array([0]),
        partitions=np.array([128]),
        tensor=Strings.of(["acc"]),
    )


def profile(**changes: Any) -> Profile:
    """Return the example; keywords replace whole tables."""
    tables: dict[str, Any] = {
        "Instruction": INSTRUCTION,
        "DmaPacketAggregated": DMA,
        "Flow": FLOW,
        "SbufUsage": sbuf_usage(allocations(), TRN2),
        "PsumUsage": psum_usage(bank_allocations(), TRN2),
        "SbufAllocation": sbuf_allocation(allocations()),
        "Warning": WARNING,
    }
    return Profile.from_tables(TRN2, tables | changes, is_simulation=True, name="add_kernel")
