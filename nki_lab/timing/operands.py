"""Describes what one micro-operation reads, writes and computes, as the profiler's tables do."""

from __future__ import annotations

from dataclasses import dataclass

from nki_lab.ir.definition.cost import Stage
from nki_lab.ir.definition.form_times import RingKey
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.program.nodes import Kernel
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.ir.text.literals import value_text
from nki_lab.isa.operators import Op
from nki_lab.profiler.analyses.roofline import bf16_equivalent
from nki_lab.targets.spaces import PSUM, MemoryRegion
from nki_lab.targets.spec import Target
from nki_lab.timing.rows import RowKind


@dataclass(frozen=True)
class Traffic:
    """Bytes and floating-point operations of one row of the Instruction table.

    `adjusted_flops` counts in operations of bfloat16 (profile-schema-reference.rst, Instruction.adjusted_flops). A
    transpose counts as the product with an identity matrix that it is.
    """

    hbm_read_bytes: int = 0
    hbm_write_bytes: int = 0
    sbuf_read_bytes: int = 0
    sbuf_write_bytes: int = 0
    psum_read_bytes: int = 0
    psum_write_bytes: int = 0
    raw_flops: int = 0
    adjusted_flops: int = 0
    flops_transpose: int = 0
    adjusted_flops_transpose: int = 0
    input_queue_bytes: int = 0
    output_queue_bytes: int = 0

    @property
    def psum_read_sbuf_write_bytes(self) -> int:
        """Bytes read from PSUM by an instruction that writes SBUF."""
        return self.psum_read_bytes if self.sbuf_write_bytes else 0


def traffic_of(kind: RowKind, target: Target) -> Traffic:
    """Return the traffic of every row of a kind."""
    if kind.step is None:
        moves = kind.record.moves
        queue = kind.record.queue
        static = isinstance(queue, RingKey) and queue.maker == "none"
        moved = sum(max(m.bytes_read, m.bytes_written) for m in moves) if static else 0
        way = queue.way if isinstance(queue, RingKey) else ""
        return Traffic(
            sum(m.bytes_read for m in moves if m.source == "hbm"),
            sum(m.bytes_written for m in moves if m.destination == "hbm"),
            sum(m.bytes_read for m in moves if m.source == "sbuf"),
            sum(m.bytes_written for m in moves if m.destination == "sbuf"),
            input_queue_bytes=moved if way == "in" else 0,
            output_queue_bytes=moved if way == "out" else 0,
        )
    example = kind.record.form.example
    sbuf_read, psum_read = _split(kind, kind.step.bytes_read, example.read(), True)
    sbuf_written, psum_written = _split(kind, kind.step.bytes_written, example.written(), False)
    flops = transposes = 0
    if kind.step.stage is not Stage.LOAD_STATIONARY:
        flops = 2 * sum(step.macs for step in kind.record.steps) // kind.share
    if product_type(kind) == "TRANSPOSE":
        # Every element of the result is a sum over the rows of the array that hold the data.
        (result,) = example.written()
        flops = transposes = 2 * result.size * example.read()[0].shape[0] // kind.share
    equivalent = _bf16_equivalent(example, target) if flops else 0.0
    return Traffic(
        sbuf_read_bytes=sbuf_read,
        sbuf_write_bytes=sbuf_written,
        psum_read_bytes=psum_read,
        psum_write_bytes=psum_written,
        raw_flops=flops,
        adjusted_flops=round(flops * equivalent),
        flops_transpose=transposes,
        adjusted_flops_transpose=round(transposes * equivalent),
    )


def _split(kind: RowKind, moved: int, tensors: list[NkiTensor], reading: bool) -> tuple[int, int]:
    """Divide the bytes of a micro-operation between SBUF and PSUM.

    A cost gives one sum. Where the operands lie in both memories, their own sizes decide, counted for the first
    micro-operation (reads) or the last one (writes).
    """
    spaces = {t.buffer for t in tensors}
    if kind.step is not None and kind.step.stage is not None:
        # The Tensor engine reads SBUF and writes PSUM; what it adds onto in PSUM is not counted as a read.
        return (moved, 0) if reading else (0, moved)
    if len(spaces) < 2:
        return (0, moved) if spaces == {PSUM} else (moved, 0)
    if kind.step is not kind.record.steps[0 if reading else -1]:
        return 0, 0
    return _bytes_in(tensors, MemoryRegion.sbuf), _bytes_in(tensors, PSUM)


def _bytes_in(tensors: list[NkiTensor], space: MemoryRegion) -> int:
    return sum(t.size * t.dtype.itemsize for t in tensors if t.buffer is space)


def _bf16_equivalent(example: Instruction, target: Target) -> float:
    """Return how many bfloat16 operations take the time of one operation on these operands."""
    form = example.form
    only_read = [example.args[k] for k in form.reads if k not in form.writes]
    widest = max(only_read, key=lambda t: t.dtype.itemsize).dtype
    return bf16_equivalent(target, widest.itemsize, widest.lanes)


def operand_text(i: Instruction, kernel: Kernel) -> str:
    """Return the arguments of an instruction that are tensors or were given, as the printed program shows them."""
    definition = i.definition
    parts = []
    for name, value in zip(definition.params, i.args, strict=True):
        default = definition.signature.parameters[name].default
        if (
            name == "name"
            or value is default
            or (type(value) is type(default) and value == default)
        ):
            continue
        parts.append(f"{name}={value_text(value)}")
    return " ".join(parts)


def product_type(kind: RowKind) -> str | None:
    """Return REGULAR or TRANSPOSE for a product of the Tensor engine, None for everything else."""
    if kind.step is None or kind.step.stage is not Stage.MULTIPLY_MOVING:
        return None
    return "REGULAR" if any(step.macs for step in kind.record.steps) else "TRANSPOSE"


def performance_mode(kind: RowKind) -> str | None:
    """Return the performance mode that a micro-operation of Vector or Scalar runs in, None for the base mode."""
    return f"{kind.step.speed}x" if kind.step is not None and kind.step.speed > 1 else None


def activation_function(kind: RowKind) -> str | None:
    """Return the name of the function whose activation table a micro-operation needs, None where it needs none."""
    if kind.step is None or kind.step.table is None:
        return None
    operators = [value for value in kind.record.form.example.args if isinstance(value, Op)]
    return operators[0].name if operators else None
