"""Reductions, normalization, gathers and random numbers of the older nki.language, against NumPy."""

import ml_dtypes
import numpy as np
import pytest

from nki_lab.api.beta1 import isa as nisa
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.api.official import BETA1_API, same_signature
from nki_lab.beta1.reductions import LANGUAGE
from nki_lab.errors import NkiError, NotModelled, WrongOperand
from nki_lab.runtime.run import run

P, A, B = 40, 5, 8


@pytest.fixture
def x(rng):
    return rng.uniform(-3, 3, (P, A, B)).astype(np.float32)


def of(call, *arrays):
    @nki.jit
    def kernel(*tensors):
        return call(*[nl.load(t) for t in tensors])

    return run(kernel, *arrays)


REDUCTIONS = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean, "var": np.var,
}  # fmt: skip


@pytest.mark.parametrize("axis", [2, [1, 2], (-1,), 1], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_over_free_axes(x, name, axis):
    value = of(lambda t: getattr(nl, name)(t, axis=axis), x).value
    expected = REDUCTIONS[name](x.astype(np.float64), axis=tuple(np.atleast_1d(axis)))
    np.testing.assert_allclose(value.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
    assert value.dtype == np.float32


@pytest.mark.parametrize("name", ["sum", "max", "mean"])
@pytest.mark.parametrize("axis", [1, 2, (1, 2)], ids=str)
def test_keepdims_leaves_axes_of_size_one(x, name, axis):
    value = of(lambda t: getattr(nl, name)(t, axis, keepdims=True, dtype=nl.bfloat16), x).value
    expected = REDUCTIONS[name](x, axis=axis, keepdims=True)
    assert value.shape == expected.shape and value.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(value.astype(float), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("shape", "axis", "copies"),
    [
        ((3, 2, 2, 3, 4), [3, 5], 0),
        ((3, 2, 2, 3, 4), [2, 3, 4, 5], 0),
        ((3, 2, 2, 3, 4), [1], 0),
        ((2, 3, 2, 1, 2, 2), (2, 5), 2),
        ((2, 3, 2, 2, 2, 3), [2, 4, 6], 4),
    ],
    ids=str,
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_reduction_of_more_axes_than_an_instruction_takes(rng, shape, axis, keepdims, copies):
    x = rng.uniform(-3, 3, (P, *shape)).astype(np.float32)
    expected = x.sum(axis=tuple(axis), keepdims=keepdims)
    shapes = []

    @nki.jit
    def kernel(tensor):
        result = nisa.tensor_reduce(np.add, nl.load(tensor), axis=axis, keepdims=keepdims)
        shapes.append(result.shape)
        return result

    result = run(kernel, x)
    np.testing.assert_allclose(result.value, expected, rtol=1e-5, atol=1e-5)
    assert shapes == [expected.shape]
    body = result.compiled.kernel.body
    names = [i.dst.storage.name for i in body if i.definition.name == "tensor_copy"]
    assert len(names) == copies and all(name.startswith("inserted") for name in names)


def test_a_mask_leaves_elements_out(x):
    rows, columns = 33, 6

    def call(t):
        p, a, b = nl.mgrid[0:P, 0:A, 0:B]
        mask = (p < rows) & (b < columns)
        results = [f(t[p, a, b], axis=2, mask=mask) for f in (nl.sum, nl.mean, nl.var, nl.max)]
        tiles = []
        for result in results:
            tile = nl.full((P, A), 9, nl.float32)
            tile[...] = result
            tiles.append(tile)
        return tuple(tiles)

    result = of(call, x)
    part = x[:rows, :, :columns].astype(np.float64)
    for value, f in zip(result.value, (np.sum, np.mean, np.var, np.max), strict=True):
        np.testing.assert_allclose(value[:rows], f(part, axis=2), rtol=1e-5, atol=1e-5)
        assert (value[rows:] == 9).all()
    assert not [f for f in result.findings if f.kind == "uninitialized"]


def test_means_of_integers_are_float32_and_divide_exactly(rng):
    n = rng.integers(-9, 9, (P, 7)).astype(np.int32)
    value = of(lambda t: nl.mean(t, axis=1), n).value
    expected = n.sum(1, dtype=np.float32) / np.float32(7)
    assert value.dtype == np.float32
    np.testing.assert_array_equal(value[:, 0], expected)


def test_all_tells_where_no_element_is_zero(rng):
    n = rng.integers(0, 4, (P, 3)).astype(np.float32)
    value = of(lambda t: nl.all(t, axis=1), n).value
    np.testing.assert_array_equal(value[:, 0].astype(bool), np.all(n, axis=1))
    assert 0 < np.all(n, axis=1).sum() < P


def test_softmax(x):
    wide = 30 * x.reshape(P, -1)
    value, masked = of(
        lambda t: (nl.softmax(t, axis=1), nl.softmax(t, axis=[1], dtype=nl.bfloat16)), wide
    ).value
    e = np.exp(wide.astype(np.float64) - wide.max(1, keepdims=True))
    expected = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(value, expected, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(masked.astype(float), expected, rtol=1e-2, atol=1e-4)


def test_rms_norm_repeats_a_row_of_weights(x, rng):
    rows, w = x.reshape(P, -1), rng.uniform(-2, 2, (1, A * B)).astype(np.float32)
    value = of(lambda t, v: nl.rms_norm(t, v, axis=1, n=A * B, epsilon=1e-3), rows, w).value
    square = (rows.astype(np.float64) ** 2).mean(1, keepdims=True)
    np.testing.assert_allclose(value, rows / np.sqrt(square + 1e-3) * w, rtol=1e-5, atol=1e-6)


def test_load_transpose2d(rng):
    x = rng.uniform(-3, 3, (200, 24)).astype(np.float32)

    @nki.jit
    def kernel(t):
        i, j = nl.mgrid[0:200, 0:24]
        part = nl.full((24, 200), 5, nl.float32)
        part[...] = nl.load_transpose2d(t[i, j], mask=(i < 70) & (j >= 4))
        return nl.load_transpose2d(t), nl.load_transpose2d(t, dtype=nl.bfloat16), part

    value, narrow, part = kernel(x)
    np.testing.assert_array_equal(value, x.T)
    np.testing.assert_array_equal(narrow, x.T.astype(ml_dtypes.bfloat16))
    expected = np.full((24, 200), 5, np.float32)
    expected[4:, :70] = x.T[4:, :70]
    np.testing.assert_array_equal(part, expected)


def test_gather_flattened_takes_elements_of_the_same_partition(x, rng):
    index = rng.integers(0, A * B, (P, 3, 2)).astype(np.uint32)
    value, narrow = of(
        lambda t, i: (nl.gather_flattened(t, i), nl.gather_flattened(t, i, dtype=nl.bfloat16)), x, index
    ).value  # fmt: skip
    expected = np.take_along_axis(x.reshape(P, -1), index.reshape(P, -1).astype(int), 1)
    np.testing.assert_array_equal(value, expected.reshape(index.shape))
    np.testing.assert_array_equal(narrow, value.astype(ml_dtypes.bfloat16))


def test_random_numbers():
    @nki.jit
    def kernel(x):
        nl.random_seed(42)
        a = nl.rand((64, 32))
        nl.random_seed(42)
        return a, nl.rand((nl.par_dim(64), 32), dtype=nl.float32), nl.dropout(nl.load(x), 0.25)

    ones = np.ones((64, 32), np.float32)
    a, again, kept = kernel(ones)
    np.testing.assert_array_equal(a, again)
    assert 0 <= a.min() < 0.05 and 0.95 < a.max() <= 1 and len(np.unique(a)) > 1900
    assert 0.6 < kept.mean() < 0.9 and set(np.unique(kept)) == {0, 1}


def test_dropout_takes_a_tile_with_one_rate(x):
    value = of(lambda t, r: nl.dropout(t, r), x, np.ones((1, 1), np.float32)).value
    assert not value.any()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t: nl.sum(t, axis=0), NkiError, "only free axes are reduced"),
        (lambda t: nl.sum(3.0, axis=1), WrongOperand, "takes a tile, found float 3.0"),
        (
            lambda t: nl.max(t, axis=1, mask=nl.mgrid[0:P, 0:A, 0:B].p < 3, keepdims=True),
            NotModelled,
            "which are not the last, that keeps them, under a mask",
        ),
    ],
)
def test_mistakes_are_told(x, call, error, message):
    with pytest.raises(error, match=message):
        of(call, x)


@pytest.mark.parametrize("name", sorted(LANGUAGE))
def test_a_signature_is_that_of_the_stub(name):
    assert same_signature(LANGUAGE[name], BETA1_API["functions"]["neuronxcc.nki.language"][name])
    assert LANGUAGE[name].__doc__
