"""Tests that random numbers are uniform, independent, different per partition and reproducible.

The streams are fixed by their seeds: a limit that holds once holds always. Limits are about four standard deviations.
"""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.isa import xorwow
from nki_lab.simulator.memory import new_registers
from nki_lab.targets import ALL_TARGETS
from nki_lab.targets.engines import Engine
from tests.isa.case import Case, Traced, empty, isa, tile

VECTOR, GPSIMD = Engine.vector, Engine.gpsimd


def outcome(run, tiles, target="trn3"):
    """Return the contents of all tiles after a program, as arrays."""
    case = Case("rng", "numbers", tiles, run, dict.fromkeys(tiles))
    traced = Traced(case, target)
    assert traced.errors == []
    return traced.simulate()


def words(engine, target="trn3", seed=None):
    """Return 128 x 512 random words of an engine."""

    def run(t):
        if seed is not None:
            isa.set_rng_seed(t.seed)
        isa.rng(t.dst, engine)

    tiles = {"dst": empty((128, 512), "uint32")}
    tiles |= {} if seed is None else {"seed": tile([[seed]], "int32")}
    return outcome(run, tiles, target)["dst"]


STREAMS = {
    "Vector": lambda: words(VECTOR),
    "Vector of trn1": lambda: words(VECTOR, "trn1"),
    "Vector with a seed": lambda: words(VECTOR, seed=1),
    "GpSimd": lambda: words(GPSIMD),
}


@pytest.fixture(scope="module", params=list(STREAMS))
def stream(request):
    return STREAMS[request.param]()


def chi_square(counts):
    """Return how far counts are from equal ones, in standard deviations of the chi-square distribution."""
    expected = counts.sum() / counts.size
    freedom = counts.size - 1
    return (((counts - expected) ** 2 / expected).sum() - freedom) / np.sqrt(2 * freedom)


@pytest.mark.parametrize("shift", [0, 8, 16, 24])
def test_bytes_are_uniform(stream, shift):
    assert abs(chi_square(np.bincount((stream.reshape(-1) >> shift) & 0xFF, minlength=256))) < 4


def test_every_bit_is_set_half_of_the_time(stream):
    ones = np.unpackbits(stream.view(np.uint8), axis=1).reshape(-1, 32).mean(axis=0)
    assert abs(ones - 0.5).max() < 4 * 0.5 / np.sqrt(stream.size)


@pytest.mark.parametrize("lag", [1, 2, 4, 5, 20])
def test_neighbours_in_a_partition_are_independent(stream, lag):
    pairs = (stream[:, :-lag] >> 28) * 16 + (stream[:, lag:] >> 28)
    assert abs(chi_square(np.bincount(pairs.reshape(-1), minlength=256))) < 4


@pytest.mark.parametrize("distance", [1, 2, 32, 64])
def test_partitions_are_independent(stream, distance):
    pairs = (stream[:-distance] >> 28) * 16 + (stream[distance:] >> 28)
    assert abs(chi_square(np.bincount(pairs.reshape(-1), minlength=256))) < 4
    equal = np.count_nonzero(stream[:-distance] == stream[distance:])
    assert equal <= 1  # 65,536 pairs of 32-bit words


def test_seeds_that_differ_in_one_bit_are_independent():
    first, *others = (words(VECTOR, seed=s) for s in (0, 1, 2, 1 << 30))
    for other in others:
        flipped = np.unpackbits((first ^ other).view(np.uint8)).mean()
        assert abs(flipped - 0.5) < 4 * 0.5 / np.sqrt(32 * first.size)


def test_a_program_without_a_seed_repeats_itself_and_is_that_of_seed_0():
    assert np.array_equal(words(VECTOR), words(VECTOR))
    assert np.array_equal(words(VECTOR), words(VECTOR, seed=0))
    assert not np.array_equal(words(VECTOR), words(VECTOR, seed=1))


def test_one_long_instruction_gives_what_two_short_ones_give():
    def run(t):
        isa.set_rng_seed(t.seed)
        isa.rng(t.whole)
        isa.set_rng_seed(t.seed)
        isa.rng(t.parts[:, :64])
        isa.rng(t.parts[:, 64:])

    tiles = {k: empty((128, 100), "uint32") for k in ("whole", "parts")}
    found = outcome(run, tiles | {"seed": tile([[9]], "int32")})
    assert np.array_equal(found["whole"], found["parts"])


def test_states_go_from_tile_to_engine_and_back_through_use():
    """Save, draw, restore, draw again: the numbers are the same, on both engines at once."""

    def run(t):
        for engine in (VECTOR, GPSIMD):
            saved, first, again = (
                getattr(t, f"{k}_{engine.name}") for k in ("saved", "first", "again")
            )
            isa.rand_get_state(saved, engine)
            isa.rng(first, engine)
            isa.rand_set_state(saved, engine)
            isa.rng(again, engine)

    tiles = {}
    for engine, count in ((VECTOR, 24), (GPSIMD, 6)):
        tiles[f"saved_{engine.name}"] = empty((128, count), "uint32")
        for k in ("first", "again"):
            tiles[f"{k}_{engine.name}"] = empty((128, 33), "uint32")
    found = outcome(run, tiles)
    for engine in (VECTOR, GPSIMD):
        assert np.array_equal(found[f"first_{engine.name}"], found[f"again_{engine.name}"])
    assert not np.array_equal(found["first_vector"], found["first_gpsimd"])


@pytest.mark.parametrize("prob", [0.1, 0.5, 0.875])
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_dropout_drops_its_share(prob, target):
    ones = np.ones((128, 512), np.float32)
    found = outcome(
        lambda t: isa.dropout(t.dst, t.x, prob), {"dst": empty((128, 512)), "x": tile(ones)}, target
    )
    kept = found["dst"]
    assert set(np.unique(kept)) == {0, 1}
    deviation = np.sqrt(prob * (1 - prob))
    assert abs(kept.mean() - (1 - prob)) < 4 * deviation / np.sqrt(kept.size)
    assert abs(kept.mean(axis=1) - (1 - prob)).max() < 5 * deviation / np.sqrt(512)


def test_dropout_goes_by_the_probability_of_each_partition():
    prob = np.linspace(0, 1, 128, dtype=np.float32)[:, None]
    tiles = {"dst": empty((128, 4096)), "x": tile(np.ones((128, 4096))), "prob": tile(prob)}
    kept = outcome(lambda t: isa.dropout(t.dst, t.x, t.prob), tiles)["dst"].mean(
        axis=1, keepdims=True
    )
    assert kept[0] == 1 and kept[-1] == 0
    assert abs(kept - (1 - prob)).max() < 5 * 0.5 / np.sqrt(4096)


def test_uniform_numbers_fill_their_range():
    found = outcome(lambda t: isa.rand2(t.dst, -3.0, 5.0), {"dst": empty((128, 512))})[
        "dst"
    ].astype(float)
    assert -3 <= found.min() < -2.99 and 4.99 < found.max() < 5
    assert abs(chi_square(np.histogram(found, 128, (-3, 5))[0])) < 4
    assert abs(found.mean() - 1) < 4 * 8 / np.sqrt(12 * found.size)


def test_registers_have_the_documented_sizes():
    for target in ALL_TARGETS:
        shapes = {s.parameter: (r.shape, r.dtype) for s, r in new_registers(target).items()}
        assert shapes == {
            "act_accumulator": ((128, 1), np.float32),
            "dve_accumulator": ((128, 1), np.float32),
            "dve_rng": ((128, 24), np.uint32),
            "pool_rng": ((128, 6), np.uint32),
        }


def test_no_two_partitions_start_from_one_state():
    states = np.empty((128, 24), np.uint32)
    xorwow.seed(states, 12345)
    assert len(np.unique(states.reshape(-1, 6), axis=0)) == 512
    assert states.reshape(-1, 6)[:, :5].any(axis=1).all()  # only the counter would move
