"""Writes the table of the collectives that a rank took part in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nki_lab.ir.definition.instruction import Instruction
from nki_lab.profiler.profile import to_ns
from nki_lab.timing.timeline import Timeline


def collective_table(timeline: Timeline) -> Mapping[str, Any]:
    """Make the table CcOp: one row per collective, with the time in which its rank moves its own tensors."""
    instructions = timeline.execution.kernel.instructions
    entries = [
        n
        for n in timeline.transfers.tolist()
        if timeline.program.records[n].form.definition.groups is not None
    ]
    if not entries:
        return {}
    ran = [instructions[timeline.program.positions[n]] for n in entries]
    start, end = to_ns(timeline.start[entries]), to_ns(timeline.end[entries])
    trigger = to_ns(timeline.trigger[entries])
    read = np.array([_bytes(i, i.read()) for i in ran], dtype=np.int64)
    written = np.array([_bytes(i, i.written()) for i in ran], dtype=np.int64)
    issuers = [timeline.program.records[n].moves[0].issuer.name for n in entries]
    return {
        "start_ts": start,
        "end_ts": end,
        "operation": ["".join(map(str.capitalize, i.definition.name.split("_"))) for i in ran],
        "num_elements": [sum(t.size for t in i.read()) for i in ran],
        "dtype": [str(i.read()[0].dtype) for i in ran],
        "op_id": np.arange(len(entries)),
        "trigger_engine": issuers,
        "input_size": read,
        "output_size": written,
        "algorithm_bandwidth": np.maximum(read, written) * 1e9 / np.maximum(end - start, 1),
        "trigger_start_ts": trigger,
        "cc_trigger_start_delay": start - trigger,
        "replica_group": [_groups(i) for i in ran],
    }


def _bytes(i: Instruction, tensors: Any) -> int:
    return sum(t.size * t.dtype.itemsize for t in tensors)


def _groups(i: Instruction) -> str | None:
    """Return the lists of ranks; None where they follow from the number of ranks."""
    position = i.definition.position.get("replica_group")
    return None if position is None else str([list(ranks) for ranks in i.args[position]])
