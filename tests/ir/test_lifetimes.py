"""Tests that a tensor is in use exactly from the first to the last instruction that touches it."""

from hypothesis import given
from hypothesis import strategies as st

from nki_lab.ir.building.builder import Builder
from nki_lab.ir.program.lifetimes import Lifetime, lifetimes
from nki_lab.ir.program.touches import Touches
from nki_lab.targets import TRN2
from nki_lab.targets.spaces import SBUF, SHARED_HBM
from tests.ir.programs import probe_join, probe_move, probe_scale


def test_tiles_of_a_loop_follow_each_other():
    b = Builder(TRN2)
    x = b.allocate((256, 8), "float32", SHARED_HBM, "x", origin="input")
    with b.active():
        for row in (0, 128):
            tile = b.allocate((128, 8), "float32", SBUF, "tile")
            probe_move(tile, x[row : row + 128])
            probe_scale(tile, tile)
            probe_scale(tile, tile)
    lives = {b.storages[key].name: life for key, life in lifetimes(Touches(b.body)).items()}
    assert lives == {"x": (0, 3), "tile": (0, 2), "tile.1": (3, 5)}


def test_making_a_tensor_is_no_use_of_it():
    b = Builder(TRN2)
    with b.active():
        early, late, never = (b.allocate((128, 4), "float32", SBUF, n) for n in "eln")
        probe_scale(late, early)
        probe_scale(early, late)
    assert lifetimes(Touches(b.body)) == {
        early.storage.id: Lifetime(0, 1),
        late.storage.id: Lifetime(0, 1),
    }
    assert never.storage.id not in lifetimes(Touches(b.body))


@given(st.lists(st.lists(st.integers(0, 7), min_size=2, max_size=4), max_size=20))
def test_lifetimes_equal_a_search(program):
    b = Builder(TRN2)
    with b.active():
        tiles = [b.allocate((128, 8), "float32", SBUF) for _ in range(8)]
        for dst, *sources in program:
            if len(sources) == 1:
                probe_move(tiles[dst], tiles[sources[0]])
            else:  # views inside a list count
                probe_join(tiles[dst], [tiles[s][:, 0:4] for s in sources])
    found = lifetimes(Touches(b.body))
    uses = {t.storage.id: [n for n, used in enumerate(program) if k in used] for k, t in enumerate(tiles)}  # fmt: skip
    assert found == {key: (at[0], at[-1]) for key, at in uses.items() if at}
    assert [life.first for life in found.values()] == sorted(life.first for life in found.values())
