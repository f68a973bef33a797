"""Tests that a comparison says what it cannot compare, instead of passing."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.errors import UsageError
from nki_lab.runtime import compare

X = np.random.default_rng(6).standard_normal((8, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (X + 1j, "is complex"),
        ([[1.0, 2.0], [3.0]], "is not an array of numbers"),
        (np.array([[object()]]), "is not an array of numbers"),
        ({1.0, 2.0}, "is not an array of numbers"),
    ],
)
def test_what_is_no_array_of_real_numbers_is_refused(reference, words):
    with pytest.raises(UsageError, match=words):
        compare(X, reference)


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("wrap", [np.matrix, lambda a: np.ma.array(a, mask=True)])
def test_matrices_and_masked_arrays_are_compared_by_their_elements(wrap):
    assert compare(X, wrap(X.copy())).ok
    assert compare(X, wrap(X + 1)).outside == X.size
