"""Lists what the timing model leaves out or assumes.

`LIMITS` is the only list. A profile carries one row in its Warning table for every entry that its kernel leans on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nki_lab.ir.definition.form_times import Record
from nki_lab.ir.tensor.fields import Addressing
from nki_lab.targets.engines import DMA, GPSIMD, SCALAR, TENSOR, VECTOR
from nki_lab.targets.facts import Status
from nki_lab.targets.spaces import PSUM
from nki_lab.timing.timeline import Timeline

NOT_MODELLED, ASSUMED = "not modelled", "assumed"


class Leaning:
    """What a kernel uses, for deciding which limits it leans on."""

    def __init__(self, timeline: Timeline) -> None:
        self.kernel = timeline.execution.kernel
        self.target = self.kernel.target
        self.records: list[Record] = list(timeline.entries_by_record)
        self.moves = [move for record in self.records for move in record.moves]
        self.queues = timeline.program.queues
        self.has_two_cores = self.kernel.program[1] > 1

    def runs_on(self, engine: Any) -> bool:
        """Tell whether an instruction runs on `engine`."""
        return engine in self.queues

    @property
    def transposes(self) -> bool:
        """Tell whether a DMA transfer transposes."""
        return any(move.opcode == "DMA_TRANSPOSE" for move in self.moves)

    def touches_psum(self, engine: Any) -> bool:
        """Tell whether an instruction of `engine` reads or writes PSUM."""
        examples = [r.form.example for r in self.records if r.form.engine is engine]
        return any(t.buffer is PSUM for i in examples for t in (*i.read(), *i.written()))

    def addresses_by(self, kind: Addressing, *, dma: bool) -> bool:
        """Tell whether an instruction addresses a tensor in a dynamic form, on the DMA engines or on others."""
        examples = [r.form.example for r in self.records if (r.form.engine is DMA) is dma]
        return any(d.kind is kind for i in examples for d in i.dynamic())


@dataclass(frozen=True)
class Limit:
    """One thing the model does not do, or does by a rule of ours.

    Attributes:
        category: "not modelled" or "assumed".
        message: what a reader of the profile should know.
        leaned_on: tells whether a kernel's times depend on it.
    """

    category: str
    message: str
    leaned_on: Callable[[Leaning], bool]


LIMITS: tuple[Limit, ...] = (
    Limit(
        NOT_MODELLED,
        "times are estimated from public documents, not measured; instruction fetch, HBM refresh, conflicts of "
        "PSUM ports and other users of the HBM stack are left out",
        lambda k: True,
    ),
    Limit(
        ASSUMED,
        "no latency of this chip has been published: fixed latencies, table loads and the DMA start are those of "
        "the previous generation",
        lambda k: k.target.sources["dma_start_ns"].status is Status.ASSUMED,
    ),
    Limit(
        ASSUMED,
        "each of the two cores has half of the HBM stack's bandwidth, even while the other one moves nothing; a signal "
        "between cores takes as long as one between engines",
        lambda k: k.has_two_cores,
    ),
    Limit(
        NOT_MODELLED,
        "a collective takes the time in which its rank reads and writes its own tensors once: links between ranks, the "
        "algorithm and waiting for other ranks are left out",
        lambda k: any(r.form.definition.groups is not None for r in k.records),
    ),
    Limit(
        NOT_MODELLED,
        "a trip of a device loop begins when the trip before it is complete: trips do not overlap",
        lambda k: k.kernel.has_loops,
    ),
    Limit(
        NOT_MODELLED,
        "Vector and Scalar slow each other down when they use the same PSUM bank; the model leaves that out",
        lambda k: (
            k.target.supports("parallel_vector_scalar")
            and k.touches_psum(VECTOR)
            and k.touches_psum(SCALAR)
        ),
    ),
    Limit(
        ASSUMED,
        "GpSimd instructions take 150 cycles to start and one cycle per element (documented for two of them, assumed "
        "for the others)",
        lambda k: k.runs_on(GPSIMD),
    ),
    Limit(
        ASSUMED,
        "the Tensor engine's current limit rises in a straight line, and falls again while utilisation is below it",
        lambda k: k.target.pe_throttle_fraction is not None and k.runs_on(TENSOR),
    ),
    Limit(
        ASSUMED,
        "products on parts of the array start 64 cycles apart, and each counts as the whole array in the current limit",
        lambda k: any(r.part is not None for r in k.records),
    ),
    Limit(
        ASSUMED,
        "every transfer is spread over the DMA engines from the first one on, 8 partitions each, wherever its tile "
        "starts; the first engine finishes last",
        lambda k: any(
            m.partitions < k.target.partitions and "sbuf" in (m.source, m.destination)
            for m in k.moves
        ),
    ),
    Limit(
        ASSUMED,
        "transfers queue per issuing engine and direction (into SBUF or out of it), those with ready descriptors also "
        "per tensor; a waiting transfer blocks neither its engine nor the other queues",
        lambda k: k.runs_on(DMA) or bool(k.moves),
    ),
    Limit(
        NOT_MODELLED,
        "issuing a transposing transfer costs as much as issuing a copy; its cost is not published",
        lambda k: k.transposes,
    ),
    Limit(
        ASSUMED,
        "a transposing transfer moves single elements on this chip, which is far slower than a transpose by an "
        "engine; its rate is not published",
        lambda k: k.transposes and k.target.dma_transpose_hbm_efficiency is None,
    ),
    Limit(
        NOT_MODELLED,
        "a transfer that casts takes the time of its larger side; the cost of casting is not published",
        lambda k: any(m.bytes_read != m.bytes_written and m.inputs == 1 for m in k.moves),
    ),
    Limit(
        ASSUMED,
        "a transfer that adds tensors takes the time of copying each of them (documented for two tensors before "
        "NeuronCore-v4: half the rate of a copy)",
        lambda k: any(m.inputs > 1 for m in k.moves),
    ),
    Limit(
        ASSUMED,
        "an instruction whose address is in a register takes at least 600 cycles (documented for copies, assumed for "
        "the others)",
        lambda k: k.addresses_by(Addressing.SCALAR, dma=False),
    ),
    Limit(
        ASSUMED,
        "elements that .indirect() gathers or scatters take as long as contiguous ones; their time is not published",
        lambda k: k.addresses_by(Addressing.ELEMENTS, dma=False),
    ),
    Limit(
        ASSUMED,
        "GpSimd takes the time of one copy to make the descriptors of a gather or scatter, however many rows it has; "
        "rows that are skipped while running are timed as if they moved",
        lambda k: k.addresses_by(Addressing.VECTOR, dma=True),
    ),
    Limit(
        NOT_MODELLED,
        "nl.device_print takes no time here; on a device the runtime exports the tensor",
        lambda k: any(i.definition.name == "device_print" for i in k.kernel.instructions),
    ),
    Limit(
        NOT_MODELLED,
        "the kernel needs more memory than the chip has: its values are right, and its times mean nothing",
        lambda k: any(f.kind == "capacity" for f in k.kernel.findings),
    ),
)


def warnings(timeline: Timeline) -> Mapping[str, Any]:
    """Make the table Warning: the limits this kernel leans on."""
    leaning = Leaning(timeline)
    limits = [limit for limit in LIMITS if limit.leaned_on(leaning)]
    rows = [(f.message, f.category) for f in limits]
    if leaning.kernel.timed:
        rows.append((leaning.kernel.timed, ASSUMED))
    return {"message": [m for m, _ in rows], "category": [c for _, c in rows]}
