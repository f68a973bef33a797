"""Tests that distinct numbers are those of np.unique."""

import numpy as np
import pytest

from nki_lab.ir.program.touches import distinct


@pytest.mark.parametrize("size", [0, 1, 2, 7, 1000])
@pytest.mark.parametrize("most", [1, 3, 10**12])
def test_they_are_those_of_numpy(size: int, most: int):
    values = np.random.default_rng(size).integers(-most, most, size)
    assert np.array_equal(distinct(values), np.unique(values))
    square = values[: size // 2 * 2].reshape(2, -1)
    assert np.array_equal(distinct(square), np.unique(square))
