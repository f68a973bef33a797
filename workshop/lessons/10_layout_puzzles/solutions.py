"""Solutions of notebook 10, Layout puzzles."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def transposed_product(a, b):
    (k, m), n = a.shape, b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    total = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    result = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)

    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def turned_result(a, b):
    (k, m), n = a.shape, b.shape[1]
    out = nl.ndarray((n, m), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    total = nl.ndarray((n, m), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=right, moving=left)
    result = nl.ndarray((n, m), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)

    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def plain_product(a, b):
    (m, k), n = a.shape, b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray((m, k), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    turned = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=left)
    left_t = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=left_t, src=turned)

    total = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left_t, moving=right)
    result = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)

    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def row_products(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, rows), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    turned = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    tile_t = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile_t, src=turned)

    total = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=tile_t, moving=tile_t)
    result = nl.ndarray((rows, rows), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)

    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def turn_in_squares(x):
    size = x.shape[0]
    out = nl.ndarray((size, size), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray((size, size), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    turned = nl.ndarray((size, size), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(0, size, 32):
        for j in range(0, size, 32):
            nisa.nc_transpose(
                dst=turned[j : j + 32, i : i + 32],
                data=tile[i : i + 32, j : j + 32],
                engine=nisa.engine.vector,
            )

    nisa.dma_copy(dst=out, src=turned)
    return out


@nki.jit
def one_bank(a, b):
    (k, m), n = a.shape, b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    result = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.sbuf)
    total = nl.ndarray((m, 512), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, n, 512):
        size = min(512, n - start)
        nisa.nc_matmul(
            dst=total[:, 0:size],
            stationary=left,
            moving=right[:, start : start + size],
            accumulate=False,
        )
        nisa.tensor_copy(dst=result[:, start : start + size], src=total[:, 0:size])

    nisa.dma_copy(dst=out, src=result)
    return out


def grid_tile(rows, columns, height, width, i, j):
    return np.s_[
        i * height : min((i + 1) * height, rows), j * width : min((j + 1) * width, columns)
    ]


def in_partition(m, k, p):
    return np.s_[:, p]


def needed(k, m, start, count):
    return np.s_[:, start : start + count]


def in_bank(rows, columns, itemsize, bank):
    size = 2048 // itemsize
    return np.s_[:, bank * size : min((bank + 1) * size, columns)]


def by_columns(rows, columns):
    return {"pattern": [[1, columns], [columns, rows]]}


def diagonal(rows, columns):
    return {"pattern": [[columns + 1, min(rows, columns)]]}


ANSWERS = {
    "10.1": np.s_[2:4],
    "10.2": np.s_[:, 1::2],
    "10.3": grid_tile,
    "10.4": in_partition,
    "10.5": needed,
    "10.11": 3,
    "10.12": in_bank,
    "10.14": by_columns,
    "10.15": diagonal,
}
