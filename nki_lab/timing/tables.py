"""Turns a timeline into the tables of a profile.

Only the totals are computed when a profile is made; every table is a function that runs when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from nki_lab.ir.definition.cost import MicroOp
from nki_lab.ir.definition.form_times import Record, busiest_engine, engines_used
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.execution import Iterations
from nki_lab.profiler.analyses.advice import CATEGORY
from nki_lab.profiler.analyses.drawing import ENGINE_TRACKS
from nki_lab.profiler.analyses.what_if import Model
from nki_lab.profiler.columns import Strings, Texts
from nki_lab.profiler.packets import Deal, Deals
from nki_lab.profiler.profile import Profile
from nki_lab.profiler.schema import ENGINES, TRANSFERS
from nki_lab.profiler.tables import to_ns
from nki_lab.targets.engines import TENSOR
from nki_lab.targets.spec import Target
from nki_lab.timing import memory_use
from nki_lab.timing.limits import warnings
from nki_lab.timing.operands import (
    activation_function,
    operand_text,
    performance_mode,
    product_type,
    traffic_of,
)
from nki_lab.timing.origins import Origins, instruction_names, source_locations
from nki_lab.timing.rows import TABLE_LOAD, TRIGGER, RowKind, Rows, instruction_rows
from nki_lab.timing.timeline import Timeline
from nki_lab.timing.transfers import (
    queue_table,
    tensor_table,
    transfer_ids,
    transfer_table,
    weights_of,
)


def make_profile(
    timeline: Timeline,
    name: str = "",
    model: Model | None = None,
    iterations: Callable[[], Iterations | None] | None = None,
) -> Profile:
    """Return the profile of a timing run.

    Args:
        timeline: the run.
        name: what ran; by default the kernel's name.
        model: who can time it again, for `Profile.what_if` and `Profile.advice`.
        iterations: gives the loop variables of the instructions when somebody asks; None where they are unknown.
    """
    tables = _Tables(timeline)
    kernel = timeline.execution.kernel
    origins = Origins(kernel, iterations)
    inputs = sum(s.nbytes for s in kernel.inputs)
    outputs = sum({t.storage.id: t.storage.nbytes for t in kernel.outputs}.values())
    weights = sum(s.nbytes for s in weights_of(kernel))
    return Profile.from_tables(
        kernel.target,
        {
            "Instruction": tables.instructions,
            TRANSFERS: lambda: transfer_table(timeline),
            "Flow": lambda: flow_table(timeline, tables.rows),
            "SbufUsage": lambda: memory_use.sbuf_usage(timeline),
            "PsumUsage": lambda: memory_use.psum_usage(timeline),
            "SbufAllocation": lambda: memory_use.sbuf_allocation(timeline),
            "CcOp": lambda: collective_table(timeline),
            "CoreBarriers": tables.meetings,
            "DmaQueuesInfo": lambda: queue_table(timeline),
            "TensorInfo": lambda: tensor_table(timeline),
            "KernelInstructions": origins.instructions,
            "KernelStackFrames": origins.frames,
            "KernelIterationVariables": origins.variables,
            "Warning": lambda: _warnings(timeline, model),
        },
        is_simulation=True,
        name=name or kernel.name,
        model=model,
        metrics={
            "inputs_and_weights_size_bytes": inputs + weights,
            "inputs_outputs_weights_size_bytes": inputs + outputs + weights,
            "weight_size_bytes": weights,
        },
        deals=lambda: deals_of(timeline),
    )


#: Larger programs are looked at for advice only when somebody asks for it: the rules take some 10 us per instruction.
LOOKED_AT_ONCE = 200_000


def _warnings(timeline: Timeline, model: Model | None) -> Mapping[str, Any]:
    """Make the table Warning: the limits of the model that the kernel leans on, and advice."""
    table = warnings(timeline)
    given: list[str] = []
    count = len(timeline.program.records)
    if model is not None and count > LOOKED_AT_ONCE:
        given = [f"of {count:,} instructions none was looked at: ask for it with result.advice()"]
    elif model is not None:
        given = [str(advice) for advice in model.advice(None)]
    return {
        "message": [*table["message"], *given],
        "category": [*table["category"], *[CATEGORY] * len(given)],
    }


class _Tables:
    """The tables that are about instructions."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._kernel = timeline.execution.kernel

    @cached_property
    def rows(self) -> Rows:
        return instruction_rows(self._timeline)

    def instructions(self) -> Mapping[str, Any]:
        """Make the table Instruction."""
        timeline, rows, kernel = self._timeline, self.rows, self._kernel
        kinds = rows.kinds
        position = timeline.positions[rows.entry]
        start, end = to_ns(rows.start), to_ns(rows.end)
        engines = np.array([ENGINES.index(k.engine.name) for k in kinds], dtype=np.int64)
        engine = engines[rows.kind]
        opcode = _coded(rows.kind, [k.opcode for k in kinds])
        texts = Texts(
            len(kernel.instructions), lambda n: operand_text(kernel.instructions[n], kernel)
        )
        columns: dict[str, Any] = {
            "start_ts": start,
            "end_ts": end,
            "engine": Strings(engine, ENGINES),
            "timeline_track": _coded(rows.kind, [_track(k) for k in kinds]),
            "pcore_idx": 0,
            "opcode": opcode,
            "operands": Strings(position, texts),
            # Nothing is filled in when a program is loaded: it runs as it was compiled.
            "compiler_opcode": opcode,
            "compiler_operands": Strings(position, texts),
            "id": np.arange(1, len(start) + 1),
            "pc": _ranks(engine),
            "compiler_pc": _compiled_places(engine, position, _steps(kinds)[rows.kind]),
            "kernel_instruction_name": instruction_names(kernel).take(position),
            "nki_source_location": source_locations(kernel).take(position),
            "evt_wait_time_ns": to_ns(rows.start) - to_ns(rows.ready),
            # The compiler spills nothing, and no queue holds weights alone.
            "spill_save_bytes": 0,
            "spill_reload_bytes": 0,
            "weight_queue_bytes": 0,
        }
        for name, told in (
            ("performance_mode", performance_mode),
            ("tensor_instruction_type", product_type),
            ("scalar_activation_fn", activation_function),
        ):
            columns[name] = _coded(rows.kind, [told(k) for k in kinds])
        for name, values in _work(kinds, kernel.target).items():
            columns[name] = values[rows.kind]
        return columns | self._triggered(start, end)

    def meetings(self) -> Mapping[str, Any]:
        """Make the table CoreBarriers: each meeting with the other core, from when this one came to it."""
        timeline = self._timeline
        entries = np.array(sorted(timeline.came), dtype=np.int64)
        if not len(entries):
            return {}
        columns = self.instructions()
        row = self.rows.first[entries]
        engine = columns["engine"].take(row)
        names = Strings(engine.codes, [ENGINE_TRACKS[name][0] for name in engine.values])
        came = np.array([timeline.came[n] for n in entries.tolist()], dtype=np.int64)
        return {
            "start_ts": to_ns(came + timeline.offset),
            "end_ts": columns["end_ts"][row],
            "engine_name": names,
            "id": np.arange(1, len(entries) + 1),
            "compiler_pc": columns["compiler_pc"][row],
            "compiler_opcode": _coded(
                self.rows.kind[row], [k.record.costs[0].opcode for k in self.rows.kinds]
            ),
            "compiler_operands": columns["compiler_operands"].take(row),
            "pcore_idx": 0,
        }

    def _triggered(self, start: np.ndarray, end: np.ndarray) -> dict[str, Any]:
        """Return the columns about the transfer that an instruction triggers."""
        timeline, rows = self._timeline, self.rows
        other = ~np.array([k.opcode == TRIGGER for k in rows.kinds], dtype=bool)[rows.kind]
        first = np.ma.MaskedArray(to_ns(timeline.start[rows.entry]), other)
        last = np.ma.MaskedArray(to_ns(timeline.end[rows.entry]), other)
        return {
            "dma_trigger_start_ts": first,
            "dma_trigger_end_ts": last,
            "dma_wait_time_ns": np.ma.MaskedArray(first.data - end, other),
        }


def _coded(codes: np.ndarray, texts: list[str | None]) -> Strings:
    column = Strings.of(texts)
    return Strings(column.codes[codes], column.values)


def _track(kind: RowKind) -> str | None:
    if kind.engine is not TENSOR or kind.step is None:
        return None
    return "TensorMatrix" if kind.step.macs or not kind.record.load else None


def _steps(kinds: list[RowKind]) -> np.ndarray:
    """Return where each kind stands among the micro-operations of its instruction, table loads first."""
    places = [
        -1 if k.opcode == TABLE_LOAD else 0 if k.step is None else _index(k.record.steps, k.step)
        for k in kinds
    ]
    return np.array(places, dtype=np.int64)


def _index(steps: list[MicroOp], step: MicroOp) -> int:
    return next(n for n, other in enumerate(steps) if other is step)


def _compiled_places(engine: np.ndarray, position: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return how many instructions of the same engine stand before each one in the program."""
    places = np.zeros(len(engine), dtype=np.int64)
    whole = position * (int(step.max(initial=0)) + 2) + step + 1
    for code in np.unique(engine):
        of_engine = engine == code
        places[of_engine] = np.unique(whole[of_engine], return_inverse=True)[1]
    return places


def _ranks(engine: np.ndarray) -> np.ndarray:
    """Return how many earlier rows have the same engine."""
    ranks = np.zeros(len(engine), dtype=np.int64)
    for code in np.unique(engine):
        of_engine = engine == code
        ranks[of_engine] = np.arange(int(of_engine.sum()))
    return ranks


_TRAFFIC = (
    "hbm_read_bytes",
    "hbm_write_bytes",
    "sbuf_read_bytes",
    "sbuf_write_bytes",
    "psum_read_bytes",
    "psum_write_bytes",
    "psum_read_sbuf_write_bytes",
    "raw_flops",
    "adjusted_flops",
    "flops_transpose",
    "adjusted_flops_transpose",
    "input_queue_bytes",
    "output_queue_bytes",
)


def _work(kinds: list[RowKind], target: Any) -> dict[str, np.ndarray]:
    """Return per kind the bytes it moves and the operations it performs."""
    traffic = [traffic_of(kind, target) for kind in kinds]
    return {
        name: np.array([getattr(t, name) for t in traffic], dtype=np.int64) for name in _TRAFFIC
    }


def flow_table(timeline: Timeline, rows: Rows) -> Mapping[str, Any]:
    """Make the table Flow.

    Edges go from the last micro-operation of an instruction (or from its transfer) to the first one of what waits
    for it, and from the instruction that triggers a transfer to the transfer.
    """
    waits = timeline.program.waits
    counts = np.fromiter((len(w) for w in waits), dtype=np.int64, count=len(waits))
    taker = np.repeat(np.arange(len(waits)), counts)
    giver = np.fromiter(
        (w for entry_waits in waits for w in entry_waits), dtype=np.int64, count=len(taker)
    )
    # Loop trips are not events: what waits for one or is waited for by one has no edge.
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
            np.concatenate((by_transfer.astype(np.int32), np.zeros(len(moved), np.int32))),
            ("instruction", "dma_block"),
        ),
        "out_table": Strings(
            np.concatenate((np.zeros(len(taker), np.int32), np.ones(len(moved), np.int32))),
            ("instruction", "dma_block"),
        ),
        "dependency_type": "FLOW_DEPENDENCE",
        "gap_time": np.concatenate(
            (start[rows.first[taker]] - given_at, to_ns(timeline.start)[moved] - end[triggers])
        ),
    }


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


def deals_of(timeline: Timeline) -> Deals:
    """Return how every transfer of a timing run is dealt to the DMA engines, in the order of the program."""
    number: dict[Record, int] = {}
    records = timeline.program.records
    codes = [number.setdefault(records[n], len(number)) for n in timeline.transfers.tolist()]
    target = timeline.execution.kernel.target
    return Deals(codes, [_deals(record, target) for record in number])


def _deals(record: Record, target: Target) -> list[Deal]:
    deals = []
    for move in record.moves:
        most, size = busiest_engine(move, target)
        moved = max(move.bytes_read, move.bytes_written)
        packets = max(1, min(round(moved / size), most * engines_used(move, target)))
        deals.append(Deal(min(most, packets), packets, move.bytes_read, move.bytes_written))
    return deals
