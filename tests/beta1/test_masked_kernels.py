"""Kernels with masks, masked operands and tiles of indices, against NumPy: what is masked off stays as it was."""

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.errors.beta1 import BadIndexing, BadMask, IndirectIndex, OutsideTensor, TileTruth


@pytest.fixture
def x(rng):
    return rng.integers(-9, 9, (128, 64)).astype(np.float32)


def emitted(result, name):
    return [i for i in result.compiled.kernel.instructions if i.definition.name == name]


@nki.jit
def tails(x):
    """(layout-dynamic-loop.py: the last tile is smaller)"""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_f = nl.arange(x.shape[1])[None, :]
    for p in nl.affine_range(-(-x.shape[0] // 128)):
        i_p = p * 128 + nl.arange(128)[:, None]
        t = nl.load(x[i_p, i_f], mask=i_p < x.shape[0])
        t = nl.multiply(t, 3.0, mask=i_p < x.shape[0])
        nl.store(out[i_p, i_f], value=t, mask=i_p < x.shape[0])
    return out


def test_masked_tails_move_and_compute_what_is_there(rng):
    x = rng.integers(-9, 9, (300, 24)).astype(np.float32)
    result = nki_lab.run(tails, x)
    np.testing.assert_array_equal(result.value, 3 * x)
    assert [i.dst.shape[0] for i in emitted(result, "dma_copy") if i.dst.storage.on_chip] == [
        128,
        128,
        44,
    ]
    assert [i.dst.shape[0] for i in emitted(result, "tensor_scalar")] == [128, 128, 44]
    assert not result.findings


def test_a_masked_result_leaves_the_rest_of_a_tile(x):
    @nki.jit
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.mgrid[0:128, 0:64]
        t = nl.load(x[i_p, i_f])
        t[i_p, i_f] = nl.multiply(t[i_p, i_f], 10.0, mask=(i_p < 32 and i_f >= 8))
        t[i_p, i_f] = nl.add(t[i_p, i_f], 1.0, mask=False)
        nl.store(out, t)
        return out

    expected = x.copy()
    expected[:32, 8:] *= 10
    np.testing.assert_array_equal(nki_lab.run(kernel, x).value, expected)


def test_a_triangle_is_loaded_row_by_row(x):
    @nki.jit
    def kernel(x):
        out = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(64)[:, None], nl.arange(64)[None, :]
        t = nl.zeros((64, 64), dtype=x.dtype)
        t[i_p, i_f] = nl.load(x[i_p + 3, i_f], mask=i_f <= i_p)
        nl.store(out, t)
        return out

    np.testing.assert_array_equal(nki_lab.run(kernel, x).value, np.tril(x[3:67]))


def product_of(mask_of_call, rows=20, columns=40, depth=128, transpose_x=True):
    @nki.jit
    def kernel(x, y):
        out = nl.ndarray((32, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        i_k, i_m, i_n = nl.arange(128)[:, None], nl.arange(32)[None, :], nl.arange(64)[None, :]
        o_m, o_n = nl.mgrid[0:32, 0:64]
        lhs, rhs = nl.load(x), nl.load(y)
        t = nl.zeros((32, 64), dtype=nl.float32, buffer=nl.psum)
        for _ in nl.affine_range(2):
            if mask_of_call:
                t[...] += nl.matmul(lhs, rhs, transpose_x=True, mask=(o_m < rows) & (o_n < columns))
            elif transpose_x:
                t[...] += nl.matmul(
                    lhs[(i_m < rows) & (i_k < depth)], rhs[i_n < columns], transpose_x=True
                )
            else:
                left = lhs[nl.arange(32)[:, None] < rows]
                t[...] += nl.matmul(left, rhs[i_n < columns])
        nl.store(out, t)
        return out

    return kernel


@pytest.mark.parametrize("mask_of_call", [True, False])
def test_masked_products_cut_their_operands(rng, mask_of_call):
    """(NKI API Masking: `nl.matmul(lhs_T[i_lhs_f <= 64], rhs[i_rhs_f <= 256], transpose_x=True)`)"""
    x = rng.integers(-9, 9, (128, 32)).astype(np.float32)
    y = rng.integers(-9, 9, (128, 64)).astype(np.float32)
    result = nki_lab.run(product_of(mask_of_call), x, y)
    expected = np.zeros((32, 64), np.float32)
    expected[:20, :40] = 2 * (x.T @ y)[:20, :40]
    np.testing.assert_array_equal(result.value, expected)
    products = emitted(result, "nc_matmul")
    assert [(i.stationary.shape, i.moving.shape) for i in products] == [((128, 20), (128, 40))] * 2


def test_the_mask_of_an_operand_may_cut_what_is_summed_over(rng):
    x = rng.integers(-9, 9, (128, 32)).astype(np.float32)
    y = rng.integers(-9, 9, (128, 64)).astype(np.float32)
    value = nki_lab.run(product_of(False, depth=96), x, y).value
    np.testing.assert_array_equal(value[:20, :40], 2 * (x[:96].T @ y[:96])[:20, :40])


def test_the_mask_of_an_operand_that_is_transposed(rng):
    x = rng.integers(-9, 9, (32, 128)).astype(np.float32)
    y = rng.integers(-9, 9, (128, 64)).astype(np.float32)
    value = nki_lab.run(product_of(False, transpose_x=False), x, y).value
    expected = np.zeros((32, 64), np.float32)
    expected[:20, :40] = 2 * (x @ y)[:20, :40]
    np.testing.assert_array_equal(value, expected)


def test_only_products_take_masked_operands(x):
    @nki.jit
    def kernel(x):
        t = nl.load(x)
        return nl.exp(t[nl.arange(64)[None, :] < 5])

    with pytest.raises(BadMask, match="only the operands of products take one"):
        nki_lab.run(kernel, x)


def gathered(mask_rows):
    @nki.jit
    def kernel(x, indices):
        out = nl.ndarray((100, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(100)[:, None], nl.arange(64)[None, :]
        rows = nl.load(indices[i_p])
        t = nl.load(x[rows[i_p, 0], i_f], mask=i_p < mask_rows)
        nl.store(out[i_p, i_f], t, mask=i_p < mask_rows)
        return out

    return kernel


def test_a_gather_under_a_mask_reads_no_index_that_is_masked_off(rng, x):
    """(resize_nearest: 610 indices of 600 rows)"""
    indices = rng.permutation(128)[:100].astype(np.int32)
    indices[70:] = 10**6
    expected = np.zeros((100, 64), np.float32)
    expected[:70] = x[indices[:70]]
    np.testing.assert_array_equal(nki_lab.run(gathered(70), x, indices).value[:70], expected[:70])
    with pytest.raises(IndexError):
        nki_lab.run(gathered(71), x, indices)


def scattered(op=np.add, masked=128, value=None):
    @nki.jit
    def kernel(x, y, indices):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
        rows = nl.load(indices)
        added = nl.load(y) if value is None else value
        nl.atomic_rmw(out[rows, i_f], value=added, op=op, mask=i_p < masked)
        return out

    return kernel


@pytest.mark.parametrize("masked", [128, 50])
def test_atomic_rmw_adds_to_rows(rng, x, masked):
    """(test_nki_nl_atomic_rmw.py)"""
    y = rng.integers(-9, 9, x.shape).astype(np.float32)
    indices = rng.permutation(128).astype(np.int32)[:, None]
    expected = x.copy()
    np.add.at(expected, indices[:masked, 0], y[:masked])
    np.testing.assert_array_equal(
        nki_lab.run(scattered(masked=masked), x, y, indices).value, expected
    )
    expected = x.copy()
    expected[indices[:masked, 0]] += 4
    value = nki_lab.run(scattered(masked=masked, value=4), x, y, indices).value
    np.testing.assert_array_equal(value, expected)


def test_atomic_rmw_takes_add_and_rows_only(x):
    indices = np.arange(128, dtype=np.int32)[:, None]
    with pytest.raises(TypeError, match=r"`op` can only be np.add"):
        nki_lab.run(scattered(op=np.multiply), x, x, indices)

    @nki.jit
    def kernel(x):
        nl.atomic_rmw(x, value=1.0, op=np.add)
        return x

    with pytest.raises(IndirectIndex, match="must be rows of a tensor in HBM"):
        nki_lab.run(kernel, x)


def test_an_access_is_checked_after_its_mask_at_the_line_of_the_author(x):
    @nki.jit
    def kernel(x, limit):
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
        nl.store(
            out[i_p, i_f], nl.load(x[i_p, i_f + 1], mask=i_f + 1 < limit), mask=i_f + 1 < limit
        )
        return out

    assert nki_lab.run(kernel, x, 64).value.shape == (128, 64)
    with pytest.raises(
        OutsideTensor, match=r"index range \[1, 64\] exceed dimension size of 64"
    ) as raised:
        nki_lab.run(kernel, x, 65)
    assert "nl.load(x[i_p, i_f + 1]" in raised.value.span.text


def test_elements_are_chosen_by_a_comparison_of_tiles(x):
    @nki.jit
    def kernel(x):
        t = nl.load(x)
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.where(t > 2, t * 2, t))
        return out

    np.testing.assert_array_equal(nki_lab.run(kernel, x).value, np.where(x > 2, x * 2, x))


@pytest.mark.parametrize(
    ("body", "kind", "message", "code"),
    [
        (lambda t: 1 if t > 0 else 2, TileTruth, "which has many values", "err_ambiguous_tensor_truth_value"),
        (lambda t: not t, TileTruth, "which has many values", "err_ambiguous_tensor_truth_value"),
        (lambda t: 1 if t[0, 0] else 2, TileTruth, "only known at run time", "err_dynamic_control_flow_not_supported"),
        (lambda t: list(t), BadIndexing, "cannot be the range of a loop", ""),
        (lambda t: nl.exp(nl.zeros((4, nl.par_dim(8), 8), nl.float32)), BadIndexing, "the first axis of a tile is",
         "err_failed_to_infer_tile_from_local_tensor"),
        (lambda t: nl.copy(t, mask=t > 2), BadMask, "whose values are only known at run time",
         "err_unsupported_expression_in_mask"),
        (lambda t: nl.exp(t, mask=nl.arange(64)[None, :, None] < 3), BadMask, "a grid with 3 axes", ""),
        (lambda t: nl.exp(t[nl.arange(64)[:, None] + nl.arange(4)[None, :], 0]), BadIndexing, "other than its", ""),
    ],
)  # fmt: skip
def test_what_a_kernel_may_not_ask_of_tiles(x, body, kind, message, code):
    @nki.jit
    def kernel(x):
        body(nl.load(x))
        return x

    with pytest.raises(kind) as raised:
        nki_lab.run(kernel, x)
    assert message in raised.value.message
    assert code in " ".join(raised.value.notes)


def test_a_part_of_gathered_rows_is_the_rows_of_a_part_of_the_indices(rng, x):
    @nki.jit
    def kernel(x, indices):
        out = nl.ndarray((40, 64), dtype=x.dtype, buffer=nl.shared_hbm)
        i_p, i_f = nl.arange(100)[:, None], nl.arange(64)[None, :]
        rows = nl.load(indices[i_p])
        nl.store(out, nl.load(x[rows, i_f][30:70, 0:64]))
        return out

    indices = rng.permutation(128)[:100].astype(np.int32)
    np.testing.assert_array_equal(nki_lab.run(kernel, x, indices).value, x[indices[30:70]])


@pytest.mark.parametrize(
    "part",
    [lambda t: nl.load(t[0:32, 0:64]), lambda t: nl.load(t, mask=nl.mgrid[0:100, 0:64].p < 5)],
)
def test_no_part_is_taken_of_rows_in_another_shape(rng, x, part):
    @nki.jit
    def kernel(x, indices):
        i_p, i_f = nl.arange(100)[:, None], nl.arange(64)[None, :]
        part(x[nl.load(indices[i_p]), i_f].reshape((100, 64)))
        return x

    with pytest.raises(IndirectIndex, match="a part of it cannot be taken"):
        nki_lab.run(kernel, x, rng.permutation(128)[:100].astype(np.int32))
