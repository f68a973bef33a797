"""The profile of a run in every form in which neuron-profile and neuron-explorer export it.

No real export was at hand: tables have the names of the published schema, and JSON the names of the user guide
(archive/profiler/neuron-profile-user-guide.rst) with those that public programs read.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nki_lab.profiler.formats.perfetto import OWN_FIELD, block, blocks, to_perfetto_trace
from nki_lab.profiler.formats.tables_folder import INDEX, save_folder
from nki_lab.profiler.profile import Profile

#: What a device adds to the table Metadata.
ABOUT = {"instance_type": "trn2.48xlarge", "neuroncore_idx": 3, "explorer_version": "2.21"}
_TOLD_APART = ("start_ts", "end_ts", "duration_ns", "throughput")


def explorer_folder(profile: Profile, path: Path) -> Path:
    """Write the tables as neuron-explorer does."""
    save_folder(profile, path, "parquet")
    (path / INDEX).unlink()
    about = {name: [value] for name, value in next(profile.records("Metadata")).items()}
    about |= {name: [value] for name, value in (ABOUT | {"is_simulation": False}).items()}
    pq.write_table(
        pa.table({k: v for k, v in about.items() if v != [None]}), path / "Metadata.parquet"
    )
    return path


#: Further columns of times.
_TIMES = (
    "trigger", "completion", "evt_wait_time_ns", "dma_wait_time_ns", "gap_time", "dma_trigger_start_ts",
    "dma_trigger_end_ts",
)  # fmt: skip


def document(profile: Profile, unit: int = 1, every: bool = True) -> dict[str, Any]:
    """Return the older JSON: times in 1/`unit` ns, with every column or only what the user guide shows."""

    def rows(table: str) -> list[dict[str, Any]]:
        return [
            {k: v * unit if k in _TIMES and v is not None else v for k, v in row.items()}
            for row in profile.records(table)
        ]

    instructions, transfers = [], []
    for row in rows("Instruction"):
        one = _times(row, unit) | {
            "label": row["timeline_track"] or row["engine"].title(),
            "subgroup": row["engine"].title(),
        }
        shown = ("opcode", "operands", "hlo_name", "nki_source_location")
        left = (*_TOLD_APART, "engine", "timeline_track", "evt_wait_time_ns")
        one |= {k: v for k, v in row.items() if (k not in left if every else k in shown)}
        instructions.append(one | ({"evt_wait_time": row["evt_wait_time_ns"]} if every else {}))
    for row in rows("DmaPacketAggregated"):
        moved = {"subgroup": row["queue_name"], "transfer_size": row["transfer_bytes"]}
        left = (*_TOLD_APART, "queue_name", "transfer_bytes")
        transfers.append(
            _times(row, unit) | moved | {k: v for k, v in row.items() if every and k not in left}
        )
    return {
        "metadata": [ABOUT],
        "instruction": instructions,
        "dma": transfers,
        "flow": rows("Flow") if every else [],
        "summary": [profile.summary | {"nc_idx": 3}],
        "cc_stream": [],
    }


def _times(row: dict[str, Any], unit: int) -> dict[str, int]:
    return {
        "timestamp": row["start_ts"] * unit,
        "duration": (row["end_ts"] - row["start_ts"]) * unit,
    }


def trace(profile: Profile) -> bytes:
    """Return a trace with nothing of ours in it: tracks, slices with their columns, counters and flows."""
    data = to_perfetto_trace(profile)
    opening = block(OWN_FIELD, b"")[:-1]
    packets = [data[a:b] for field, a, b in blocks(data) if field == 1]
    return b"".join(block(1, packet) for packet in packets if not packet.startswith(opening))


def written(profile: Profile, folder: Path) -> dict[str, Path]:
    """Write a profile in every form, and return where each is."""
    paths = {"parquet": explorer_folder(profile, folder / "explorer")}
    for name, unit in (("ns", 1), ("ps", 1000)):
        paths[name] = folder / f"{name}.json"
        paths[name].write_text(json.dumps(document(profile, unit)))
    paths["trace"] = folder / "ntff.pftrace"
    paths["trace"].write_bytes(trace(profile))
    paths["summary"] = folder / "summary.json"
    paths["summary"].write_text(json.dumps({"n_1a2b": profile.summary | ABOUT}))
    return paths


def renamed(path: Path, name: str) -> Path:
    """Copy a file under another name."""
    return Path(shutil.copy(path, path.with_name(name)))
