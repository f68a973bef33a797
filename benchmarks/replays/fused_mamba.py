"""Which programs stand for the versions of the official Mamba kernel?

delta and u [channels, length], a [channels, states], b and c [states, length], float32, one batch. Per 128 channels
and state five instructions of the Vector engine, one of Scalar and two products of a column of ones with a row of b
or c, which repeats that row on all partitions (left in PSUM, where Vector reads it):

    e = exp(a * delta)                      Scalar
    s = scan(e, (delta * u) * b)            Vector, three instructions
    out += s * c                            Vector, two instructions

- v1: states outside, channels inside; delta, u, and the rows are loaded for every step; all sums in SBUF, cleared
  before, stored at the end.
- v2: channels outside, states inside; delta and u loaded once per 128 channels, their sum stored when it is done.
- v3: v2 with the length cut into pieces of 512 inside; each scan starts from the last column of the one before it.

Structure: aws-neuron-sdk 752349fd general/nki/examples/fused_mamba/mamba_nki_kernels.py, which was timed (v1 has other
loops today); who repeats rows: nki/guides/tutorials/fused_mamba.rst:133. The published profiles count 5.66 Vector
instructions a step in v1 and v2 alike where the source has five, and a step takes 4.7 us in v1 but 3.1 in v2: what else
the old compiler did is not told.
"""

from __future__ import annotations

import nki_lab.language as nl
from benchmarks.replay import Program, Replay
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


def _step(ones, delta, u, a, b, c, initial, total):
    """Add one state of one piece of the length to `total` and return the scan; b and c are still in HBM."""
    decay, gain, driven, scan, seen = (tile(128, delta.shape[1]) for _ in range(5))
    nisa.activation(dst=decay, op=nl.exp, data=delta, scale=a)
    nisa.tensor_tensor(dst=gain, data1=delta, data2=u, op=nl.multiply)
    nisa.tensor_tensor(dst=driven, data1=gain, data2=_repeat(ones, load(b)), op=nl.multiply)
    nisa.tensor_tensor_scan(
        dst=scan, data0=decay, data1=driven, initial=initial, op0=nl.multiply, op1=nl.add
    )
    nisa.tensor_tensor(dst=seen, data1=scan, data2=_repeat(ones, load(c)), op=nl.multiply)
    nisa.tensor_tensor(dst=total, data1=total, data2=seen, op=nl.add)
    return scan


def v1(delta, u, a, b, c):
    """Run with states outside and channels inside."""
    channels, length = delta.shape
    out = output(delta.shape)
    ones = _ones()
    tiles = [slice(start, start + 128) for start in range(0, channels, 128)]
    totals = [_cleared(length) for _ in tiles]
    for n in range(a.shape[1]):
        row = slice(n, n + 1)
        for rows, total in zip(tiles, totals, strict=True):
            held, decay, driven = load(delta[rows]), load(a[rows, row]), load(u[rows])
            _step(ones, held, driven, decay, b[row], c[row], 0.0, total)
    for rows, total in zip(tiles, totals, strict=True):
        store(out[rows], total)
    return out


def v1_in_pieces(delta, u, a, b, c, piece=512):
    """Run as v1, with every step cut into pieces of the length."""
    channels, length = delta.shape
    out = output(delta.shape)
    ones = _ones()
    tiles = [slice(start, start + 128) for start in range(0, channels, 128)]
    totals = [_cleared(length) for _ in tiles]
    for n in range(a.shape[1]):
        row = slice(n, n + 1)
        for rows, total in zip(tiles, totals, strict=True):
            decay, carried = load(a[rows, row]), _cleared(1)
            for left in range(0, length, piece):
                part = slice(left, left + piece)
                held, driven = load(delta[rows, part]), load(u[rows, part])
                scan = _step(
                    ones, held, driven, decay, b[row, part], c[row, part], carried, total[:, part]
                )
                nisa.tensor_copy(dst=carried, src=scan[:, piece - 1 : piece])
    for rows, total in zip(tiles, totals, strict=True):
        store(out[rows], total)
    return out


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
        held, driven = load(delta[rows]), load(u[rows])
        for n in range(a.shape[1]):
            row = slice(n, n + 1)
            decay = load(a[rows, row])
            carried = _cleared(1) if carry else 0.0
            for left in range(0, length, piece):
                part = slice(left, left + piece)
                scan = _step(
                    ones, held[:, part], driven[:, part], decay, b[row, part], c[row, part],
                    carried, total[:, part],
                )  # fmt: skip
                if carry:
                    nisa.tensor_copy(dst=carried, src=scan[:, piece - 1 : piece])
        store(out[rows], total)
    return out


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
