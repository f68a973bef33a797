"""Which programs stand for the kernels of NKIBench (github.com/zhang677/AccelOpt, NKIBench/kernels), timed on trn1?"""

from __future__ import annotations

import nki_lab.language as nl
from benchmarks.replay import Program, Replay
from benchmarks.replays.old_dialect import copied
from benchmarks.replays.tiles import load, output, store, sums, tile
from nki_lab.api import isa as nisa


def silu(x):
    """x / (1 + exp(-x)) in tiles of 1024 columns, computed by halves."""
    out = output(x.shape)
    zero = tile(128, 1)
    nisa.memset(dst=zero, value=0.0)
    for r in range(x.shape[1]):
        for c in range(x.shape[2] // 1024):
            columns = slice(1024 * c, 1024 * c + 1024)
            held = load(x[:, r, columns])
            result = tile(128, 1024)
            for h in range(2):
                half = slice(512 * h, 512 * h + 512)
                grown, divisor, inverse = tile(128, 512), tile(128, 512), tile(128, 512)
                nisa.activation(dst=grown, op=nl.exp, data=held[:, half], bias=zero, scale=-1.0)
                nisa.tensor_scalar(dst=divisor, data=grown, op0=nl.add, operand0=1.0)
                nisa.reciprocal(dst=inverse, data=divisor)
                nisa.tensor_tensor(
                    dst=result[:, half], data1=held[:, half], data2=inverse, op=nl.multiply
                )
            store(out[:, r, columns], result)
    return out


def adamw(theta, gradient, mean, variance):
    """One step of AdamW on tiles of 128 x 1024, computed by halves of 512 columns."""
    out = output(theta.shape)
    zero = tile(128, 1)
    nisa.memset(dst=zero, value=0.0)
    for first in range(0, theta.shape[0], 128):
        rows = slice(first, min(first + 128, theta.shape[0]))
        for c in range(theta.shape[1] // 1024):
            columns = slice(1024 * c, 1024 * c + 1024)
            held = [load(t[rows, columns]) for t in (theta, mean, variance, gradient)]
            result = tile(held[0].shape[0], 1024)
            for h in range(2):
                half = slice(512 * h, 512 * h + 512)
                _adamw_half(result[:, half], *(t[:, half] for t in held), zero)
            store(out[rows, columns], result)
    return out


def _adamw_half(result, theta, mean, variance, gradient, zero):
    rows = theta.shape[0]

    def scaled(data, factor, op=nl.multiply):
        made = tile(rows, 512)
        nisa.tensor_scalar(dst=made, data=data, op0=op, operand0=factor)
        return made

    def both(a, b, op):
        made = tile(rows, 512)
        nisa.tensor_tensor(dst=made, data1=a, data2=b, op=op)
        return made

    decayed = both(theta, scaled(theta, 1e-5), nl.subtract)
    momentum = both(scaled(mean, 0.9), scaled(gradient, 0.1), nl.add)
    step = scaled(momentum, 0.01)
    old = scaled(variance, 0.999)
    squared = both(scaled(gradient, 0.001), gradient, nl.multiply)
    root, inverse = tile(rows, 512), tile(rows, 512)
    nisa.activation(
        dst=root, op=nl.sqrt, data=both(old, squared, nl.add), bias=zero[0:rows], scale=1000.0
    )
    nisa.reciprocal(dst=inverse, data=scaled(root, 1e-8, nl.add))
    nisa.tensor_tensor(
        dst=result, data1=decayed, data2=both(step, inverse, nl.multiply), op=nl.subtract
    )


def bmm(lhs, rhs):
    """Products of 4096 x 64 and 64 x 4096 matrices: lhs is transposed by the Tensor engine, for each block again."""
    batches, rows, depth = lhs.shape
    out = output((batches, rows, rhs.shape[2]))
    identity = load(nl.shared_identity_matrix(128, dtype=nl.float32))
    for b in range(batches):
        for n in range(rhs.shape[2] // 1024):
            moving = load(rhs[b, :, 1024 * n : 1024 * n + 1024])
            for block in range(rows // 1024):
                weights = tile(depth, 1024)
                for t in range(8):
                    first = 1024 * block + 128 * t
                    turned = sums(depth, 128)
                    held = load(lhs[b, first : first + 128, :])
                    nisa.nc_matmul(
                        dst=turned,
                        stationary=held,
                        moving=identity,
                        is_moving_onezero=True,
                        is_transpose=True,
                    )
                    copied(dst=weights[:, 128 * t : 128 * t + 128], src=turned)
                for t in range(8):
                    result = tile(128, 1024)
                    for h in range(2):
                        half = slice(512 * h, 512 * h + 512)
                        acc = sums(128, 512)
                        nisa.nc_matmul(
                            dst=acc,
                            stationary=weights[:, 128 * t : 128 * t + 128],
                            moving=moving[:, half],
                        )
                        copied(dst=result[:, half], src=acc)
                    first = 1024 * block + 128 * t
                    store(out[b, first : first + 128, 1024 * n : 1024 * n + 1024], result)
    return out


def _float32(*shapes):
    return tuple((shape, "float32") for shape in shapes)


REPLAYS = (
    Replay("NKIBench silu", r"M=4096, N=7168", lambda: Program(silu, _float32((128, 32, 7168)))),
    Replay(
        "NKIBench adamw", r"M=10944, N=2048", lambda: Program(adamw, _float32(*[(10944, 2048)] * 4))
    ),
    Replay(
        "NKIBench bmm",
        r"B=16, K=64, M=4096, N=4096",
        lambda: Program(bmm, _float32((16, 4096, 64), (16, 64, 4096))),
    ),
)

NOT_REPLAYED = {
    ("NKIBench best .*", ".*", ""): "the text of the optimised version has not been published",
}
