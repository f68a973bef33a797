"""Defines what a rule of advice is given, and what it returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from nki_lab.ir.definition.cost import MicroOp, Transfer
from nki_lab.ir.definition.form_times import Record, record_of, record_with
from nki_lab.ir.definition.instruction import Form, Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.profiler.intervals import merge
from nki_lab.profiler.tables import to_ns
from nki_lab.targets.engines import COMPUTE, DMA, Engine
from nki_lab.targets.spec import Target
from nki_lab.timing.advice.draft import Draft
from nki_lab.timing.origins import kernel_lines, label_of
from nki_lab.timing.program import LOOP_TRIP
from nki_lab.timing.timeline import Timeline
from nki_lab.timing.what_if import freed

#: Entries, and what to time in place of their costs; None is nothing.
Change = tuple[np.ndarray, Record | None]
#: Opcode of transfers that transpose.
TRANSPOSED = "DMA_TRANSPOSE"


@dataclass(frozen=True)
class Proposal:
    """A change of the kernel, in a form that can be timed.

    Attributes:
        message: what was found, with its numbers.
        help: what to write instead.
        entries: what it is about, for its lines.
        changes: entries whose costs are others with the change, and those; None is no time.
        waits: waits of every entry with the change, or None.
        target: the machine with the change, or None.
        bound: why the change cannot be had in full, so that its gain is only an upper bound; "" where it can.
        unmodelled_ns: time the model leaves out and the change saves on a device.
        edit: makes the change in a draft of the traced program, which is compiled and timed again. The costs above say
            whether that is worthwhile; with a `bound` they stand for the edit where the draft refuses it, or the
            program is too large to be compiled again.
        most_ns: what it can save at most, or None.
    """

    message: str
    help: str
    entries: np.ndarray
    changes: tuple[Change, ...] = field(default=(), repr=False)
    waits: Sequence[tuple[int, ...]] | None = field(default=None, repr=False)
    target: Target | None = None
    bound: str = ""
    unmodelled_ns: int = 0
    edit: Callable[[Draft], Kernel] | None = field(default=None, repr=False)
    most_ns: int | None = None

    @property
    def costs(self) -> bool:
        """Whether the change can be timed by other costs of the program as it is."""
        return bool(self.changes or self.waits is not None or self.target is not None)


class Replay(Protocol):
    """Compiles and times a program again.

    Attributes:
        traced: the programs of all cores as they were traced, before any pass.
    """

    traced: tuple[Kernel, ...]

    def total_ns(self, kernels: Sequence[Kernel]) -> int | None:
        """Return the time of other programs in place of the traced ones; None where they would race."""


@dataclass(frozen=True)
class AdviceRule:
    """One kind of advice.

    Attributes:
        name: in a word or two; it stands before the message.
        find: looks for it.
    """

    name: str
    find: Callable[[Evidence], Iterator[Proposal]]


@dataclass(frozen=True)
class Group:
    """Entries of one line with the same costs, in the order of the program."""

    record: Record
    line: int
    entries: np.ndarray


class Evidence:
    """A timed program, and what several rules ask about it."""

    def __init__(
        self, timeline: Timeline, partner: Timeline | None = None, can_edit: bool = False
    ) -> None:
        self.timeline = timeline
        self.partner = partner  # what the other core of a logical core did
        self.can_edit = can_edit  # the program is compiled again with an edit
        self.kernel = timeline.execution.kernel
        self.target = self.kernel.target
        self.records = timeline.program.records
        self.total_ns = timeline.total_ns

    @cached_property
    def line(self) -> np.ndarray:
        """Number of the line of every entry; -1 for entries that are not instructions."""
        codes, spans = kernel_lines(self.kernel)
        number: dict[str | None, int] = {}
        same = [number.setdefault(label_of(span), len(number)) for span in spans]
        self._labels = [label or "" for label in number]
        positions = self.timeline.positions
        if not len(codes):
            return np.full(len(positions), -1)
        return np.where(positions == LOOP_TRIP, -1, np.array(same)[codes[positions]])

    def places(self, entries: np.ndarray) -> tuple[str, ...]:
        """Return the lines of some entries, the one that took the longest first."""
        took = (self.timeline.end - self.timeline.start)[entries]
        sums: dict[int, int] = {}
        for line, time in zip(self.line[entries].tolist(), took.tolist(), strict=True):
            sums[line] = sums.get(line, 0) + time
        order = sorted(sums, key=lambda line: (-sums[line], line))
        return tuple(self._labels[line] for line in order if line >= 0 and self._labels[line])

    def labels(self, entries: np.ndarray) -> frozenset[str]:
        """Return the lines of some entries."""
        lines = np.unique(self.line[entries]).tolist()
        return frozenset(self._labels[line] for line in lines if line >= 0) - {""}

    @cached_property
    def groups(self) -> list[Group]:
        """Entries by line and costs, in the order of their first ones."""
        line = self.line
        parts: dict[tuple[object, object, int], list[tuple[Record, np.ndarray]]] = {}
        for record, entries in self.timeline.entries_by_record.items():
            lines = line[entries]
            for number in np.unique(lines).tolist():
                key = (record.queue, record.costs, number)
                parts.setdefault(key, []).append((record, entries[lines == number]))
        groups = []
        for (_, _, number), same in parts.items():
            entries = np.sort(np.concatenate([entries_of_record for _, entries_of_record in same]))
            groups.append(Group(self.records[int(entries[0])], number, entries))
        return sorted(groups, key=lambda group: int(group.entries[0]))

    def groups_of(self, engine: Engine) -> list[Group]:
        """Return the groups that an engine, or DMA, runs."""
        return [group for group in self.groups if group.record.form.engine is engine]

    def instruction(self, entry: int) -> Instruction:
        """Return the instruction of an entry."""
        return self.kernel.instructions[int(self.timeline.positions[entry])]

    @cached_property
    def loads(self) -> np.ndarray:
        """Entries that load from device memory into SBUF."""
        return self._moving(lambda move: move.source == "hbm" and move.destination == "sbuf")

    @cached_property
    def stores(self) -> np.ndarray:
        """Entries that store from SBUF to device memory."""
        return self._moving(lambda move: move.source == "sbuf" and move.destination == "hbm")

    def _moving(self, chosen: Callable[[Transfer], bool]) -> np.ndarray:
        parts = [
            entries
            for record, entries in self.timeline.entries_by_record.items()
            if record.form.engine is DMA and chosen(record.moves[0])
        ]
        return np.sort(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)

    @cached_property
    def written(self) -> set[int]:
        """Ids of the storages that an instruction writes."""
        touches = self.kernel.touches
        return set(np.unique(touches.storage[touches.writes]).tolist())

    @cached_property
    def readers(self) -> np.ndarray:
        """How many instructions of the program read each storage, by id."""
        touches = self.kernel.touches
        return np.bincount(touches.storage[touches.reads], minlength=len(self.kernel.storages))

    @cached_property
    def _ends(self) -> tuple[list[int], list[int]]:
        """Per instruction the accesses in `touches` that write first, and that only read first; -1 for none."""
        touches = self.kernel.touches
        ends = []
        for chosen in (touches.writes, touches.reads & ~touches.writes):
            first = np.full(len(self.kernel.instructions), -1)
            access = np.flatnonzero(chosen)[::-1]
            first[touches.at[access]] = access
            ends.append(first.tolist())
        return ends[0], ends[1]

    def ends(self, entry: int) -> tuple[NkiTensor, NkiTensor]:
        """Return the tensors that a transfer writes and reads."""
        position = self.timeline.program.positions[entry]
        views, (writes, reads) = self.kernel.touches.views, self._ends
        return views[writes[position]], views[reads[position]]

    def busy_ns(self, engine: Engine) -> int:
        """Return for how long an engine takes instructions."""
        return sum(g.record.interval * len(g.entries) for g in self.groups_of(engine)) // 1000

    @cached_property
    def dma_spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts and ends of the times in which transfers move, in ns."""
        entries = self.timeline.transfers
        return merge(to_ns(self.timeline.start[entries]), to_ns(self.timeline.end[entries]))

    @cached_property
    def compute_spans(self) -> tuple[np.ndarray, np.ndarray]:
        """Starts and ends of the times in which a compute engine works, in ns."""
        parts = [e for r, e in self.timeline.entries_by_record.items() if r.form.engine in COMPUTE]
        entries = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        return merge(to_ns(self.timeline.start[entries]), to_ns(self.timeline.end[entries]))

    @cached_property
    def busiest_ns(self) -> int:
        """Time for which the busiest engine, or the DMA engines, work."""
        starts, ends = self.dma_spans
        return max(int((ends - starts).sum()), *(self.busy_ns(engine) for engine in COMPUTE))

    def on_engine(self, record: Record, engine: Engine) -> Record | None:
        """Return what instructions like those of `record` cost on an engine that authors may ask for, else None."""
        example = record.form.example
        definition = example.definition
        if engine not in definition.engines or "engine" not in definition.position:
            return None
        form = Form(example.with_args(engine=engine), self.target)
        if form.broken or form.engine is not engine:
            return None
        return record_of(form, self.target, self.timeline.options.hbm_share)

    def costing(self, record: Record, costs: Sequence[MicroOp | Transfer]) -> Record:
        """Return a record with other costs."""
        share = self.timeline.options.hbm_share
        return record_with(record.form, costs, self.target, share)

    def with_tensors(
        self, record: Record, change: Callable[[NkiTensor], NkiTensor], reads_only: bool = False
    ) -> Record:
        """Return what instructions like those of `record` would cost on other tensors.

        Args:
            record: their costs.
            change: gives the tensor to put in place of one.
            reads_only: put others only in place of tensors that are read and not written.
        """
        form = record.form
        args = list(form.example.args)
        for k in {*form.reads, *form.writes}:
            if type(args[k]) is NkiTensor and not (reads_only and k in form.writes):
                args[k] = change(args[k])
        example = Instruction(form.definition, tuple(args), form.example.stack)
        example.form = form
        return self.costing(record, form.definition.cost_of(example, self.target))

    def changed(self, changes: Sequence[Change]) -> list[Record]:
        """Return the costs of all entries with those of some changed."""
        records = list(self.records)
        for entries, record in changes:
            if record is None:
                records = freed(records, entries)
                continue
            for n in entries.tolist():
                records[n] = record
        return records

    def saved_ns(self, changes: Sequence[Change]) -> int:
        """Return what changed entries take less by themselves, were nothing beside them."""
        saved = 0
        for entries, new in changes:
            left = 0 if new is None else new.alone
            counts = Counter(self.records[n] for n in entries.tolist())
            saved += sum(max(old.alone - left, 0) * count for old, count in counts.items())
        return saved // 1000


def duration(ns: float) -> str:
    """Write a time as the messages do."""
    return f"{ns:,.0f} ns" if ns < 1000 else f"{ns / 1000:,.1f} us"


def size(count: float) -> str:
    """Write a number of bytes as the messages do."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count:,.0f} B"


def counted(count: int, what: str) -> str:
    """Write a number of things, such as `1 load` or `2 loads`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
