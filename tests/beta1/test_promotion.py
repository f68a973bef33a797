"""Dtypes of results, against the examples of nki.api.shared.rst, type promotion and weakly typed scalars."""

import ml_dtypes
import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.beta1.promotion import number_dtype, promoted
from nki_lab.dtypes import DTYPES

PAIRS = """
int32 float16 -> float16
uint16 tfloat32 -> tfloat32
float32 tfloat32 -> float32
float32 bfloat16 -> float32
float16 bfloat16 -> float32
float8_e4m3 float16 -> float16
float8_e4m3 bfloat16 -> bfloat16
float8_e4m3 float8_e5m2 -> bfloat16
int16 int32 -> int32
uint8 uint16 -> uint16
uint16 int32 -> int32
int8 uint8 -> int16
int8 uint16 -> int32
int32 uint32 -> float32
int16 uint32 -> float32
"""


@pytest.mark.parametrize("row", PAIRS.strip().splitlines())
def test_two_dtypes_give_the_one_of_the_page_in_either_order(row):
    pair, _, result = row.partition(" -> ")
    a, b = (DTYPES[name] for name in pair.split())
    assert promoted(a, b) is promoted(b, a) is DTYPES[result]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, "uint8"), (2, "int32"), (1.2, "float32"), (np.float64(1.2), "float32"), (np.int64(3), "int32"),
        (np.float16(2), "float16"), (np.int8(2), "int8"), (ml_dtypes.bfloat16(2), "bfloat16"),
    ],
)  # fmt: skip
def test_numbers_of_python_are_wide_and_those_of_numpy_keep_their_dtype(value, dtype):
    assert number_dtype(value) is DTYPES[dtype]


def test_results_hold_what_their_dtypes_hold(rng):
    @nki.jit
    def kernel(x, small):
        wide = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm)
        kept = nl.ndarray(x.shape, nl.float16, buffer=nl.shared_hbm)
        whole = nl.ndarray(small.shape, nl.int32, buffer=nl.shared_hbm)
        quotient = nl.ndarray(small.shape, nl.float32, buffer=nl.shared_hbm)
        t, s = nl.load(x), nl.load(small)
        nl.store(wide, t + 1.2)
        nl.store(kept, nl.add(t, np.float16(1.2)))
        nl.store(whole, s * 2)
        nl.store(quotient, s / 3)
        return wide, kept, whole, quotient

    x = rng.uniform(-90, 90, (128, 7)).astype(np.float16)
    small = rng.integers(-128, 128, (128, 7)).astype(np.int8)
    wide, kept, whole, quotient = nki_lab.run(kernel, x, small).value
    np.testing.assert_array_equal(wide, x.astype(np.float32) + np.float32(1.2))
    added = x.astype(np.float32) + np.float32(np.float16(1.2))
    np.testing.assert_array_equal(kept, added.astype(np.float16))
    np.testing.assert_array_equal(whole, 2 * small.astype(np.int32))
    np.testing.assert_array_equal(quotient, small.astype(np.float32) / np.float32(3))


def test_integers_above_2_to_the_24_are_exact_between_tiles_and_rounded_beside_a_number():
    """GpSimd adds tiles; Vector adds a number in float32 (nki.isa, tensor_tensor and tensor_scalar of 2.26)."""

    @nki.jit
    def kernel(x):
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        t, one = nl.load(x), nl.full(x.shape, 1, nl.int32)
        nl.store(out[0], t + one)
        nl.store(out[1], t + 1)
        return out

    x = (2**24 + np.arange(128 * 4, dtype=np.int32)).reshape(128, 4)
    tiles, number = kernel(x)
    np.testing.assert_array_equal(tiles, x + 1)
    np.testing.assert_array_equal(number, (x.astype(np.float32) + np.float32(1)).astype(np.int32))
    assert (number != x + 1).any()
