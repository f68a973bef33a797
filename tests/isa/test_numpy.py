"""Tests that NumPy computes with arrays of any strides what it computes with contiguous ones.

Semantics work on views of tiles as they lie, so a fault there would be one of the simulator. NumPy 2.4 has such faults:
np.negative where every fourth element of 32 bits is read, and np.isnan and its like where the result is not contiguous.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import nki_lab.language as nl

STEPS = (1, 2, 3, 4, 5, 8, 16, 17)
PACKAGE = Path(nl.__file__).parents[1]
SOURCES = "\n".join(p.read_text("utf-8") for p in sorted(PACKAGE.rglob("*.py")))
WRITTEN = sorted(
    name
    for name in set(
        re.findall(r"np\.(\w+)(?:\.reduce)?\([^()]*(?:\([^()]*\)[^()]*)*\bout=", SOURCES)
    )
    if isinstance(getattr(np, name, None), np.ufunc)
)
# Their results go to scratch arrays, which are contiguous.
CONTIGUOUS = {"isnan"}
TYPES = (np.float32, np.int32, np.uint32, np.int16, np.uint8)


def values(dtype, size: int) -> np.ndarray:
    rng = np.random.default_rng(8)
    made = (rng.standard_normal(size) * 40).astype(np.float32)
    if np.dtype(dtype).kind == "f":
        made[::7], made[3::11], made[5::13] = np.nan, np.inf, -0.0
        return made.astype(dtype)
    return np.abs(made).astype(dtype) if np.dtype(dtype).kind == "u" else made.astype(dtype)


def test_the_functions_used_are_found():
    assert {"add", "multiply", "exp", "isnan"} <= set(WRITTEN)
    assert "negative" not in WRITTEN


@pytest.mark.parametrize("name", WRITTEN)
def test_strides_change_nothing(name):
    function = getattr(np, name)
    for dtype, step, out_step in product(TYPES, STEPS, STEPS):
        if out_step > 1 and name in CONTIGUOUS:
            continue
        given = [values(dtype, 67 * step + k)[k:][::step] for k in range(function.nin)]
        with np.errstate(all="ignore"):
            try:
                expected = function(*(g.copy() for g in given))
            except (TypeError, ValueError):  # of integers
                continue
            results = expected if isinstance(expected, tuple) else (expected,)
            found = [np.zeros(67 * out_step, r.dtype)[::out_step] for r in results]
            function(*given, out=tuple(found))
        for a, b in zip(found, results, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"{dtype} {step} {out_step}")
