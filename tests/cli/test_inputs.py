"""Tests inputs of every kind of numbers and every dtype."""

import numpy as np
import pytest

from nki_lab.cli.inputs import INPUT_DTYPES, SHORT_NAMES, read_input
from nki_lab.dtypes import DTYPES, dtype_of
from nki_lab.errors import UnknownOption

KINDS = ("randn", "rand", "randint", "arange", "ones", "zeros")


def made(text: str, seed: int = 0) -> np.ndarray:
    name, array = read_input(f"a={text}", np.random.default_rng(seed))
    assert name == "a"
    return array


@pytest.mark.parametrize("dtype", INPUT_DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_shape_dtype_and_finite_values(kind: str, dtype: str):
    array = made(f"{kind}:6x5:{dtype}")
    assert array.shape == (6, 5)
    assert dtype_of(array.dtype) is DTYPES[dtype]
    assert np.isfinite(array.astype(np.float64)).all()


@pytest.mark.parametrize("dtype", [d for d in INPUT_DTYPES if d not in ("bool_", "float8_e8m0fnu")])
@pytest.mark.parametrize("kind", ["randint", "arange"])
def test_integers_are_held_exactly_and_in_range(kind: str, dtype: str):
    values = made(f"{kind}:40x50:{dtype}").astype(np.float64)
    np.testing.assert_array_equal(values, np.rint(values))
    assert np.abs(values).max() <= 2000
    if kind == "arange":
        period = int(values.max()) + 1
        np.testing.assert_array_equal(values.ravel(), np.arange(2000) % period)
    else:
        assert len(np.unique(values)) > 10


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float32", "bfloat16"])
def test_a_given_range_is_drawn_from_end_to_end(dtype: str):
    values = made(f"randint(3,7):50x50:{dtype}").astype(int)
    assert sorted(np.unique(values)) == [3, 4, 5, 6, 7]
    assert made("randint(70000,70000):2:int32").tolist() == [70000, 70000]


@pytest.mark.parametrize("dtype", [d for d in INPUT_DTYPES if DTYPES[d].is_float])
def test_floats_are_drawn_from_their_distribution(dtype: str):
    normal = made(f"randn:100x100:{dtype}").astype(np.float64)
    uniform = made(f"rand:100x100:{dtype}").astype(np.float64)
    assert abs(normal.mean()) < 0.1
    assert abs(normal.std() - 1) < 0.1
    assert (normal < 0).any()
    assert 0 <= uniform.min() < 0.1
    assert 0.9 < uniform.max() <= 1


def test_signed_integers_are_drawn_with_both_signs():
    values = made("randn:100x100:int8").astype(int)
    assert values.min() < -20
    assert values.max() > 20
    assert made("randn:100x100:uint8").astype(int).min() == 0


def test_the_seed_decides_and_inputs_differ():
    text = "randn:4x4:bf16"
    np.testing.assert_array_equal(made(text, 3), made(text, 3))
    assert (made(text, 3) != made(text, 4)).any()
    rng = np.random.default_rng(0)
    first, second = read_input("a=" + text, rng)[1], read_input("b=" + text, rng)[1]
    assert (first != second).any()


def test_float32_is_the_default():
    assert made("ones:2x2").dtype == np.float32


@pytest.mark.parametrize("short", SHORT_NAMES)
def test_short_names_stand_for_dtypes(short: str):
    assert dtype_of(made(f"ones:2:{short}").dtype) is DTYPES[SHORT_NAMES[short]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "expected NAME=KIND:SHAPE[:DTYPE]"),
        ("a=randn", "expected NAME=KIND:SHAPE[:DTYPE]"),
        ("2=randn:4", "expected NAME=KIND:SHAPE[:DTYPE]"),
        ("a=randn:4:f32:x", "expected NAME=KIND:SHAPE[:DTYPE]"),
        ("a=rnd:4", "`rnd` is not one of randn, rand"),
        ("a=randn:", "`` is not a shape"),
        ("a=randn:4x", "`4x` is not a shape"),
        ("a=randn:0x4", "`0x4` is not a shape"),
        ("a=randn:-4", "`-4` is not a shape"),
        ("a=randn:" + "x".join("1" * 65), "65 axes, at most 32 are possible"),
        ("a=randn:99999x99999", "more than"),
        ("a=randn:4:f64", "`f64` is not a dtype"),
        ("a=randn:4:tfloat32", "cannot carry the dtype tfloat32"),
        ("a=randn:4:float8_e5m2_x4", "cannot carry the dtype"),
        ("a=randint(5,2):4", "5 to 2 holds no integer"),
        ("a=randint(0,300):4:uint8", "uint8 holds integers from 0 to 255"),
        ("a=randint(0,17):4:float8_e4m3", "float8_e4m3 holds integers from -16 to 16"),
    ],
)
def test_a_wrong_input_says_what_is_wrong(text: str, words: str):
    with pytest.raises(UnknownOption) as caught:
        read_input(text, np.random.default_rng(0))
    assert words in caught.value.message
