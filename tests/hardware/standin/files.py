"""NEFF and NTFF files as the real tools lay them out, and in them what a stand-in needs to run them.

A NEFF of ours holds one member more than a real one, the program that nki_lab compiled. The records of an NTFF, whose
meaning nobody publishes, hold the profile of a modelled run.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import struct
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PROGRAM = "standin/kernel.nkir"
#: Where the lines of the source are kept, if the kernel was compiled with NKI_DEBUG_INFO.
LINES = "kernel_debug_info.json"
_ENGINES = {"tensor": "PE", "vector": "DVE", "scalar": "Activation", "gpsimd": "Pool", "sync": "SP"}
_KEYS = {"PE": "pe", "DVE": "dve", "Activation": "act", "Pool": "pool", "SP": "sp"}
_ARCHITECTURES = {"trn1": "sunda", "trn2": "cayman", "trn3": "cayman"}


def write_neff(path: Path, program: bytes, compiled: Any, contract: Mapping[str, Any]) -> Path:
    """Write a compiled kernel as a NEFF: the header and a tar of descriptions and instruction streams."""
    kernels = (compiled.kernel, *compiled.others)
    graphs = [
        {"definition": f"sg{n:02}/def.json", "name": f"sg{n:02}"} for n in range(len(kernels))
    ]
    files: dict[str, Any] = {
        "info.json": {"tool_version": contract["packages"]["beta1"]["neuronx-cc"], "kelp_version": "Dynamic",
                      "name": "file.neff", "num_tpb": 1, "num_tpb_requested": 1, "num_tpb_per_node": [1] + [0] * 63},
        "kelf-0.json": {"graphs": graphs, "version": "0.5", "target": _ARCHITECTURES[compiled.kernel.target.name]},
        "neff.json": _signature(compiled.kernel),
    }  # fmt: skip
    for number, kernel in enumerate(kernels):
        files |= {
            f"sg{number:02}/{name}": value for name, value in _graph(kernel, contract).items()
        }
    files[PROGRAM] = program
    if os.environ.get("NKI_DEBUG_INFO", "").lower() in ("true", "1"):
        files[LINES] = {"kernel": compiled.kernel.name}
    data = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=data, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for name, value in files.items():
            content = value if isinstance(value, bytes) else json.dumps(value, indent=4).encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    payload = data.getvalue()
    digest = hashlib.md5(payload).digest()
    header = struct.pack(
        contract["neff"]["header"], 2, contract["neff"]["header_size"], len(payload), 2, 0, b"", 1,
        digest.ljust(32, b"\0"), uuid_of(program), b"file.neff", 1, bytes([1]).ljust(64, b"\0"), 3072,
        len(kernels), b"",
    )  # fmt: skip
    path.write_bytes(header + payload)
    return path


def uuid_of(program: bytes) -> bytes:
    """Return the identity of a program: 16 bytes, none of them zero."""
    return bytes(b or 1 for b in hashlib.sha256(program).digest()[:16])


def read_neff(path: Path, contract: Mapping[str, Any]) -> tuple[dict[str, bytes], bytes]:
    """Return the members of a NEFF and its uuid."""
    content = path.read_bytes()
    size = contract["neff"]["header_size"]
    uuid = struct.unpack(contract["neff"]["header"], content[:size])[8]
    with tarfile.open(fileobj=io.BytesIO(content[size:])) as tar:
        members = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}  # type: ignore[union-attr]
    return members, uuid


def _signature(kernel: Any) -> dict[str, Any]:
    inputs = {
        t.name: {"id": n, "dtype": _dtype(t), "shape": list(t.shape)}
        for n, t in enumerate(kernel.inputs)
    }
    outputs = [f"output_{n}" for n in range(len(kernel.outputs))]
    nulls = [
        {"op": "null", "name": n, "inputs": [], "output_names": [n], "is_param": "0"}
        for n in inputs
    ]
    attrs = {"func_name": "__kelf", "flatten_data": "0", "num_inputs": str(len(inputs)), "kelf": "kelf-0.json",
             "num_outputs": str(len(outputs))}  # fmt: skip
    node = {"op": "tvm_op", "name": "sg_coreV10", "attrs": attrs, "inputs": [[n, 0, 0] for n in range(len(inputs))],
            "output_names": outputs}  # fmt: skip
    tensors = [*kernel.inputs, *kernel.outputs]
    return {
        "nodes": [*nulls, node],
        "arg_nodes": list(range(len(inputs))),
        "heads": [[len(inputs), n, 0] for n in range(len(outputs))],
        "attrs": {"shape": ["list_shape", [list(t.shape) for t in tensors]],
                  "storage_id": ["list_int", list(range(len(tensors)))],
                  "dltype": ["list_str", [_dtype(t) for t in tensors]]},
        "metadata": {"signatures": {"default": {"inputs": inputs, "outputs": {}}}},
    }  # fmt: skip


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("nl.")


def _graph(kernel: Any, contract: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files of one core: its variables, its queues, and for each engine its transfers and instructions."""
    names = {t.name: t.name for t in kernel.inputs} | {
        t.name: f"output_{n}" for n, t in enumerate(kernel.outputs)
    }
    kinds = dict.fromkeys((t.name for t in kernel.inputs), "input") | dict.fromkeys(
        (t.name for t in kernel.outputs), "output"
    )
    variables: dict[str, Any] = {"SB": {"type": "state-buffer", "var_id": 0}}
    for storage in kernel.storages:
        if not storage.on_chip:
            name = names.get(storage.name, storage.name)
            kind = kinds.get(storage.name, "tmp-buf")
            about = {"ops": [], "size": storage.nbytes, "type": kind, "var_id": len(variables)}
            variables[name] = about
    transfers: dict[str, list[Any]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for number, instruction in enumerate(kernel.instructions):
        engine = _ENGINES.get(kernel.engine(instruction).name, "SP")
        counts[engine] += 1
        for desc in _descriptors(instruction, kernel, names, contract["neff"]["partition_bytes"]):
            owner = "Pool" if desc["to"] != "SB" else "SP"
            transfers[owner].append(
                {"#comment": f"I-{number}-0", "desc": [desc], "id": len(transfers[owner]), "queue": f"q{owner}IO0",
                 "semaphore": 8 + len(transfers[owner])}
            )  # fmt: skip
    queues = {
        f"q{owner}IO0": {"fabric_path": "main", "num_queues": 16, "owner": _KEYS[owner], "type": "in",
                         "semaphore_set": list(range(8, 24))}
        for owner in transfers
    }  # fmt: skip
    definition: dict[str, Any] = {
        "name": "definition",
        "version": "0.6",
        "dma_queue": queues,
        "var": variables,
    }
    reserved = {
        "base_partition": 0,
        "offset": 229368,
        "partitions": 128,
        "size": 8,
        "type": "evtaccel",
    }
    definition["runtime_statebuffer_reservation"] = [reserved]
    files: dict[str, Any] = {}
    for engine, key in _KEYS.items():
        definition |= {key: f"{engine}.json", f"{key}_instr": f"{engine}.bin"}
        files[f"{engine}.json"] = {
            "dma": transfers[engine],
            "instr": f"{engine}.bin",
            "name": f"{engine}.json",
        }
        files[f"{engine}.bin"] = bytes(64 * (1 + counts[engine]))
    tensors = [*kernel.inputs, *kernel.outputs]
    files["tensor_map.json"] = {
        names[t.name]: {"dtype": _dtype(t), "is_const": False, "kind": kinds[t.name], "layer_name": names[t.name],
                        "sim_shape": list(t.shape), "tf_shape": list(t.shape)}
        for t in tensors
    }  # fmt: skip
    return {"def.json": definition, **files}


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _descriptors(
    instruction: Any, kernel: Any, names: Mapping[str, str], partition: int
) -> Iterator[dict[str, Any]]:
    """Yield what a copy between device memory and SBUF moves: its ends in bytes, innermost dimension first."""
    ends = {"to": instruction.written(), "from": instruction.read()}
    if any(len(views) != 1 for views in ends.values()):
        return
    views = {end: view for end, (view,) in ends.items()}
    if views["to"].storage.on_chip == views["from"].storage.on_chip:
        return
    desc: dict[str, Any] = {"op": "copy", "num_tiling_dimensions": 1}
    for end, view in views.items():
        storage, item = view.storage, view.storage.dtype.itemsize
        rows, free = view.shape[0], _count(view.shape[1:])
        if storage.on_chip:
            address = kernel.addresses[storage.id]
            first, column = divmod(view.offset * item, storage.row_bytes)
            offset = (address.partition + first) * partition + address.byte + column
            place, step = "SB", partition
        else:
            place = names.get(storage.name, storage.name)
            offset, step = view.offset * item, view.strides[0] * item
        desc |= {end: place, f"{end}_off": offset, f"{end}_dtype": _dtype(storage)}
        desc |= {f"{end}_steps": [1, step], f"{end}_sizes": [free * item, rows]}
    yield desc


# -- NTFF ------------------------------------------------------------------------------------------------------------


def write_ntff(path: Path, uuid: bytes, profile: bytes, contract: Mapping[str, Any]) -> Path:
    """Write a profile as an NTFF: header, a message with the uuid of its NEFF, and records."""
    about = contract["ntff"]
    message = _field(1, b"file.neff") + _field(about["uuid_field"], uuid + b"\0")
    packed = zlib.compress(profile)
    records = struct.pack("<Q", len(packed)) + packed
    records += bytes(-len(records) % about["record_bytes"])
    header = bytes([about["version"]]) + struct.pack("<Q", len(message))
    path.write_bytes(header.ljust(about["header_size"], b"\0") + message + records)
    return path


def read_ntff(path: Path, contract: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """Return the uuid and the profile in an NTFF of ours."""
    content = path.read_bytes()
    size = contract["ntff"]["header_size"]
    (length,) = struct.unpack("<Q", content[1:9])
    message, records = content[size : size + length], content[size + length :]
    uuid = message[len(_field(1, b"file.neff")) + 2 :].rstrip(b"\0")
    (count,) = struct.unpack("<Q", records[:8])
    return uuid, zlib.decompress(records[8 : 8 + count])


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value
