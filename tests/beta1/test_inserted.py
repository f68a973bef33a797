"""Copies of operands that the old compiler inserted: which there are, and that values are those without a rule."""

import numpy as np
import pytest

from nki_lab import language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.beta1.inserted import INSERTED, mend
from nki_lab.beta1.operators import OPERATORS
from nki_lab.errors import NkiError
from nki_lab.ir.building.builder import current
from nki_lab.runtime.run import run


def mending(kernel):
    """Let a kernel of today be mended as those of the older dialect are."""

    @nki.jit
    def mended(*arrays):
        current().mend = mend
        return kernel(*arrays)

    return mended


def ran(kernel, *arrays):
    """Return the result, and the names of the instructions that copy an operand."""
    result = run(mending(kernel), *arrays)
    body = result.compiled.kernel.body
    inserted = [
        i.definition.name
        for i in body
        if any(t.storage.name.startswith(INSERTED) for t in i.written())
        and i.definition.name in ("tensor_copy", "dma_copy")
    ]
    return result, inserted


def result_like(x, tile):
    out = nl.ndarray(tile.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def in_psum(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)
    nisa.tensor_copy(dst=tile, src=x)
    return tile


@pytest.fixture
def x(rng):
    return rng.uniform(-3, 3, (64, 40)).astype(np.float32)


def both_in_psum(x):
    loaded = nl.load(x)
    a, b = in_psum(loaded), in_psum(loaded)
    t = nl.ndarray(x.shape, x.dtype)
    nisa.tensor_tensor(dst=t, data1=a, data2=b, op=nl.multiply)
    return result_like(x, t)


def dma_of_psum(x):
    a = in_psum(nl.load(x))
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=a)
    return out


def select_in_psum(x):
    a, t = in_psum(nl.load(x)), nl.ndarray(x.shape, x.dtype)
    nisa.affine_select(
        dst=t, pattern=[[-1, 40]], channel_multiplier=1, on_true_tile=a, on_false_value=-9.0,
        cmp_op=nl.greater_equal,
    )  # fmt: skip
    return result_like(x, t)


def power_of_psum_into_psum(x):
    a = in_psum(nl.load(x))
    t = nl.ndarray(x.shape, x.dtype, buffer=nl.psum)
    nisa.tensor_tensor(dst=t, data1=a, data2=a, op=OPERATORS["power"], engine=nisa.gpsimd_engine)
    s = nl.ndarray(x.shape, x.dtype)
    nisa.tensor_copy(dst=s, src=t)
    return result_like(x, s)


def narrow_column(x):
    a, t = nl.load(x), nl.ndarray(x.shape, x.dtype)
    column = nl.ndarray((64, 1), nl.bfloat16)
    nisa.tensor_copy(dst=column, src=a[0:64, 3:4])
    nisa.tensor_scalar(dst=t, data=a, op0=nl.subtract, operand0=column)
    return result_like(x, t)


def mixed_product(x):
    a, b = nl.load(x), nl.ndarray(x.shape, nl.bfloat16)
    nisa.tensor_copy(dst=b, src=a)
    product = nl.ndarray((40, 40), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=a, moving=b)
    s = nl.ndarray((40, 40), x.dtype)
    nisa.tensor_copy(dst=s, src=product)
    return result_like(x, s)


def odd_start_read(x):
    a, t = nl.load(x), nl.ndarray((9, 40), x.dtype)
    nisa.tensor_scalar(dst=t, data=a[5:14], op0=nl.multiply, operand0=2.0)
    return result_like(x, t)


def odd_start_written(x):
    t = nl.load(x)
    nisa.memset(dst=t[5:6, 3:4], value=15.0)
    nisa.tensor_scalar(dst=t[41:43], data=t[0:2], op0=nl.add, operand0=1.0)
    return result_like(x, t)


def odd_start_copied(x):
    t = nl.load(x)
    nisa.tensor_copy(dst=t[7:17], src=t[33:43])
    return result_like(x, t)


def many_axes(x):
    wide = nl.load(x)
    a = wide.reshape((64, 2, 2, 5, 2, 1))
    a = a.permute((0, 4, 2, 3, 1, 5))
    t = nl.ndarray((64, 40), x.dtype)
    nisa.activation(dst=t, op=nl.square, data=a)
    return result_like(x, t)


def axes_that_merge(x):
    t = nl.ndarray((64, 40), x.dtype)
    nisa.activation(dst=t, op=nl.square, data=nl.load(x).reshape((64, 2, 2, 5, 2, 1)))
    return result_like(x, t)


def bf16(x):
    import ml_dtypes

    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def with_rows(x, at, rows):
    y = x.copy()
    y[at] = rows
    return y


def permuted(x):
    return x.reshape(64, 2, 2, 5, 2, 1).transpose(0, 4, 2, 3, 1, 5).reshape(64, 40) ** 2


def odd_written(x):
    y = x.copy()
    y[5, 3] = 15
    y[41:43] = y[0:2] + 1
    return y


def selected(x):
    p, f = np.indices(x.shape)
    return np.where(p - f >= 0, x, np.float32(-9))


@pytest.mark.parametrize(
    ("kernel", "expected", "copies"),
    [
        (both_in_psum, lambda x: x * x, ["tensor_copy"]),
        (dma_of_psum, lambda x: x, ["tensor_copy"]),
        (select_in_psum, selected, ["tensor_copy"]),
        (narrow_column, lambda x: x - bf16(x[:, 3:4]), ["tensor_copy"]),
        (odd_start_read, lambda x: x[5:14] * 2, ["dma_copy"]),
        (odd_start_written, odd_written, []),
        (odd_start_copied, lambda x: with_rows(x, slice(7, 17), x[33:43]), []),
        (axes_that_merge, lambda x: x**2, []),
    ],
)
def test_a_copy_makes_the_operand_one_that_the_instruction_takes(x, kernel, expected, copies):
    result, inserted = ran(kernel, x)
    np.testing.assert_array_equal(result.value, expected(x))
    assert inserted == copies
    assert not result.findings


def test_more_than_four_free_axes_are_copied_slice_by_slice(x):
    result, inserted = ran(many_axes, x)
    np.testing.assert_array_equal(result.value, permuted(x))
    assert len(inserted) <= 4


def test_a_power_is_computed_in_sbuf(x):
    positive = np.abs(x) + np.float32(0.1)
    result, inserted = ran(power_of_psum_into_psum, positive)
    exact = np.power(positive.astype(np.float64), positive.astype(np.float64))
    np.testing.assert_array_equal(result.value, exact.astype(np.float32))
    assert inserted == ["tensor_copy", "tensor_copy"]


def test_a_product_of_two_widths_is_one_of_float32(x):
    result, inserted = ran(mixed_product, x)
    np.testing.assert_allclose(result.value, x.T @ bf16(x), rtol=1e-5, atol=1e-4)
    assert inserted == ["tensor_copy"]


def test_rows_are_written_by_dma_where_engines_cannot_begin(x):
    result, _ = ran(odd_start_written, x)
    body = result.compiled.kernel.body
    moved = [i for i in body if i.definition.name == "dma_copy" and i.dst.buffer is nl.sbuf]
    assert [i.dst.start_partition for i in moved[1:]] == [5, 41]
    assert all(i.src.storage.name.startswith(INSERTED) for i in moved[1:])


def test_without_the_dialect_the_rules_stay_errors(x):
    for kernel in (both_in_psum, odd_start_read, mixed_product, many_axes):
        with pytest.raises(NkiError):
            run(nki.jit(kernel), x)


def test_what_no_copy_mends_stays_an_error(x):
    def wrong(x):
        a, t = in_psum(nl.load(x)), nl.ndarray((64, 39), x.dtype)
        nisa.tensor_tensor(dst=t, data1=a, data2=a, op=nl.add)
        return result_like(x, t)

    with pytest.raises(NkiError, match="same number of elements per partition"):
        run(mending(wrong), x)
