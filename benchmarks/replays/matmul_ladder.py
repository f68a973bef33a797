"""Programs for the steps of the official matmul tutorial.

lhs [K, M] and rhs [K, N] lie in HBM, both with the contraction first; the result is lhs.T @ rhs, [M, N]. All four
multiply the same tiles, 128 x 128 stationary and 128 x 512 moving, add up in PSUM, and differ in what is loaded when:

- tiled: both tiles of a product just before it.
- hoisted: a column of lhs tiles once per row of results, a column of rhs tiles once per result: 1 / (N / 512) of the
  loads of lhs, as many of rhs.
- blocked_free: two columns of each, four results from each pair of blocks: half the loads of rhs.
- blocked: blocks of 8 x 16 tiles of lhs and 8 x 2 of rhs, each row of a block in one transfer (4096 and 2048 bytes a
  partition in bfloat16); products of a block add up in PSUM, those of different blocks in SBUF.

Structure: aws-neuron-sdk 752349fd general/nki/examples/matrix_multiplication/matrix_multiplication_nki_kernels.py,
which was timed; `blocked` as in nki/examples/matrix_multiplication/ of today. The old compiler seems to have dropped
loads of lhs from `tiled`: it was published as 21 % slower than `hoisted`, which has half as many loads.
"""

from __future__ import annotations

import nki_lab.language as nl
from benchmarks.replay import Program, Replay
from benchmarks.replays.tiles import block, load, output, store, sums, tile
from nki_lab.api import isa as nisa


def _finish(out, m, n, total):
    result = tile(128, 512, out.dtype)
    nisa.tensor_copy(dst=result, src=total)
    store(block(out, m, n), result)


def tiled(lhs, rhs):
    """Load both tiles of every product."""
    out = output((lhs.shape[1], rhs.shape[1]), lhs.dtype)
    for m in range(lhs.shape[1] // 128):
        for n in range(rhs.shape[1] // 512):
            total = sums(128, 512)
            for k in range(lhs.shape[0] // 128):
                weights, moving = load(block(lhs, k, m, columns=128)), load(block(rhs, k, n))
                nisa.nc_matmul(dst=total, stationary=weights, moving=moving)
            _finish(out, m, n, total)
    return out


def hoisted(lhs, rhs):
    """Load the tiles of lhs once per row of results, those of rhs once per result."""
    return blocked_free(lhs, rhs, tiles=1)


def blocked_free(lhs, rhs, tiles=2):
    """Load `tiles` columns of tiles of lhs and of rhs at a time."""
    out = output((lhs.shape[1], rhs.shape[1]), lhs.dtype)
    steps = range(lhs.shape[0] // 128)
    for top in range(0, lhs.shape[1] // 128, tiles):
        weights = [[load(block(lhs, k, top + m, columns=128)) for k in steps] for m in range(tiles)]
        for left in range(0, rhs.shape[1] // 512, tiles):
            moving = [[load(block(rhs, k, left + n)) for k in steps] for n in range(tiles)]
            for m in range(tiles):
                for n in range(tiles):
                    total = sums(128, 512)
                    for k in steps:
                        nisa.nc_matmul(dst=total, stationary=weights[m][k], moving=moving[n][k])
                    _finish(out, top + m, left + n, total)
    return out


def blocked(lhs, rhs, deep=8, high=16, wide=2):
    """Load blocks of `deep` x `high` tiles of lhs and `deep` x `wide` tiles of rhs."""
    out = output((lhs.shape[1], rhs.shape[1]), lhs.dtype)
    for n in range(rhs.shape[1] // (512 * wide)):
        held = [tile(128, 512 * wide, out.dtype) for _ in range(lhs.shape[1] // 128)]
        for row in held:
            nisa.memset(dst=row, value=0.0)
        for top in range(0, lhs.shape[0] // 128, deep):
            moving = [load(block(rhs, top + k, n, columns=512 * wide)) for k in range(deep)]
            for left in range(0, lhs.shape[1] // 128, high):
                weights = [
                    load(block(lhs, top + k, left // high, columns=128 * high)) for k in range(deep)
                ]
                for right in range(wide):
                    for m in range(high):
                        total = sums(128, 512)
                        for k in range(deep):
                            nisa.nc_matmul(
                                dst=total,
                                stationary=weights[k][:, 128 * m : 128 * m + 128],
                                moving=moving[k][:, 512 * right : 512 * right + 512],
                            )
                        place = held[left + m][:, 512 * right : 512 * right + 512]
                        nisa.tensor_tensor(dst=place, data1=place, data2=total, op=nl.add)
        for m, row in enumerate(held):
            store(block(out, m, n, columns=512 * wide), row)
    return out


#: From the slowest to the fastest.
LADDER = (tiled, hoisted, blocked_free, blocked)

_MATRICES = ((8192, 4096), "bfloat16"), ((8192, 8192), "bfloat16")
_SHAPES = r"lhsT \[8192,4096\], rhs \[8192,8192\]"

REPLAYS = tuple(
    Replay(name, _SHAPES, lambda f=function: Program(f, _MATRICES), family="matmul tutorial")
    for name, function in (
        ("nki_matmul_tiled", tiled),
        ("nki_matmul_hoist_load", hoisted),
        ("nki_matmul_block_free", blocked_free),
        ("nki_matmul_fully_optimized.*", blocked),
    )
)
