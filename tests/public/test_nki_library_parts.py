"""Tests the parts that run nki-library's suite, without a clone of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.public.nki_library import exceptions, host_dtypes, selection, table
from tests.public.nki_library.exceptions import Known
from tests.public.nki_library.suite import Outcome, Run

RUN = Run("core/x/test_x.py", "trn2")
PASSED = Outcome("test_x[1]", "passed", 0.1, "")
FAILED = Outcome("test_x[2]", "failed", 0.1, "no such\nword")


def test_four_numbers_are_packed_lowest_bits_first() -> None:
    numbers = np.array([[1.0, -2.0, 0.5, 448.0, 0.0, 1.5, -1.0, 2.0]])
    packed = host_dtypes.static_cast(numbers, "float8_e4m3fn_x4")
    assert packed.dtype == host_dtypes.float8_e4m3fn_x4
    # sign, 4 bits of exponent with bias 7, 3 bits of mantissa
    assert packed.view(np.uint32).tolist() == [[0x7E30C038, 0x40B83C00]]
    small = host_dtypes.static_cast(numbers[:, 4:], "float4_e2m1fn_x4")
    assert small.view(np.uint16).tolist() == [[0x4A30]]  # sign, 2 bits of exponent, bias 1, 1 bit


@pytest.mark.parametrize("dtype", ["float8_e4m3fn_x4", "float8_e5m2_x4", "float4_e2m1fn_x4"])
def test_packed_numbers_come_back(dtype: str, rng: np.random.Generator) -> None:
    numbers = rng.choice([-6.0, -1.5, -0.5, 0.0, 1.0, 2.0, 4.0], (3, 5, 16))
    packed = host_dtypes.static_cast(numbers, np.dtype(dtype))
    assert packed.shape == (3, 5, 4)
    np.testing.assert_array_equal(host_dtypes.static_cast(packed, np.float32), numbers)


def test_small_configurations_are_spread() -> None:
    items = [SimpleNamespace(name=f"test_x[{n}]") for n in (64, 8, 4096, 16, 32, 2048)]
    assert [i.name for i in selection.spread(items, 2)] == ["test_x[8]", "test_x[16]"]
    assert [i.name for i in selection.spread(items[:2], 3)] == ["test_x[8]", "test_x[64]"]


def test_new_failures_and_ended_exceptions_are_surprises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceptions, "KNOWN", (Known("core/x", r"\[2\]", "such", "upstream: why"),))
    assert exceptions.surprises(RUN, [PASSED, FAILED]) == []
    assert table.row(RUN, [PASSED, FAILED]).endswith("| trn2 | 1 / 2 | 1 x upstream: why |")
    other = Outcome("test_x[2]", "failed", 0.1, "another word")
    assert "no known exception: another word" in exceptions.surprises(RUN, [other])[0]
    again = Outcome("test_x[2]", "passed", 0.1, "")
    assert "take it out" in exceptions.surprises(RUN, [again])[0]
