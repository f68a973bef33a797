"""Tests what kernels of the older dialect rely on and what another reading of them would get wrong without an error."""

import logging

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.errors import NkiError


@pytest.fixture
def x(rng):
    return rng.standard_normal((128, 64)).astype(np.float32)


def test_the_quotient_of_integers_is_an_exactly_rounded_float32():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, nl.int32, buffer=nl.shared_hbm)
        nl.store(out, nl.floor(nl.load(a) / 20, dtype=nl.int32))
        return out

    a = (1280 + np.arange(128 * 3)).reshape(128, 3).astype(np.int32)
    np.testing.assert_array_equal(kernel(a), a // 20)


def test_a_masked_load_changes_only_the_rows_that_it_reads(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:128, 0:64]
        z = nl.zeros(a.shape, a.dtype)
        z[i_p, i_f] = nl.load(a[i_p + 1, i_f], mask=i_p + 1 < 128)
        z[i_p, i_f] = nl.multiply(z, 100.0, mask=False)
        nl.store(out, z)
        return out

    np.testing.assert_array_equal(kernel(x), np.concatenate([x[1:], np.zeros((1, 64))]))


def test_a_result_is_rounded_before_it_is_widened(x):
    import ml_dtypes

    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, nl.float32, buffer=nl.shared_hbm)
        wide = nl.ndarray(a.shape, nl.float32)
        wide[...] = nl.multiply(nl.load(a), 3.0, dtype=nl.bfloat16)
        nl.store(out, wide)
        return out

    expected = (x * np.float32(3)).astype(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(kernel(x), expected)


def test_numbers_widen_narrow_tiles(x):
    """A float makes float32 of float16, an integer makes int32 of int8 (NKI Type Promotion)."""

    @nki.jit
    def kernel(a, b):
        t, u = nl.load(a) + 1.2, nl.load(b) * 2
        first = nl.ndarray(a.shape, t.dtype, buffer=nl.shared_hbm)
        second = nl.ndarray(b.shape, u.dtype, buffer=nl.shared_hbm)
        nl.store(first, t)
        nl.store(second, u)
        return first, second

    half, small = x.astype(np.float16), np.full((128, 5), 100, np.int8)
    first, second = kernel(half, small)
    assert first.dtype == np.float32 and second.dtype == np.int32
    np.testing.assert_array_equal(first, half.astype(np.float32) + np.float32(1.2))
    np.testing.assert_array_equal(second, 200)


def test_augmented_assignment_changes_every_name_of_a_tile(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((3, *a.shape), a.dtype, buffer=nl.shared_hbm)
        t = nl.load(a)
        same, other = t, t
        same += t
        other = other + same
        for k, tile in enumerate((t, same, other)):
            nl.store(out[k], tile)
        return out

    np.testing.assert_array_equal(kernel(x), np.stack([2 * x, 2 * x, 4 * x]))


def test_a_mask_cuts_what_a_reduction_sums(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 1), a.dtype, buffer=nl.shared_hbm)
        i_f = nl.arange(64)[None, :]
        nl.store(out, nl.sum(nl.load(a), axis=1, mask=i_f < 10, keepdims=True))
        return out

    expected = x[:, :10].astype(np.float64).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(kernel(x), expected, rtol=1e-5, atol=1e-5)


def test_an_element_in_any_row_can_be_assigned():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        t = nl.load(a)
        for row in range(10):
            t[row, 3] = row * 5
        nl.store(out, t)
        return out

    a = np.arange(128 * 4, dtype=np.int32).reshape(128, 4)
    expected = a.copy()
    expected[:10, 3] = np.arange(10) * 5
    np.testing.assert_array_equal(kernel(a), expected)


def test_and_between_masks_is_both_of_them(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:128, 0:64]
        t = nl.zeros(a.shape, a.dtype)
        t[i_p, i_f] = nl.load(a[i_p, i_f], mask=(i_p < 64 and i_f < 32))
        nl.store(out, t)
        return out

    expected = np.zeros_like(x)
    expected[:64, :32] = x[:64, :32]
    np.testing.assert_array_equal(kernel(x), expected)


def test_a_gather_under_a_mask_reads_no_row_of_a_masked_index(rng):
    @nki.jit
    def kernel(data, rows):
        out = nl.ndarray((600, 16), data.dtype, buffer=nl.shared_hbm)
        i_f = nl.arange(16)[None, :]
        for k in nl.affine_range(5):
            i_p = k * 128 + nl.arange(128)[:, None]
            mask = i_p < 600
            index = nl.load(rows[i_p, 0], mask=mask)
            tile = nl.load(data[index[nl.arange(128)[:, None], 0], i_f], mask=mask)
            nl.store(out[i_p, i_f], tile, mask=mask)
        return out

    data = rng.standard_normal((600, 16)).astype(np.float32)
    rows = rng.permutation(600).astype(np.int32)[:, None]
    np.testing.assert_array_equal(kernel(data, rows), data[rows[:, 0]])


def test_zeros_in_psum_are_added_to_after_they_were_read(rng):
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((2, 128, 40), nl.float32, buffer=nl.shared_hbm)
        total = nl.zeros((128, 40), nl.float32, buffer=nl.psum)
        left, right = nl.load(a), nl.load(b)
        nl.store(out[0], total)
        for _ in nl.affine_range(3):
            total += nl.matmul(left, right, transpose_x=True)
        nl.store(out[1], total)
        return out

    a, b = (rng.integers(-9, 9, (128, n)).astype(np.float32) for n in (128, 40))
    np.testing.assert_array_equal(kernel(a, b), np.stack([np.zeros((128, 40)), 3 * (a.T @ b)]))


def test_a_mask_of_another_rank_than_what_it_cuts_is_refused():
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        p, q, s = nl.mgrid[0:128, 0:128, 0:1]
        nl.store(out, nl.load(a[p, q, s], mask=nl.arange(128)[:, None] < 32))
        return out

    with pytest.raises(NkiError, match="axes"):
        kernel(np.ones((128, 128, 1), np.float32))


def test_a_grid_is_an_index(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((32, 16), a.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(a[nl.mgrid[0:32, 0:64:4]]))
        return out

    np.testing.assert_array_equal(kernel(x), x[:32, ::4])


def test_what_is_computed_over_an_older_value_from_an_unset_tail_is_unset(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:128, 0:64]
        t = nl.load(a[i_p, i_f], mask=i_p < 122)
        total = nl.zeros((128, 64), a.dtype)
        total[...] = nl.add(t, 1.0)
        nl.store(out, total)
        return out

    (finding,) = [f for f in nki_lab.run(kernel, x[:122]).findings if f.is_serious]
    assert "dma_copy: 384 of 8192 elements" in finding.message


def test_a_tail_that_is_summed_over_partitions_is_a_finding(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((64, 64), a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:128, 0:64]
        t = nl.exp(nl.load(a[i_p, i_f], mask=i_p < 122))
        nl.store(out, nl.matmul(t, t, transpose_x=True))
        return out

    findings = [f for f in nki_lab.run(kernel, x[:122]).findings if f.is_serious]
    # All of the product is summed over them.
    assert any("dma_copy: all elements of" in f.message for f in findings)


def test_an_unset_column_spoils_the_sum_of_its_row_alone(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 1), a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:128, 0:64]
        t = nl.ndarray((128, 64), a.dtype)
        t[i_p, i_f] = nl.load(a[i_p, i_f], mask=(i_p < 100) & (i_f < 60))
        t[i_p, i_f] = nl.copy(nl.exp(t), mask=i_p < 100)
        nl.store(out, nl.sum(t, axis=1, keepdims=True))
        return out

    findings = [f for f in nki_lab.run(kernel, x).findings if f.is_serious]
    assert any("dma_copy: all elements" in f.message for f in findings)


@pytest.mark.parametrize("rows", [128, 100])
def test_axes_before_the_last_are_reduced_under_a_mask_too(x, rows):
    @nki.jit
    def kernel(a, rows):
        first = nl.ndarray((128, 4, 8), a.dtype, buffer=nl.shared_hbm)
        second = nl.ndarray((128, 4, 8), a.dtype, buffer=nl.shared_hbm)
        p, i, j, k = nl.mgrid[0:128, 0:4, 0:2, 0:8]
        t = nl.load(a)
        q, s, u = nl.mgrid[0:128, 0:4, 0:8]
        nl.store(first, nisa.tensor_reduce(nl.add, t[p, 16 * i + 8 * j + k], axis=[2]))
        largest = nl.max(t[p, 16 * i + 8 * j + k], axis=2, mask=p < rows)
        nl.store(second, nl.zeros((128, 4, 8), a.dtype))
        nl.store(second[q, s, u], largest, mask=q < rows)
        return first, second

    sums, largest = kernel(x, rows)
    parts = x.reshape(128, 4, 2, 8)
    np.testing.assert_allclose(sums, parts.sum(axis=2), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(largest[:rows], parts.max(axis=2)[:rows])
    np.testing.assert_array_equal(largest[rows:], 0)


def test_one_value_per_partition_goes_to_a_vector_of_hbm(rng):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        for m in nl.affine_range(3):
            t = nl.ndarray((100, 1), a.dtype, buffer=nl.sbuf)
            nisa.dma_copy(src=a[m * 100 : (m + 1) * 100], dst=t)
            nisa.dma_copy(src=nisa.tensor_scalar(t, nl.add, 1.0), dst=out[m * 100 : (m + 1) * 100])
        return out

    a = rng.integers(-9, 9, 300).astype(np.float32)
    np.testing.assert_array_equal(kernel(a), a + 1)


def test_messages_can_be_turned_off_as_with_the_old_package():
    assert logging.OFF > logging.CRITICAL


def test_an_optional_tensor_of_hbm_is_there_or_not(x):
    @nki.jit
    def kernel(a, b=None):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        t = nl.load(a)
        nl.store(out, t + nl.load(b) if b else t)
        return out

    np.testing.assert_array_equal(kernel(x), x)
    np.testing.assert_array_equal(kernel(x, x), 2 * x)


def test_masked_tails_that_reach_no_result_are_no_finding(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:128, 0:64]
        t = nl.load(a[i_p, i_f], mask=i_p < 122)
        nl.store(out[i_p, i_f], nl.exp(t), mask=i_p < 122)
        return out

    result = nki_lab.run(kernel, x[:122])
    np.testing.assert_allclose(result.value, np.exp(x[:122]), rtol=1e-5)
    assert not [f for f in result.findings if f.is_serious]


def test_a_tail_that_reaches_a_result_is_a_finding(x):
    @nki.jit
    def kernel(a):
        out = nl.ndarray((128, 64), a.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:128, 0:64]
        t = nl.load(a[i_p, i_f], mask=i_p < 122)
        nl.store(out, nl.exp(t))
        return out

    assert [f for f in nki_lab.run(kernel, x[:122]).findings if f.is_serious]
