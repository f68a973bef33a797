"""Tests that an element of a product depends on its two vectors only: not on sizes, places, memory, or the CPU."""

import hashlib
import os
import signal
import subprocess
import sys
from math import fsum

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from nki_lab.api.install import aliases
from nki_lab.isa import products
from nki_lab.isa.products import product
from tests.isa.microscaling import E4M3FN

with aliases():
    import nki
    import nki.isa as nisa
    import nki.language as nl

NARROW = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
}
DTYPES = {**NARROW, "float32": np.float32}
EDGES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 23, 24, 31, 33, 64, 100, 119, 127, 128)
WIDE_EDGES = (*EDGES, 129, 247, 248, 255, 256, 257, 263, 264, 300, 319, 320, 321, 504, 511, 512)


def operands(rng, depth, rows, columns, dtype="float32"):
    """Return signed matrices of values of `dtype`, of many magnitudes, as float32."""
    shapes = ((depth, rows), (depth, columns))
    values = (rng.standard_normal(s) * np.exp2(rng.integers(-4, 4, s)) for s in shapes)
    return [v.astype(DTYPES[dtype]).astype(np.float32) for v in values]


def multiplied(left, right):
    result = np.full((left.shape[1], right.shape[1]), np.float32(7))
    product(left, right, result)
    return result


def in_order(left, right):
    """Sum up float32 products that are exact, one after the other."""
    total = np.zeros((left.shape[1], right.shape[1]), np.float32)
    for a, b in zip(left, right, strict=True):
        total = total + np.outer(a, b)
    return total


# -- what is computed ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("depth", [1, 2, 7, 8, 9, 64, 127, 128])
def test_exact_products_are_summed_in_order(rng, depth, dtype):
    left, right = operands(rng, depth, 128, 512, dtype)
    np.testing.assert_array_equal(multiplied(left, right), in_order(left, right))


@pytest.mark.parametrize("depth", [129, 256, 512])
def test_long_sums_are_those_of_128_rows_added_up(rng, depth):
    left, right = operands(rng, depth, 100, 70, "bfloat16")
    total = in_order(left[:128], right[:128])
    for first in range(128, depth, 128):
        total = total + in_order(left[first : first + 128], right[first : first + 128])
    np.testing.assert_array_equal(multiplied(left, right), total)


def test_sums_of_float32_are_as_exact_as_float32_sums_are(rng):
    left, right = operands(rng, 128, 17, 29)
    got = multiplied(left, right)
    for m in range(17):
        for n in range(29):
            terms = left[:, m].astype(float) * right[:, n]  # exact
            assert abs(got[m, n] - fsum(terms)) <= 128 * 2.0**-24 * fsum(np.abs(terms))


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 3e38, 1e-45, -0.0])
def test_special_values_stay_in_their_row_and_column(rng, special):
    left, right = operands(rng, 128, 128, 512, "bfloat16")
    plain = multiplied(left, right)
    left[5, 3], right[77, 400], right[78, 0] = special, special, special
    got, expected = multiplied(left, right), in_order(left, right)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    touched = np.zeros(got.shape, bool)
    touched[3], touched[:, 400], touched[:, 0] = True, True, True
    np.testing.assert_array_equal(got[~touched], plain[~touched])


def test_numbers_that_float32_does_not_hold_are_summed_in_float64(rng):
    left, right = (x.astype(float) * 2.0**100 for x in operands(rng, 300, 5, 6))
    right *= 2.0**-190
    got = multiplied(left, right)
    exact = [[fsum(left[:, m] * right[:, n]) for n in range(6)] for m in range(5)]
    np.testing.assert_allclose(got, exact, rtol=2.0**-23)


# -- what it does not depend on --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows", EDGES)
def test_an_element_does_not_depend_on_how_many_there_are(rng, rows, dtype):
    left, right = operands(rng, 128, 128, 512, dtype)
    whole = multiplied(left, right)
    for columns in WIDE_EDGES:
        first = left[:, -rows:].copy(), right[:, :columns].copy()
        np.testing.assert_array_equal(multiplied(*first), whole[-rows:, :columns], str(columns))


def test_an_element_does_not_depend_on_where_it_stands(rng):
    left, right = operands(rng, 128, 1, 1)
    lefts, rights = np.tile(left, (1, 128)), np.tile(right, (1, 512))
    assert len(set(multiplied(lefts, rights).ravel().tolist())) == 1
    lefts, rights = operands(rng, 128, 128, 512)
    whole = multiplied(lefts, rights)
    for _ in range(20):
        rows, columns = rng.permutation(128), rng.permutation(512)
        moved = multiplied(lefts[:, rows], rights[:, columns])
        np.testing.assert_array_equal(moved, whole[np.ix_(rows, columns)])


@pytest.mark.parametrize("rows", [1, 5, 64, 128])
@pytest.mark.parametrize("columns", [1, 7, 128, 512])
def test_an_element_does_not_depend_on_how_operands_lie_in_memory(rng, rows, columns):
    left, right = operands(rng, 96, rows, columns)
    expected = multiplied(left, right)

    def laid(matrix):
        k, n = matrix.shape
        yield np.asfortranarray(matrix)
        for step, turn in ((2, 1), (3, -1), (1, -1)):
            gaps = np.full((2 * k, step * n), np.nan, np.float32)
            view = gaps[::2][:, ::step][:, ::turn]
            view[...] = matrix
            yield view
        bytes_ = np.zeros(matrix.nbytes + 1, np.uint8)
        odd = bytes_[1:].view(np.float32).reshape(k, n)
        odd[...] = matrix
        yield odd

    for a in laid(left):
        for b in laid(right):
            np.testing.assert_array_equal(multiplied(a, b), expected)
    results = np.zeros((rows, 3, 2 * columns), np.float32)
    for result in (
        results[:, 1, ::2],
        results[:, 1, ::-1][:, :columns],
        results[::-1, 2, :columns],
    ):
        product(left, right, result)
        np.testing.assert_array_equal(result, expected)


def test_a_sum_that_underflows_is_plus_zero_everywhere():
    for depth in (1, 2, 128):
        for rows, columns in ((1, 1), (1, 512), (128, 1), (16, 16), (128, 512), (33, 300)):
            shapes = ((depth, rows), (depth, columns))
            left, right = (
                np.full(s, v, np.float32) for s, v in zip(shapes, (-1e-30, 1e-30), strict=True)
            )
            assert not np.signbit(multiplied(left, right)).any()


def test_a_matrix_times_itself_is_a_product_like_any_other(rng):
    tile, _ = operands(rng, 128, 128, 1)
    for part in (tile, tile[:, :64], tile[:, 5:6], tile[:77]):
        np.testing.assert_array_equal(multiplied(part, part), multiplied(part, part.copy()))
    np.testing.assert_array_equal(
        multiplied(tile[:, :64], tile[:, 64:]), multiplied(tile, tile)[:64, 64:]
    )


# -- whatever BLAS does ----------------------------------------------------------------------------


def digests():
    """Return a digest of products of exact terms, and one of products of any float32."""
    rng = np.random.default_rng(3)
    found = []
    for dtype in ("bfloat16", "float32"):
        digest = hashlib.sha256()
        for depth, rows, columns in (
            (128, 128, 512),
            (128, 1, 512),
            (128, 128, 1),
            (300, 77, 33),
            (9, 2, 260),
        ):
            digest.update(multiplied(*operands(rng, depth, rows, columns, dtype)).tobytes())
        found.append(digest.hexdigest())
    return found


def of_cpu(core):
    """Return the digests where OpenBLAS takes this machine for another; none where it lacks its instructions."""
    code = "from tests.isa.test_products import digests; print(*digests())"
    environment = {**os.environ, "OPENBLAS_CORETYPE": core}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    if run.returncode == -signal.SIGILL:
        return []
    assert run.returncode == 0, run.stderr
    return run.stdout.split()[-2:]


def test_bits_do_not_depend_on_the_cpu():
    exact, any_float32 = digests()
    cores = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX")
    others = {c: found for c in cores if (found := of_cpu(c))}
    assert "Prescott" in others  # every CPU of 64 bits runs its loops
    assert {c: d[0] for c, d in others.items()} == dict.fromkeys(others, exact)
    # OpenBLAS chooses no loop with a fused multiply-add where the CPU has none.
    assert len({d[1] for c, d in others.items() if c in ("Haswell", "Zen", "SkylakeX")}) <= 1
    assert any_float32 in {d[1] for d in others.values()}


@pytest.mark.parametrize("depth", sorted({shape[0] for shape in products._TRIED}))
def test_the_first_vectors_that_are_tried_tell_other_orders_by_themselves(depth):
    a, b, expected = next(products._vectors(depth))

    def summed(terms):
        total = np.float32(0)
        for term in terms:
            total += term
        return total

    terms = a * b
    assert summed(terms) == expected
    even, odd = summed(terms[::2]), summed(terms[1::2])  # the two sums of OpenBLAS for AVX2
    for other in (summed(terms[::-1]), even + odd, np.float32(fsum(terms))):
        assert other != expected


def test_a_blas_that_never_sums_in_order_is_not_used(rng, monkeypatch):
    left, right = operands(rng, 140, 33, 65, "bfloat16")
    expected = multiplied(left, right)

    def backwards(a, b, out):
        return np.einsum(
            "mk,kn->mn",
            a[:, ::-1].astype(float),
            b[::-1].astype(float),
            out=out,
            casting="same_kind",
        )

    products._sizes.cache_clear()
    try:
        with monkeypatch.context() as patch:
            patch.setattr(np, "matmul", backwards)
            assert products._sizes() is None
            np.testing.assert_array_equal(multiplied(left, right), expected)
    finally:
        products._sizes.cache_clear()


# -- in kernels ------------------------------------------------------------------------------------


def tile_of(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    return tile


def stored(psum):
    tile = nl.ndarray(psum.shape, dtype=psum.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=psum)
    out = nl.ndarray(psum.shape, dtype=psum.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def whole(a, b):
    psum = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=psum, stationary=tile_of(a), moving=tile_of(b))
    return stored(psum)


def by_parts(a, b):
    """Multiply single rows and columns, every second column, and the rest, in views of larger tiles."""
    psum = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    left, right = tile_of(a), tile_of(b)
    nisa.nc_matmul(dst=psum[0:32, 0:1], stationary=left[:, 0:32], moving=right[:, 0:1])
    nisa.nc_matmul(dst=psum[0:32, 1::2], stationary=left[:, 0:32], moving=right[:, 1::2])
    nisa.nc_matmul(dst=psum[0:32, 2::2], stationary=left[:, 0:32], moving=right[:, 2::2])
    nisa.nc_matmul(dst=psum[32:33, :], stationary=left[:, 32:33], moving=right)
    nisa.nc_matmul(dst=psum[64:99, :], stationary=left[:, 64:99], moving=right)
    return stored(psum)


@pytest.mark.parametrize("dtype", DTYPES)
def test_parts_of_a_tile_are_those_of_the_whole(rng, dtype):
    a, b = (x.astype(DTYPES[dtype]) for x in operands(rng, 128, 99, 201, dtype))
    with nki_lab.use_target("trn2"):
        full, parts = nki.simulate(whole)(a, b), nki.simulate(by_parts)(a, b)
    rows = [*range(33), *range(64, 99)]
    np.testing.assert_array_equal(parts[rows], full[rows])
    if dtype != "float32":
        expected = in_order(a.astype(np.float32), b.astype(np.float32))
        np.testing.assert_array_equal(full, expected)


def test_two_rows_at_once_sum_as_a_longer_axis_does(rng):
    a, b = operands(rng, 256, 64, 96, "float8_e4m3")
    expected = in_order(a[:128], b[:128]) + in_order(a[128:], b[128:])
    pairs = [x.reshape(128, 2, -1).astype(ml_dtypes.float8_e4m3) for x in (a, b)]

    def double(x, y):
        psum = nl.ndarray((64, 96), dtype=nl.float32, buffer=nl.psum)
        mode = nisa.matmul_perf_mode.double_row
        nisa.nc_matmul(dst=psum, stationary=tile_of(x), moving=tile_of(y), perf_mode=mode)
        return stored(psum)

    with nki_lab.use_target("trn2"):
        np.testing.assert_array_equal(nki.simulate(double)(*pairs), expected)


def scaled(a, b, a_scale, b_scale):
    """Multiply packed tiles whole, then a column and the others."""
    left, right = (tile_of(x).view(nl.float8_e4m3fn_x4) for x in (a, b))
    left_scale, right_scale = tile_of(a_scale), tile_of(b_scale)
    results = []
    for parts in ([slice(0, 70)], [slice(0, 1), slice(1, 70)]):
        psum = nl.ndarray((40, 70), dtype=nl.float32, buffer=nl.psum)
        for part in parts:
            nisa.nc_matmul_mx(psum[:, part], left, right[:, part], left_scale, right_scale[:, part])
        results.append(stored(psum))
    return tuple(results)


def test_block_scaled_tiles_are_summed_in_order(rng):
    a, b = (rng.integers(0, 256, (128, n, 4)).astype(np.uint8) for n in (40, 70))
    for x in (a, b):
        x[(x & 0x7F) == 0x7F] = 0x3A  # no NaN
    scales = [rng.integers(124, 131, (128, n)).astype(np.uint8) for n in (40, 70)]
    with nki_lab.use_target("trn3"):
        words = [x.view(np.uint32)[..., 0] for x in (a, b)]
        full, parts = nki.simulate(scaled)(*words, *scales)
    np.testing.assert_array_equal(parts, full)

    def values(codes, scale):
        groups = np.arange(
            16
        )  # 8 partitions each; those of 32 partitions stand in the first 4 of them
        factors = np.exp2(scale[groups // 4 * 32 + groups % 4].astype(np.float32) - 127)
        lanes = E4M3FN[codes].astype(np.float32).transpose(0, 2, 1)
        return (lanes * factors.repeat(8, axis=0)[:, None]).reshape(512, -1)

    left, right = values(a, scales[0]), values(b, scales[1])
    total = in_order(left[:128], right[:128])
    for first in (128, 256, 384):
        total = total + in_order(left[first : first + 128], right[first : first + 128])
    np.testing.assert_array_equal(full, total)
