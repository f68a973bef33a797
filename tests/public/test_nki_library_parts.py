"""Tests the parts that run nki-library's suite, without a clone of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tests.public.nki_library import exceptions, host_dtypes, selection, table
from tests.public.nki_library.exceptions import Cause
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


def test_configurations_of_any_size_are_drawn() -> None:
    items = [SimpleNamespace(name=f"test_x[{n}]") for n in (64, 8, 4096, 16, 32, 2048)]
    draws = [tuple(i.name for i in selection.drawn(items, 2, seed)) for seed in range(60)]
    assert draws == [tuple(i.name for i in selection.drawn(items, 2, seed)) for seed in range(60)]
    assert {name for draw in draws for name in draw} == {item.name for item in items}
    assert all(selection.size(first) < selection.size(second) for first, second in draws)
    assert len(selection.drawn(items, 9, 1)) == 6


def test_failures_without_a_known_cause_are_surprises(monkeypatch: pytest.MonkeyPatch) -> None:
    cause = Cause("core/x", "such", "upstream: why", among="[2]")
    monkeypatch.setattr(exceptions, "CAUSES", (cause,))
    assert exceptions.surprises(RUN, [PASSED, FAILED]) == []
    assert table.row(RUN, [PASSED, FAILED]).endswith("| trn2 | 1 / 2 | 1 x upstream: why |")
    for name, message in (("test_x[2]", "another word"), ("test_x[3]", "no such word")):
        [told] = exceptions.surprises(RUN, [Outcome(name, "failed", 0.1, message)])
        assert f"{name} fails, for no known cause: {message}" in told
    assert exceptions.ended([(RUN, PASSED), (RUN, FAILED)]) == []
    assert exceptions.ended([(RUN, PASSED)]) == ["no configuration met: core/x: upstream: why"]
