"""Tests ranks, errors and orders against those of the textbook."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.agreement import kendall, pair_orders, ranks, relative_errors, spearman


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert ranks([30, 10, 20, 10]).tolist() == [3, 0.5, 2, 0.5]


def test_spearman_of_five_pairs() -> None:
    # 1 - 6 * sum(d^2) / (n (n^2 - 1)) with d = 0, 1, 1, 0, 0
    assert spearman([1, 2, 3, 4, 5], [10, 30, 20, 40, 50]) == pytest.approx(1 - 12 / 120)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 2], [1, 2]) is None
    assert spearman([1, 2, 3], [5, 5, 5]) is None


def test_pairs_and_their_order() -> None:
    found = pair_orders([10, 11, 20], [5, 4, 9])
    assert found == [(pytest.approx(0.1), -1), (pytest.approx(1.0), 1), (pytest.approx(9 / 11), 1)]
    assert kendall([order for _, order in found]) == pytest.approx(1 / 3)
    assert pair_orders([1, 2], [7, 7]) == [(1.0, 0)]
    assert kendall([]) is None


def test_errors_are_parts_of_the_published_value() -> None:
    np.testing.assert_allclose(relative_errors([2, 4], [3, 3]), [0.5, -0.25])
