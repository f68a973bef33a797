"""Programs for the elementwise kernels of NKIBench, timed on trn1.

Tiles of 128 partitions, float32. What a line says in tiles of 1024 columns is computed by halves of 512.

- silu: x / (1 + exp(-x)) in tiles of 1024 columns.
- adamw: one step on four matrices in tiles of 1024 columns: 7 instructions with a number, 6 on two tiles, a root and a
  reciprocal per half.
- rope: 128 rows, halves of 64 partitions: a copy of the lower half to the upper partitions, four products with cosines
  and sines, a difference and a sum, in tiles of 512 columns.
- mamba: 256 channels, 16 states, 7168 steps, as the first version of the official kernel, here in pieces of 512 steps
  (whole rows of 7168 in PSUM and SBUF do not fit as written).

Structure: github.com/zhang677/AccelOpt 47e29a7c NKIBench/kernels/.
"""

from __future__ import annotations

import nki_lab.language as nl
from benchmarks.replay import Program, Replay
from benchmarks.replays.fused_mamba import v1_in_pieces
from benchmarks.replays.old_dialect import copied, scaled, shifted
from benchmarks.replays.tiles import load, output, store, tile
from nki_lab.api import isa as nisa


def filled(value):
    """Make a number per partition."""
    made = tile(128, 1)
    nisa.memset(dst=made, value=value)
    return made


def both(a, b, op):
    """Return a new tile computed of two."""
    made = tile(*a.shape)
    nisa.tensor_tensor(dst=made, data1=a, data2=b, op=op)
    return made


def sigmoid_reciprocal(x, zero, one):
    """Return 1 / (1 + exp(-x))."""
    grown, divisor, inverse = (tile(*x.shape) for _ in range(3))
    nisa.activation(dst=grown, op=nl.exp, data=x, bias=zero, scale=-1.0)
    shifted(divisor, grown, one)
    nisa.reciprocal(dst=inverse, data=divisor)
    return inverse


def silu(x):
    """Compute x / (1 + exp(-x))."""
    out = output(x.shape)
    zero, one = filled(0.0), filled(1.0)
    for r in range(x.shape[1]):
        for first in range(0, x.shape[2], 1024):
            columns = slice(first, first + 1024)
            held, result = load(x[:, r, columns]), tile(128, 1024)
            for h in range(2):
                half = slice(512 * h, 512 * h + 512)
                inverse = sigmoid_reciprocal(held[:, half], zero, one)
                nisa.tensor_tensor(
                    dst=result[:, half], data1=held[:, half], data2=inverse, op=nl.multiply
                )
            store(out[:, r, columns], result)
    return out


def adamw(theta, gradient, mean, variance):
    """Compute one step of AdamW."""
    out = output(theta.shape)
    zero, small = filled(0.0), filled(1e-8)
    for first in range(0, theta.shape[0], 128):
        rows = slice(first, min(first + 128, theta.shape[0]))
        for left in range(0, theta.shape[1], 1024):
            columns = slice(left, left + 1024)
            held = [load(t[rows, columns]) for t in (theta, mean, variance, gradient)]
            count = held[0].shape[0]
            result = tile(count, 1024)
            for h in range(2):
                half = slice(512 * h, 512 * h + 512)
                tiles = (t[:, half] for t in held)
                _adamw_half(result[:, half], *tiles, zero[0:count], small[0:count])
            store(out[rows, columns], result)
    return out


def _adamw_half(result, theta, mean, variance, gradient, zero, small):
    def times(data, factor):
        made = tile(*data.shape)
        scaled(made, data, factor)
        return made

    decayed = both(theta, times(theta, 1e-5), nl.subtract)
    step = times(both(times(mean, 0.9), times(gradient, 0.1), nl.add), 0.01)
    squares = both(times(gradient, 0.001), gradient, nl.multiply)
    total = both(times(variance, 0.999), squares, nl.add)
    root, divisor, inverse = (tile(*theta.shape) for _ in range(3))
    nisa.activation(dst=root, op=nl.sqrt, data=total, bias=zero, scale=1000.0)
    shifted(divisor, root, small)
    nisa.reciprocal(dst=inverse, data=divisor)
    change = both(step, inverse, nl.multiply)
    nisa.tensor_tensor(dst=result, data1=decayed, data2=change, op=nl.subtract)


def rope(x, cosines, sines):
    """Turn pairs of rows of x [128, n] by angles whose cosines and sines [64, n] are given."""
    out = output(x.shape)
    for first in range(0, x.shape[1], 512):
        columns = slice(first, first + 512)
        held, cosine = load(x[:, columns]), load(cosines[:, columns])
        sine, lower, result = load(sines[:, columns]), tile(64, 512), tile(128, 512)
        copied(lower, held[64:128])
        upper = held[0:64]
        products = [both(a, b, nl.multiply) for b in (cosine, sine) for a in (upper, lower)]
        nisa.tensor_tensor(dst=result[0:64], data1=products[0], data2=products[3], op=nl.subtract)
        nisa.tensor_tensor(dst=result[64:128], data1=products[1], data2=products[2], op=nl.add)
        store(out[:, columns], result)
    return out


def float32(*shapes):
    """Return the arguments of a program that are float32."""
    return tuple((shape, "float32") for shape in shapes)


def _mamba():
    channels, steps, states = 256, 7168, 16
    streams, rows = (channels, steps), (states, steps)
    return Program(v1_in_pieces, float32(streams, streams, (channels, states), rows, rows))


REPLAYS = (
    Replay("NKIBench silu", r"M=4096, N=7168", lambda: Program(silu, float32((128, 32, 7168)))),
    Replay(
        "NKIBench adamw", r"M=10944, N=2048", lambda: Program(adamw, float32(*[(10944, 2048)] * 4))
    ),
    Replay(
        "NKIBench rope.*",
        ".*N=4096.*",
        lambda: Program(rope, float32((128, 64 * 4096), (64, 64 * 4096), (64, 64 * 4096))),
    ),
    Replay("NKIBench mamba", ".*M=7168.*", _mamba, published_bytes=True),
)

NOT_REPLAYED = {
    ("NKIBench best .*", ".*", ""): "the text of the optimised version has not been published",
}
