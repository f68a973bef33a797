"""Programs for the matmuls that Autocomp found.

lhs [K, M] and rhs [K, N]; the result is lhs.T @ rhs in tiles of 128 x 128 by 128 x 512. In each step of the
contraction the tiles of `high` rows and `wide` columns of results are loaded and multiplied, so that high x wide sums
stand in PSUM and every load serves several products:

- 1 x 2: the lhs tile, then each rhs tile just before its product.
- 2 x 2 and 4 x 2: both rhs tiles, then each lhs tile before its two products; with four, all of PSUM is sums.
- 4 x 2 in pairs: two lhs tiles in one transfer (512 bytes a partition).
- 4 x 2 in one piece: all four lhs tiles in one transfer (1024 bytes), both rhs tiles in one (2048); copies out of
  PSUM on the Vector engine.

Structure: ucb-bar/autocomp dd26a565 examples/trn-tutorial/2_gemm_trace.py, the code above each score. The same loads of
lhs are repeated for every pair of columns; the old compiler may have kept them.
"""

from __future__ import annotations

from benchmarks.replay import Program, Replay
from benchmarks.replays.old_dialect import copied
from benchmarks.replays.tiles import load, output, store, sums, tile
from nki_lab.api import isa as nisa


def one_by_two(lhs, rhs):
    """Let each lhs tile serve two products."""
    out = output((lhs.shape[1], rhs.shape[1]), lhs.dtype)
    for m in range(0, lhs.shape[1], 128):
        for left in range(0, rhs.shape[1], 2 * 512):
            totals = [sums(128, 512), sums(128, 512)]
            for k in range(0, lhs.shape[0], 128):
                weights = load(lhs[k : k + 128, m : m + 128])
                for j, total in enumerate(totals):
                    moving = _moving(rhs, k, left, j, 1)
                    nisa.nc_matmul(dst=total, stationary=weights, moving=moving)
            _finish(out, m, left, [totals])
    return out


def grouped(lhs, rhs, high, lhs_tiles=1, rhs_tiles=1, copy=copied):
    """Keep sums of `high` rows of two results; load so many tiles in one transfer; `copy` empties PSUM."""
    out = output((lhs.shape[1], rhs.shape[1]), lhs.dtype)
    for top in range(0, lhs.shape[1], high * 128):
        for left in range(0, rhs.shape[1], 2 * 512):
            totals = [[sums(128, 512), sums(128, 512)] for _ in range(high)]
            for k in range(0, lhs.shape[0], 128):
                moving = []
                for j in range(0, 2, rhs_tiles):
                    loaded = _moving(rhs, k, left, j, rhs_tiles)
                    moving += [loaded[:, 512 * t : 512 * t + 512] for t in range(rhs_tiles)]
                for i in range(0, high, lhs_tiles):
                    start = top + 128 * i
                    weights = load(lhs[k : k + 128, start : start + 128 * lhs_tiles])
                    for t in range(lhs_tiles):
                        stationary = weights[:, 128 * t : 128 * t + 128]
                        for total, right in zip(totals[i + t], moving, strict=True):
                            nisa.nc_matmul(dst=total, stationary=stationary, moving=right)
            _finish(out, top, left, totals, copy)
    return out


def _moving(rhs, k, left, j, count):
    start = left + 512 * j
    return load(rhs[k : k + 128, start : start + 512 * count])


def _finish(out, top, left, totals, copy=copied):
    for i, row in enumerate(totals):
        for j, total in enumerate(row):
            result = tile(128, 512, out.dtype)
            copy(dst=result, src=total)
            m, n = top + 128 * i, left + 512 * j
            store(out[m : m + 128, n : n + 512], result)


def _copied_on_vector(dst, src):
    nisa.tensor_copy(dst=dst, src=src, engine=nisa.vector_engine)


#: (line of the score in the trace, kernel, its constants)
VERSIONS = (
    (231, one_by_two, {}),
    (488, grouped, {"high": 2}),
    (761, grouped, {"high": 4}),
    (1008, grouped, {"high": 4, "lhs_tiles": 2}),
    (1251, grouped, {"high": 4, "lhs_tiles": 4, "rhs_tiles": 2, "copy": _copied_on_vector}),
)

_MATRICES = ((8192, 4096), "bfloat16"), ((8192, 8192), "bfloat16")


def _replay(line, function, constants):
    return Replay(
        "Autocomp gemm",
        r"lhsT \[8192,4096\], rhs \[8192,8192\]",
        lambda: Program(function, _MATRICES, constants),
        source=f"2_gemm_trace.py:{line}",
        family="Autocomp gemm",
    )


REPLAYS = tuple(_replay(*version) for version in VERSIONS)
