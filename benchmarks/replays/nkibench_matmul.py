"""Programs for the kernels of NKIBench around a matmul, timed on trn1.

Tiles of 128 x 128 stationary by 128 x 512 moving, float32. An operand whose rows are not the contraction is transposed
by the Tensor engine, 128 x 128 at a time against an identity matrix, and copied out of PSUM.

- bmm: 16 products of 4096 x 64 by 64 x 4096; lhs is transposed anew for each 1024 columns of results.
- matmul, transpose_matmul: blocks of 1024 columns of results; lhs is transposed anew for each of them, or comes
  transposed.
- rmsnorm_matmul: x is loaded twice, for the squares and for the product, normalised, transposed; rhs is loaded for each
  1024 rows.
- add_rmsnorm_matmul, matmul_add_rmsnorm: 128 rows at a time; rhs is loaded, and lhs transposed, for every product.

The old compiler dropped or repeated loads and spilled; published byte counts stand for what it moved. Structure:
github.com/zhang677/AccelOpt 47e29a7c NKIBench/kernels/.
"""

from __future__ import annotations

import nki_lab.language as nl
from benchmarks.replay import Program, Replay
from benchmarks.replays.nkibench import both, filled, float32
from benchmarks.replays.old_dialect import copied, scaled
from benchmarks.replays.tiles import load, output, store, sums, tile
from nki_lab.api import isa as nisa


def unit_matrix():
    """Load the identity matrix that transposes are made with."""
    return load(nl.shared_identity_matrix(128, dtype=nl.float32))


def transposed(dst, held, unit):
    """Transpose [128, n] into [n, 128]."""
    turned = sums(held.shape[1], 128)
    nisa.nc_matmul(
        dst=turned, stationary=held, moving=unit, is_moving_onezero=True, is_transpose=True
    )
    copied(dst, turned)


def transposed_blocks(held, unit, depth=128):
    """Return the transposes of the columns of [128, n], `depth` at a time, side by side."""
    count = held.shape[1] // depth
    turned = tile(depth, 128 * count)
    for t in range(count):
        part = turned[:, 128 * t : 128 * t + 128]
        transposed(part, held[:, depth * t : depth * t + depth], unit)
    return turned


def columns_of(held, t, width=128):
    """Return the columns of block t."""
    return held[:, width * t : width * t + width]


def product(weights, moving):
    """Return the sum of products of pairs of tiles, in PSUM."""
    acc = sums(weights[0].shape[1], moving[0].shape[1])
    for a, b in zip(weights, moving, strict=True):
        nisa.nc_matmul(dst=acc, stationary=a, moving=b)
    return acc


def bmm(lhs, rhs):
    """Multiply 16 pairs of matrices."""
    batches, rows, depth = lhs.shape
    out = output((batches, rows, rhs.shape[2]))
    unit = unit_matrix()
    for b in range(batches):
        for left in range(0, rhs.shape[2], 1024):
            moving = load(rhs[b, :, left : left + 1024])
            for top in range(0, rows, 1024):
                weights = tile(depth, 1024)
                for t in range(8):
                    held = load(lhs[b, top + 128 * t : top + 128 * t + 128, :])
                    transposed(columns_of(weights, t), held, unit)
                for t in range(8):
                    result = tile(128, 1024)
                    for h in range(2):
                        acc = product([columns_of(weights, t)], [columns_of(moving, h, 512)])
                        copied(columns_of(result, h, 512), acc)
                    place = slice(top + 128 * t, top + 128 * t + 128)
                    store(out[b, place, left : left + 1024], result)
    return out


def matmul(lhs, rhs):
    """Multiply lhs [m, k] by rhs [k, n]."""
    out = output((lhs.shape[0], rhs.shape[1]))
    unit = unit_matrix()
    for left in range(0, rhs.shape[1], 1024):
        columns = slice(left, left + 1024)
        moving = [load(rhs[k : k + 128, columns]) for k in range(0, rhs.shape[0], 128)]
        for top in range(0, lhs.shape[0], 128):
            rows = slice(top, top + 128)
            weights = []
            for k in range(0, lhs.shape[1], 1024):
                turned = transposed_blocks(load(lhs[rows, k : k + 1024]), unit)
                weights += [columns_of(turned, t) for t in range(8)]
            halves(out[rows, columns], weights, moving)
    return out


def halves(place, weights, moving):
    """Compute 128 x up to 1024 results in products of 512 columns, and store them."""
    result = tile(128, place.shape[1])
    for first in range(0, place.shape[1], 512):
        half = slice(first, min(first + 512, place.shape[1]))
        copied(result[:, half], product(weights, [m[:, half] for m in moving]))
    store(place, result)


def transpose_matmul(lhs, rhs):
    """Multiply lhs.T by rhs, both [128, 16, n] with the contraction first."""
    out = output((lhs.shape[2], rhs.shape[2]))
    depth = lhs.shape[1]
    for top in range(0, lhs.shape[2], 1024):
        held = [load(lhs[:, k, top : top + 1024]) for k in range(depth)]
        for left in range(0, rhs.shape[2], 1024):
            columns = slice(left, min(left + 1024, rhs.shape[2]))
            moving = [load(rhs[:, k, columns]) for k in range(depth)]
            for t in range(8):
                rows = slice(top + 128 * t, top + 128 * t + 128)
                halves(out[rows, columns], [columns_of(h, t) for h in held], moving)
    return out


def rmsnorm_matmul(x, w):
    """Normalise the rows of x [4096, 1024] and multiply by w [1024, 2048]."""
    out = output((x.shape[0], w.shape[1]))
    zero, unit = filled(0.0), unit_matrix()
    for top in range(0, x.shape[0], 1024):
        turned = []
        for t in range(8):
            rows = slice(top + 128 * t, top + 128 * t + 128)
            held, total, norm = load(x[rows]), filled(0.0), tile(128, 1)
            for h in range(2):
                squares, means, part = tile(128, 512), tile(128, 512), tile(128, 1)
                nisa.activation(dst=squares, op=nl.square, data=columns_of(held, h, 512), bias=zero)
                scaled(means, squares, 1 / 1024)
                nisa.tensor_reduce(dst=part, op=nl.add, data=means, axis=1)
                nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
            nisa.activation(dst=norm, op=nl.rsqrt, data=total, bias=zero)
            again, normal = load(x[rows]), tile(128, 1024)
            for h in range(2):
                scaled(columns_of(normal, h, 512), columns_of(again, h, 512), norm)
            turned.append(transposed_blocks(normal, unit))
        for left in range(0, w.shape[1], 1024):
            columns = slice(left, left + 1024)
            moving = [load(w[k : k + 128, columns]) for k in range(0, w.shape[0], 128)]
            for t in range(8):
                rows = slice(top + 128 * t, top + 128 * t + 128)
                halves(out[rows, columns], [columns_of(turned[t], k) for k in range(8)], moving)
    return out


def _repeated(row):
    """Repeat a row [1, n] in HBM on all partitions, by products with ones."""
    held, ones = load(row), tile(1, 128)
    nisa.memset(dst=ones, value=1.0)
    made = tile(128, row.shape[1])
    for first in range(0, row.shape[1], 512):
        part = slice(first, first + 512)
        copied(made[:, part], product([ones], [held[:, part]]))
    return made


def _normalised(held, weight, small):
    """Divide rows by their root mean square and multiply by a weight per column."""
    squares, total, norm = tile(*held.shape), tile(128, 1), tile(128, 1)
    nisa.activation(dst=squares, op=nl.square, data=held)
    nisa.tensor_reduce(dst=total, op=nl.add, data=squares, axis=1)
    nisa.activation(dst=norm, op=nl.rsqrt, data=total, scale=1 / held.shape[1], bias=small)
    normal = tile(*held.shape)
    scaled(normal, held, norm)
    return both(normal, weight, nl.multiply)


def _against_loaded(held, w, n, unit):
    """Multiply 128 rows by 512 columns of w; each product loads its tile of w and transposes its tile of rows."""
    acc = sums(128, 512)
    for k in range(w.shape[0] // 128):
        weights = tile(128, 128)
        transposed(weights, columns_of(held, k), unit)
        moving = load(w[128 * k : 128 * k + 128, 512 * n : 512 * n + 512])
        nisa.nc_matmul(dst=acc, stationary=weights, moving=moving)
    return acc


def add_rmsnorm_matmul(x, w, z, g):
    """Add x and z [4096, 1024], normalise, and multiply by w [1024, 2048]."""
    out = output((x.shape[0], w.shape[1]))
    unit, small, weight = unit_matrix(), filled(1e-6), _repeated(g)
    for top in range(0, x.shape[0], 128):
        rows = slice(top, top + 128)
        added = both(load(x[rows]), load(z[rows]), nl.add)
        normal = _normalised(added, weight, small)
        for n in range(w.shape[1] // 512):
            result = tile(128, 512)
            copied(result, _against_loaded(normal, w, n, unit))
            store(out[rows, 512 * n : 512 * n + 512], result)
    return out


def matmul_add_rmsnorm(x, w, z, g):
    """Multiply x [4096, 2048] by w [2048, 2048], add z, and normalise."""
    out = output((x.shape[0], w.shape[1]))
    unit, small, weight = unit_matrix(), filled(1e-6), _repeated(g)
    for top in range(0, x.shape[0], 128):
        rows = slice(top, top + 128)
        held, result = load(x[rows]), tile(128, w.shape[1])
        for n in range(w.shape[1] // 512):
            copied(columns_of(result, n, 512), _against_loaded(held, w, n, unit))
        added = both(result, load(z[rows]), nl.add)
        store(out[rows], _normalised(added, weight, small))
    return out


def _replay(name, shapes, function, *tensors, published_bytes=True):
    return Replay(
        f"NKIBench {name}",
        shapes,
        lambda: Program(function, float32(*tensors)),
        published_bytes=published_bytes,
    )


REPLAYS = (
    _replay("bmm", ".*B=16, .*", bmm, (16, 4096, 64), (16, 64, 4096), published_bytes=False),
    _replay("matmul", ".*N=12288.*", matmul, (4096, 5120), (5120, 12288)),
    _replay(
        "transpose_matmul",
        ".*N=10944.*",
        transpose_matmul,
        (128, 16, 4096),
        (128, 16, 10944),
        published_bytes=False,
    ),
    _replay("rmsnorm_matmul", ".*M=4096.*", rmsnorm_matmul, (4096, 1024), (1024, 2048)),
    _replay(
        "add_rmsnorm_matmul", ".*M=4096.*", add_rmsnorm_matmul,
        (4096, 1024), (1024, 2048), (4096, 1024), (1, 1024),
    ),
    _replay(
        "matmul_add_rmsnorm", ".*M=4096.*", matmul_add_rmsnorm,
        (4096, 2048), (2048, 2048), (4096, 2048), (1, 2048),
    ),
)  # fmt: skip
