"""Tests that programs that went wrong elsewhere, as their authors reported in public, go right here.

Each test is one report: the program in our own words, and the outcome it should have had.
"""

import ml_dtypes
import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.errors import RuleBroken, UnknownName, WrongOperand
from tests.compiler.programs import line_of

TARGETS = ("trn1", "trn2", "trn3")


# -- a matmul by every entry point --------------------------------------------------------------------------------


def product(lhs, rhs):
    out = nl.ndarray((lhs.shape[1], rhs.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    acc = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=acc, stationary=nl.load(lhs), moving=nl.load(rhs))
    result = nl.ndarray(out.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out


ENTRY_POINTS = {
    "call": lambda k, a, b: nki.jit(k)(a, b),
    "decorator with arguments": lambda k, a, b: nki.jit(mode="baremetal")(k)(a, b),
    "grid": lambda k, a, b: nki.jit(k)[1](a, b),
    "simulate": lambda k, a, b: nki.simulate(nki.jit(k))(a, b),
    "simulate a function": lambda k, a, b: nki.simulate(k)(a, b),
    "compile": lambda k, a, b: nki.jit(k).compile(a, b)(a, b),
    "run": lambda k, a, b: nki_lab.run(k, a, b).outputs[0],
    "keywords": lambda k, a, b: nki.jit(k)(rhs=b, lhs=a),
}


@pytest.mark.parametrize("entry", ENTRY_POINTS)
def test_a_product_is_the_same_by_every_entry_point(entry, rng):
    lhs, rhs = (rng.standard_normal((128, n)).astype(np.float32) for n in (64, 512))
    found = ENTRY_POINTS[entry](product, lhs, rhs)
    assert found.shape == (64, 512)
    np.testing.assert_allclose(found, lhs.T.astype(float) @ rhs.astype(float), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("name", ["baremetal", "benchmark", "profile", "simulate_kernel"])
def test_entry_points_of_former_versions_name_their_successor(name):
    with pytest.raises(UnknownName, match=f"nki has no `{name}`") as caught:
        getattr(nki, name)
    assert "nki." in caught.value.help


# -- activation with a bias ---------------------------------------------------------------------------------------


def biased(x, bias, op, scale):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    t, b = nl.load(x), nl.load(bias)
    nisa.activation(dst=t, op=op, data=t, bias=b, scale=scale)  # the bias
    nl.store(out, t)
    return out


@pytest.mark.parametrize(
    ("op", "formula"),
    [(nl.copy, lambda v: v), (nl.relu, lambda v: np.maximum(v, 0)), (nl.exp, np.exp)],
    ids=["copy", "relu", "exp"],
)
def test_every_activation_honours_its_bias(op, formula, rng):
    x = rng.standard_normal((128, 512)).astype(np.float32)
    bias = (np.arange(128, dtype=np.float32) / 32)[:, None]
    found = nki.jit(biased)(x, bias, op, 2.0)
    expected = formula(x.astype(float) * 2 + bias)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_bias_of_another_shape_is_named():
    x = np.zeros((128, 512), np.float32)
    with pytest.raises(RuleBroken, match="`bias`") as caught:
        nki.jit(biased)(x, x[:, 0:64].copy(), nl.exp, 2.0)
    assert caught.value.span.line == line_of(__file__, "# the bias")
    assert "[partitions of `dst`, 1]" in caught.value.message
    assert any("[128, 64] float32" in note for note in caught.value.notes)


# -- several inputs and outputs -----------------------------------------------------------------------------------


def two_outputs(x, y, positional):
    wide = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    narrow = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.shared_hbm)
    for slab in range(2):
        rows = nl.ds(slab * 64, 64)
        a = nl.ndarray((64, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        b = nl.ndarray((64, 1), dtype=y.dtype, buffer=nl.sbuf)
        if positional:
            nisa.dma_copy(a, x[rows])
            nisa.dma_copy(b, y[rows])
            nisa.dma_copy(wide[rows], a)
            nisa.dma_copy(narrow[rows], b)
        else:
            nisa.dma_copy(src=x[rows], dst=a)
            nisa.dma_copy(src=y[rows], dst=b)
            nisa.dma_copy(src=a, dst=wide[rows])
            nisa.dma_copy(src=b, dst=narrow[rows])
    return wide, narrow


@pytest.mark.parametrize("positional", [True, False])
def test_two_inputs_and_two_outputs_of_other_shapes(positional, rng):
    x, y = (rng.standard_normal((128, n)).astype(np.float32) for n in (512, 1))
    wide, narrow = nki.jit(two_outputs)(x, y, positional)
    np.testing.assert_array_equal(wide, x)
    np.testing.assert_array_equal(narrow, y)


def other_slab(x):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm, name="out")
    nisa.dma_copy(dst=out[0:128], src=x[0:256])  # of another size
    return out


def test_a_copy_between_shapes_that_do_not_fit_names_both():
    with pytest.raises(RuleBroken) as caught:
        nki.jit(other_slab)(np.zeros((512, 128), np.float32))
    error = caught.value
    assert error.span.line == line_of(__file__, "# of another size")
    assert error.notes == (
        "dst = `out` [128, 512] float32 in shared_hbm",
        "src = `x` [256, 128] float32 in shared_hbm",
    )


# -- a temporary rewritten in every trip --------------------------------------------------------------------------


def slabs(x):
    out = nl.ndarray((3, 4, 128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 4, 64), dtype=x.dtype, buffer=nl.sbuf)
    for k in nl.sequential_range(3):
        nisa.dma_copy(dst=t, src=x[k])
        for half in nl.affine_range(2):
            for part in nl.affine_range(2):
                nisa.dma_copy(dst=out[k, 2 * half + part], src=t[:, 2 * half + part])
    return out


@pytest.mark.parametrize("target", TARGETS)
def test_a_tile_is_not_loaded_anew_before_it_was_stored(target):
    x = np.empty((3, 128, 4, 64), np.float32)
    for k in range(3):
        x[k] = k * 1000 + np.arange(128 * 4 * 64).reshape(128, 4, 64) / 100
    result = nki_lab.run(slabs, x, target=target)
    np.testing.assert_array_equal(result.outputs[0], x.transpose(0, 2, 1, 3))
    begun = result.profile.numbers("Instruction", "dma_trigger_start_ts")
    arrived = result.profile.numbers("Instruction", "dma_trigger_end_ts")
    for load in (5, 10):  # after the first load and its four stores; and again
        assert begun[load] >= max(arrived[load - 4 : load])


# -- sums in narrow types -----------------------------------------------------------------------------------------


def row_sums(x, dtype):
    out = nl.ndarray((128, 1), dtype=dtype, buffer=nl.shared_hbm)
    t = nl.load(x)
    total = nl.ndarray((128, 1), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=t, axis=1)
    nl.store(out, total)
    return out


@pytest.mark.parametrize("dtype", [nl.float32, nl.bfloat16])
def test_narrow_values_are_summed_in_float32_and_rounded_once(dtype):
    x = np.ones((128, 4096), ml_dtypes.bfloat16)
    x[5, 77] = np.nan
    x[9] = 0
    x[9, :3] = [1, 2**-8, 2**-8]
    found = nki.jit(row_sums)(x, dtype).astype(float)[:, 0]
    assert np.isnan(found[5])
    assert found[9] == 1.0078125
    others = np.delete(found, (5, 9))
    assert (others == 4096).all()


# -- other mistakes of first kernels ------------------------------------------------------------------------------


def operand_in_hbm(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=t, data=x, op0=nl.add, operand0=1.0)
    nl.store(out, t)
    return out


def test_an_operand_off_chip_is_told_to_be_loaded():
    with pytest.raises(WrongOperand, match="`data` must be in psum or sbuf") as caught:
        nki.jit(operand_in_hbm)(np.zeros((128, 4), np.float32))
    assert "load it into an SBUF tile first" in caught.value.help
