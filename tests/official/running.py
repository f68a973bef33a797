"""Runs a kernel and compares what it returns with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nki_lab.runtime import compare, run
from nki_lab.runtime.jit import jit

on_all = pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
on_later = pytest.mark.parametrize("target", ["trn2", "trn3"])
#: Of the versions with today's names: the one of most public code, the last with a parser, and the newest.
in_versions = pytest.mark.parametrize("nki", ["0.3", "0.6", "0.7"])


def check(
    kernel: Any,
    given: tuple,
    *expected: Any,
    cores: int = 1,
    close: float | None = None,
    finding: str = "",
    **choices: Any,
) -> Any:
    """Run a kernel on copies of its arguments, compare all results with float64 references, and return the result.

    `finding` is what the only serious finding says; without it there must be none.
    """
    launched = jit(kernel)[cores] if cores > 1 else kernel
    copies = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
    result = run(launched, *copies, **choices)
    assert len(result.outputs) == len(expected)
    tolerance = {} if close is None else {"rtol": close, "atol": close}
    for found, reference in zip(result.outputs, expected, strict=True):
        comparison = compare(found, reference, **tolerance)
        assert comparison.ok, comparison.summary()
    serious = [told.message for told in result.findings if told.is_serious]
    assert bool(serious) == bool(finding) and all(finding in message for message in serious)
    return result


def wide(*arrays: np.ndarray) -> Any:
    """Return arrays as float64."""
    numbers = tuple(a.astype(np.float64) for a in arrays)
    return numbers if len(numbers) > 1 else numbers[0]
