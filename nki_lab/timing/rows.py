"""Makes the rows of the Instruction table: which micro-operation ran on which engine, from when to when.

one row per micro-operation; per activation table that was loaded; per transfer, the instruction that triggers it
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from nki_lab.ir.definition.cost import MicroOp, Stage
from nki_lab.ir.definition.form_times import Record, RingKey
from nki_lab.targets.engines import DMA, TENSOR, Engine
from nki_lab.timing.program import LOOP_TRIP
from nki_lab.timing.timeline import Timeline

#: Opcodes of rows that no definition's cost names (profile-schema-reference.rst:247).
TABLE_LOAD = "ACT_TABLE_LOAD"
TRIGGER = "PSEUDO_DMA_TRIGGER"


@dataclass(frozen=True)
class RowKind:
    """What is the same for all rows of one micro-operation of one form.

    Attributes:
        record: costs of the form.
        opcode: name in the table.
        engine: engine it runs on.
        step: the micro-operation; None for table loads and triggers.
        share: products of one instruction this is one of (it does that part of its work).
    """

    record: Record
    opcode: str
    engine: Engine
    step: MicroOp | None = None
    share: int = 1


@dataclass
class Rows:
    """The rows as arrays, sorted by start.

    Attributes:
        kinds: what rows have in common.
        kind: per row, a position in `kinds`.
        entry: per row, the entry of the program.
        start, end: times in picoseconds.
        ready: when its engine could have started it: `start - ready` is time spent waiting.
        first, last: per entry, its first and last row (of a transfer: its trigger), or -1.
    """

    kinds: list[RowKind]
    kind: np.ndarray
    entry: np.ndarray
    start: np.ndarray
    end: np.ndarray
    ready: np.ndarray
    first: np.ndarray
    last: np.ndarray


@dataclass
class _Collected:
    kinds: list[RowKind] = field(default_factory=list)
    parts: list[tuple[np.ndarray, ...]] = field(default_factory=list)

    def add(self, kind: RowKind, entry: np.ndarray, start, end, ready) -> None:
        code = np.full(len(entry), len(self.kinds))
        self.kinds.append(kind)
        self.parts.append((code, entry, start, end, ready))


def instruction_rows(timeline: Timeline) -> Rows:
    """Return the rows of the Instruction table."""
    collected = _Collected()
    ready = _ready(timeline)
    for record, entries in timeline.entries_by_record.items():
        if record.form.engine is DMA:
            trigger = timeline.trigger[entries]
            kind = RowKind(record, TRIGGER, record.moves[0].issuer)
            collected.add(kind, entries, trigger, trigger + record.issue, ready[entries])
        elif record.form.engine is TENSOR:
            _tensor_rows(timeline, record, entries, ready, collected)
        else:
            _engine_rows(timeline, record, entries, ready, collected)
    loads = timeline.board.table_loads
    if loads:
        entries = np.array([n for n, _ in loads])
        start = np.array([time for _, time in loads]) + timeline.offset
        records = timeline.program.records
        kinds: dict[Record, RowKind] = {}
        for n, entry in enumerate(entries.tolist()):
            record = records[entry]
            kind = kinds.setdefault(record, RowKind(record, TABLE_LOAD, record.form.engine))
            part = slice(n, n + 1)
            end = start[part] + timeline.board.table_load
            collected.add(kind, entries[part], start[part], end, start[part])
    return _sorted(collected, len(timeline.start))


def _ready(timeline: Timeline) -> np.ndarray:
    """Return when the queue of each entry could have started it, had it nothing to wait for."""
    begun = np.where(timeline.trigger >= timeline.offset, timeline.trigger, timeline.start)
    spent = np.zeros(len(begun), dtype=np.int64)
    for record, entries in timeline.entries_by_record.items():
        spent[entries] = record.issue if record.form.engine is DMA else record.interval
    ready = np.full(len(begun), timeline.offset, dtype=np.int64)
    lines: dict[object, list[int]] = {}
    for queue, queued in timeline.program.queues.items():
        # Rings of one maker take turns: the work of one is not waiting of the other.
        lines.setdefault(queue[:2] if isinstance(queue, RingKey) else queue, []).extend(queued)
    for line in lines.values():
        entries = np.array(line)
        # What only marks a moment is not work, and what came before it is still what an engine did last.
        entries = entries[timeline.positions[entries] != LOOP_TRIP]
        entries = entries[np.argsort(begun[entries], kind="stable")]
        ready[entries[1:]] = (begun + spent)[entries[:-1]]
    if TENSOR in timeline.program.queues:
        # The engine waits when no product runs; weights that are loaded behind one waited for nothing.
        entries = np.array(timeline.program.queues[TENSOR])
        ready[entries[1:]] = _products(timeline)[2][:-1]
    for entry, time in timeline.board.table_loads:
        ready[entry] = time + timeline.board.table_load + timeline.offset
    return np.minimum(ready, begun)


def _products(timeline: Timeline) -> list[np.ndarray]:
    """Return the start of the load, and the start and end of the products, per entry of the Tensor queue."""
    return [np.array(t, dtype=np.int64) + timeline.offset for t in timeline.board.products]


def _engine_rows(
    timeline: Timeline,
    record: Record,
    entries: np.ndarray,
    ready: np.ndarray,
    collected: _Collected,
) -> None:
    begin = timeline.start[entries]
    start = begin
    engine = record.form.engine
    total = sum(step.cycles for step in record.steps)
    done = 0.0
    for step in record.steps:
        done += step.cycles
        end = begin + round(record.interval * done / total) if total else begin
        is_last = step is record.steps[-1]
        kind = RowKind(record, step.opcode, engine, step)
        collected.add(
            kind,
            entries,
            start,
            timeline.end[entries] if is_last else end,
            ready[entries] if step is record.steps[0] else start,
        )
        start = end


def _tensor_rows(
    timeline: Timeline,
    record: Record,
    entries: np.ndarray,
    ready: np.ndarray,
    collected: _Collected,
) -> None:
    queue = np.array(timeline.program.queues[TENSOR])
    rank = np.searchsorted(queue, entries)
    loads, begins, ends = (times[rank] for times in _products(timeline))
    products = [s for s in record.steps if s.stage is not Stage.LOAD_STATIONARY]
    waited = ready[entries]
    for step in record.steps:
        if step.stage is Stage.LOAD_STATIONARY:
            kind = RowKind(record, step.opcode, TENSOR, step)
            collected.add(kind, entries, loads, loads + record.load, waited)
            waited = begins
    for k, step in enumerate(products):
        start = begins + (ends - begins) * k // len(products)
        end = begins + (ends - begins) * (k + 1) // len(products)
        is_last = k == len(products) - 1
        kind = RowKind(record, step.opcode, TENSOR, step, len(products))
        collected.add(
            kind,
            entries,
            start,
            timeline.end[entries] if is_last else end + record.latency,
            waited if k == 0 else start,
        )


def _sorted(collected: _Collected, entries: int) -> Rows:
    if not collected.parts:
        none = np.zeros(0, dtype=np.int64)
        unknown = np.full(entries, -1)
        return Rows([], none, none, none, none, none, unknown, unknown)
    kind, entry, start, end, ready = (np.concatenate(c) for c in zip(*collected.parts, strict=True))
    order = np.lexsort((kind, entry, start))
    kind, entry, start, end, ready = (c[order] for c in (kind, entry, start, end, ready))
    number = np.arange(len(entry))
    last = np.full(entries, -1)
    last[entry] = number
    counts = np.array([k.opcode != TABLE_LOAD for k in collected.kinds])[kind]
    first = np.full(entries, -1)
    first[entry[counts][::-1]] = number[counts][::-1]
    return Rows(collected.kinds, kind, entry, start, end, ready, first, last)
