"""Parts of tensors that trips and programs write: which overlap, compared with sets of elements."""

import itertools

import numpy as np
import pytest

import nki_lab
from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.beta1.overlap import Place, overlaps

X = np.random.default_rng(7).standard_normal((128, 64)).astype(np.float32)


def elements(place):
    steps = [[s * k for k in range(n)] for n, s in zip(place.shape, place.strides, strict=True)]
    return {place.offset + sum(at) for at in itertools.product(*steps)}


@pytest.mark.parametrize("seed", range(4))
def test_random_parts_overlap_where_their_elements_meet(seed):
    rng = np.random.default_rng(seed)
    met = 0
    for _ in range(100):
        owned = []
        for owner in range(4):
            for _ in range(int(rng.integers(1, 3))):
                shape = tuple(int(n) for n in rng.integers(1, 4, 2))
                strides = tuple(
                    int(s) for s in rng.choice([-8, -1, 1, 2, 3, 8, 16], 2, replace=False)
                )
                owned.append(
                    (Place(int(rng.integers(2)), int(rng.integers(20, 80)), shape, strides), owner)
                )
        count = int(rng.integers(2, len(owned) + 1))
        writes, reads = owned[:count], owned[count:]
        expected = {
            a.storage
            for (a, i), (b, k) in itertools.product(owned, writes)
            if a.storage == b.storage and i != k and a != b and elements(a) & elements(b)
        }
        found = [*overlaps(writes, reads)]
        assert {later.storage for (later, _), _ in found} == expected
        for (later, i), (earlier, k) in found:
            assert i != k and elements(later) & elements(earlier)
        met += bool(found)
    assert 10 < met < 100


@nki.jit
def shifted(x, width, step, stride, ranges):
    out = nl.ndarray((128, 256), x.dtype, buffer=nl.shared_hbm)
    nl.store(out, 0.0)
    i_p, i_f = nl.arange(128)[:, None], nl.arange(width)[None, :]
    for i in ranges(3):
        nl.store(out[i_p, i * step + stride * i_f], nl.load(x[i_p, i_f]))
    return out


def hazards(kernel, *arguments):
    result = nki_lab.run(kernel, *arguments)
    return result.value, [f for f in result.findings if f.kind == "hazard"]


def test_trips_that_write_overlapping_parts_are_told_with_their_numbers():
    value, found = hazards(shifted, X, 32, 16, 1, nl.affine_range)
    (finding,) = found
    assert "trips 0 and 1 of nl.affine_range write parts of `out`" in finding.message
    expected = np.zeros((128, 256), np.float32)
    for i in range(3):
        expected[:, 16 * i : 16 * i + 32] = X[:, :32]
    np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize(
    ("width", "step", "stride", "ranges"),
    [(32, 32, 1, nl.affine_range), (32, 1, 4, nl.affine_range), (32, 16, 1, nl.sequential_range)],
)
def test_parts_beside_and_between_each_other_are_none(width, step, stride, ranges):
    assert not hazards(shifted, X, width, step, stride, ranges)[1]


def test_a_part_that_one_trip_writes_twice_is_its_own():
    @nki.jit
    def kernel(x):
        out = nl.ndarray((3, *x.shape), x.dtype, buffer=nl.shared_hbm)
        held = nl.ndarray((128, 3, 64), x.dtype)
        for i in nl.affine_range(3):
            held[:, i, :] = 0.0
            held[:, i, 0:40] = nl.load(x[:, 0:40])
            nl.store(out[i], held[:, i, :])
        return out

    value, found = hazards(kernel, X)
    expected = X.copy()
    expected[:, 40:] = 0
    np.testing.assert_array_equal(value, np.stack([expected] * 3))
    assert not found


def test_programs_that_write_or_read_overlapping_parts_are_a_race():
    @nki.jit
    def kernel(x, width, apart):
        out = nl.ndarray((128, 256), x.dtype, buffer=nl.shared_hbm)
        halo = nl.ndarray((128, 256), x.dtype, buffer=nl.shared_hbm)
        i = nl.program_id(0)
        i_p, i_f = nl.arange(128)[:, None], nl.arange(64)[None, :]
        nl.store(out[i_p, 64 * i + i_f], nl.load(x))
        j_f = nl.arange(width)[None, :]
        nl.store(halo[i_p, 64 * i + j_f], nl.load(out[i_p, apart * i + j_f]))
        return out

    assert not hazards(kernel[3], X, 64, 64)[1]
    (finding,) = hazards(kernel[3], X, 60, 50)[1]
    assert "program [1] reads a part of `out` that overlaps" in finding.message
    found = hazards(kernel[3], X, 70, 64)[1]
    assert any("program [1] writes a part of `halo` that overlaps" in f.message for f in found)
