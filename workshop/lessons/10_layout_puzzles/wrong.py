"""Wrong answers of notebook 10."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


def stored(shape, tile, dtype=nl.float32):
    out = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def product(stationary, moving):
    shape = (stationary.shape[1], moving.shape[1])
    total = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
    return nl.copy(total)


def turned(tile):
    on_its_side = nl.ndarray(tile.shape[::-1], dtype=tile.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=on_its_side, data=tile)
    return nl.copy(on_its_side)


@nki.jit
def operands_swapped(a, b):
    return stored((b.shape[1], a.shape[1]), product(nl.load(b), nl.load(a)))


@nki.jit
def operands_as_named(a, b):
    return stored((a.shape[1], b.shape[1]), product(nl.load(a), nl.load(b)))


@nki.jit
def turned_at_the_end(a, b):
    return stored((b.shape[1], a.shape[1]), turned(product(nl.load(a), nl.load(b))))


@nki.jit
def turned_twice(a, b):
    return stored((a.shape[1], b.shape[1]), product(turned(turned(nl.load(a))), nl.load(b)))


def halves(a):
    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    half = a.shape[0] // 2
    nisa.dma_copy(dst=tile[:half], src=a[:half])
    nisa.dma_copy(dst=tile[half:], src=a[half:])
    return tile


@nki.jit
def loaded_in_halves(a, b):
    return stored((a.shape[1], b.shape[1]), product(halves(a), nl.load(b)))


@nki.jit
def loaded_in_halves_turned(a, b):
    return stored((b.shape[1], a.shape[1]), product(halves(b), nl.load(a)))


@nki.jit
def not_turned(a, b):
    return stored((a.shape[0], b.shape[1]), product(nl.load(a), nl.load(b)))


@nki.jit
def turned_by_dma(a, b):
    left = nl.ndarray(a.shape[::-1], dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a.permute((1, 0)))
    return stored((a.shape[0], b.shape[1]), product(left, nl.load(b)))


@nki.jit
def turned_three_times(a, b):
    left = turned(turned(turned(nl.load(a))))
    return stored((a.shape[0], b.shape[1]), product(left, nl.load(b)))


@nki.jit
def column_products(x):
    tile = nl.load(x)
    result = product(tile, tile)
    return stored(result.shape, result)


@nki.jit
def one_row_less(x):
    tile = turned(nl.load(x))
    rows = x.shape[0]
    out = nl.ndarray((rows, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    if rows > 1:
        nisa.dma_copy(dst=out[: rows - 1], src=product(tile[:, : rows - 1], tile))
    return out


@nki.jit
def two_transposes(x):
    tile = nl.load(x)
    result = product(turned(tile), turned(tile))
    return stored(result.shape, result)


@nki.jit
def two_loads(x):
    result = product(turned(nl.load(x)), turned(nl.load(x)))
    return stored(result.shape, result)


def in_squares(x, move):
    tile = nl.load(x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for i in range(0, x.shape[0], 32):
        for j in range(0, x.shape[0], 32):
            move(result, tile, slice(i, i + 32), slice(j, j + 32))
    return stored(x.shape, result)


@nki.jit
def squares_stay(x):
    return in_squares(x, lambda dst, src, i, j: nisa.nc_transpose(dst=dst[i, j], data=src[i, j]))


@nki.jit
def squares_move(x):
    return in_squares(x, lambda dst, src, i, j: nisa.tensor_copy(dst=dst[j, i], src=src[i, j]))


@nki.jit
def diagonal_squares(x):
    tile = nl.load(x)
    result = nl.copy(tile)
    for i in range(0, x.shape[0], 32):
        square = slice(i, i + 32)
        nisa.nc_transpose(dst=result[square, square], data=tile[square, square])
    return stored(x.shape, result)


@nki.jit
def by_the_tensor_engine(x):
    return stored(x.shape, turned(nl.load(x)))


@nki.jit
def at_once(x):
    tile = nl.load(x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.nc_transpose(dst=result, data=tile, engine=nisa.engine.vector)
    return stored(x.shape, result)


def in_pieces(a, b, total, most=None, accumulate=False):
    left, right = nl.load(a), nl.load(b)
    columns = b.shape[1]
    result = nl.ndarray((a.shape[1], columns), dtype=nl.float32, buffer=nl.sbuf)
    for start in range(0, columns if most is None else most, 512):
        size = min(512, columns - start)
        piece = total(start)[:, 0:size]
        nisa.nc_matmul(
            dst=piece,
            stationary=left,
            moving=right[:, start : start + size],
            accumulate=accumulate and start > 0,
        )
        nisa.tensor_copy(dst=result[:, start : start + size], src=piece)
    return stored(result.shape, result)


@nki.jit
def bank_not_forgotten(a, b):
    total = nl.ndarray((a.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
    return in_pieces(a, b, lambda start: total, accumulate=True)


@nki.jit
def three_banks(a, b):
    total = nl.ndarray(
        (a.shape[1], 512 * (b.shape[1] // 512 + 1)), dtype=nl.float32, buffer=nl.psum
    )
    return in_pieces(a, b, lambda start: total[:, start:])


@nki.jit
def whole_pieces_only(a, b):
    total = nl.ndarray((a.shape[1], 512), dtype=nl.float32, buffer=nl.psum)
    return in_pieces(a, b, lambda start: total, most=max(b.shape[1] // 512, 1) * 512)


@nki.jit
def one_wide_product(a, b):
    return stored((a.shape[1], b.shape[1]), product(nl.load(a), nl.load(b)))


@nki.jit
def turned_by_the_store(a, b):
    # Every number of the result is a descriptor of its own.
    out = nl.ndarray((b.shape[1], a.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=nl.load(a), moving=nl.load(b))
    result = nl.ndarray(total.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nl.store(out.permute((1, 0)), result)
    return out


WRONG = {
    "10.1": {"other": np.s_[:, 2:4], "missing": np.s_[2:3], "extra": np.s_[2:5]},
    "10.2": {"other": np.s_[1::2], "other-2": np.s_[:, ::2], "extra": np.s_[:, 1:]},
    "10.3": {
        "bounds": lambda rows, columns, height, width, i, j: np.s_[
            i * width : (i + 1) * width, j * height : (j + 1) * height
        ],
        "bounds-2": lambda rows, columns, height, width, i, j: np.s_[
            i * height : (i + 1) * height, j * width : (j + 1) * width
        ],
        "other": lambda rows, columns, height, width, i, j: np.s_[i : i + height, j : j + width],
        "missing": lambda rows, columns, height, width, i, j: np.s_[
            i * height : (i + 1) * height - 1, j * width : (j + 1) * width
        ],
    },
    "10.4": {
        "other": lambda m, k, p: np.s_[p],
        "extra": lambda m, k, p: np.s_[:, p:],
        "missing": lambda m, k, p: np.s_[p, p],
    },
    "10.5": {
        "other": lambda k, m, start, count: np.s_[start : min(start + count, k)],
        "missing": lambda k, m, start, count: np.s_[:, start : start + 1],
        "extra": lambda k, m, start, count: np.s_[:, : start + count],
    },
    "10.6": {
        "error": operands_swapped,
        "avoids": turned_twice,
        "limit": loaded_in_halves,
    },
    "10.7": {
        "transposed": operands_as_named,
        "avoids": turned_at_the_end,
        "limit": loaded_in_halves_turned,
        "time": turned_by_the_store,
    },
    "10.8": {"error": not_turned, "uses": turned_by_dma, "limit": turned_three_times},
    "10.9": {
        "shape": column_products,
        "unwritten": one_row_less,
        "limit": two_transposes,
        "limit-2": two_loads,
    },
    "10.10": {
        "mistake": squares_stay,
        "mistake-2": squares_move,
        "part": diagonal_squares,
        "limit": by_the_tensor_engine,
        "error": at_once,
    },
    "10.12": {
        "bounds": lambda rows, columns, itemsize, bank: np.s_[
            :, bank * (2048 // itemsize) : (bank + 1) * (2048 // itemsize)
        ],
        "other-2": lambda rows, columns, itemsize, bank: np.s_[
            :, bank * 512 : min((bank + 1) * 512, columns)
        ],
        "other": lambda rows, columns, itemsize, bank: np.s_[:, :512],
    },
    "10.13": {
        "mistake": bank_not_forgotten,
        "limit": three_banks,
        "unwritten": whole_pieces_only,
        "error": one_wide_product,
    },
    "10.14": {
        "order": lambda rows, columns: {"pattern": [[columns, rows], [1, columns]]},
        "order-2": np.s_[:],
        "bounds": lambda rows, columns: {"pattern": [[1, rows], [rows, columns]], "offset": 1},
        "answer": lambda rows, columns: [[1, columns], [columns, rows]],
    },
    "10.15": {
        "bounds": lambda rows, columns: {"pattern": [[columns + 1, max(rows, columns)]]},
        "other": lambda rows, columns: {"pattern": [[columns, min(rows, columns)]]},
        "count": lambda rows, columns: {"pattern": [[0, 2], [columns + 1, min(rows, columns)]]},
    },
}
