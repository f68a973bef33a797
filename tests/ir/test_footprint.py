"""Tests that a footprint holds every byte of its view, and that `overlap` misses none that two views share."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.dtypes import bfloat16, float32
from nki_lab.ir.tensor import footprint as footprints
from nki_lab.ir.tensor.footprint import (
    byte_range,
    covers,
    flat_range,
    footprint,
    overlap,
    share_bytes,
)
from nki_lab.targets.spaces import PRIVATE_HBM, PSUM, SBUF
from tests.ir.memory import tensor
from tests.ir.views import storages, touched, views
from tests.thorough import examples


def rectangle(box, nbytes):
    """Return the mask of the bytes in a footprint, row by row."""
    mask = np.zeros(max(nbytes, box.end_row * box.pitch), bool)
    for row in range(box.first_row, box.end_row):
        mask[row * box.pitch + box.first_byte : row * box.pitch + box.end_byte] = True
    return mask[:nbytes]


@st.composite
def pairs(draw):
    storage = draw(storages())
    return draw(views(storage)), draw(views(storage))


@settings(max_examples=examples(600))
@given(pairs())
def test_no_byte_is_left_out(pair):
    for view in pair:
        box = footprint(view)
        low, high = flat_range(box)
        bytes_touched = touched(view)
        assert box.first_byte >= 0 and box.end_byte <= box.pitch, "a row ends with its pitch"
        assert not (bytes_touched & ~rectangle(box, view.storage.nbytes)).any()
        where = np.flatnonzero(bytes_touched)
        assert low <= where[0] and where[-1] < high


@settings(max_examples=examples(600))
@given(pairs())
def test_overlap_misses_no_shared_byte(pair):
    a, b = pair
    shared = bool((touched(a) & touched(b)).any())
    for x, y in ((a, b), (b, a)):
        assert overlap(footprint(x), footprint(y)) or not shared


@pytest.mark.parametrize("tries", [footprints._TRIES, 0], ids=["tried", "marked"])
def test_whether_views_share_a_byte_is_decided_exactly(monkeypatch, tries):
    monkeypatch.setattr(footprints, "_TRIES", tries)
    footprints._share.cache_clear()

    @settings(max_examples=examples(300))
    @given(pairs())
    def check(pair):
        a, b = pair
        shared = bool((touched(a) & touched(b)).any())
        assert share_bytes(a, b) is share_bytes(b, a) is shared
        where = np.flatnonzero(touched(a))
        assert byte_range(a) == (where[0], where[-1] + 1)

    check()
    footprints._share.cache_clear()


def _bytes_of(pattern, start):
    """Return the bytes of a pattern that begins at byte `start`, one by one."""
    shape, strides, size = pattern
    places = (sum(map(np.multiply, index, strides)) for index in np.ndindex(*shape))
    return {start + int(at) * size + byte for at in places for byte in range(size)}


@pytest.mark.parametrize("tries", [footprints._TRIES, 2], ids=["tried", "marked"])
def test_steps_of_any_length_and_direction(monkeypatch, tries):
    """Steps that lie on each other, that share no divisor, that are 0 or go back; elements of several sizes."""
    monkeypatch.setattr(footprints, "_TRIES", tries)
    footprints._share.cache_clear()
    rng = np.random.default_rng(17)
    counts = [0, 0]
    for _ in range(3000):
        patterns = []
        for _ in range(2):
            rank = rng.integers(0, 4)
            shape = tuple(rng.choice([1, 2, 3, 5, 7], rank).tolist())
            strides = tuple(rng.choice([0, 1, 2, 3, 5, 8, 16, 7, -1, -4, -6], rank).tolist())
            patterns.append((shape, strides, int(rng.choice([1, 2, 4]))))
        a, b = patterns
        first, second = (int(rng.integers(0, 40)) * size for _, _, size in patterns)
        shared = not _bytes_of(a, first).isdisjoint(_bytes_of(b, second))
        assert footprints._share(second - first, a, b) is shared, (first, a, second, b)
        counts[shared] += 1
    assert min(counts) > 300
    footprints._share.cache_clear()


def test_large_strided_views_are_told_apart():
    whole = tensor((4096, 4096), PRIVATE_HBM, float32)
    assert not share_bytes(whole[:, 0::2], whole[:, 1::2])
    assert share_bytes(whole[:, 0::2], whole[4095:, 4094:])
    assert not share_bytes(whole.permute((1, 0))[:2048], whole[:, 2048:])
    columns = whole.reshape((4096 * 4096,)).ap([[4097, 4095]], offset=1)  # beside the diagonal
    assert not share_bytes(columns, whole.ap([[4097, 4096]]))
    assert share_bytes(columns, whole[4094:4095, 4095:])


@settings(max_examples=examples(600))
@given(pairs())
def test_what_covers_holds_every_byte(pair):
    a, b = pair
    if covers(footprint(a), footprint(b)):
        box = rectangle(footprint(a), a.storage.nbytes)
        assert not (touched(b) & ~box).any()


@pytest.mark.parametrize("buffer", [SBUF, PSUM, PRIVATE_HBM])
def test_overlap_is_exact_for_a_grid_of_tiles(buffer):
    whole = tensor((12, 30), buffer, bfloat16)
    tiles = [
        whole[r : r + h, c : c + w]
        for h, w in ((4, 10), (3, 15), (12, 5))
        for r in range(0, 12, h)
        for c in range(0, 30, w)
    ]
    for a, b in itertools.combinations(tiles, 2):
        assert overlap(footprint(a), footprint(b)) == (touched(a) & touched(b)).any()


def test_overlap_is_exact_for_planes_of_a_tensor_with_three_axes():
    whole = tensor((6, 4, 10), PRIVATE_HBM)
    tiles = [whole[k] for k in range(6)] + [whole[k : k + 2] for k in range(0, 6, 2)]
    for a, b in itertools.combinations(tiles, 2):
        assert overlap(footprint(a), footprint(b)) == (touched(a) & touched(b)).any()


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (tensor((128, 512))[32:64, 16:32], (2048, 32, 64, 64, 128)),
        (tensor((128, 512), dtype=bfloat16)[:, 1::2], (1024, 0, 128, 2, 1024)),
        (tensor((4, 8), PRIVATE_HBM)[1:3, 2:4], (32, 1, 3, 8, 16)),
        (tensor((4, 8), PRIVATE_HBM).permute((1, 0))[2:4, 1:3], (32, 1, 3, 8, 16)),
        (tensor((4, 8)).view(bfloat16)[0:2, 4:6], (32, 0, 2, 8, 12)),
        (tensor((1, 8), PRIVATE_HBM).broadcast(0, 4), (4, 0, 8, 0, 4)),
    ],
    ids=["tile", "every other column", "HBM", "transposed", "reinterpreted", "repeated"],
)
def test_known_footprints(view, expected):
    assert footprint(view) == expected


def test_a_footprint_is_computed_once():
    view = tensor((128, 512), SBUF, float32)[:, 8:16]
    assert footprint(view) is footprint(view)
