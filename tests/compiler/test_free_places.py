"""Tests that a tile only gets bytes that are free, aligned, and unused for the longest time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nki_lab.compiler.passes.free_places import FreePlaces, lowest_places
from nki_lab.ir.program.lifetimes import Lifetime
from tests.thorough import examples

SIZES = st.sampled_from((1, 2, 4, 8, 12, 16, 32))
ALIGN = st.sampled_from((1, 2, 4))


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(st.booleans(), SIZES, ALIGN, st.integers(0, 99)), max_size=60),
       st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=3))  # fmt: skip
def test_places_in_use_never_share_a_byte(events, reserved):
    taken = sorted((low, low + size) for low, size in reserved)
    taken = [t for n, t in enumerate(taken) if n == 0 or t[0] >= taken[n - 1][1]]
    capacity = 96
    places = FreePlaces(capacity, taken)
    busy = dict.fromkeys(b for low, high in taken for b in range(low, high))
    held = []
    for time, (take, size, align, which) in enumerate(events):
        if not take and held:
            byte, length = held.pop(which % len(held))
            places.give_back(byte, length, time)
            for b in range(byte, byte + length):
                del busy[b]
        elif take:
            byte = places.take(size, align)
            room = [s for s in range(0, capacity - size + 1, align)
                    if not any(b in busy for b in range(s, s + size))]  # fmt: skip
            assert (byte is None) == (not room), "it is refused only where no place is free"
            if byte is not None:
                assert byte in room
                busy.update(dict.fromkeys(range(byte, byte + size)))
                held.append((byte, size))


def test_unused_memory_comes_first():
    places = FreePlaces(40, [])
    assert places.take(10, 1) == 0
    places.give_back(0, 10, 1)
    assert [places.take(10, 1) for _ in range(3)] == [10, 20, 30]
    assert places.take(10, 1) == 0


def test_the_place_free_the_longest_comes_next():
    places = FreePlaces(40, [])
    a, b, c, d = (places.take(10, 1) for _ in range(4))
    for time, byte in enumerate((c, a, d, b)):
        places.give_back(byte, 10, time)
    assert [places.take(10, 1) for _ in range(4)] == [c, a, d, b]
    assert places.take(10, 1) is None


def test_a_larger_tile_joins_the_neighbours_free_the_longest():
    places = FreePlaces(60, [])
    starts = [places.take(10, 1) for _ in range(6)]
    for time, n in enumerate((4, 5, 0, 1)):  # 40..60 before 0..20
        places.give_back(starts[n], 10, time)
    assert places.take(20, 1) == 40
    assert places.take(20, 1) == 0
    assert places.take(1, 1) is None


def test_what_is_left_of_a_joined_place_can_be_taken():
    places = FreePlaces(32, [])
    a, b = places.take(16, 1), places.take(16, 1)
    places.give_back(a, 16, 1)
    places.give_back(b, 16, 2)
    assert places.take(20, 4) == 0
    assert places.take(12, 4) == 20


def test_alignment_leaves_no_byte_behind():
    places = FreePlaces(16, [])
    assert places.take(1, 1) == 0
    assert places.take(8, 4) == 4
    assert places.take(3, 1) == 12  # unused at the end before the gap
    assert places.take(3, 1) == 1


def test_places_around_explicit_addresses():
    places = FreePlaces(30, [(5, 10), (12, 20)])
    assert places.take(5, 1) == 0
    assert places.take(4, 1) == 20
    assert places.take(2, 1) == 10
    assert places.take(7, 1) is None


lives = st.tuples(st.integers(0, 20), st.integers(0, 8)).map(lambda t: Lifetime(t[0], t[0] + t[1]))


@settings(max_examples=examples(300))
@given(st.lists(st.tuples(SIZES, ALIGN, lives), max_size=20),
       st.lists(st.tuples(st.integers(0, 60), SIZES, lives), max_size=4))  # fmt: skip
def test_lowest_places_share_no_byte_while_in_use(tiles, fixed):
    wanted = [(k, *tile) for k, tile in enumerate(sorted(tiles, key=lambda t: t[2]))]
    reserved = [(low, low + size, life) for low, size, life in fixed]
    found = lowest_places(wanted, reserved, 96)
    if found is None:
        return
    taken = list(reserved)
    for key, size, align, life in wanted:
        low = found[key]
        assert low % align == 0 and low >= 0 and low + size <= 96
        for a, b, other in taken:
            together = other.first <= life.last and life.first <= other.last
            assert not (together and a < low + size and low < b)
        taken.append((low, low + size, life))


@pytest.mark.parametrize("capacity", [24, 23])
def test_lowest_places_are_the_lowest(capacity):
    tiles = [(8, 4, (0, 9)), (4, 4, (0, 2)), (12, 4, (1, 9)), (4, 2, (3, 4))]
    wanted = [(k, size, align, Lifetime(*life)) for k, (size, align, life) in enumerate(tiles)]
    found = lowest_places(wanted, [], capacity)
    assert found == ({0: 0, 1: 8, 2: 12, 3: 8} if capacity == 24 else None)
