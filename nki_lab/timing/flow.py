"""Records which event waited for which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nki_lab.profiler.columns import Strings
from nki_lab.profiler.profile import to_ns
from nki_lab.timing.rows import Rows
from nki_lab.timing.timeline import Timeline
from nki_lab.timing.transfers import transfer_ids

_TABLES = ("instruction", "dma_block")


def flow_table(timeline: Timeline, rows: Rows) -> Mapping[str, Any]:
    """Make the table Flow.

    Edges go from the last micro-operation of an instruction (or from its transfer) to the first one of what waits
    for it, and from the instruction that triggers a transfer to the transfer.
    """
    waits = timeline.program.waits
    counts = np.fromiter((len(w) for w in waits), dtype=np.int64, count=len(waits))
    taker = np.repeat(np.arange(len(waits)), counts)
    giver = np.fromiter((w for found in waits for w in found), dtype=np.int64, count=len(taker))
    # Loop trips are no events: what waits for one or is waited for by one has no edge.
    real = (rows.first[taker] >= 0) & (rows.last[giver] >= 0)
    giver, taker = giver[real], taker[real]
    transfer_id = transfer_ids(timeline)
    by_transfer = transfer_id[giver] > 0
    moved = timeline.transfers
    triggers = rows.first[moved]
    start, end = to_ns(rows.start), to_ns(rows.end)
    given_at = np.where(by_transfer, to_ns(timeline.end)[giver], end[rows.last[giver]])
    return {
        "in_id": np.concatenate(
            (np.where(by_transfer, transfer_id[giver], rows.last[giver] + 1), triggers + 1)
        ),
        "out_id": np.concatenate((rows.first[taker] + 1, transfer_id[moved])),
        "in_table": Strings(
            np.concatenate((by_transfer.astype(np.int32), np.zeros(len(moved), np.int32))), _TABLES
        ),
        "out_table": Strings(
            np.concatenate((np.zeros(len(taker), np.int32), np.ones(len(moved), np.int32))), _TABLES
        ),
        "dependency_type": "FLOW_DEPENDENCE",
        "gap_time": np.concatenate(
            (start[rows.first[taker]] - given_at, to_ns(timeline.start)[moved] - end[triggers])
        ),
    }
