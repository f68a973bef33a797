"""Selective scan of a state space, as in Mamba."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded, of_this_core

# Steps that are scanned at once, and those of all states.
_STEPS, _ELEMENTS = 512, 8192


@nki.jit
def selective_scan(x, dt, A, B, C, D=None, initial_state=None):
    """Return the outputs of a state space whose steps depend on its input, and its last state.

    For each channel, state n and step t, computed in float32:
    state[n, t] = exp(dt[t] * A[n]) * state[n, t - 1] + dt[t] * x[t] * B[n, t];
    y[t] = sum over n of C[n, t] * state[n, t], plus D * x[t].

    Args:
        x, dt: [batch, channels, steps], float32 or bfloat16: the input, and the length of each step.
        A: [channels, states], usually negative; states at most 128.
        B, C: [batch, states, steps]: what goes into the states, and out of them.
        D: [channels], or None for nothing.
        initial_state: [batch, channels, states], or None for 0.

    Returns:
        y: [batch, channels, steps], of the dtype of `x`.
        final_state: [batch, channels, states], float32.
    """
    _check(x, dt, A, B, C, D, initial_state)
    (batch, channels, steps), states, pmax = x.shape, A.shape[1], nl.tile_size.pmax
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    final = nl.ndarray((batch, channels, states), dtype=nl.float32, buffer=nl.shared_hbm)
    every = [slice(c, min(c + pmax, channels)) for c in range(0, channels, pmax)]
    tiles = [tile for n, tile in enumerate(every) if of_this_core(n)]
    rates = [_float32(loaded(A[tile])) for tile in tiles]
    skips = [None if D is None else _float32(loaded(_column(D[tile]))) for tile in tiles]
    length = min(_STEPS, _ELEMENTS // states)
    for b in range(batch):
        carried = [_start(initial_state, b, tile, states) for tile in tiles]
        for first in range(0, steps, length):
            part = slice(first, min(first + length, steps))
            into, out_of = (_for_all(z[b, :, part]) for z in (B, C))
            for tile, rate, skip, carry in zip(tiles, rates, skips, carried, strict=True):
                inputs, lengths = loaded(x[b, tile, part]), loaded(dt[b, tile, part])
                total = _scanned(inputs, lengths, rate, into, out_of, carry)
                result = nl.ndarray(inputs.shape, dtype=y.dtype, buffer=nl.sbuf)
                if skip is None:
                    nisa.activation(dst=result, op=nl.copy, data=total)
                else:
                    nisa.scalar_tensor_tensor(
                        dst=result, data=inputs, op0=nl.multiply, operand0=skip,
                        op1=nl.add, operand1=total,
                    )  # fmt: skip
                nisa.dma_copy(dst=y[b, tile, part], src=result)
        for tile, carry in zip(tiles, carried, strict=True):
            nisa.dma_copy(dst=final[b, tile], src=carry)
    return y, final


def _check(x, dt, A, B, C, D, initial_state):
    require(
        len(x.shape) == 3,
        f"selective_scan: `x` has shape {list(x.shape)}; expected [batch, channels, steps]",
        "give it all three axes; a batch of one is an axis, too",
    )
    batch, channels, steps = x.shape
    require(
        len(A.shape) == 2 and A.shape[0] == channels and A.shape[1] <= 128,
        f"selective_scan: `A` has shape {list(A.shape)}; expected [{channels}, states], states at most 128",
        "give one rate for each channel and state",
    )
    states = A.shape[1]
    expected = {
        "dt": (dt, [batch, channels, steps]),
        "B": (B, [batch, states, steps]),
        "C": (C, [batch, states, steps]),
        "D": (D, [channels]),
        "initial_state": (initial_state, [batch, channels, states]),
    }
    given = {name: pair for name, pair in expected.items() if pair[0] is not None}
    for name, (value, shape) in given.items():
        require(
            list(value.shape) == shape,
            f"selective_scan: `{name}` has shape {list(value.shape)}; expected {shape}",
            "x is [batch, channels, steps], A [channels, states], B and C [batch, states, steps]",
        )
    check_floats("selective_scan", x=x, A=A, **{name: value for name, (value, _) in given.items()})


def _column(values):
    return values.reshape((values.shape[0], 1))


def _float32(tile):
    """Return a tile in float32."""
    if tile.dtype == nl.float32:
        return tile
    result = nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=tile)
    return result


def _start(initial_state, b, tile, states):
    """Return the states that the channels of a tile begin with."""
    if initial_state is not None:
        return _float32(loaded(initial_state[b, tile]))
    carry = nl.ndarray((tile.stop - tile.start, states), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=carry, value=0.0)
    return carry


def _for_all(values):
    """Return an SBUF tile [128, states, steps] of which each partition holds `values` [states, steps] of HBM."""
    return loaded(values.expand_dim(0).broadcast(0, nl.tile_size.pmax))


def _scanned(inputs, lengths, rate, into, out_of, carry):
    """Return the outputs of the states, [channels, steps], and write what the next steps begin with."""
    (size, steps), states = inputs.shape, rate.shape[1]
    scaled = nl.ndarray((size, steps), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=scaled, data1=inputs, data2=lengths, op=nl.multiply)
    state = nl.ndarray((size, states, steps), dtype=nl.float32, buffer=nl.sbuf)
    gpsimd = nisa.engine.gpsimd
    nisa.tensor_tensor(
        dst=state, data1=scaled.expand_dim(1).broadcast(1, states), data2=into[:size],
        op=nl.multiply, engine=gpsimd,
    )  # fmt: skip
    for n in range(states):
        decay = nl.ndarray((size, steps), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=decay, op=nl.exp, data=lengths, scale=rate[:, n : n + 1])
        nisa.tensor_tensor_scan(
            dst=state[:, n], data0=decay, data1=state[:, n], initial=carry[:, n : n + 1],
            op0=nl.multiply, op1=nl.add,
        )  # fmt: skip
    nisa.tensor_copy(dst=carry, src=state[:, :, steps - 1])
    nisa.tensor_tensor(dst=state, data1=state, data2=out_of[:size], op=nl.multiply, engine=gpsimd)
    while states > 1:
        half = states // 2
        low, high = state[:, :half], state[:, states - half : states]
        nisa.tensor_tensor(dst=low, data1=low, data2=high, op=nl.add, engine=gpsimd)
        states -= half
    return state[:, 0]


def _arguments(
    rng: np.random.Generator, dtype: Any, batch: int, channels: int, steps: int, states: int, more: int
) -> dict[str, Any]:  # fmt: skip
    arguments = {
        "x": rng.standard_normal((batch, channels, steps)),
        "dt": rng.uniform(0.01, 0.5, (batch, channels, steps)),
        "A": -rng.uniform(0.1, 2, (channels, states)),
        "B": rng.standard_normal((batch, states, steps)),
        "C": rng.standard_normal((batch, states, steps)),
    }
    if more:
        arguments["D"] = rng.standard_normal(channels)
        arguments["initial_state"] = rng.standard_normal((batch, channels, states))
    return {name: value.astype(dtype) for name, value in arguments.items()}


def _edge(rng: np.random.Generator) -> dict[str, Any]:
    """Return an input that is NaN, and one that is -inf, late in the steps of two channels."""
    arguments = _arguments(rng, np.float32, 1, 4, 20, 3, 1)
    arguments["x"][0, 1, 15], arguments["x"][0, 2, 11] = np.nan, -np.inf
    return arguments


def _reference(
    x: Any, dt: Any, A: Any, B: Any, C: Any, D: Any = None, initial_state: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    x, dt, A, B, C = (a.astype(np.float64) for a in (x, dt, A, B, C))
    state = np.zeros((*x.shape[:2], A.shape[1]))
    if initial_state is not None:
        state = initial_state.astype(np.float64)
    y = np.zeros(x.shape) if D is None else D.astype(np.float64)[:, None] * x
    with np.errstate(invalid="ignore"):
        for t in range(x.shape[2]):
            step = dt[:, :, t, None]
            state = np.exp(step * A) * state + step * x[:, :, t, None] * B[:, None, :, t]
            y[:, :, t] += (state * C[:, None, :, t]).sum(axis=2)
    return y, state


KERNEL = Prebuilt(
    kernel=selective_scan,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"batch": 1, "channels": 128, "steps": 64, "states": 16, "more": 0},
        {"batch": 2, "channels": 130, "steps": 70, "states": 3, "more": 1},
        {"batch": 1, "channels": 3, "steps": 600, "states": 5, "more": 1},
        {"batch": 1, "channels": 1, "steps": 1, "states": 1, "more": 0},
    ),
    ranges={
        "batch": range(1, 3),
        "channels": range(1, 150),
        "steps": range(1, 100),
        "states": range(1, 20),
        "more": range(2),
    },
    timed=(
        {"batch": 1, "channels": 256, "steps": 512, "states": 16, "more": 1},
        {"batch": 1, "channels": 1024, "steps": 2048, "states": 16, "more": 1},
    ),
    cores=(1, 2),
    tolerance={"float32": 1e-5, "bfloat16": 1e-2},
    steps=(
        Step(
            "128 channels lie in the partitions; up to 512 steps of all states lie in the free axes.",
            "for tile, rate, skip, carry in",
        ),
        Step("Each partition gets a copy of B and C.", "into, out_of ="),
        Step(
            "The Vector engine computes dt * x, and GpSimd multiplies it by B.",
            "nisa.tensor_tensor(dst=scaled",
        ),
        Step(
            "The Scalar engine computes exp(dt * A) of each state; A is its scale.",
            "nisa.activation(dst=decay",
        ),
        Step(
            "The Vector engine scans each state: what it was, times exp(dt * A), plus the input.",
            "nisa.tensor_tensor_scan(",
        ),
        Step(
            "GpSimd multiplies by C, and adds up the states, half of them to the other half.",
            "while states > 1",
        ),
        Step(
            "The last column of the states is where the next steps begin.",
            "nisa.tensor_copy(dst=carry",
        ),
    ),
    sources=("NKI Library, selective scan", "A. Gu and T. Dao, arXiv:2312.00752"),
    falls_short=dict.fromkeys(
        ("float32", "bfloat16"),
        "Vector scans, and GpSimd multiplies and adds, all states of each step: more work than its transfer",
    ),
    edges={"NaN and -inf": _edge},
    refused=(
        Refused(
            {"x": (4, 8), "dt": (4, 8), "A": (4, 2), "B": (2, 8), "C": (2, 8)},
            "`x` has shape [4, 8]; expected [batch, channels, steps]",
            "a batch of one",
        ),
        Refused(
            {"x": (1, 4, 8), "dt": (1, 4, 8), "A": (2, 4), "B": (1, 2, 8), "C": (1, 2, 8)},
            "`A` has shape [2, 4]; expected [4, states]",
            "each channel and state",
        ),
        Refused(
            {"x": (1, 4, 8), "dt": (1, 4, 8), "A": (4, 2), "B": (1, 8, 2), "C": (1, 2, 8)},
            "`B` has shape [1, 8, 2]; expected [1, 2, 8]",
            "B and C [batch, states, steps]",
        ),
    ),
)
