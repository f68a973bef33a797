"""Compares random index tensors and masks with what NumPy makes of the same expressions.

`make fuzz` looks at many more of them: FUZZ_EXAMPLES says how many, FUZZ_SEED which.
"""

import os

import numpy as np
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st

from nki_lab.beta1.index import Index
from nki_lab.beta1.masks import boxes
from tests.beta1.expressions import axes, expression, key_of, mask

SEED = int(os.environ.get("FUZZ_SEED", "1"))
SHAPES = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)


def many(test, plain=60):
    """Let a test look at as many examples as FUZZ_EXAMPLES says, or at a few."""
    options = settings(
        max_examples=int(os.environ.get("FUZZ_EXAMPLES", plain)), deadline=None, derandomize=False, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    return seed(SEED)(options(test))


@many
@given(st.data())
def test_index_tensors_have_the_values_of_numpy(data):
    shape = data.draw(SHAPES)
    pairs = axes(data.draw, shape)
    value = expression(data.draw, shape, pairs)
    note(value.text)
    assert value.ours.shape == value.array.shape
    np.testing.assert_array_equal(value.ours.values(), value.array)
    box = tuple((0, n) for n in value.ours.shape)
    assert value.ours.range(box) == (value.array.min(), value.array.max())
    key = key_of(data.draw, value.ours)
    part, expected = value.ours[key], value.array[key]
    if isinstance(part, Index):
        assert part.shape == expected.shape
        np.testing.assert_array_equal(part.values(), expected)
        assert not any(c for c, n in zip(part.coef, part.shape, strict=True) if n == 1)
    else:
        assert part == expected


@many
@given(st.data())
def test_boxes_of_a_mask_cover_each_position_where_it_holds_once(data):
    shape = data.draw(SHAPES)
    pairs = axes(data.draw, shape)
    condition = mask(data.draw, shape, pairs)
    note(condition.text)
    times = np.zeros(shape, dtype=int)
    for box in boxes(condition.ours, shape, limit=10_000):
        times[tuple(slice(*ends) for ends in box)] += 1
    np.testing.assert_array_equal(times, np.broadcast_to(condition.array, shape).astype(int))


@many
@given(st.data())
def test_a_conjunction_along_single_axes_is_one_box(data):
    shape = data.draw(SHAPES)
    pairs = axes(data.draw, shape)
    condition = None
    for pair in pairs:
        limit = data.draw(st.integers(int(pair.array.min()) - 1, int(pair.array.max()) + 1))
        one = pair.ours <= limit if data.draw(st.booleans()) else pair.ours * 3 > limit
        condition = one if condition is None else condition & one
    assert len(boxes(condition, shape)) <= 1


@many
@given(st.data())
def test_composition_is_what_numpy_selects(data):
    """Positions in a tile that is itself a part of a tensor are positions in the tensor."""
    shape = data.draw(SHAPES)
    inner = tuple(data.draw(st.integers(1, 9)) for _ in range(data.draw(st.integers(1, 3))))
    outer = tuple(
        Index(
            inner,
            tuple(data.draw(st.integers(-3, 3)) if n > 1 else 0 for n in inner),
            data.draw(st.integers(-9, 9)),
        )
        for _ in range(2)
    )
    pairs = axes(data.draw, shape)
    places = [expression(data.draw, shape, pairs) for _ in inner]
    for index in outer:
        composed = index.compose([p.ours for p in places], shape)
        expected = index.const + sum(
            c * np.broadcast_to(p.array, shape) for c, p in zip(index.coef, places, strict=True)
        )
        assert composed.shape == shape
        np.testing.assert_array_equal(composed.values(), expected)
