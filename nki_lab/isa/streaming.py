"""The time that an engine takes to stream a tile, and the shared ports it holds meanwhile.

What a definition's `.cost` computes its cycles with. `cycles` of a micro-operation is the initiation interval: the
data cycles and what the engine needs to issue the instruction, together at least the target's minimum.
"""

from __future__ import annotations

from typing import Any

from nki_lab.ir.definition.cost import MicroOp, Port
from nki_lab.ir.definition.instruction import Instruction
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR, Engine
from nki_lab.targets.spaces import PSUM, SBUF
from nki_lab.targets.spec import Target


def interval(hw: Target, engine: Engine, data_cycles: float) -> float:
    """Return the initiation interval of an instruction that streams for `data_cycles`.

    The documented minimum is one of the whole interval: what issuing costs is part of it.
    """
    if engine is GPSIMD:
        return data_cycles + hw.gpsimd_start_cycles
    issue = {VECTOR: hw.vector_issue_overhead_cycles, SCALAR: hw.scalar_issue_overhead_cycles}
    return max(data_cycles + issue.get(engine, 0), hw.min_interval_cycles)


def stride_factor(hw: Target, tensors: list[NkiTensor]) -> float:
    """Return how much slower the widest stride of a fastest axis makes the access.

    nki/guides/architecture/trainium_inferentia2_arch.rst:758: over 16 bytes halves the rate.
    """
    for t in tensors:
        step = next((s for s, n in zip(t.strides[:0:-1], t.shape[:0:-1], strict=True) if n > 1), 0)
        if abs(step) * t.dtype.itemsize > hw.strided_access_bytes:
            return hw.strided_access_factor
    return 1.0


def innermost_contiguous(t: NkiTensor) -> bool:
    """Tell whether elements that follow each other in the stream lie side by side."""
    return next((s for s, n in zip(t.strides[:0:-1], t.shape[:0:-1], strict=True) if n > 1), 1) == 1


def narrow(hw: Target, tensors: list[NkiTensor]) -> bool:
    """Tell whether every tensor is a float of a width the Vector engine's performance mode knows."""
    return all(t.dtype.is_float and 8 * t.dtype.itemsize in hw.vector_fast_bits for t in tensors)


def copy_cycles(hw: Target, engine: Engine, dst: NkiTensor, source: NkiTensor) -> float:
    """Return cycles per element of tensor_copy and tensor_scalar, which have the best performance mode.

    nki/guides/architecture/trainium2_arch.rst:224 (Vector), trainium3_arch.rst:218 (Scalar).
    """
    both = [dst, source]
    if engine is GPSIMD:
        return hw.gpsimd_cycles
    if engine is SCALAR:
        return hw.scalar_copy_fast_cycles if narrow(hw, both) else 1.0
    in_psum = sum(t.buffer is PSUM for t in both)
    if not narrow(hw, both):
        to_8bit = narrow(hw, [source]) and dst.dtype.is_float and dst.dtype.itemsize == 1
        return (
            hw.vector_copy_fast_to_8bit_cycles if to_8bit and not in_psum else hw.vector_copy_cycles
        )
    contiguous = all(innermost_contiguous(t) for t in both)
    if in_psum == 0:
        return hw.vector_copy_fast_sbuf_cycles if contiguous else hw.vector_copy_fast_strided_cycles
    return hw.vector_copy_fast_psum_cycles if in_psum == 1 and contiguous else hw.vector_copy_cycles


def ports(
    hw: Target, engine: Engine, tensors: list[NkiTensor], fast: bool = False
) -> tuple[Port, ...]:
    """Return the shared ports an instruction holds; `fast` says it runs in Vector's performance mode.

    On NeuronCore-v2 Vector and GpSimd exclude each other on SBUF, Vector and Scalar on PSUM. Later chips lift
    both, but Vector's performance mode uses the bus of GpSimd (nki/guides/architecture/trainium2_arch.rst:268).
    """
    ports: list[Port] = []
    spaces = {t.buffer for t in tensors}
    if engine in (VECTOR, GPSIMD) and SBUF in spaces:
        if not hw.supports("parallel_vector_gpsimd"):
            ports.append(Port.SBUF_SHARED)
        elif fast or engine is GPSIMD:
            ports.append(Port.VECTOR_BUS)
    if engine in (VECTOR, SCALAR) and PSUM in spaces and not hw.supports("parallel_vector_scalar"):
        ports.append(Port.PSUM_SHARED)
    return tuple(ports)


def stream(
    i: Instruction, hw: Target, opcode: str, cycles_per_element: float, elements: int, *,
    fast: bool = False, **facts: Any,
) -> MicroOp:  # fmt: skip
    """Return the micro-operation of an instruction that passes `elements` per partition through its engine.

    `fast` says that the cycles are those of a performance mode.
    """
    form = i.form
    read = [i.args[k] for k in form.reads if type(i.args[k]) is NkiTensor]
    written = [i.args[k] for k in form.writes if type(i.args[k]) is NkiTensor]
    touched = [*read, *written]
    facts.setdefault("bytes_written", stored_bytes(*written))
    return MicroOp(
        opcode,
        interval(hw, form.engine, elements * cycles_per_element * stride_factor(hw, touched)),
        ports=ports(hw, form.engine, touched, fast),
        bytes_read=stored_bytes(*read),
        speed=_speed(hw, form.engine, cycles_per_element) if fast else 1,
        **facts,
    )


def _speed(hw: Target, engine: Engine, cycles_per_element: float) -> int:
    """Return how much faster a performance mode streams than one element per cycle."""
    supported = hw.supports("vector_performance_mode") and engine in (VECTOR, SCALAR)
    return round(1 / cycles_per_element) if supported and cycles_per_element < 1 else 1


def stored_bytes(*tensors: NkiTensor) -> int:
    """Return the bytes of all elements of `tensors`."""
    return sum(t.size * t.dtype.itemsize for t in tensors)
