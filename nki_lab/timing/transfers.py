"""Makes the rows of transfers: which transfer moved which tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nki_lab.ir.definition.form_times import Record, RingKey
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.program.touches import distinct
from nki_lab.ir.tensor.storage import Storage
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.profiler.columns import Strings, Texts
from nki_lab.profiler.schema import SBUF_PLACE
from nki_lab.profiler.tables import to_ns
from nki_lab.timing.program import QueuedProgram
from nki_lab.timing.timeline import Timeline

_TYPES = {"swdge": "software_dynamic", "hwdge": "hardware_dynamic"}
_STATIC_TYPES = {"in": "input", "out": "output"}
_MAKERS = {"none": "Static", "swdge": "SwDge", "hwdge": "HwDge"}


def rings_of(program: QueuedProgram) -> dict[RingKey, int]:
    """Return the number of every ring, in the order of their first transfers."""
    keys = [queue for queue in program.queues if isinstance(queue, RingKey)]
    return {key: number for number, key in enumerate(keys)}


def ring_name(key: RingKey) -> str:
    """Return the name of a ring as profiles show it, e.g. `qSyncHwDgeIn`; further ones of a kind have a number."""
    issuer = "GpSimd" if key.issuer.name == "gpsimd" else key.issuer.name.capitalize()
    return f"q{issuer}{_MAKERS[key.maker]}{key.way.capitalize()}{key.number or ''}"


def ring_type(key: RingKey) -> str:
    """Return the profiler's type of a ring."""
    return _TYPES.get(key.maker) or _STATIC_TYPES[key.way]


def transfer_ids(timeline: Timeline) -> np.ndarray:
    """Return the id of the transfer of every entry, 0 for entries that are none."""
    ids = np.zeros(len(timeline.start), dtype=np.int64)
    ids[timeline.transfers] = np.arange(1, len(timeline.transfers) + 1)
    return ids


def transfer_table(timeline: Timeline) -> Mapping[str, Any]:
    """Make the table DmaPacketAggregated: one row per transfer, in the order of the program."""
    entries = timeline.transfers
    kernel = timeline.execution.kernel
    number: dict[Record, int] = {}
    code = np.array(
        [number.setdefault(timeline.program.records[n], len(number)) for n in entries.tolist()],
        dtype=np.int64,
    )
    facts = [_FormFacts(record) for record in number]
    keys = [r.queue for r in number if isinstance(r.queue, RingKey)]
    rings = rings_of(timeline.program)
    positions = timeline.positions[entries].tolist()
    ends = [transfer_ends(kernel.instructions[p]) for p in positions]
    trigger = timeline.trigger[entries]

    def numbers(values: list[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)[code]

    def texts(values: Sequence[str | None]) -> Strings:
        column = Strings.of(values)
        return Strings(column.codes[code], column.values)

    named = _places(kernel)
    return {
        "start_ts": to_ns(timeline.start[entries]),
        "end_ts": to_ns(timeline.end[entries]),
        "id": np.arange(1, len(entries) + 1),
        "pcore_idx": 0,
        "block_id": np.arange(len(entries)),
        "queue_idx": numbers([rings[key] for key in keys]),
        "queue_name": texts([ring_name(key) for key in keys]),
        "queue_type": texts([ring_type(key) for key in keys]),
        "op": texts([f.op for f in facts]),
        "variable": Strings.of([_variable(dst, src) for dst, src in ends]),
        "read_bytes": numbers([f.read for f in facts]),
        "write_bytes": numbers([f.written for f in facts]),
        "transfer_bytes": numbers([max(f.read, f.written) for f in facts]),
        "source": Strings.of([named[src.storage.id] for _, src in ends]),
        "dest": Strings.of([named[dst.storage.id] for dst, _ in ends]),
        "read_num_sbuf_partitions": numbers([f.partitions_read for f in facts]),
        "read_shape": texts([f.shape_read for f in facts]),
        "write_num_sbuf_partitions": numbers([f.partitions_written for f in facts]),
        "write_shape": texts([f.shape_written for f in facts]),
        "is_transpose_mode": np.array([f.transposes for f in facts], dtype=bool)[code],
        "transpose_element_size": texts([f.element for f in facts]),
        "transpose_from_shape": texts([f.from_shape for f in facts]),
        "transpose_to_shape": texts([f.to_shape for f in facts]),
        **places(kernel, timeline.positions[entries], transfer_ends),
        "trigger": to_ns(trigger),
        "completion": to_ns(trigger + numbers([record.issue for record in number])),
    }


class _FormFacts:
    """What all transfers of one form have in common."""

    def __init__(self, record: Record) -> None:
        self.read = sum(move.bytes_read for move in record.moves)
        self.written = sum(move.bytes_written for move in record.moves)
        self.op = "write" if record.moves[0].destination == "hbm" else "read"
        dst, src = transfer_ends(record.form.example)
        self.partitions_read = src.shape[0] if src.storage.on_chip else 0
        self.partitions_written = dst.shape[0] if dst.storage.on_chip else 0
        self.shape_read = str(list(src.shape))
        self.shape_written = str(list(dst.shape))
        self.transposes = any(move.opcode == "DMA_TRANSPOSE" for move in record.moves)
        self.element = f"[{src.dtype.itemsize}]" if self.transposes else None
        self.from_shape = self.shape_read if self.transposes else None
        self.to_shape = self.shape_written if self.transposes else None


def transfer_ends(i: Instruction) -> tuple[NkiTensor, NkiTensor]:
    """Return the tensors a transfer writes and reads."""
    dst = i.written()[0]
    # What is only read comes first: a transfer that may leave elements of `dst` alone counts as reading it, too.
    return dst, next((t for t in i.read() if t is not dst), dst)


def _variable(dst: NkiTensor, src: NkiTensor) -> str:
    return (src if dst.storage.on_chip else dst).storage.name


def _places(kernel: Kernel) -> list[str]:
    """Return how profiles name the place of each storage."""
    inputs = {s.id for s in kernel.inputs}
    outputs = {t.storage.id for t in kernel.outputs}

    def place(storage: Storage) -> str:
        if storage.on_chip:
            return SBUF_PLACE
        if storage.id in outputs:
            return "[OUTPUT]"
        return "[INPUT]" if storage.id in inputs else f"[{storage.name}]"

    return [place(storage) for storage in kernel.storages]


def tensor_table(timeline: Timeline) -> Mapping[str, Any]:
    """Make the table TensorInfo: inputs, outputs and constants, and how often each was loaded."""
    kernel = timeline.execution.kernel
    loads: dict[int, list[int]] = {}
    for entry in timeline.transfers.tolist():
        record = timeline.program.records[entry]
        dst, src = transfer_ends(kernel.instructions[timeline.program.positions[entry]])
        if dst.storage.on_chip and not src.storage.on_chip:
            moved = sum(move.bytes_read for move in record.moves)
            loads.setdefault(src.storage.id, []).append(moved)
    outputs = {t.storage.id: t.storage for t in kernel.outputs}
    tensors = [(s, "IN") for s in kernel.inputs] + [(s, "OUT") for s in outputs.values()]
    tensors += [(s, "WEIGHT") for s in weights_of(kernel)]
    loaded = [loads.get(storage.id, []) for storage, _ in tensors]
    sizes = [storage.nbytes for storage, _ in tensors]
    return {
        "variable_name": [storage.name for storage, _ in tensors],
        "type": [kind for _, kind in tensors],
        "shape": [" ".join(map(str, storage.shape)) for storage, _ in tensors],
        "size": sizes,
        "pcore_idx": 0,
        "load_to_sbuf_avg_size_bytes": [sum(m) // len(m) if m else 0 for m in loaded],
        "load_to_sbuf_total_size_bytes": [sum(m) for m in loaded],
        "load_to_sbuf_dma_count": [len(m) for m in loaded],
        "load_to_sbuf_repeat_factor": [sum(m) / n for m, n in zip(loaded, sizes, strict=True)],
    }


def weights_of(kernel: Kernel) -> list[Storage]:
    """Return the tensors in HBM whose values are part of the program."""
    return [s for s in kernel.storages if s.origin == "constant" and not s.on_chip]


def queue_table(timeline: Timeline) -> Mapping[str, Any]:
    """Make the table DmaQueuesInfo: every ring, on every DMA engine."""
    rings = rings_of(timeline.program)
    engines = timeline.execution.kernel.target.dma_engines
    return {
        "name": [ring_name(key) for key in rings for _ in range(engines)],
        "type": [ring_type(key) for key in rings for _ in range(engines)],
        "pcore_idx": 0,
        "idx": np.repeat(np.array(list(rings.values()), dtype=np.int64), engines),
        "engine_idx": np.tile(np.arange(engines), len(rings)),
    }


# -- partitions, bytes and steps of a transfer ------------------------------------------------------------------------
# As the table DmaPacketAggregated tells it. Steps count elements, the outermost axis first; on chip a partition is as
# many elements further as one partition of the tensor has. Offsets count bytes: in HBM from the start of the tensor, on
# chip within the partition. Places known only while the kernel runs are left out.

Ends = Callable[[Instruction], tuple[NkiTensor, NkiTensor]]


def places(kernel: Kernel, positions: np.ndarray, ends: Ends) -> Mapping[str, Any]:
    """Return the columns about places of transfers.

    Args:
        kernel: the program.
        positions: position in the program of each transfer.
        ends: gives the tensors that an instruction writes and reads.
    """
    columns: dict[str, Any] = {}
    count = len(kernel.instructions)
    for way, side in (("write", 0), ("read", 1)):
        views = {n: ends(kernel.instructions[n])[side] for n in distinct(positions).tolist()}
        plain = {n for n, view in views.items() if view.dynamic is None}
        on_chip = {n for n, view in views.items() if view.storage.on_chip}
        for name, write, known in (
            (f"{way}_sbuf_partitions", _partitions, plain & on_chip),
            (f"{way}_offset", _offset, plain),
            (f"{way}_steps", _steps, plain),
        ):
            there = np.zeros(count, dtype=bool)
            there[list(known)] = True
            texts = Texts(count, _writer(kernel, views, write))
            columns[name] = Strings(np.where(there[positions], positions, -1), texts)
    return columns


def _writer(
    kernel: Kernel, views: Mapping[int, NkiTensor], write: Callable[[NkiTensor, Kernel], str]
) -> Callable[[int], str]:
    return lambda n: write(views[n], kernel) if n in views else ""


def _partitions(view: NkiTensor, kernel: Kernel) -> str:
    """Write partitions as `0-127`, or one by one where they do not follow each other."""
    row = view.storage.row_bytes // view.dtype.itemsize
    first = _base(view, kernel)[0] + view.offset // row
    step, count = view.strides[0] // row, view.shape[0]
    if count == 1:
        return str(first)
    if step == 1:
        return f"{first}-{first + count - 1}"
    return ",".join(str(first + step * n) for n in range(count))


def _offset(view: NkiTensor, kernel: Kernel) -> str:
    offset = view.offset * view.dtype.itemsize
    if view.storage.on_chip:
        offset = _base(view, kernel)[1] + offset % view.storage.row_bytes
    return f"[{hex(offset)}]"


def _steps(view: NkiTensor, kernel: Kernel) -> str:
    return str(list(view.strides))


def _base(view: NkiTensor, kernel: Kernel) -> tuple[int, int]:
    """Return partition and byte at which a tensor on chip begins."""
    address = (kernel.addresses or {}).get(view.storage.id)
    return (0, 0) if address is None else (address.partition, address.byte)
