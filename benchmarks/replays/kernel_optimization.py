"""Programs for the float32 matmul of nki/guides/tutorials/kernel-optimization.rst.

lhsT [8192, 4096] and rhs [8192, 8192] on trn2, in products of 128 x 128 x 512. The profiles of the page show that
GpSimd writes the descriptors of every copy.
"""

from __future__ import annotations

from benchmarks.replay import Program, Replay
from benchmarks.replays.tiles import block, load, output, store, sums, tile
from nki_lab.api import isa as nisa

_SOFTWARE = {"dge_mode": nisa.dge_mode.swdge}


def _finish(out, m, n, acc):
    result = tile(128, 512)
    nisa.tensor_copy(dst=result, src=acc)
    store(block(out, m, n), result, **_SOFTWARE)


def tiled(lhs, rhs):
    """Load both operands of every product."""
    out = output((lhs.shape[1], rhs.shape[1]))
    for m in range(lhs.shape[1] // 128):
        for n in range(rhs.shape[1] // 512):
            acc = sums(128, 512)
            for k in range(lhs.shape[0] // 128):
                weights = load(block(lhs, k, m, columns=128), **_SOFTWARE)
                moving = load(block(rhs, k, n), **_SOFTWARE)
                nisa.nc_matmul(dst=acc, stationary=weights, moving=moving)
            _finish(out, m, n, acc)
    return out


def hoisted(lhs, rhs):
    """Load the stationary tiles of a row of results once, the moving ones once per result."""
    out = output((lhs.shape[1], rhs.shape[1]))
    depth = lhs.shape[0] // 128
    for m in range(lhs.shape[1] // 128):
        weights = [load(block(lhs, k, m, columns=128), **_SOFTWARE) for k in range(depth)]
        for n in range(rhs.shape[1] // 512):
            moving = [load(block(rhs, k, n), **_SOFTWARE) for k in range(depth)]
            acc = sums(128, 512)
            for k in range(depth):
                nisa.nc_matmul(dst=acc, stationary=weights[k], moving=moving[k])
            _finish(out, m, n, acc)
    return out


_MATRICES = ((8192, 4096), "float32"), ((8192, 8192), "float32")
_SHAPES = r"A \[4096,8192\] x B \[8192,8192\]"

REPLAYS = tuple(
    Replay(
        name, _SHAPES, lambda f=function: Program(f, _MATRICES), "v3", family="kernel_optimization"
    )
    for name, function in (
        ("kernel_optimization_v2_tiled", tiled),
        ("kernel_optimization_v3_hoist", hoisted),
    )
)

NOT_REPLAYED = {
    ("kernel_optimization_v4_block", ".*", ""): (
        "the profile shows more traffic than the source loads: its block does not fit in SBUF and the compiler re-loads"
    ),
}
