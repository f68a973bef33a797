"""Tests the kernels of nki-library against their PyTorch references (tests/public/nki_library says how to run them)."""

from __future__ import annotations

import pytest

from tests.public.nki_library import suite
from tests.public.nki_library.exceptions import surprises

CLONE = suite.root()
RUNS = suite.runs(CLONE) if CLONE else []


@pytest.mark.slow
@pytest.mark.skipif(CLONE is None, reason=f"{suite.ROOT_VARIABLE} names no clone of nki-library")
@pytest.mark.parametrize("run", RUNS, ids=str)
def test_configurations_pass_except_the_known_ones(run: suite.Run) -> None:
    assert CLONE is not None
    assert surprises(run, suite.outcomes(CLONE, run)) == []
