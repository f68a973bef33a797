"""Programs for the versions of the official Mamba kernel.

delta and u [channels, length], a [channels, states], b and c [states, length], float32, one batch. Per 128 channels
and state:

    e = exp(a * delta)                      Scalar
    s = scan(e, (delta * u) * b)            Vector, three instructions
    out += s * c                            Vector, two instructions

A product of a column of ones with a row of b or c repeats that row on all partitions, in PSUM.

- v1: states outside, channels inside; delta and u are loaded for every step; all sums in SBUF, cleared before, stored
  at the end.
- v2: channels outside, states inside; delta and u loaded once per 128 channels, their sum stored when it is done.
- v3: v2 with the length cut into pieces of 512 inside; each scan starts from the last column of the one before it.

What does not depend on the inner loop is done before it, as the old compiler does with loads (byte counts of NKIBench
show it): in v1 the repeated rows, which then lie in SBUF; in v2 and v3 the product of delta and u, while rows are
repeated in every step and read from PSUM.

Structure: aws-neuron-sdk 752349fd general/nki/examples/fused_mamba/mamba_nki_kernels.py, which was timed (v1 has other
loops today); who repeats rows: nki/guides/tutorials/fused_mamba.rst:133. The published profiles count 5.66 Vector
instructions a step in v1 and v2 alike where the source has five.
"""

from __future__ import annotations

from functools import partial

import nki_lab.language as nl
from benchmarks.replay import Program, Replay
from benchmarks.replays.old_dialect import copied
from benchmarks.replays.tiles import load, output, store, sums, tile
from nki_lab.api import isa as nisa

_BANK = 512  # float32 in a PSUM bank


def _cleared(columns):
    held = tile(128, columns)
    nisa.memset(dst=held, value=0.0)
    return held


def _ones():
    ones = tile(1, 128)
    nisa.memset(dst=ones, value=1.0)
    return ones


def _repeat(ones, row):
    """Return `row` on all partitions, in PSUM; each product fills at most a bank."""
    rows = sums(128, row.shape[1])
    for start in range(0, row.shape[1], _BANK):
        part = slice(start, min(start + _BANK, row.shape[1]))
        nisa.nc_matmul(dst=rows[:, part], stationary=ones, moving=row[:, part])
    return rows


def _kept(ones, row):
    """Return a row of HBM on all partitions, in SBUF."""
    held, repeated = tile(128, row.shape[1]), load(row)
    for start in range(0, row.shape[1], _BANK):
        part = slice(start, min(start + _BANK, row.shape[1]))
        copied(held[:, part], _repeat(ones, repeated[:, part]))
    return held


def _product(delta, u):
    gain = tile(128, delta.shape[1])
    nisa.tensor_tensor(dst=gain, data1=delta, data2=u, op=nl.multiply)
    return gain


def _step(delta, gain, a, b, c, initial, total):
    """Add one state of one piece of the length to `total` and return the scan; b and c make their repeated rows."""
    decay, driven, scan, seen = (tile(128, delta.shape[1]) for _ in range(4))
    nisa.activation(dst=decay, op=nl.exp, data=delta, scale=a)
    nisa.tensor_tensor(dst=driven, data1=gain, data2=b(), op=nl.multiply)
    nisa.tensor_tensor_scan(
        dst=scan, data0=decay, data1=driven, initial=initial, op0=nl.multiply, op1=nl.add
    )
    nisa.tensor_tensor(dst=seen, data1=scan, data2=c(), op=nl.multiply)
    nisa.tensor_tensor(dst=total, data1=total, data2=seen, op=nl.add)
    return scan


def v1(delta, u, a, b, c):
    """Run with states outside and channels inside."""
    return v1_in_pieces(delta, u, a, b, c, piece=delta.shape[1])


def v1_in_pieces(delta, u, a, b, c, piece=512):
    """Run as v1, with every step cut into pieces of the length."""
    channels, length = delta.shape
    out = output(delta.shape)
    ones = _ones()
    tiles = [slice(start, start + 128) for start in range(0, channels, 128)]
    totals = [_cleared(length) for _ in tiles]
    for n in range(a.shape[1]):
        row = slice(n, n + 1)
        gains, outputs = _kept(ones, b[row]), _kept(ones, c[row])
        for rows, total in zip(tiles, totals, strict=True):
            decay, carried = load(a[rows, row]), 0.0
            for left in range(0, length, piece):
                part = slice(left, left + piece)
                held, driven = load(delta[rows, part]), load(u[rows, part])
                scan = _step(
                    held, _product(held, driven), decay, partial(_part, gains, part),
                    partial(_part, outputs, part), carried, total[:, part],
                )  # fmt: skip
                if left + piece < length:
                    carried = tile(128, 1)
                    nisa.tensor_copy(dst=carried, src=scan[:, piece - 1 : piece])
    for rows, total in zip(tiles, totals, strict=True):
        store(out[rows], total)
    return out


def _part(held, part):
    return held[:, part]


def v2(delta, u, a, b, c):
    """Run with channels outside and states inside."""
    return _channels_outside(delta, u, a, b, c, piece=delta.shape[1], carry=False)


def v3(delta, u, a, b, c):
    """Run as v2 in pieces of the length."""
    return _channels_outside(delta, u, a, b, c, piece=512, carry=True)


def _channels_outside(delta, u, a, b, c, piece, carry):
    channels, length = delta.shape
    out = output(delta.shape)
    ones = _ones()
    for start in range(0, channels, 128):
        rows = slice(start, start + 128)
        total = _cleared(length)
        held = load(delta[rows])
        gain = _product(held, load(u[rows]))
        for n in range(a.shape[1]):
            row = slice(n, n + 1)
            decay = load(a[rows, row])
            carried = _cleared(1) if carry else 0.0
            for left in range(0, length, piece):
                part = slice(left, left + piece)
                scan = _step(
                    held[:, part], gain[:, part], decay, partial(_loaded, ones, b[row, part]),
                    partial(_loaded, ones, c[row, part]), carried, total[:, part],
                )  # fmt: skip
                if carry:
                    nisa.tensor_copy(dst=carried, src=scan[:, piece - 1 : piece])
        store(out[rows], total)
    return out


def _loaded(ones, row):
    return _repeat(ones, load(row))


def _program(function, length, channels):
    streams, rows = ((channels, length), "float32"), ((16, length), "float32")
    return Program(function, (streams, streams, ((channels, 16), "float32"), rows, rows))


def _replay(name, function):
    return Replay(
        name,
        r"batch 1, seq (?P<seq>\d+), channels (?P<channels>\d+), state 16",
        lambda seq, channels: _program(function, seq, channels),
        family="mamba",
    )


REPLAYS = tuple(_replay(f"mamba_{function.__name__}", function) for function in (v1, v2, v3))
