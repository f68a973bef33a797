"""Tests that every cast rounds once, to nearest even, and saturates as documented."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nki_lab.dtypes import DTYPES
from nki_lab.errors import NotModelled
from nki_lab.isa.numerics import BITS, FLOAT32, bits_of, load_cast, overflows, store_cast

NARROW = ("float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")


def stored(values, name):
    dtype = DTYPES[name]
    source = np.atleast_2d(np.asarray(values, np.float32))
    out = np.empty(source.shape, dtype.np)
    cast = store_cast(FLOAT32, dtype)
    with np.errstate(all="ignore"):
        (cast or np.copyto)(source, out) if cast else np.copyto(out, source)
    return out


def nearest_even(value, candidates):
    """Return the nearest of sorted `candidates`; of two as near, the one whose bit pattern is even."""
    at = int(np.searchsorted(candidates, value))
    low, high = candidates[max(at - 1, 0)], candidates[min(at, len(candidates) - 1)]
    if value - low != high - value:
        return low if value - low < high - value else high
    return low if list(candidates).index(low) % 2 == 0 else high


@pytest.mark.parametrize("name", ["float8_e4m3", "float8_e5m2", "float8_e4m3fn"])
def test_eight_bit_floats_against_all_values(name):
    # The positive finite values in order; their bit pattern is their position, so "even" is the position's parity.
    patterns = np.arange(128, dtype=np.uint8).view(DTYPES[name].np).astype(float)
    grid = patterns[np.isfinite(patterns)]
    assert (np.diff(grid) > 0).all()
    rng = np.random.default_rng(5)
    values = np.concatenate([
        grid, (grid[1:] + grid[:-1]) / 2,  # ties
        np.nextafter(((grid[1:] + grid[:-1]) / 2).astype(np.float32), np.float32(np.inf)),
        np.exp(rng.uniform(math.log(grid[1] / 8), math.log(grid[-1]), 2000)),
    ]).astype(np.float32)  # fmt: skip
    found = stored(np.concatenate([values, -values]), name).astype(float)[0]
    expected = [nearest_even(float(v), grid) for v in values]
    assert found[: len(values)].tolist() == expected
    assert found[len(values) :].tolist() == [-v for v in expected]


@pytest.mark.parametrize("name", NARROW)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=64))
def test_narrow_floats_against_ml_dtypes(name, patterns):
    values = np.array(patterns, np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        expected = values.astype(DTYPES[name].np).astype(float)
    np.testing.assert_array_equal(stored(values, name)[0].astype(float), expected)


@pytest.mark.parametrize(
    ("name", "largest", "beyond"),
    [("float8_e4m3", 240.0, np.inf), ("float8_e5m2", 57344.0, np.inf), ("float8_e4m3fn", 448.0, np.nan),
     ("float16", 65504.0, np.inf)],
)  # fmt: skip
def test_overflow(name, largest, beyond):
    found = stored([largest, largest * 2, -largest * 2, np.inf, np.nan], name)[0].astype(float)
    assert found[0] == largest
    np.testing.assert_array_equal(found[1:4], [beyond, -beyond, beyond])
    assert np.isnan(found[4])


@pytest.mark.parametrize("name", INTEGERS)
@given(st.lists(st.floats(width=32), min_size=1, max_size=64))
def test_integers_round_and_saturate(name, values):
    info = np.iinfo(DTYPES[name].np)

    def expected(v):
        if math.isnan(v):
            return 0
        return min(max(round(v) if math.isfinite(v) else v, info.min), info.max)

    assert stored(values, name)[0].tolist() == [expected(v) for v in values]


@given(st.integers(0, 2**32 - 1))
def test_tfloat32_keeps_ten_bits(pattern):
    value = struct.unpack("<f", struct.pack("<I", pattern))[0]
    found = float(stored([value], "tfloat32")[0, 0])
    if math.isnan(value):
        assert math.isnan(found)
    elif math.isinf(value):
        assert found == value
    else:
        assert struct.unpack("<I", struct.pack("<f", found))[0] & 0x1FFF == 0
        down = struct.unpack("<f", struct.pack("<I", pattern & ~0x1FFF))[0]
        step = abs(value - down), abs(found - value)
        assert step[1] <= step[0] and (
            math.isinf(found) or step[1] <= 2.0**-11 * max(abs(value), 2.0**-126)
        )


def test_tfloat32_ties_go_to_even():
    ties = [1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 5 * 2.0**-11)]
    assert stored(ties, "tfloat32").tolist() == [[1.0, 1 + 4 * 2.0**-11, -(1 + 4 * 2.0**-11)]]


def test_booleans():
    assert stored([0.0, -0.0, 1e-9, -2.0, np.nan], "bool_").tolist() == [
        [False, False, True, True, True]
    ]


@pytest.mark.parametrize(
    "name", [n for n, d in DTYPES.items() if d.itemsize == 1 and d.kind != "bool"]
)
def test_loading_every_byte(name):
    dtype = DTYPES[name]
    source = np.arange(256, dtype=np.uint8).view(dtype.np).reshape(2, 128)
    out = np.empty(source.shape, np.float32)
    load_cast(dtype, FLOAT32)(source, out)
    np.testing.assert_array_equal(out, source.astype(np.float32))


def decoded(byte, exponent_bits, mantissa_bits, specials):
    """Return the value of an 8-bit float by the definition of its format, without a library of formats."""
    if byte in specials or byte - 128 in specials:
        value = specials[byte % 128]
        return -value if byte >= 128 else value
    sign = -1.0 if byte >= 128 else 1.0
    exponent, mantissa = (byte % 128) >> mantissa_bits, byte % (1 << mantissa_bits)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


NAN, INF = float("nan"), float("inf")
# (bits of the exponent, bits of the mantissa, patterns that are no numbers). IEEE 754 rules for e4m3 and e5m2, the OCP
# 8-bit format for e4m3fn, which has no infinity.
FORMATS = {
    "float8_e4m3": (4, 3, {0x78: INF} | dict.fromkeys(range(121, 128), NAN)),
    "float8_e4m3fn": (4, 3, {0x7F: NAN}),
    "float8_e5m2": (5, 2, {0x7C: INF} | dict.fromkeys(range(125, 128), NAN)),
}


def loaded_bytes(name):
    dtype = DTYPES[name]
    out = np.empty((1, 256), np.float32)
    load_cast(dtype, FLOAT32)(np.arange(256, dtype=np.uint8).view(dtype.np)[None], out)
    return out[0]


@pytest.mark.parametrize("name", FORMATS)
def test_every_byte_by_the_definition_of_its_format(name):
    np.testing.assert_array_equal(
        loaded_bytes(name), [decoded(b, *FORMATS[name]) for b in range(256)]
    )


def test_scales_are_powers_of_two():
    """float8_e8m0fnu: no sign, no mantissa, 2**(stored - 127); 255 is NaN (OCP Microscaling, 5.4.1)."""
    found = loaded_bytes("float8_e8m0fnu")
    np.testing.assert_array_equal(found[:255], [2.0 ** (b - 127) for b in range(255)])
    assert np.isnan(found[255])
    back = stored(found, "float8_e8m0fnu").view(np.uint8)[0]
    np.testing.assert_array_equal(back, np.arange(256))


@pytest.mark.parametrize(
    "name", ["bfloat16", "float16", "int16", "uint16", "int32", "uint32", "bool_"]
)
def test_loading_is_exact_or_rounds_once(name):
    dtype = DTYPES[name]
    raw = np.random.default_rng(7).integers(0, 2**32, 4096, dtype=np.uint64)
    bits = (raw % 2 if name == "bool_" else raw % 2 ** (8 * dtype.itemsize)).astype(bits_of(dtype))
    source = bits.view(dtype.np)[None]
    out = np.empty(source.shape, np.float32)
    load_cast(dtype, FLOAT32)(source, out)
    np.testing.assert_array_equal(out, _wide(source))


def _wide(source):
    with np.errstate(all="ignore"):
        return source.astype(np.float64).astype(np.float32)


def test_views_with_strides():
    source = np.random.default_rng(8).standard_normal((64, 40)).astype(np.float32)
    for name in (*NARROW, *INTEGERS, "tfloat32"):
        dtype = DTYPES[name]
        target = np.zeros((64, 80), dtype.np)
        cast = store_cast(FLOAT32, dtype)
        cast(source[:, ::2], target[:, 1:60:3])
        np.testing.assert_array_equal(
            target[:, 1:60:3].astype(float), stored(source[:, ::2], name).astype(float)
        )
        assert np.count_nonzero(target.astype(float)) <= 64 * 20
        load = load_cast(dtype, FLOAT32)
        if load is not None:
            back = np.zeros((64, 40), np.float32)
            load(target[:, 1:60:3], back[:, ::2])
            np.testing.assert_array_equal(back[:, ::2], target[:, 1:60:3].astype(np.float32))


def test_nothing_to_cast():
    assert store_cast(FLOAT32, DTYPES["float32"]) is None
    assert load_cast(DTYPES["float32"], FLOAT32) is None
    assert load_cast(DTYPES["tfloat32"], FLOAT32) is None
    for compute in (None, BITS):
        assert store_cast(compute, DTYPES["int8"]) is None
        assert load_cast(DTYPES["int8"], compute) is None


def test_integers_from_integers():
    values = np.array([[-(2**31), -129, -128, 0, 127, 128, 2**31 - 1]], np.int32)
    for name in ("int8", "uint8", "uint32", "int16"):
        info = np.iinfo(DTYPES[name].np)
        out = np.empty(values.shape, DTYPES[name].np)
        store_cast(np.dtype(np.int32), DTYPES[name])(values, out)
        assert out.tolist() == [[min(max(v, info.min), info.max) for v in values[0].tolist()]]
    # 64 bits hold the result of 32-bit arithmetic, of which the low 32 bits are kept.
    wide = np.array([[2**31, -1, 2**40 + 5]], np.int64)
    out = np.empty(wide.shape, np.int32)
    store_cast(np.dtype(np.int64), DTYPES["int32"])(wide, out)
    assert out.tolist() == [[-(2**31), -1, 5]]


def test_packed_types_have_no_value():
    with pytest.raises(NotModelled, match="no conversion"):
        load_cast(DTYPES["float8_e5m2_x4"], FLOAT32)
    with pytest.raises(NotModelled, match="no conversion"):
        store_cast(FLOAT32, DTYPES["float4_e2m1fn_x4"])


@pytest.mark.parametrize("name", DTYPES)
def test_what_an_8_bit_float_cannot_hold_is_counted(name):
    count = overflows(DTYPES[name])
    if name not in ("float8_e4m3", "float8_e5m2", "float8_e4m3fn"):
        assert count is None
        return
    codes = np.arange(256, dtype=np.uint8)[None]
    values = codes.view(DTYPES[name].np).astype(np.float32)
    lost = int((~np.isfinite(values)).sum())
    assert lost > 0
    ones = np.ones_like(values)  # numbers, whatever was stored for them
    assert count(ones, codes.view(DTYPES[name].np)) == lost
    assert count(values, codes.view(DTYPES[name].np)) == 0  # infinity and NaN came from before
    for n in range(256):
        one = codes[:, n : n + 1].view(DTYPES[name].np)
        assert count(ones[:, :1], one) == (not np.isfinite(values[0, n]))
