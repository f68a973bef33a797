"""Tests what is in PSUM after any sequence of products and other writes into parts of one tile.

The model is one number and one mark per element: a product with accumulate=None overwrites an element that nothing has
written and adds to any other, in float32, or rounded at every addition to a bfloat16 tile (NeuronCore-v4).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import jit, run

ROWS, COLUMNS, DEPTH = 8, 24, 16
RNG = np.random.default_rng(17)
#: Odd integers whose products need more than the 8 bits of a bfloat16.
A = (2 * RNG.integers(-9, 10, (DEPTH, ROWS)) + 1).astype(np.float32)
B = (2 * RNG.integers(-9, 10, (DEPTH, COLUMNS)) + 1).astype(np.float32)
PRODUCT = A.T.astype(float) @ B.astype(float)

STEPS = st.tuples(
    st.sampled_from(["product", "product", "product", "overwrite", "add", "memset", "copy"]),
    st.integers(0, COLUMNS - 1),
    st.integers(1, COLUMNS),
    st.integers(1, 3),  # every how many columns
)


def columns_of(step):
    _, first, count, every = step
    return slice(first, min(COLUMNS, first + count), every)


def performed(acc, a, b, steps):
    for step in steps:
        kind, at = step[0], columns_of(step)
        part = acc[:, at]
        if kind == "memset":
            nisa.memset(part, 5.0)
        elif kind == "copy":
            nisa.tensor_copy(part, b[0:ROWS, at])
        else:
            accumulate = {"product": None, "overwrite": False, "add": True}[kind]
            nisa.nc_matmul(part, a, b[:, at], accumulate=accumulate)


def model(steps, dtype):
    """Return the elements after all steps, NaN where nothing was written."""
    held = np.full((ROWS, COLUMNS), np.nan)
    written = np.zeros(COLUMNS, bool)
    for step in steps:
        kind = step[0]
        for c in range(COLUMNS)[columns_of(step)]:
            if kind == "memset":
                value = np.full(ROWS, 5.0)
            elif kind == "copy":
                value = B[:ROWS, c].astype(float)
            elif kind == "add" or (kind == "product" and written[c]):
                value = held[:, c] + PRODUCT[:, c]
            else:
                value = PRODUCT[:, c]
            held[:, c] = value.astype(np.float32).astype(dtype).astype(float)
            written[c] = True
    return held


def stored(acc):
    tile = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, acc)
    out = nl.ndarray((ROWS, COLUMNS), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


@pytest.mark.parametrize(
    ("target", "name", "dtype"),
    [
        ("trn2", "float32", np.float32),
        ("trn3", "float32", np.float32),
        ("trn3", "bfloat16", ml_dtypes.bfloat16),
    ],
)
@pytest.mark.parametrize("times", [1, 3])
@given(steps=st.lists(STEPS, min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_products_overwrite_or_add_element_by_element(target, name, dtype, times, steps):
    """With `times` the steps are the body of a device loop; the tile stays the same in all of its passes."""

    def kernel(x, y):
        a, b = nl.load(x), nl.load(y)
        acc = nl.ndarray((ROWS, COLUMNS), dtype=getattr(nl, name), buffer=nl.psum)
        if times == 1:
            performed(acc, a, b, steps)
        else:
            nl.fori_loop(0, times, lambda i: performed(acc, a, b, steps))
        return stored(acc)

    found = run(jit(kernel), A, B, target=target).value
    np.testing.assert_array_equal(found, model(steps * times, dtype))


def test_the_data_need_every_rounding():
    """Otherwise the model could not tell one rounding from another."""
    steps = [("product", 0, COLUMNS, 1)] * 3
    once = (3 * PRODUCT).astype(np.float32).astype(ml_dtypes.bfloat16).astype(float)
    assert (model(steps, ml_dtypes.bfloat16) != once).any()
