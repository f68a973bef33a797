"""Tests that the changes that a capacity error names make everything fit, where one tile alone is not enough."""

import re

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import OverCapacity
from nki_lab.targets import TRN2
from tests.compiler.programs import compiled

X = np.ones((1, 4), np.float32)


def many(x, count, width, space, address):
    """Keep `count` tiles in use at one time, the first of them at an address."""
    out = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.zeros((128, 4), dtype=nl.float32)
    tiles = []
    if address is not None:
        fixed = nl.ndarray((128, 4), dtype=nl.float32, buffer=space, address=address)
        nisa.memset(dst=fixed, value=1.0)
        tiles.append(fixed)
    for k in range(count):
        tile = nl.ndarray((128, width), dtype=nl.float32, buffer=space)
        nisa.memset(dst=tile, value=float(k))
        tiles.append(tile)
    for _ in range(2):
        for tile in tiles:
            nisa.tensor_tensor(dst=tile[:, 0:1], data1=tile[:, 0:1], data2=t[:, 0:1], op=nl.add)
            nisa.tensor_tensor(dst=t[:, 0:1], data1=tile[:, 0:1], data2=t[:, 0:1], op=nl.add)
    nl.store(out, t)
    return out


@pytest.mark.parametrize(
    ("count", "width", "space"),
    [
        (9, 512, nl.psum), (12, 300, nl.psum), (1, 5000, nl.psum), (5, 1000, nl.psum), (20, 200, nl.psum),
        (6, 20_000, nl.sbuf),
    ],
    ids=["banks", "not side by side", "one", "two banks", "many", "sbuf"],
)  # fmt: skip
def test_the_size_at_which_the_tiles_of_a_line_fit_does(count, width, space):
    with pytest.raises(OverCapacity) as caught:
        compiled(many, X, count, width, space, None)
    said = re.search(r"at most ([\d,]+) elements per partition instead of", caught.value.help)
    most = int(said[1].replace(",", ""))
    assert (f"the {count} tiles like `tile`" if count > 1 else "`tile`") in caught.value.help
    assert 0 < most < width
    compiled(many, X, count, most, space, None)
    assert ("psum has 8 banks of 2,048 bytes" in str(caught.value)) == (space is nl.psum)


def test_an_address_that_parts_the_memory_is_named():
    with pytest.raises(OverCapacity, match="they fit in sum, but not side by side") as caught:
        compiled(many, X, 1, 40_000, nl.sbuf, (0, 100_000))
    assert caught.value.help.startswith("it fits with one of these: leave `address` of `fixed` out")
    compiled(many, X, 1, 40_000, nl.sbuf, None)
    compiled(many, X, 1, 40_000, nl.sbuf, (0, 160_000 + 16))


def many_tiles(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.load(x) for _ in range(13)]
    total = nl.zeros(x.shape, dtype=x.dtype)
    for tile in (*tiles, *tiles):
        nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)
    nl.store(out, total)
    return out


def test_tiles_of_one_line_are_told_once():
    with pytest.raises(OverCapacity) as caught:
        compiled(many_tiles, np.zeros((128, 5000), np.float32), target=TRN2)
    tiles, total = caught.value.notes
    assert tiles.startswith("`tile` [128, 5000] float32: 20,000 bytes per partition, test_fitting")
    assert tiles.endswith(", and 12 more like it: 260,000 bytes per partition in all")
    assert total.startswith("`total` [128, 5000] float32: 20,000 bytes")


def unlike_tiles(x):
    out = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.load(x[:, : 5000 + k]) for k in range(14)]
    total = nl.zeros((128, 16), dtype=x.dtype)
    for tile in (*tiles, *tiles):
        nisa.tensor_tensor(dst=total, data1=total, data2=tile[:, :16], op=nl.add)
    nl.store(out, total)
    return out


def test_tiles_that_are_not_listed_are_counted_and_not_called_smaller():
    with pytest.raises(OverCapacity) as caught:
        compiled(unlike_tiles, np.zeros((128, 5020), np.float32), target=TRN2)
    assert len(caught.value.notes) == 11
    assert caught.value.notes[-1] == "and 5 more tiles: 80,088 bytes per partition"
