"""Products of the Tensor engine: an element of a product depends on its two vectors and on nothing else.

The pages say that products are summed in float32 (nki/api/nki/isa/__init__.py:587), and not in which order. Here they
are summed in the order of the contracted axis, 128 at a time: each is added to the sum of those before it and rounded
once, as a fused multiply-add does. Where products are exact in float32, as those of floats of 16 bits or less that do
not leave its range are, a sum has the same bits on every CPU, else on every CPU with fused multiply-add. A sum that
is zero is +0. (The sign and the payload of NaN are left to the CPU.)

BLAS sums in this order in most of its loops. It takes other ways for a vector, for a matrix times itself, for views
with gaps, and, on some CPUs, at the edges of a matrix: there the bits of an element would tell where in a tile it
stands. So BLAS only gets matrices of chosen sizes, and the first product of a process tries which sizes will do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from nki_lab.isa.arrays import scratch

_FLOAT32 = np.dtype(np.float32)
_ZERO = np.float32(0)
# Rows that BLAS sums up in one go: it splits longer sums, each CPU elsewhere.
_DEPTH = 128
# Columns of a result that are computed in one go.
_COLUMNS = 512


class _Sizes(NamedTuple):
    """The sizes of matrices that are given to BLAS.

    Rows of the result are filled up to a multiple of `rows`. Its columns are divided evenly into sections of at most
    `section`, each filled up to a multiple of `columns`, with `margin` unused columns on both sides. `add_zero` makes
    a negative sum that underflows +0, as it is where BLAS adds sums to zeros.
    """

    rows: int
    columns: int
    margin: int
    section: int
    add_zero: bool


# OpenBLAS for AVX-512 and for CPUs without fused multiply-add sums in order everywhere but in small remainders. The one
# for AVX2 has two sums, of even and of odd terms, for the first and the last 8 columns and where fewer than 12 rows
# remain (kernel/x86_64/sgemm_kernel_8x4_haswell_2.c). It takes more than 320 columns for two matrices side by side.
_CHOICES = (
    _Sizes(rows=16, columns=16, margin=0, section=_COLUMNS, add_zero=False),
    _Sizes(rows=16, columns=16, margin=0, section=_COLUMNS, add_zero=True),
    _Sizes(rows=12, columns=8, margin=8, section=_COLUMNS // 2, add_zero=False),
)


def product(left: np.ndarray, right: np.ndarray, into: np.ndarray) -> None:
    """Write `left.T @ right` to `into`, which shares no memory with them.

    Args:
        left: [K, M]; float32, or float64 for numbers that float32 does not hold.
        right: [K, N] of the same type.
        into: [M, N].
    """
    sizes = _sizes() if left.dtype == _FLOAT32 else None
    if len(left) <= _DEPTH:
        _sum(left, right, into, sizes)
        return
    total = scratch(into.shape, left.dtype, "product total")
    part = scratch(into.shape, left.dtype, "product part")
    for first in range(0, len(left), _DEPTH):
        rows = slice(first, first + _DEPTH)
        _sum(left[rows], right[rows], part if first else total, sizes)
        if first:
            np.add(total, part, out=total)
    np.copyto(into, total, casting="same_kind")


def _sum(left: np.ndarray, right: np.ndarray, into: np.ndarray, sizes: _Sizes | None) -> None:
    if sizes is None:
        _by_rows(left, right, into)
        return
    for first in range(0, right.shape[1], _COLUMNS):
        columns = slice(first, first + _COLUMNS)
        _by_blas(left, right[:, columns], into[:, columns], sizes)


def _by_blas(left: np.ndarray, right: np.ndarray, into: np.ndarray, sizes: _Sizes) -> None:
    depth, used = left.shape
    rows = _filled(used, sizes.rows)
    width, places = _sections(right.shape[1], sizes)
    if rows != used or not _for_blas(left):
        left = _placed(left, (depth, rows), [(slice(used), slice(used))], "left factor")
    # BLAS treats a matrix times itself differently.
    itself = left.shape == right.shape and np.may_share_memory(left, right)
    if width != right.shape[1] or itself or not _for_blas(right):
        right = _placed(right, (depth, width), places, "right factor")
    if (rows, width) == into.shape and _for_blas(into):
        np.matmul(left.T, right, out=into)
        if sizes.add_zero:
            np.add(into, _ZERO, out=into)
        return
    result = scratch((rows, width), _FLOAT32, "filled product")
    np.matmul(left.T, right, out=result)
    if sizes.add_zero:
        np.add(result, _ZERO, out=result)
    for columns, place in places:
        np.copyto(into[:, columns], result[:used, place], casting="same_kind")


@cache
def _sections(count: int, sizes: _Sizes) -> tuple[int, list[tuple[slice, slice]]]:
    """Return how wide the matrix for `count` columns is, and which of them stand where."""
    sections = -(-count // sizes.section)
    each = _filled(-(-count // sections), sizes.columns)
    step = each + 2 * sizes.margin
    places = []
    for n in range(sections):
        columns = slice(n * each, min((n + 1) * each, count))
        start = n * step + sizes.margin
        places.append((columns, slice(start, start + columns.stop - columns.start)))
    return sections * step, places


def _filled(count: int, step: int) -> int:
    return -(-count // step) * step


def _for_blas(matrix: np.ndarray) -> bool:
    """Tell whether NumPy gives a matrix to BLAS as it is: rows without gaps, one after the other."""
    row, element = matrix.strides
    return matrix.dtype == _FLOAT32 and element == 4 and row % 4 == 0 and row >= 4 * matrix.shape[1]


def _placed(
    matrix: np.ndarray, shape: tuple[int, int], places: list[tuple[slice, slice]], use: str
) -> np.ndarray:
    """Return a larger matrix that holds columns of `matrix` at their places, and anything elsewhere."""
    filled = scratch(shape, _FLOAT32, use)
    for columns, place in places:
        np.copyto(filled[:, place], matrix[:, columns])
    return filled


def _by_rows(left: np.ndarray, right: np.ndarray, into: np.ndarray) -> None:
    """Add one term after the other: many times slower, and right whatever BLAS does."""
    total = scratch(into.shape, left.dtype, "row total")
    term = scratch(into.shape, left.dtype, "row term")
    total.fill(0)
    for column, row in zip(left, right, strict=True):
        np.multiply(column[:, None], row, out=term)
        np.add(total, term, out=total)
    np.copyto(into, total, casting="same_kind")


# -- which sizes -----------------------------------------------------------------------------------


@cache
def _sizes() -> _Sizes | None:
    """Return the first choice with which BLAS sums in order on this CPU; None when it never does."""
    return next((s for s in _CHOICES if all(_in_order(s, *shape) for shape in _TRIED)), None)


# Depth, rows and columns: whole tiles, vectors, and whatever leaves a remainder.
_TRIED = (
    (128, 128, 512),
    (128, 1, 1),
    (128, 5, 7),
    (128, 128, 1),
    (128, 1, 512),
    (127, 100, 300),
    (31, 64, 72),
    (16, 40, 128),
    (7, 128, 257),
)


def _in_order(sizes: _Sizes, depth: int, rows: int, columns: int) -> bool:
    """Tell whether each element of a product of two vectors, repeated along rows and columns, is their sum in order."""
    result = np.empty((rows, columns), np.float32)
    for first, second, ordered in _vectors(depth):
        left = np.repeat(first[:, None], rows, axis=1)
        right = np.repeat(second[:, None], columns, axis=1)
        _by_blas(left, right, result, sizes)
        expected = result[0, 0] if ordered is None else ordered
        if not (result.view(np.uint32) == expected.view(np.uint32)).all():
            return False
    return True


def _vectors(depth: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.float32 | None]]:
    """Yield pairs of vectors with the sum of their products in order; None where it depends on the CPU."""
    # 2**24 swallows each 1 that is added to it alone, and no two of them added up before.
    large = np.ones(depth, np.float32)
    large[0] = 2**12
    first, second = np.random.default_rng(0).standard_normal((2, depth), dtype=np.float32)
    narrow = [(v.view(np.uint32) & 0xFFFF0000).view(np.float32) for v in (first, second)]
    tiny = np.full(depth, 2.0**-80, np.float32)
    for a, b in ((large, large), narrow, (tiny, -tiny)):
        total = np.float32(0)
        for term in a * b:  # exact, or -0
            total += term
        yield a, b, total
    yield first, second, None
