"""Tests the accumulators of Scalar and Vector after any sequence of instructions, under every reduce_cmd.

The model is one number per partition and engine (NaN: nothing is known of it), in float64 over integers, so that every
sum is exact. Several instructions share one accumulator, and each instruction touches its own partitions only.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import jit, run
from tests.thorough import examples

X = np.random.default_rng(3).integers(-9, 10, (64, 6)).astype(np.float32)
COMMANDS = nisa.reduce_cmd
# Without products: with them the integers grow beyond what float32 holds.
IDENTITY = {"add": 0.0, "maximum": -np.inf, "minimum": np.inf}
FOLD = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum}
START = 2.0


def activation(t, result, op, command):
    nisa.activation(
        t, nl.copy, t, scale=-1.0, reduce_op=nl.add, reduce_cmd=command, reduce_res=result
    )


def activate2(t, result, op, command):
    nisa.activate2(
        t, nl.copy, t, -1.0, 0.0, nl.multiply, nl.bypass, reduce_op=getattr(nl, op),
        reduce_cmd=command, reduce_res=result,
    )  # fmt: skip


def tensor_scalar_reduce(t, result, op, command):
    loads = {"reduce_init": START} if command is COMMANDS.load_reduce else {}
    nisa.tensor_scalar_reduce(
        t, t, nl.multiply, -1.0, getattr(nl, op), result, reduce_cmd=command, **loads
    )


def tensor_scalar_cumulative(t, result, op, command):
    start = START if command is COMMANDS.load_reduce else None
    nisa.tensor_scalar_cumulative(
        t, t, nl.multiply, getattr(nl, op), -1.0, start, reduce_cmd=command
    )


def select_reduce(t, result, op, command):
    # The accumulator is that of the partitions the inputs are on.
    first = t.start_partition
    everything = nl.full((64, 6), 1, dtype=nl.uint8)[first : first + 32]
    negative = nl.ndarray((64, 6), dtype=nl.float32, buffer=nl.sbuf)[first : first + 32]
    nisa.tensor_scalar(negative, t, nl.multiply, -1.0)
    wanted = {} if result is None else {"reduce_res": result}
    nisa.select_reduce(
        t, everything, negative, 0.0, reduce_cmd=command, reduce_op=nl.maximum, **wanted
    )


def exponential(t, result, op, command):
    """Idle: whatever the accumulator held is not known afterwards."""
    first = t.start_partition
    spare = nl.ndarray((64, 6), dtype=nl.float32, buffer=nl.sbuf)
    nisa.exponential(spare[first : first + 32], t)


# instruction -> engine, operators, commands
PROGRAM = {
    activation: ("scalar", ["add"], ["idle", "reset", "reduce", "reset_reduce"]),
    activate2: ("scalar", ["add", "maximum", "minimum"], ["idle", "reset", "reduce", "reset_reduce"]),
    tensor_scalar_reduce: ("vector", [*IDENTITY], ["reduce", "reset_reduce", "load_reduce"]),
    tensor_scalar_cumulative: ("vector", [*IDENTITY], ["reduce", "reset_reduce", "load_reduce"]),
    select_reduce: ("vector", ["maximum"], ["idle", "reduce", "reset_reduce"]),
    exponential: ("vector", ["add"], ["idle"]),
}  # fmt: skip


@st.composite
def steps(draw):
    instruction = draw(st.sampled_from(list(PROGRAM)))
    _, ops, commands = PROGRAM[instruction]
    command = draw(st.sampled_from(commands))
    reads = command != "idle" or instruction in (activation, activate2)
    reads = reads and instruction not in (tensor_scalar_cumulative, exponential)
    return (
        instruction,
        draw(st.sampled_from(ops)),
        command,
        draw(st.sampled_from([0, 32])),
        draw(st.booleans()) if reads else False,
    )


def model(program):
    """Return the tile and what each step that reads its accumulator out gives."""
    held = {engine: np.full(64, np.nan) for engine in ("scalar", "vector")}
    tile, totals = X.astype(float), []
    for instruction, op, command, first, reads in program:
        rows = slice(first, first + 32)
        state = held[PROGRAM[instruction][0]]
        values = tile[rows]
        if instruction is not exponential:
            values = tile[rows] = -values
        if command in ("reset", "reset_reduce"):
            state[rows] = IDENTITY[op]
        if command == "load_reduce":
            state[rows] = START
        if command == "idle" and PROGRAM[instruction][0] == "vector":
            state[rows] = np.nan
        if command in ("reduce", "reset_reduce", "load_reduce"):
            before, fold = state[rows].copy(), FOLD[op]
            state[rows] = fold(before, fold.reduce(values, axis=1))
            if instruction is tensor_scalar_cumulative:
                running = fold.accumulate(np.concatenate([before[:, None], values], 1), axis=1)
                tile[rows] = running[:, 1:]
        totals.append(state[rows].copy() if reads else np.full(32, np.nan))
    return tile, np.array(totals)


@given(program=st.lists(steps(), min_size=1, max_size=6))
@settings(max_examples=examples(100), deadline=None)
def test_accumulators_after_any_program(program):
    def kernel(x):
        tile = nl.load(x)
        out = nl.ndarray((64, 6), dtype=nl.float32, buffer=nl.shared_hbm)
        totals = nl.ndarray((len(program), 32, 1), dtype=nl.float32, buffer=nl.shared_hbm)
        for k, (instruction, op, command, first, reads) in enumerate(program):
            total = nl.full((32, 1), np.nan, dtype=nl.float32)
            part = tile[first : first + 32]
            instruction(part, total if reads else None, op, COMMANDS[command])
            nisa.dma_copy(totals[k], total)
        nisa.dma_copy(out, tile)
        return out, totals

    found, totals = run(jit(kernel), X, target="trn3").value
    wanted, wanted_totals = model(program)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(totals[:, :, 0], wanted_totals)
