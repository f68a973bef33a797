"""Tests that searches and gathers refuse values that have no meaning, and take the published number of cycles."""

from __future__ import annotations

import numpy as np
import pytest

from nki_lab.errors import SimulationError
from tests.isa.case import Case, Traced, empty, isa, tile


def run(tiles, program):
    traced = Traced(Case("any", "run", tiles, program, {"dst": 0}), "trn2")
    assert traced.errors == []
    return traced.simulate()["dst"]


def gather(index):
    tiles = {"dst": empty((32, 16)), "data": tile(np.zeros((32, 40))), "index": tile(index)}
    return run(tiles, lambda t: isa.nc_n_gather(t.dst, t.data, t.index))


def test_an_index_past_the_end_names_its_partition():
    index = np.zeros((32, 16), np.uint32)
    index[21, 3] = 40
    with pytest.raises(
        SimulationError, match=r"nc_n_gather: index 40 in partition 21 .* 40 elements"
    ):
        gather(index)
    index[21, 3] = 39
    gather(index)
    index[0, 0] = 0xFFFFFFFF  # what nc_find_index8 gives for a value that is not there
    with pytest.raises(SimulationError, match="index 4294967295 in partition 0"):
        gather(index)


@pytest.mark.parametrize(("e", "start", "fails"), [(1, 39, False), (4, 36, False), (4, 37, True)])
def test_a_piece_past_the_end(e, start, fails):
    index = np.zeros((32, 1), np.uint16)
    index[21, 0] = start
    tiles = {"dst": empty((32, 16 * e)), "data": tile(np.zeros((32, 40))), "index": tile(index)}

    def program(t):
        isa.local_gather(t.dst, t.data, t.index, num_elem_per_idx=e)

    if not fails:
        run(tiles, program)
        return
    with pytest.raises(SimulationError, match="local_gather: index 40 in partition 21"):
        run(tiles, program)


@pytest.mark.parametrize("bad", [-1.0, 2.5, np.nan])
def test_segment_numbers_are_whole_and_not_negative(bad):
    ids = np.array([[1.0, 1.0, bad, 2.0]])
    tiles = {"dst": empty((1, 2, 4)), "ids": tile(ids)}
    with pytest.raises(SimulationError, match="element 2 of `segment_ids`"):
        run(tiles, lambda t: isa.sequence_bounds(t.dst, t.ids))


def cycles(tiles, program, target="trn1"):
    traced = Traced(Case("any", "cost", tiles, program), target)
    assert traced.errors == []
    (i,) = traced.own
    return [c.cycles for c in i.definition.cost_of(i, traced.builder.target)]


def test_searches_on_vector_take_a_cycle_per_element():
    # 1db4d74e:nki/api/nki/isa/__init__.py:673, :748, :795, :993; 64 at least.
    tiles = {"dst": empty((128, 8)), "src": empty((128, 512))}
    assert cycles(tiles, lambda t: isa.max8(t.dst, t.src)) == [512]
    tiles = {"dst": empty((128, 8), "uint32"), "src": empty((128, 512)), "vals": empty((128, 8))}
    assert cycles(tiles, lambda t: isa.nc_find_index8(t.dst, t.src, t.vals)) == [512]
    tiles = {"dst": empty((128, 8)), "src": empty((128, 8)), "vals": empty((128, 8))}
    assert cycles(tiles, lambda t: isa.nc_match_replace8(t.dst, t.src, t.vals, 0.0)) == [64]
    tiles = {"dst": empty((32, 100)), "src": empty((32, 100))}
    assert cycles(tiles, lambda t: isa.nc_stream_shuffle(t.dst, t.src, [0] * 32)) == [100]


def test_searches_on_gpsimd():
    # nki/api/nki/isa/__init__.py:3339: 4 n + K.
    tiles = {
        "val": empty((128, 8), "bfloat16"),
        "idx": empty((128, 8), "uint32"),
        "src": empty((128, 10), "bfloat16"),
    }
    assert cycles(tiles, lambda t: isa.topk(t.val, t.idx, t.src, 150)) == [4 * 150 + 8]
    # :1905: an instruction for every 512 elements; 150 cycles to start each is the GpSimd figure of other pages.
    tiles = {"dst": empty((128, 1100)), "data": empty((128, 4)), "at": empty((128, 1100), "uint32")}
    assert cycles(tiles, lambda t: isa.nc_n_gather(t.dst, t.data, t.at)) == [662, 662, 226]


def test_local_gather():
    # 1db4d74e:nki/api/nki/isa/__init__.py:630: 150 + n e / C, C = ((28 + 4 e) / (4 e)) / min(4 / bytes, e).
    def gather(dtype, e):
        tiles = {
            "dst": empty((128, 64 * e), dtype),
            "src": empty((128, 512), dtype),
            "at": empty((128, 4), "uint16"),
        }
        (found,) = cycles(tiles, lambda t: isa.local_gather(t.dst, t.src, t.at, num_elem_per_idx=e))
        return found

    assert gather("float32", 1) == 150 + 64 / 8
    assert gather("float32", 4) == 150 + 64 * 4 / (44 / 16)
    assert gather("bfloat16", 4) == 150 + 64 * 4 / (44 / 16 / 2)
