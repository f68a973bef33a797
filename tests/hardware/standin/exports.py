"""A profile in the formats of `view`: tables in Parquet, the older JSON, a summary, and a Perfetto trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nki_lab.profiler.formats import perfetto as trace
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import SCHEMA_VERSION, TABLES

#: Engine -> what the older JSON calls its track.
_LABELS = {
    "tensor": "Tensor",
    "vector": "Vector",
    "scalar": "Scalar",
    "gpsimd": "GpSimd",
    "sync": "Sync",
}
_BYTES = [
    f"{memory}_{way}_bytes" for memory in ("hbm", "sbuf", "psum") for way in ("read", "write")
]


def summary(profile: Profile) -> dict[str, Any]:
    """Return the metrics: seconds, and shares of 1."""
    return {**profile.summary, "nc_idx": 0, "nd_idx": 0}


def document(profile: Profile, unit: str) -> dict[str, Any]:
    """Return the older JSON, with times in "ns" or "ps"."""
    scale = {"ns": 1, "ps": 1000}[unit]
    instructions = []
    for row in profile.records("Instruction"):
        start, end = row["start_ts"] * scale, row["end_ts"] * scale
        label = row["timeline_track"] or _LABELS[row["engine"]]
        one = {
            "timestamp": start, "duration": end - start, "label": label, "subgroup": label,
            "hlo_name": row["hlo_name"] or "",
            "opcode": row["opcode"], "operands": row["operands"], "compiler_opcode": row["compiler_opcode"],
            "compiler_operands": row["compiler_operands"], "nki_source_location": row["nki_source_location"] or "",
            "bir_debug_info_source_location": row["nki_source_location"] or "",
            "evt_wait_time": (row["evt_wait_time_ns"] or 0) * scale, "layer": "",
            "subgraph": f"sg{row['pcore_idx'] or 0:02}",
        }  # fmt: skip
        instructions.append(one | {name: row[name] or 0 for name in _BYTES})
    transfers = [
        {"timestamp": row["start_ts"] * scale, "duration": (row["end_ts"] - row["start_ts"]) * scale,
         "subgroup": row["queue_name"], "transfer_size": row["transfer_bytes"], "semaphore_id": "0"}
        for row in profile.records("DmaPacketAggregated")
    ]  # fmt: skip
    about = {
        name: value
        for name, value in next(profile.records("Metadata")).items()
        if value is not None
    }
    return {
        "metadata": [about],
        "summary": [summary(profile)],
        "instruction": instructions,
        "dma": transfers,
        "instruction_usage": [],
        "stack_frame_function_name": {},
        "cc_stream": [],
    }


def parquet(profile: Profile, folder: Path) -> None:
    """Write the tables, each in one file, with the column types of the schema."""
    import pyarrow as pa
    import pyarrow.parquet

    kinds = {
        "int64": pa.int64(),
        "int32": pa.int32(),
        "float": pa.float64(),
        "string": pa.string(),
        "bool": pa.bool_(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, fields in TABLES.items():
        if name not in profile.table_names or not profile.count(name):
            continue
        rows = list(profile.records(name))
        columns = {
            f.name: pa.array([r[f.name] for r in rows], kinds[f.type]) for f in fields.values()
        }
        pyarrow.parquet.write_table(pa.table(columns), folder / f"{name}.parquet")


def perfetto(profile: Profile, path: Path) -> None:
    """Write a trace for ui.perfetto.dev."""
    trace.save_perfetto_trace(profile, path)


def schema() -> str:
    """Return the schema as an OpenAPI document."""
    import yaml

    kinds = {"int64": ("integer", "int64"), "int32": ("integer", "int32"), "float": ("number", "double"),
             "string": ("string", None), "bool": ("boolean", None)}  # fmt: skip
    tables = {}
    for name, fields in TABLES.items():
        properties = {}
        for field in fields.values():
            kind, form = kinds[field.type]
            properties[field.name] = {"type": kind} | ({"format": form} if form else {})
        required = [field.name for field in fields.values() if field.required]
        tables[name] = {"type": "object", "required": required, "properties": properties}
    head = {"openapi": "3.0.0", "info": {"title": "Neuron Explorer", "version": SCHEMA_VERSION}}
    return yaml.safe_dump(head | {"components": {"schemas": tables}}, sort_keys=False)
