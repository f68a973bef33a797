"""Costs: what an instruction asks of the machine's time.

`.cost` of an instruction yields these. Cycles are those of the engine that runs the micro-operation; the timing model
turns them into picoseconds and decides what may overlap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from nki_lab.targets.engines import Engine


class Port(Enum):
    """Shared hardware that two engines cannot use at one time (timing_facts: port_exclusion, shared_bus)."""

    SBUF_SHARED = "sbuf_shared"
    PSUM_SHARED = "psum_shared"
    VECTOR_BUS = "vector_bus"


class Stage(Enum):
    """Part of the Tensor engine a micro-operation runs in; loading runs behind the current product."""

    LOAD_STATIONARY = "load_stationary"
    MULTIPLY_MOVING = "multiply_moving"


@dataclass(frozen=True, slots=True)
class MicroOp:
    """One step of an instruction on its engine.

    Attributes:
        opcode: name in Neuron Explorer's Instruction table.
        cycles: initiation interval: cycles until the engine can start its next instruction.
        latency_cycles: cycles until results are visible, beyond `cycles`; None is the engine's own fixed latency.
        engine: engine that runs it; None is the engine the instruction was placed on.
        stage: part of the Tensor engine, else None.
        ports: shared ports held while it runs.
        part: (first row, first column, rows, columns) of the Tensor engine's array it uses, None for all of it.
        table: activation table it needs, else None.
        macs: multiply-accumulate operations it performs (for utilisation).
        bytes_read, bytes_written: on-chip traffic of its operands.
        speed: 2 or 4 in a performance mode of Vector or Scalar, which streams so much faster.
    """

    opcode: str
    cycles: float
    latency_cycles: float | None = None
    engine: Engine | None = None
    stage: Stage | None = None
    ports: tuple[Port, ...] = ()
    part: tuple[int, int, int, int] | None = None
    table: str | None = None
    macs: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    speed: int = 1


@dataclass(frozen=True, slots=True)
class Transfer:
    """A DMA transfer, cut into descriptors that the DMA engines serve.

    Attributes:
        opcode: name in Neuron Explorer's tables.
        descriptor_bytes: bytes of one descriptor: the longest run contiguous on both sides.
        descriptors: number of descriptors.
        partitions: partitions on the on-chip side (dealt to engines, 8 of 128 each); 1 for HBM to HBM.
        bytes_read, bytes_written: bytes on the source and on the destination side (differ when it casts).
        source, destination: "hbm" or "sbuf".
        dge: "none", "swdge" or "hwdge": who makes the descriptors.
        issuer: engine whose queue issues it.
        rate: fraction of the copy rate it reaches (transposes are slower), at most 1.
        accumulate: True when the destination is also read.
        inputs: tensors whose elements are added on the way; `bytes_read` and `descriptors` are those of all of them.
    """

    opcode: str
    descriptor_bytes: int
    descriptors: int
    partitions: int
    bytes_read: int
    bytes_written: int
    source: str
    destination: str
    dge: str
    issuer: Engine
    rate: float = 1.0
    accumulate: bool = False
    inputs: int = 1


def at_least(costs: Iterable[MicroOp | Transfer], cycles: int) -> tuple[MicroOp | Transfer, ...]:
    """Return the costs with the first step beside a load of weights raised to `cycles`."""
    raised = list(costs)
    for n, step in enumerate(raised):
        if isinstance(step, MicroOp) and step.stage is not Stage.LOAD_STATIONARY:
            raised[n] = replace(step, cycles=max(step.cycles, cycles))
            break
    return tuple(raised)
