"""NEFF and NTFF files as those of public repositories are laid out. None of theirs is here."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import struct
import tarfile
from pathlib import Path
from typing import Any

from nki_lab.profiler.formats.perfetto import block, number, text

UUID = bytes(range(1, 17))
#: SBUF of one partition, as transfers address it.
PARTITION = 262_144


def copy(
    source: Any, dest: Any, sizes: list[int], steps: list[int], comment: str = "", **more: Any
) -> dict[str, Any]:
    """Return the block of one descriptor between ends that are a name with an offset."""
    desc: dict[str, Any] = {"op": "copy", "num_tiling_dimensions": 1}
    for end, (name, offset) in (("from", source), ("to", dest)):
        inside = [PARTITION if step == -1 else step for step in steps]
        outside = [sizes[0] if step == -1 else step for step in steps]
        desc |= {
            end: name, f"{end}_off": offset, f"{end}_dtype": "float32", f"{end}_sizes": sizes,
            f"{end}_steps": inside if name == "SB" else outside,
        }  # fmt: skip
    return {"#comment": comment, "desc": [desc | more], "id": 0, "queue": "qSPIO0", "semaphore": 8}


def members(**changes: Any) -> dict[str, Any]:
    """Return what is in the NEFF of a kernel that adds two arrays of 128 x 500 float32 on one of two cores."""
    variables = {
        "SB": {"type": "state-buffer", "var_id": 0},
        "a": {"type": "input", "size": 256_000, "var_id": 1},
        "b": {"type": "input", "size": 256_000, "var_id": 2},
        "out": {"type": "output", "size": 256_000, "var_id": 3},
    }
    queues = {"qSPIO0": {"owner": "sp", "type": "in", "num_queues": 16}}
    engines = {"pe": "PE", "dve": "DVE", "act": "Activation", "pool": "Pool", "sp": "SP"}
    definition = {"dma_queue": queues, "var": variables, "version": "0.6"} | {
        key: f"{name}.json" for key, name in engines.items()
    }
    definition |= {f"{key}_instr": f"{name}.bin" for key, name in engines.items()}
    definition["runtime_statebuffer_reservation"] = [
        {"base_partition": 0, "offset": 229_368, "partitions": 128, "size": 8, "type": "evtaccel"}
    ]
    loads = [
        copy(("a", 0), ("SB", 200_000), [2000, 128], [1, -1], "I-5-0-block-1"),
        copy(
            ("b", 0),
            ("SB", 64 * PARTITION + 204_000),
            [1000, 2, 64],
            [1, 1000, -1],
            "I-6-0-block-1",
        ),
    ]
    stores = [copy(("SB", 4096), ("out", 0), [2000, 128], [1, -1], "I-10-0-block-1")]
    files: dict[str, Any] = {
        "info.json": {"tool_version": "2.21.18209.0+043b1bf7"},
        "kelf-0.json": {"target": "cayman", "graphs": [
            {"name": "sg00", "definition": "sg00/def.json"}, {"name": "sg01", "definition": "sg01/def.json"}]},
        "neff.json": {
            "nodes": [{"op": "null", "name": "b", "output_names": ["b"]},
                      {"op": "null", "name": "a", "output_names": ["a"]},
                      {"op": "tvm_op", "name": "sg", "output_names": ["out"]}],
            "arg_nodes": [1, 0],
        },
    }  # fmt: skip
    tensors = {
        name: {"dtype": "float32", "kind": kind, "sim_shape": [128, 500]}
        for name, kind in (("a", "input"), ("b", "input"), ("out", "output"))
    }
    for core in ("sg00", "sg01"):
        files[f"{core}/def.json"] = definition
        files[f"{core}/tensor_map.json"] = tensors
        for count, name in enumerate(engines.values(), 1):
            files[f"{core}/{name}.bin"] = bytes(64 * (count if core == "sg00" else 1))
            moved = {"SP": loads, "Pool": stores}.get(name, []) if core == "sg00" else []
            files[f"{core}/{name}.json"] = {
                "dma": moved,
                "instr": f"{name}.bin",
                "name": f"{name}.json",
            }
    return files | changes


def packed(files: dict[str, Any], *, more: list[tarfile.TarInfo] | None = None) -> bytes:
    """Return members as a gzip of a tar, and others behind them."""
    data = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=data, mode="wb", mtime=0) as file,
        tarfile.open(fileobj=file, mode="w") as tar,
    ):
        for name, value in files.items():
            content = value if isinstance(value, bytes) else json.dumps(value).encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in more or []:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return data.getvalue()


def neff(
    payload: bytes, *, hashed: str = "swapped", uuid: bytes = UUID, size: int | None = None
) -> bytes:
    """Return a NEFF: header and payload, with its hash in one of the forms that are known."""
    md5 = hashlib.md5(payload).digest()
    digest = {
        "md5": md5,
        "swapped": struct.pack("<4I", *struct.unpack(">4I", md5)),
        "sha256": hashlib.sha256(payload).digest(),
        "wrong": bytes(16),
    }[hashed]
    size = len(payload) if size is None else size
    header = struct.pack(
        "<5Q128sI32s16s256sI64sQI468s",
        2, 1024, size, 2, 0, b"", 1, digest, uuid, b"file.neff", 1, b"\1", 3072, 2, b"",
    )  # fmt: skip
    return header + payload


def write_neff(path: Path, **changes: Any) -> Path:
    """Write the NEFF of `members`."""
    path.write_bytes(neff(packed(members()), **changes))
    return path


def ntff(uuid: bytes, version: int = 5) -> bytes:
    """Return the beginning of an NTFF: header and message; the UUID is told as a C string is."""
    message = text(1, "file.neff") + block(2, uuid) + number(3, 10_001) + block(4, bytes(3000))
    return (
        (bytes([version]) + len(message).to_bytes(8, "little")).ljust(128, b"\0")
        + message
        + bytes(64)
    )
