"""Form times: what one form of an instruction asks of its queue, in picoseconds.

Everything that is the same for all instructions of a form is computed once here; the schedule only adds and compares.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from math import ceil
from typing import Any, NamedTuple

from nki_lab.errors import InstructionError
from nki_lab.ir.definition.cost import MicroOp, Port, Stage, Transfer
from nki_lab.ir.definition.instruction import Form
from nki_lab.targets.engines import DMA, GPSIMD, SCALAR, TENSOR, VECTOR, Engine
from nki_lab.targets.spec import Target

#: `Transfer.dge` of descriptors that GpSimd writes.
SOFTWARE = "swdge"


class RingKey(NamedTuple):
    """Which DMA ring: who issues its transfers, who makes the descriptors, and "in" to SBUF or "out" of it.

    `number` tells rings apart whose descriptors lie ready: the transfers of each tensor in HBM have one of their own.
    """

    issuer: Engine
    maker: str
    way: str
    number: int = 0


#: What instructions stand in line for: an engine or a DMA ring.
Queue = Engine | RingKey


class Record:
    """The costs of one form.

    Attributes:
        costs: what `.cost` yielded; `steps` and `moves` are the two kinds of it.
        queue: the queue its instructions stand in.
        interval: time until the queue can start its next instruction.
        latency: time from then until results are visible to the same engine.
        load: time to load weights behind the running product (Tensor engine), else 0.
        part: the part of the Tensor engine's array it uses (`MicroOp.part`), None for all of it.
        table: activation table it needs, or None.
        ports: shared ports it holds for `interval`.
        issue: time its issuer spends on it, of a transfer.
        lead: time from the end of the issue to the first byte.
        work: time the busiest DMA engine serves it while it serves nothing else.
        tail: time from the last byte until a waiting engine knows.
    """

    __slots__ = (
        "_form", "costs", "steps", "moves", "queue", "interval", "latency", "load", "part", "table", "ports",
        "issue", "lead", "work", "tail",
    )  # fmt: skip

    def __init__(self, form: Form, costs: Sequence[MicroOp | Transfer]) -> None:
        self._form = weakref.ref(form)  # whose cache holds this
        self.costs = tuple(costs)
        self.steps = [c for c in costs if type(c) is MicroOp]
        self.moves = [c for c in costs if type(c) is Transfer]
        self.queue: Queue = form.engine
        self.interval = self.latency = self.load = 0
        self.issue = self.lead = self.work = self.tail = 0
        self.part: tuple[int, int, int, int] | None = None
        self.table: str | None = None
        self.ports: tuple[Port, ...] = ()

    @property
    def form(self) -> Form:
        """The form, which lives as long as its program does."""
        form = self._form()
        assert form is not None, "its program is gone"
        return form

    def with_(self, **changes: Any) -> Record:
        """Return a copy with some of its costs replaced: what a question "what if it took ..." times instead."""
        record = Record(self.form, self.costs)
        for name in Record.__slots__:
            setattr(record, name, changes[name] if name in changes else getattr(self, name))
        return record

    @property
    def alone(self) -> int:
        """Time from its beginning until its result is known, were nothing beside it."""
        return sum(getattr(self, name) for name in _TIMES)

    def free(self) -> Record:
        """Return a copy that stands in the same queue and takes no time, no port and no table."""
        nothing = dict.fromkeys(_TIMES, 0)
        return self.with_(table=None, ports=(), **nothing)


#: The times among the costs of a record.
_TIMES = ("interval", "latency", "load", "issue", "lead", "work", "tail")


def record_of(form: Form, target: Target, hbm_share: float) -> Record:
    """Return the costs of a form, computed once per share of the HBM bandwidth."""
    key = ("timing", hbm_share)
    record = form.cache.get(key)
    if record is None:
        costs = form.definition.cost_of(form.example, target)
        record = form.cache[key] = record_with(form, costs, target, hbm_share)
    return record


def record_with(
    form: Form, costs: Sequence[MicroOp | Transfer], target: Target, hbm_share: float
) -> Record:
    """Return what a form would ask of its queue if its costs were these."""
    make = _transfer_record if form.engine is DMA else _engine_record
    return make(form, costs, target, hbm_share)


def picoseconds(cycles: float, ghz: float) -> int:
    """Turn cycles of a clock into whole picoseconds."""
    return round(cycles * 1000 / ghz)


def fixed_latency_ns(target: Target, engine: Engine) -> int:
    """Return the time from the end of an instruction's data to the visibility of its results."""
    latencies = {
        TENSOR: target.tensor_fixed_latency_ns,
        VECTOR: target.vector_fixed_latency_ns,
        SCALAR: target.scalar_fixed_latency_ns,
        GPSIMD: target.gpsimd_fixed_latency_ns,
    }
    return latencies.get(engine, 0)


def _engine_record(
    form: Form, costs: Sequence[MicroOp | Transfer], target: Target, hbm_share: float
) -> Record:
    record = Record(form, costs)
    engine = form.engine
    ghz = target.clock_ghz(engine)
    loads = 0
    if not costs or record.moves or any(s.engine not in (None, engine) for s in record.steps):
        raise InstructionError(
            f"{form.definition.name}: its cost must be micro-operations of {engine.name}; the timing model does not "
            "know instructions of several engines",
            help="return micro-operations of one engine",
        )
    for step in record.steps:
        time = picoseconds(step.cycles, ghz)
        if step.stage is Stage.LOAD_STATIONARY:
            record.load += time
            loads += 1
        else:
            record.interval += time
        record.ports += tuple(p for p in step.ports if p not in record.ports)
        record.table = step.table or record.table
        record.part = step.part or record.part
    if loads > 1 or (loads and record.steps[0].stage is not Stage.LOAD_STATIONARY):
        raise InstructionError(
            f"{form.definition.name}: its cost loads weights {loads} times; the timing model knows one load, "
            "before the products",
            help="return one micro-operation that loads, first",
        )
    last = record.steps[-1]
    if last.latency_cycles is not None:
        record.latency = picoseconds(last.latency_cycles, ghz)
    else:
        record.latency = fixed_latency_ns(target, engine) * 1000
    return record


def _transfer_record(
    form: Form, costs: Sequence[MicroOp | Transfer], target: Target, hbm_share: float
) -> Record:
    record = Record(form, costs)
    moves = record.moves
    if not moves or record.steps:
        raise InstructionError(
            f"{form.definition.name}: the cost of a DMA instruction must consist of transfers",
            help="return transfers alone",
        )
    first = moves[0]
    way = "in" if first.destination == "sbuf" else "out"
    record.queue = RingKey(first.issuer, first.dge, way)
    record.issue = sum(_issue_ns(move, target) for move in moves) * 1000
    record.lead = target.dma_start_ns * 1000
    record.work = round(sum(service_ns(move, target, hbm_share) for move in moves) * 1000)
    record.tail = target.dma_completion_ns * 1000
    return record


def _issue_ns(move: Transfer, target: Target) -> int:
    issue = {
        "none": target.dma_static_issue_ns,
        "swdge": target.dma_software_issue_ns,
        "hwdge": target.dma_hardware_issue_ns,
    }[move.dge]
    assert issue is not None, f"{target.name} has no {move.dge}"
    return issue


def service_ns(move: Transfer, target: Target, hbm_share: float) -> float:
    """Return the time of a transfer alone on the DMA engines: its busiest engine's, or that of HBM if longer."""
    count, size = busiest_engine(move, target)
    one = size / target.dma_bytes_per_ns + target.dma_descriptor_overhead_ns
    hbm_bytes = (move.bytes_read if move.source == "hbm" else 0) + (
        move.bytes_written * (1 + move.accumulate) if move.destination == "hbm" else 0
    )
    return max(count * one / move.rate, hbm_bytes / (target.hbm_bytes_per_ns * hbm_share))


def busiest_engine(move: Transfer, target: Target) -> tuple[int, float]:
    """Return the number of descriptors the busiest DMA engine serves, and the bytes of one.

    With a side on chip descriptors are dealt by partition, in equal blocks of partitions per engine. Between two
    places in HBM they are cut at the size of a packet and dealt one by one.
    """
    size: float = max(move.descriptor_bytes, 1)
    count = move.descriptors
    if "sbuf" in (move.source, move.destination):
        block = target.partitions // target.dma_engines
        share = min(block, move.partitions) / move.partitions
        return ceil(count * share), size
    pieces = ceil(size / target.dma_packet_bytes)
    return ceil(count * pieces / target.dma_engines), size / pieces


def engines_used(move: Transfer, target: Target) -> int:
    """Return on how many DMA engines a transfer has descriptors."""
    if "sbuf" in (move.source, move.destination):
        return min(
            target.dma_engines, ceil(move.partitions * target.dma_engines / target.partitions)
        )
    pieces = ceil(max(move.descriptor_bytes, 1) / target.dma_packet_bytes)
    return min(target.dma_engines, move.descriptors * pieces)


def shared_ports(records: Iterable[Record]) -> set[Port]:
    """Return the ports that instructions of more than one queue hold."""
    users: dict[Port, set[Queue]] = {}
    for record in records:
        for port in record.ports:
            users.setdefault(port, set()).add(record.queue)
    return {port for port, queues in users.items() if len(queues) > 1}
