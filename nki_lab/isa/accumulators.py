"""The accumulators of Scalar and Vector, one float32 per partition, and what instructions do with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.ir.definition.instruction import READ, SPOIL, UPDATE, WRITE, Instruction, State, rule
from nki_lab.isa.arrays import change_sign, fold, scratch
from nki_lab.isa.enums import reduce_cmd
from nki_lab.isa.operators import Op
from nki_lab.targets.facts import ISA
from nki_lab.targets.spec import Target

IDLE, RESET = reduce_cmd.idle, reduce_cmd.reset
REDUCE, RESET_REDUCE, LOAD_REDUCE = (
    reduce_cmd.reduce, reduce_cmd.reset_reduce, reduce_cmd.load_reduce,
)  # fmt: skip

Use = tuple[tuple[State, str], ...]


def scalar_accumulator(i: Instruction) -> Use:
    """Return how `i` uses Scalar's accumulator: idle leaves it alone, and `reduce_res` still reads it."""
    role = {RESET: WRITE, RESET_REDUCE: WRITE, REDUCE: UPDATE}.get(i.reduce_cmd)
    if role is None and i.reduce_res is not None:
        role = READ
    return () if role is None else ((State.ACT_ACCUMULATOR, role),)


def vector_accumulator(i: Instruction) -> Use:
    """Return how `i` uses Vector's accumulator: idle "may still modify" it (nki/api/nki/isa/__init__.py:2357)."""
    return ((State.DVE_ACCUMULATOR, {IDLE: SPOIL, REDUCE: UPDATE}.get(i.reduce_cmd, WRITE)),)


@rule(
    "`reduce_res` needs a `reduce_cmd` that accumulates",
    "reduce_res",
    "reduce_cmd",
    help="write reduce_cmd=nisa.reduce_cmd.reset_reduce, or leave `reduce_res` out",
    source=f"{ISA}:2942",
)
def result_is_reduced(i: Instruction, hw: Target) -> bool:
    """Refuse to read an accumulator that the instruction leaves undefined."""
    return i.reduce_res is None or i.reduce_cmd is not IDLE


def accumulate(
    accumulator: np.ndarray, command: reduce_cmd, op: Op, values: np.ndarray, start: Any = None
) -> None:
    """Do to `accumulator` what `command` says.

    Args:
        accumulator: float32 [partitions, 1], changed in place.
        command: reset sets the identity of `op`, reset_reduce that and reduces, load_reduce sets `start` and
            reduces, reduce only reduces, idle does nothing.
        op: the operator of the reduction.
        values: float32, partitions first; all other axes are reduced.
        start: number or one value per partition, for load_reduce.
    """
    if command is RESET or command is RESET_REDUCE:
        accumulator.fill(op.alu.identity)  # type: ignore[union-attr]
    elif command is LOAD_REDUCE:
        accumulator[...] = column(start)
    if command is IDLE or command is RESET:
        return
    if not op.can_reduce:
        fold(op.apply, accumulator, values.reshape(len(values), -1))
        return
    reduced = scratch((len(values),), accumulator.dtype, "accumulate")
    op.reduce(values, tuple(range(1, values.ndim)), reduced)
    op.apply(accumulator, reduced[:, None], accumulator)


def accumulate_or_spoil(accumulator: np.ndarray, command: reduce_cmd, *rest: Any) -> None:
    """Do as `accumulate`, but leave NaN after idle: on Vector nothing may rely on what that leaves."""
    if command is IDLE:
        accumulator.fill(np.nan)
    else:
        accumulate(accumulator, command, *rest)


def read_out(accumulator: np.ndarray, result: np.ndarray | None, negative: bool = False) -> None:
    """Write the accumulator, or its negative, into `result` if there is one."""
    if result is not None:
        values = accumulator.reshape(result.shape)
        if negative:
            change_sign(values, result)
        else:
            np.copyto(result, values)


def column(value: Any) -> Any:
    """Return one value per partition as [partitions, 1]; a number stays a number."""
    return value.reshape(-1, 1) if isinstance(value, np.ndarray) else value
