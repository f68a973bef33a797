"""The ladder of matrix products of the tutorial on matmul, written anew: each rung takes away one cause of traffic.

A product of [K, M].T and [K, N]. `free`, `wide` and `deep` are the blocks in tiles: of M, of N, and of K.
"""

from __future__ import annotations

import nki_lab.language as nl
from nki_lab.isa import registry

dma_copy, tensor_copy, tensor_tensor, nc_matmul = (
    registry[name] for name in "dma_copy tensor_copy tensor_tensor nc_matmul".split()
)
ROWS, COLUMNS = 128, 512


def tiled(lhs_t, rhs):
    """Load both operands for every product."""
    out = result(lhs_t, rhs)
    for m in tiles_of(lhs_t.shape[1], ROWS):
        for n in tiles_of(rhs.shape[1], COLUMNS):
            held = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
            for k in tiles_of(lhs_t.shape[0], 128):
                a = loaded(lhs_t, k, m)
                b = loaded(rhs, k, n)
                nc_matmul(held, a, b)
            stored(out, m, n, held)
    return out


def hoisted(lhs_t, rhs):
    """Load what the innermost free loop does not change before it."""
    out = result(lhs_t, rhs)
    for m in tiles_of(lhs_t.shape[1], ROWS):
        left = [loaded(lhs_t, k, m) for k in tiles_of(lhs_t.shape[0], 128)]
        for n in tiles_of(rhs.shape[1], COLUMNS):
            held = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
            for number, k in enumerate(tiles_of(lhs_t.shape[0], 128)):
                nc_matmul(held, left[number], loaded(rhs, k, n))
            stored(out, m, n, held)
    return out


def blocked_free(lhs_t, rhs, free=2, wide=1):
    """Compute blocks of several tiles, so that each load serves several products."""
    out = result(lhs_t, rhs)
    depth = tiles_of(lhs_t.shape[0], 128)
    for rows in tiles_of(lhs_t.shape[1], ROWS * free):
        left = [loaded(lhs_t, k, rows) for k in depth]
        for columns in tiles_of(rhs.shape[1], COLUMNS * wide):
            right = [loaded(rhs, k, columns) for k in depth]
            for m in tiles_of(ROWS * free, ROWS):
                for n in tiles_of(COLUMNS * wide, COLUMNS):
                    held = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
                    for a, b in zip(left, right, strict=True):
                        nc_matmul(held, a[:, m], b[:, n])
                    stored(out, within(rows, m), within(columns, n), held)
    return out


def blocked(lhs_t, rhs, wide=2, deep=8):
    """Cut the contracted dimension, too, and sum in SBUF: a block of N is as high as M, and nothing is loaded twice."""
    out = result(lhs_t, rhs)
    every_m = tiles_of(lhs_t.shape[1], ROWS)
    left = {}
    for columns in tiles_of(rhs.shape[1], COLUMNS * wide):
        sums = {}
        for block in tiles_of(lhs_t.shape[0], 128 * deep):
            right = [loaded(rhs, within(block, k), columns) for k in tiles_of(128 * deep, 128)]
            for number, m in enumerate(every_m):
                for n in tiles_of(COLUMNS * wide, COLUMNS):
                    held = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.psum)
                    for k, b in zip(tiles_of(128 * deep, 128), right, strict=True):
                        rows = within(block, k)
                        if rows.start not in left:
                            left[rows.start] = loaded(lhs_t, rows, slice(0, lhs_t.shape[1]))
                        nc_matmul(held, left[rows.start][:, m], b[:, n])
                    key = number, n.start
                    if key not in sums:
                        sums[key] = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
                        tensor_copy(sums[key], held)
                    else:
                        tensor_tensor(sums[key], sums[key], held, op=nl.add)
        for number, m in enumerate(every_m):
            for n in tiles_of(COLUMNS * wide, COLUMNS):
                stored(out, m, within(columns, n), sums[number, n.start])
    return out


def result(lhs_t, rhs):
    shape = (lhs_t.shape[1], rhs.shape[1])
    return nl.ndarray(shape, dtype=lhs_t.dtype, buffer=nl.shared_hbm)


def tiles_of(size, step):
    return [slice(start, start + step) for start in range(0, size, step)]


def within(outer, inner):
    return slice(outer.start + inner.start, outer.start + inner.stop)


def loaded(source, rows, columns):
    shape = (rows.stop - rows.start, columns.stop - columns.start)
    tile = nl.ndarray(shape, dtype=source.dtype, buffer=nl.sbuf)
    dma_copy(tile, source[rows, columns])
    return tile


def stored(out, rows, columns, held):
    made = nl.ndarray((ROWS, COLUMNS), dtype=out.dtype, buffer=nl.sbuf)
    tensor_copy(made, held)
    dma_copy(out[rows, columns], made)


#: From rung to rung, what the advice on it must say.
LADDER = (
    (tiled, "hoist the loads"),
    (hoisted, "block the free dimensions"),
    (blocked_free, "block all dimensions"),
    (blocked, ""),
)
