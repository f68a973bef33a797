"""Tests that nl.gather_flattened takes the elements that NumPy takes."""

import ml_dtypes
import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.errors import NotModelled, WrongOperand
from tests.language.evaluate import evaluate, run_kernel

RNG = np.random.default_rng(11)
DATA = RNG.standard_normal((48, 6, 20)).astype(np.float32)
AT = RNG.integers(0, 120, (48, 3, 9)).astype(np.uint32)
EXPECTED = np.take_along_axis(DATA.reshape(48, 120), AT.reshape(48, 27).astype(int), axis=1)


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_free_axes_are_one(target):
    result = evaluate(nl.gather_flattened, DATA, AT, target=target)
    assert np.array_equal(result, EXPECTED.reshape(48, 3, 9))
    assert result.dtype == np.float32


def test_another_dtype():
    result = evaluate(lambda d, k: nl.gather_flattened(d, k, dtype=nl.bfloat16), DATA, AT)
    assert result.dtype == ml_dtypes.bfloat16
    assert np.array_equal(result, EXPECTED.reshape(48, 3, 9).astype(ml_dtypes.bfloat16))


def test_what_cannot_be_gathered():
    with pytest.raises(NotModelled, match="axis=1 is not modelled"):
        evaluate(lambda d, k: nl.gather_flattened(d, k, axis=1), DATA, AT)
    with pytest.raises(WrongOperand, match="load it first"):
        run_kernel(lambda d, k: nl.gather_flattened(d, k), DATA, AT)
