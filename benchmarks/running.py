"""Asks nki_lab's model about one program: what ran when, and how busy each part of the core was."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from benchmarks.published import TARGETS
from benchmarks.replay import Program
from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.pipeline import compile_kernel
from nki_lab.compiler.trace import TensorSpec
from nki_lab.dtypes import dtype_of
from nki_lab.ir.definition.cost import Stage
from nki_lab.ir.definition.form_times import Record, RingKey
from nki_lab.ir.program.execution import Execution
from nki_lab.profiler.profile import Profile
from nki_lab.targets import get_target
from nki_lab.targets.engines import DMA, TENSOR
from nki_lab.timing.options import TimingOptions
from nki_lab.timing.program import program_of
from nki_lab.timing.schedule import times_of
from nki_lab.timing.tables import make_profile
from nki_lab.timing.timeline import Timeline


class Ran(NamedTuple):
    """One executed instruction, in nanoseconds.

    Attributes:
        start: it began; of a transfer, its first byte.
        end: its results were visible; of a transfer, its last byte had arrived.
        trigger: the issue of a transfer began.
        issued: the issue of a transfer ended.
        record: its costs.
    """

    start: float
    end: float
    trigger: float
    issued: float
    record: Record


def run(program: Program, arch: str, hbm_bytes: int | None = None) -> Run:
    """Compile and time a program; with `hbm_bytes` its transfers are scaled until they move as many."""
    target = get_target(TARGETS[arch])
    arguments = tuple(TensorSpec(shape, dtype_of(dtype)) for shape, dtype in program.tensors)
    skipped = () if program.reorder else ("schedule",)
    options = Choices(record=False, skip_passes=skipped)
    source = SourceKernel.of(program.function)
    compiled = compile_kernel(
        source, arguments, dict(program.constants), target, options, program.cores
    )
    execution = Execution.in_program_order(compiled.kernel)
    choices = TimingOptions(program_overhead=program.whole)
    laid_out = program_of(execution, choices.hbm_share)
    if hbm_bytes is not None:
        factor = (
            hbm_bytes / program.repeats / sum(_hbm_bytes(record) for record in laid_out.records)
        )
        scaled = {record: _scaled(record, factor) for record in set(laid_out.records)}
        laid_out.records[:] = [scaled[record] for record in laid_out.records]
    timeline = Timeline(execution, choices, times_of(laid_out, target))
    return Run(timeline, hbm_bytes, program.repeats)


def _hbm_bytes(record: Record) -> int:
    return sum(
        (m.bytes_read if m.source == "hbm" else 0)
        + (m.bytes_written if m.destination == "hbm" else 0)
        for m in record.moves
    )


def _scaled(record: Record, factor: float) -> Record:
    """Return the costs with as many times the work for the DMA engines; everything else stays."""
    if not record.moves:
        return record
    return record.with_(work=round(record.work * factor))


class Run:
    """A timed program."""

    def __init__(
        self, timeline: Timeline, published_bytes: int | None = None, repeats: int = 1
    ) -> None:
        self.timeline = timeline
        self.kernel = timeline.execution.kernel
        self.target = self.kernel.target
        start = timeline.offset / 1000
        self.total_ns = start + repeats * (timeline.total_ns - start)
        self.repeats = repeats
        self.published_bytes = published_bytes

    @cached_property
    def profile(self) -> Profile:
        """The tables of the run."""
        return make_profile(self.timeline)

    # -- single instructions ---------------------------------------------------------------------------------------

    def instructions(self, name: str) -> list[Ran]:
        """Return when the instructions called `name` ran, in the order of the program."""
        positions = self.timeline.program.positions
        instructions = self.kernel.instructions
        return [
            self._ran(n)
            for n, position in enumerate(positions)
            if instructions[position].definition.name == name
        ]

    @property
    def transfers(self) -> list[Ran]:
        """When the transfers ran, in the order of the program."""
        return [self._ran(n) for n in self.timeline.transfers.tolist()]

    def rows(self, opcode: str) -> list[tuple[int, int]]:
        """Return start and end of the rows of the Instruction table with an opcode, in the order of time."""
        chosen = self.profile.strings("Instruction", "opcode").equal_to(opcode)
        start = self.profile.numbers("Instruction", "start_ts")[chosen].tolist()
        end = self.profile.numbers("Instruction", "end_ts")[chosen].tolist()
        return list(zip(start, end, strict=True))

    @property
    def table_load_ns(self) -> float:
        """The time of a load of an activation table; the program must have one."""
        assert self.timeline.board.table_loads, "the program loads no activation table"
        return self.timeline.board.table_load / 1000

    def _ran(self, n: int) -> Ran:
        board = self.timeline.board
        record = board.records[n]
        trigger = board.trigger[n] / 1000
        return Ran(
            board.start[n] / 1000,
            board.end[n] / 1000,
            trigger,
            trigger + record.issue / 1000,
            record,
        )

    # -- shares of the whole time ----------------------------------------------------------------------------------

    @cached_property
    def busy_ns(self) -> dict[str, float]:
        """Time each engine, and the DMA engines as `dma`, worked: what they cannot be faster than."""
        board = self.timeline.board
        found: dict[str, float] = {}
        for record, entries in self.timeline.entries_by_record.items():
            if isinstance(record.queue, RingKey):
                name, work = "dma", record.work
            else:
                name, work = record.queue.name, record.interval
            found[name] = found.get(name, 0.0) + len(entries) * work / 1000
        _, begins, ends = board.products
        if begins:
            found["tensor"] = float((np.array(ends) - np.array(begins)).sum()) / 1000
        loads = len(board.table_loads) * board.table_load / 1000
        if loads:
            found["scalar"] = found.get("scalar", 0.0) + loads
        return {name: self.repeats * spent for name, spent in found.items()}

    def active_percent(self, engine: str) -> float:
        """Return the part of the whole time in which an engine worked, in percent."""
        return 100 * self.busy_ns.get(engine, 0.0) / self.total_ns

    @property
    def bottleneck(self) -> str:
        """The part of the core that worked the largest share of the time: an engine, or `dma`."""
        return max(self.busy_ns, key=lambda name: (self.busy_ns[name], name))

    # -- work, and the least time for it ---------------------------------------------------------------------------

    @cached_property
    def hbm_bytes(self) -> int:
        """Bytes read from HBM and written to it, as the program asks for them."""
        counted = self.timeline.entries_by_record
        once = sum(_hbm_bytes(record) * len(entries) for record, entries in counted.items())
        return self.repeats * once

    @cached_property
    def moved_bytes(self) -> int:
        """Bytes of all transfers, those within SBUF too; the published ones where they are an input."""
        if self.published_bytes is not None:
            return self.published_bytes
        counted = self.timeline.entries_by_record
        return self.repeats * sum(
            max(m.bytes_read, m.bytes_written) * len(entries)
            for record, entries in counted.items()
            for m in record.moves
        )

    @cached_property
    def flops(self) -> tuple[int, int, float]:
        """Operations of products: each once; as often as the array works on it; and in operations of bfloat16."""
        once = passes = 0
        narrow = 0.0
        for record, entries in self.timeline.entries_by_record.items():
            products = [s for s in record.steps if s.stage is Stage.MULTIPLY_MOVING]
            count = 2 * sum(s.macs for s in products) * len(entries) * self.repeats
            once += count
            passes += count * len(products)
            if count:
                narrow += count * _widening(record)
        return once, passes, narrow

    @property
    def hfu_percent(self) -> float:
        """Operations per time in percent of the array's peak; float32 counts once per pass, as profilers do."""
        return 100 * self.flops[1] / self.total_ns / self.target.tensor_peak_flops_per_ns

    @property
    def mfu_percent(self) -> float:
        """Operations per time in percent of the array's peak, each counted once."""
        return 100 * self.flops[0] / self.total_ns / self.target.tensor_peak_flops_per_ns

    @property
    def mbu_percent(self) -> float:
        """Bytes to and from HBM per time, in percent of the bandwidth of one HBM stack, as profilers count."""
        return 100 * self.hbm_bytes / self.total_ns / self.target.hbm_stack_bytes_per_ns

    @property
    def bytes_ns(self) -> float:
        """The time in which 16 DMA engines move the bytes at their practical rate."""
        return self.moved_bytes / self.target.dma_bytes_per_ns_all_engines

    @property
    def roofline_ns(self) -> float:
        """The least time by peaks: of the products, or of the bytes."""
        return max(self.bytes_ns, self.flops[2] / self.target.tensor_peak_flops_per_ns)

    def engine_floor_ns(self, ran: Ran) -> float | None:
        """Return the least time of an instruction: an element per lane and cycle; None where that says nothing."""
        engine = ran.record.form.engine
        if engine is DMA:
            return None
        if engine is TENSOR:
            example = ran.record.form.example
            return example.moving.free_size / self.target.tensor_ghz
        example = ran.record.form.example
        elements = max(t.free_size for t in (*example.read(), *example.written()))
        return elements / self.target.clock_ghz(engine)

    def dma_floor_ns(self, ran: Ran) -> float:
        """Return the least time of a transfer: its bytes over 16 engines."""
        moved = sum(max(m.bytes_read, m.bytes_written) for m in ran.record.moves)
        return moved / self.target.dma_bytes_per_ns_all_engines


def _widening(record: Record) -> float:
    """Return how many operations of bfloat16 take the time of one of a product."""
    streamed = sum(s.cycles for s in record.steps if s.stage is Stage.MULTIPLY_MOVING)
    columns = record.form.example.args[record.form.definition.position["moving"]].free_size
    return streamed / columns
