"""Makes the files that a run on a device would leave, for exercises on reading them. Nothing in them was measured.

An export in the JSON of the official tools, a NEFF and an NTFF: laid out as theirs are, as far as the readers here go.
Times are those of the model with other constants; the NTFF has a header and no records.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nki_lab.hardware.neff import HEADER, PARTITION_BYTES
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.profiler.formats.perfetto import block, text
from nki_lab.profiler.profile import Profile
from nki_lab.runtime import Result
from nki_lab.targets.overlay import target_with
from nki_lab.timing.calibration import retimed_on
from nki_lab.timing.model import ModelledTimeline
from nki_lab.timing.tables import make_profile
from nki_lab.timing.transfers import transfer_ends

#: A device that is not quite as it is modelled: Scalar is slower, and transfers begin later.
DEVICE = {"scalar_fixed_latency_ns": 420, "scalar_ghz": 0.95, "dma_start_ns": 880}
#: Before the first instruction of the kernel: what the runtime does, and an instruction that waits.
_SETUP_NS, _WAITS_NS = 2_000, 12_000
_LABELS = {"tensor": "Tensor", "vector": "Vector", "scalar": "Scalar", "gpsimd": "GpSimd"}


def made_profile(result: Result, constants: Mapping[str, float] = DEVICE) -> Profile:
    """Return the profile that a run would have on a chip that is not as it is modelled."""
    chip = result.compiled.target
    model = result.profile.model
    assert isinstance(model, ModelledTimeline)
    device = target_with(chip, f"{chip.chip}+device", constants)
    return make_profile(retimed_on(model.timeline, device))


def write_files(result: Result, small: Result, folder: str | Path = ".") -> None:
    """Write the files of a run and of a smaller one: export.json, modelled.json, a.neff, b.neff, profile.ntff."""
    folder = Path(folder)
    write_export(made_profile(result), folder / "export.json")
    result.profile.save(folder / "modelled.json")
    write_neff(small, folder / "a.neff")
    write_neff(result, folder / "b.neff")
    write_ntff(folder / "b.neff", folder / "profile.ntff")


def write_export(profile: Profile, path: str | Path) -> Path:
    """Write a profile as `neuron-explorer view --output-format json` does, with times in picoseconds."""
    start = _SETUP_NS + _WAITS_NS
    instructions = [_instruction("Sync", "EVENT_SEMAPHORE", _SETUP_NS, _WAITS_NS, "")]
    for row in profile.records("Instruction"):
        label = _LABELS.get(row["engine"], "Sync")
        times = start + row["start_ts"], row["end_ts"] - row["start_ts"]
        place = row["nki_source_location"] or ""
        instructions.append(
            _instruction(row["timeline_track"] or label, row["opcode"], *times, place)
        )
    transfers = [
        {"timestamp": (start + row["start_ts"]) * 1000, "duration": (row["end_ts"] - row["start_ts"]) * 1000,
         "subgroup": row["queue_name"], "transfer_size": row["transfer_bytes"], "semaphore_id": "1"}
        for row in profile.records("DmaPacketAggregated")
    ]  # fmt: skip
    summary = dict(profile.summary) | {
        "total_time": (start + profile.total_ns) * 1e-9,
        "total_exec_time": profile.total_ns * 1e-9,
    }
    document = {"summary": [summary], "instruction": instructions, "dma": transfers}
    path = Path(path)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _instruction(label: str, opcode: str, start: int, duration: int, place: str) -> dict[str, Any]:
    return {
        "timestamp": start * 1000, "duration": duration * 1000, "label": label, "hlo_name": "", "opcode": opcode,
        "operands": "", "nki_source_location": place,
    }  # fmt: skip


def write_neff(result: Result, path: str | Path) -> Path:
    """Write the program of a run as a NEFF: tensors, queues, and each transfer with the place of its tile."""
    kernel = result.compiled.kernel
    arguments = [(s.name, "input", s.shape, str(s.dtype), s.nbytes) for s in kernel.inputs]
    for t in kernel.outputs:
        arguments.append((t.storage.name, "output", t.shape, str(t.dtype), t.storage.nbytes))
    moved: list[dict[str, Any]] = []
    for i in kernel.instructions:
        if i.form.engine.name == "dma":
            dst, src = transfer_ends(i)
            desc = {"op": "copy", **_end(kernel, "from", src), **_end(kernel, "to", dst)}
            moved.append({"desc": [desc], "id": len(moved), "queue": "qSPIO0", "semaphore": 8})
    definition: dict[str, Any] = {
        "dma_queue": {"qSPIO0": {"owner": "sp", "type": "in", "num_queues": 16}},
        "var": {"SB": {"type": "state-buffer"}}
        | {name: {"type": kind, "size": size} for name, kind, _, _, size in arguments},
        "sp": "SP.json",
        "sp_instr": "SP.bin",
    }
    nodes = [
        {"op": "null", "name": name, "output_names": [name]}
        for name, kind, *_ in arguments
        if kind == "input"
    ]
    outputs = [name for name, kind, *_ in arguments if kind == "output"]
    files: dict[str, Any] = {
        "info.json": {"tool_version": "made by nki_lab"},
        "kelf-0.json": {"target": "cayman", "graphs": [{"name": "sg00", "definition": "sg00/def.json"}]},
        "neff.json": {"nodes": [*nodes, {"op": "tvm_op", "name": "sg", "output_names": outputs}],
                      "arg_nodes": list(range(len(nodes)))},
        "sg00/def.json": definition,
        "sg00/tensor_map.json": {
            name: {"dtype": dtype, "kind": kind, "sim_shape": list(shape)}
            for name, kind, shape, dtype, _ in arguments
        },
        "sg00/SP.json": {"dma": moved, "instr": "SP.bin", "name": "SP.json"},
        "sg00/SP.bin": bytes(64 * len(moved)),
    }  # fmt: skip
    payload = _packed(files)
    header = HEADER.pack(
        2, HEADER.size, len(payload), 2, 0, b"", 1, hashlib.md5(payload).digest(),
        _uuid(payload), b"file.neff", 1, b"\1", 0, 1, b"",
    )  # fmt: skip
    path = Path(path)
    path.write_bytes(header + payload)
    return path


def write_ntff(neff: str | Path, path: str | Path) -> Path:
    """Write the header of the NTFF that a capture of a NEFF would have."""
    payload = Path(neff).read_bytes()[HEADER.size :]
    message = text(1, "file.neff") + block(2, _uuid(payload))
    path = Path(path)
    header = bytes([5]) + len(message).to_bytes(8, "little")
    path.write_bytes(header.ljust(128, b"\0") + message + bytes(16))
    return path


def _uuid(payload: bytes) -> bytes:
    return bytes(byte or 1 for byte in hashlib.sha256(payload).digest()[:16])


def _end(kernel: Any, end: str, view: NkiTensor) -> dict[str, Any]:
    """Return an end of a descriptor: a tensor and an offset, in bytes; in SBUF one row per partition."""
    itemsize = view.dtype.itemsize
    rows, row_bytes = view.shape[0], itemsize
    for size in view.shape[1:]:
        row_bytes *= size
    if view.storage.on_chip:
        address = kernel.addresses[view.storage.id]
        name, step = "SB", PARTITION_BYTES
        offset = address.partition * PARTITION_BYTES + address.byte
    else:
        name, step, offset = view.storage.name, row_bytes, view.offset * itemsize
    return {
        end: name, f"{end}_off": offset, f"{end}_dtype": str(view.dtype), f"{end}_sizes": [row_bytes, rows],
        f"{end}_steps": [1, step],
    }  # fmt: skip


def _packed(files: Mapping[str, Any]) -> bytes:
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
    return data.getvalue()
