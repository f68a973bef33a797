"""Products and transposes of the older dialect, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.api.official import BETA1_API, same_signature
from nki_lab.beta1.inserted import INSERTED
from nki_lab.errors import RuleBroken, WrongOperand
from nki_lab.runtime.run import run

K, M, N = 96, 40, 72


@pytest.fixture
def x(rng):
    return rng.uniform(-2, 2, (K, M)).astype(np.float32)


@pytest.fixture
def y(rng):
    return rng.uniform(-2, 2, (K, N)).astype(np.float32)


def of(call, *arrays):
    @nki.jit
    def kernel(*tensors):
        return call(*[nl.load(t) for t in tensors])

    return run(kernel, *arrays)


def names(result):
    return [i.definition.name for i in result.compiled.kernel.body]


def close(value, expected):
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-4)


def test_a_product_contracts_the_partitions(x, y):
    result = of(lambda a, b: nisa.nc_matmul(a, b), x, y)
    close(result.value, x.T @ y)
    assert names(result).count("nc_matmul") == 1


def test_matmul_transposes_x_unless_it_is(x, y):
    transposed = np.ascontiguousarray(x.T)
    result = of(lambda a, b: nl.matmul(a, b), transposed, y)
    close(result.value, x.T @ y)
    assert names(result).count("nc_transpose") == 1
    result = of(lambda a, b: nl.matmul(a, b, transpose_x=True), x, y)
    close(result.value, x.T @ y)
    assert "nc_transpose" not in names(result)


def test_several_free_axes_of_the_moving_tile_stay(x, y):
    value = of(lambda a, b: nisa.nc_matmul(a, b), x, y.reshape(K, 8, 9)).value
    close(value, (x.T @ y).reshape(M, 8, 9))


@pytest.mark.parametrize("wide", [0, 1])
def test_operands_of_two_widths_are_multiplied_in_float32(x, y, wide):
    arrays = [x, y]
    arrays[1 - wide] = arrays[1 - wide].astype(ml_dtypes.bfloat16)
    result = of(lambda a, b: nisa.nc_matmul(a, b), *arrays)
    close(result.value, arrays[0].astype(np.float32).T @ arrays[1].astype(np.float32))
    body = result.compiled.kernel.body
    widened = [i for i in body if i.definition.name == "tensor_copy" and i.src.dtype == "bfloat16"]
    assert [i.dst.storage.name.startswith(INSERTED) for i in widened] == [True]


def test_operands_in_psum_are_copied_first(x, y):
    def call(a, b):
        t = nl.ndarray((K, N), nl.float32, buffer=nl.psum)
        t[...] = nl.copy(b)
        return nisa.nc_matmul(a, t)

    close(of(call, x, y).value, x.T @ y)


def test_products_are_added_in_psum(x, y):
    def call(a, b):
        total = nl.zeros((M, N), nl.float32, buffer=nl.psum)
        for k in nl.affine_range(3):
            total[...] += nisa.nc_matmul(a[32 * k : 32 * k + 32, :], b[32 * k : 32 * k + 32, :])
        return total

    result = of(call, x, y)
    close(result.value, x.T @ y)
    assert not set(names(result)) & {"memset", "tensor_tensor"}


def test_a_mask_cuts_both_free_axes_of_the_result(x, y):
    def call(a, b):
        part = nl.full((M, N), 5, nl.float32)
        m, n = nl.mgrid[0:M, 0:N]
        part[...] = nisa.nc_matmul(a, b, mask=(m < 33) & (n >= 10))
        return part

    value = of(call, x, y).value
    expected = np.full((M, N), 5, np.float32)
    expected[:33, 10:] = (x.T @ y)[:33, 10:]
    close(value, expected)


def test_tiles_of_the_array_are_named_by_their_place(x, y):
    def call(a, b):
        return nisa.nc_matmul(a[0:32, 0:32], b[0:32, :], tile_position=(32, 64), tile_size=(32, 32))

    result = of(call, x, y)
    close(result.value, x[:32, :32].T @ y[:32])
    (product,) = [i for i in result.compiled.kernel.body if i.definition.name == "nc_matmul"]
    assert (product.tile_position, product.tile_size) == ((32, 64), (32, 32))


def test_two_rows_of_fp8_at_a_time(rng):
    a = rng.integers(-3, 4, (128, 2, 32)).astype(ml_dtypes.float8_e5m2)
    b = rng.integers(-3, 4, (128, 2, 64)).astype(ml_dtypes.float8_e5m2)
    value = of(lambda s, t: nisa.nc_matmul(s, t, perf_mode="double_row_gen3"), a, b).value
    expected = np.einsum("kli,klj->ij", a.astype(np.float32), b.astype(np.float32))
    np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("shape", [(K, M), (20, 12)])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_a_transpose_moves_bits(rng, shape, dtype):
    x = rng.uniform(-2, 2, shape).astype(dtype)
    value, function, narrow = of(
        lambda t: (nisa.nc_transpose(t), nl.transpose(t), nl.transpose(t, dtype=nl.bfloat16)), x
    ).value
    np.testing.assert_array_equal(value, x.T)
    np.testing.assert_array_equal(function, x.T)
    np.testing.assert_array_equal(narrow, x.T.astype(ml_dtypes.bfloat16))
    assert value.dtype == dtype and narrow.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e5m2, np.int8, np.uint8])
def test_a_transpose_of_8_bits_by_the_tensor_engine_steps_over_every_second_element(rng, dtype):
    x = rng.integers(0, 120, (40, 24)).astype(dtype)

    @nki.jit(platform_target="trn2")
    def kernel(a):
        t = nl.load(a)
        part = nl.full((24, 40), 1, t.dtype)
        i_p, i_f = nl.mgrid[0:40, 0:24]
        part[...] = nisa.nc_transpose(t[i_p, i_f], mask=(i_p < 33) & (i_f < 7))
        return nisa.nc_transpose(t), nl.transpose(t[:, 3:9], dtype=nl.float32), part

    result = run(kernel, x)
    whole, columns, part = result.value
    np.testing.assert_array_equal(whole, x.T)
    np.testing.assert_array_equal(columns, x.T[3:9].astype(np.float32))
    expected = np.ones((24, 40))
    expected[:7, :33] = x.T[:7, :33]
    np.testing.assert_array_equal(part.astype(float), expected)
    steps = [
        i.dst.strides[-1]
        for i in result.compiled.kernel.body
        if i.definition.name == "nc_transpose"
    ]
    assert steps == [2, 2, 2]


def test_the_engine_of_a_transpose_is_that_of_the_call(rng):
    x = rng.uniform(-2, 2, (32, 20)).astype(np.float32)

    def call(t):
        return (
            nisa.nc_transpose(t, engine=nisa.vector_engine),
            nisa.nc_transpose(t, engine=nisa.tensor_engine),
            nisa.nc_transpose(t),
            nisa.nc_transpose(t, engine=5),
        )

    result = of(call, x)
    for value in result.value:
        np.testing.assert_array_equal(value, x.T)
    body = result.compiled.kernel.body
    engines = [i.form.engine.name for i in body if i.definition.name == "nc_transpose"]
    assert engines == ["vector", "tensor", "vector", "vector"]


def test_a_mask_of_a_transpose_cuts_what_it_reads(x):
    def call(t):
        part = nl.full((M, K), 5, nl.float32)
        k, m = nl.mgrid[0:K, 0:M]
        part[...] = nisa.nc_transpose(t, mask=(k < 64) & (m < 17))
        return part

    value = of(call, x).value
    expected = np.full((M, K), 5, np.float32)
    expected[:17, :64] = x.T[:17, :64]
    np.testing.assert_array_equal(value, expected)


def test_mistakes_are_told(x, y):
    with pytest.raises(WrongOperand, match="perf_mode='fast' is not a mode"):
        of(lambda a, b: nisa.nc_matmul(a, b, perf_mode="fast"), x, y)
    with pytest.raises(RuleBroken, match="`moving`"):
        of(lambda a, b: nisa.nc_matmul(a, b[0:64, :]), x, y)
    with pytest.raises(WrongOperand, match=r"must be a tile, found float 3\.0"):
        of(lambda a, b: nisa.nc_matmul(3.0, b), x, y)


def test_signatures_are_those_of_the_stubs():
    stubs = BETA1_API["functions"]
    for function in (nisa.nc_matmul, nisa.nc_transpose):
        assert same_signature(function, stubs["neuronxcc.nki.isa"][function.__name__], vars(nisa))
    for function in (nl.matmul, nl.transpose):
        assert same_signature(function, stubs["neuronxcc.nki.language"][function.__name__])


def test_a_view_has_the_same_bytes_and_a_grid_selects_as_its_index_tensors(x):
    def call(t):
        words = t.view(nl.uint16)
        back = nl.ndarray((K, 2 * M), nl.uint16)
        back[...] = nl.copy(words)
        return words[nl.mgrid[0:K, 0:2]], back.view(nl.float32), t[nl.mgrid[0:K, 3:7]]

    first, back, part = of(call, x).value
    np.testing.assert_array_equal(first, x.view(np.uint16)[:, :2])
    np.testing.assert_array_equal(back, x)
    np.testing.assert_array_equal(part, x[:, 3:7])


@pytest.mark.parametrize("target", ["trn1", "trn2"])
def test_is_transpose_changes_the_result_only_where_the_array_moves_bits(target, rng):
    """Before NeuronCore-v3 it marks an ordinary product, and results are float32: published kernels rely on it.

    (nki/api/nki/isa/__init__.py@539a73c5:1143; ucb-bar/autocomp dd26a565 4_attention_trace.py:670, measured on trn1)
    """

    @nki.jit
    def kernel(a, b):
        product = nisa.nc_matmul(nl.load(a), nl.load(b), is_transpose=True)
        out = nl.ndarray(product.shape, dtype=product.dtype, buffer=nl.shared_hbm)
        nl.store(out, product)
        return out

    a = rng.integers(-9, 9, (64, 32)).astype(ml_dtypes.bfloat16)
    second = rng.integers(-9, 9, (64, 96)) if target == "trn1" else np.eye(64)
    b = second.astype(ml_dtypes.bfloat16)
    value = run(kernel, a, b, target=target).value
    assert value.dtype == (np.float32 if target == "trn1" else ml_dtypes.bfloat16)
    np.testing.assert_array_equal(value.astype(np.float32), a.astype(np.float32).T @ second)


def product_of_tails(masked, transposed):
    """Return a kernel of tiles of 64 x 96 whose ends lie outside, with masks on some of its calls."""

    @nki.jit
    def kernel(a, b):
        (depth, rows), columns = a.shape, b.shape[1]
        out = nl.ndarray((rows, columns), a.dtype, buffer=nl.shared_hbm)
        i_p, i_m, i_n = nl.arange(64)[:, None], nl.arange(64)[None, :], nl.arange(96)[None, :]
        for m in nl.affine_range(-(-rows // 64)):
            for n in nl.affine_range(-(-columns // 96)):
                total = nl.zeros((64, 96), nl.float32, buffer=nl.psum)
                for k in nl.affine_range(-(-depth // 64)):
                    deep, wide, long = 64 * k + i_p, 64 * m + i_m, 96 * n + i_n
                    x = nl.load(a[deep, wide], mask=(deep < depth) & (wide < rows))
                    y = nl.load(b[deep, long], mask=(deep < depth) & (long < columns))
                    if transposed:
                        x = nl.copy(nl.transpose(nl.copy(nl.transpose(x))))
                    if masked:
                        x, y = (
                            x[(deep < depth) & (wide < rows)],
                            y[(deep < depth) & (long < columns)],
                        )
                    else:
                        x, y = x[deep < depth], y[deep < depth]
                    total += nisa.nc_matmul(x, y)
                tall, long = 64 * m + i_p, 96 * n + i_n
                nl.store(out[tall, long], nl.exp(total), mask=(tall < rows) & (long < columns))
        return out

    return kernel


@pytest.mark.parametrize(("masked", "transposed"), [(False, False), (True, False), (False, True)])
def test_what_masks_leave_unset_of_the_operands_of_a_product_reaches_no_result(
    rng, masked, transposed
):
    a, b = (rng.standard_normal(shape).astype(np.float32) / 8 for shape in ((100, 70), (100, 130)))
    result = run(product_of_tails(masked, transposed), a, b, target="trn2")
    np.testing.assert_allclose(result.value, np.exp(a.T.astype(np.float64) @ b), rtol=1e-4)
    assert not [f for f in result.findings if f.kind in ("uninitialized", "hazard")]


def test_what_a_mask_leaves_unset_is_told_where_a_product_brings_it_into_a_result(rng):
    @nki.jit
    def kernel(a, b):
        out = nl.ndarray((64, 70), a.dtype, buffer=nl.shared_hbm)
        i_p, i_m = nl.arange(64)[:, None], nl.arange(64)[None, :]
        x = nl.load(a[i_p, i_m], mask=i_m < 40)
        nl.store(out, nisa.nc_matmul(x, nl.load(b)))
        return out

    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 40), (64, 70)))
    result = run(kernel, a, b, target="trn2")
    np.testing.assert_allclose(result.value[:40], a.T @ b, rtol=1e-3, atol=1e-4)
    (finding,) = [f for f in result.findings if f.kind == "uninitialized"]
    assert "1680 of 4480 elements" in finding.message.replace(",", "")  # 24 rows of 70
