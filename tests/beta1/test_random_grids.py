"""Compares random launch grids over tiles whose ends a mask cuts with NumPy.

`make fuzz` looks at many more of them: FUZZ_EXAMPLES says how many, FUZZ_SEED which.
"""

from functools import partial

import numpy as np
from hypothesis import given, note
from hypothesis import strategies as st

from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from tests.beta1.test_random_index import many

AXIS = st.tuples(st.integers(1, 4), st.integers(1, 9))  # programs, and elements of a tile
LIMIT = st.integers(-3, 40)
STEP = st.integers(1, 2)


few = partial(many, plain=8)


@nki.jit
def tiles(x, sizes, limits, steps):
    """Scale the tile of each program, as far as it is inside, below one limit and not below another."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    row, column = nl.program_id(0), nl.program_id(1)
    if row == column == 0:
        nl.store(out, value=-1)
    i_p, i_f = nl.arange(sizes[0])[:, None], nl.arange(sizes[1])[None, :]
    at, along = row * sizes[0] + i_p, column * sizes[1] + i_f
    mask = (at < x.shape[0]) & (along < x.shape[1])
    mask = mask & (at * steps[0] < limits[0]) & (along * steps[1] >= limits[1])
    t = nl.load(x[at, along], mask=mask)
    t = nl.multiply(t, 2.0 + 10 * row + 100 * column, mask=mask)
    nl.store(out[at, along], t, mask=mask)
    return out


@few
@given(
    AXIS,
    AXIS,
    st.tuples(st.integers(0, 8), st.integers(0, 8)),
    st.tuples(LIMIT, LIMIT),
    st.tuples(STEP, STEP),
)
def test_programs_write_the_tiles_that_their_masks_leave(rows, columns, less, limits, steps):
    sizes = rows[1], columns[1]
    shape = tuple(
        max(1, n * size - cut) for (n, size), cut in zip((rows, columns), less, strict=True)
    )
    note(f"grid {rows[0]}, {columns[0]} over {shape}")
    x = np.random.default_rng(len(shape) + shape[0]).standard_normal(shape).astype(np.float32)
    found = tiles[rows[0], columns[0]](x, sizes, limits, steps)
    at, along = np.arange(shape[0])[:, None], np.arange(shape[1])[None, :]
    kept = (at * steps[0] < limits[0]) & (along * steps[1] >= limits[1])
    scale = 2 + 10 * (at // sizes[0]) + 100 * (along // sizes[1])
    expected = np.where(kept, x * scale.astype(np.float32), np.float32(-1))
    np.testing.assert_array_equal(found, expected)
