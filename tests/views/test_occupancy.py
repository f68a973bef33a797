"""Tests that free bytes, overlaps and peaks are those that counting every byte gives."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.views.memory.occupancy import OVERLAP_TILES, Occupancy

USABLE = 120
PARTITIONS = 16
INSTRUCTIONS = 12


def random_tiles(seed: int, count: int = 9) -> Occupancy:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, INSTRUCTIONS, count)
    partition = rng.integers(0, PARTITIONS, count)
    return Occupancy(
        "sbuf",
        np.arange(count),
        first,
        np.minimum(INSTRUCTIONS - 1, first + rng.integers(0, 6, count)),
        rng.integers(0, USABLE - 10, count),
        rng.integers(1, 40, count),
        partition,
        np.minimum(PARTITIONS - partition, rng.integers(1, PARTITIONS, count)),
    )


def painted(tiles: Occupancy) -> np.ndarray:
    """Return how many tiles have each byte, [tile, instruction, partition, byte]."""
    held = np.zeros((len(tiles.tensor), INSTRUCTIONS, PARTITIONS, USABLE + 50), dtype=bool)
    for k in range(len(tiles.tensor)):
        held[
            k,
            tiles.first[k] : tiles.last[k] + 1,
            tiles.partition[k] : tiles.partition[k] + tiles.partitions[k],
            tiles.address[k] : tiles.address[k] + tiles.size[k],
        ] = True
    return held


def runs(free: np.ndarray) -> list[int]:
    """Return the lengths of the stretches of True."""
    text = "".join("x" if f else " " for f in free)
    return [len(part) for part in text.split()]


@pytest.mark.parametrize("seed", range(12))
def test_free_bytes_are_those_no_tile_covers(seed) -> None:
    tiles = random_tiles(seed)
    held = painted(tiles).any(0)
    for instruction in range(INSTRUCTIONS):
        stretches = runs(~held[instruction].any(0)[:USABLE])
        found = tiles.free(instruction, USABLE)
        assert found == (sum(stretches), max(stretches, default=0), len(stretches))
        if stretches:
            assert found.fragmentation == pytest.approx(1 - max(stretches) / sum(stretches))


@pytest.mark.parametrize("seed", range(12))
def test_overlaps_are_the_pairs_with_bytes_in_common(seed) -> None:
    tiles = random_tiles(seed)
    held = painted(tiles)
    found = {}
    for overlap in tiles.overlaps():
        found[frozenset((overlap.one, overlap.other))] = overlap
    for a in range(len(held)):
        for b in range(a):
            both = held[a] & held[b]
            overlap = found.get(frozenset((a, b)))
            assert bool(both.any()) == (overlap is not None)
            if overlap is not None:
                when, _, where = np.nonzero(both)
                assert (overlap.first, overlap.last) == (when.min(), when.max())
                assert (overlap.address, overlap.size) == (
                    where.min(),
                    where.max() + 1 - where.min(),
                )


@pytest.mark.parametrize("seed", range(12))
def test_the_fullest_partition_is_the_one_with_most_bytes(seed) -> None:
    tiles = random_tiles(seed)
    used = painted(tiles).sum(0).sum(2)  # instruction, partition
    peak, moment = tiles.peak(PARTITIONS)
    assert peak == used.max()
    assert used[moment].max() == peak and used[:, tiles.fullest(PARTITIONS)].max() == peak


def test_no_tiles_leave_everything_free() -> None:
    none = random_tiles(0, 0)
    assert none.free(3, USABLE) == (USABLE, USABLE, 1)
    assert none.free(3, USABLE).fragmentation == 0
    assert none.overlaps() == [] and none.peak(PARTITIONS) == (0, 0)


def test_at_most_so_many_overlaps_are_told() -> None:
    same = np.zeros(30, np.int64)
    tiles = Occupancy("psum", np.arange(30), same, same, same, same + 4, same, same + 1)
    assert len(tiles.overlaps()) == 100
    assert len(tiles.overlaps(1000)) == 30 * 29 // 2
    many = np.zeros(OVERLAP_TILES + 1, np.int64)
    assert Occupancy("psum", *[many] * 7).overlaps() is None
