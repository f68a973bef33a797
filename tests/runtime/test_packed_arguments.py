"""Tests that arrays of the packed x4 dtypes, which NumPy does not have, can be given to a kernel."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import nki_lab
import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.choices import inside
from nki_lab.errors import KernelArgument

WORDS = np.dtype([("float8_e5m2_x4", "u4")])


@nki_lab.jit
def product(a, b, scale):
    out = nl.ndarray((a.shape[1], b.shape[1]), nl.float32, buffer=nl.shared_hbm)
    tiles = []
    for source in (a, b):
        assert source.dtype == nl.float8_e5m2_x4
        tiles.append(nl.ndarray(source.shape, source.dtype, buffer=nl.sbuf))
        nisa.dma_copy(tiles[-1], source)
    scales = nl.ndarray(scale.shape, nl.uint8, buffer=nl.sbuf)
    nisa.dma_copy(scales, scale)
    acc = nl.ndarray(out.shape, nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(acc, tiles[0], tiles[1], scales[:, 0:4], scales[:, 4:10])
    result = nl.ndarray(out.shape, nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(result, acc)
    nisa.dma_copy(out, result)
    return out


@nki_lab.jit
def overwrite(a, b):
    tile = nl.ndarray(a.shape, a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, b)
    nisa.dma_copy(a, tile)
    return a


def packed(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values.astype(ml_dtypes.float8_e5m2)).view(WORDS)


def test_the_elements_are_used_as_the_packed_dtype(rng: np.random.Generator) -> None:
    a, b = rng.integers(-3, 4, (32, 16)), rng.integers(-3, 4, (32, 24))
    scale = np.full((32, 10), 127, np.uint8)
    with inside(target="trn3"):
        found = product(packed(a), packed(b), scale)
    quads = a.reshape(32, 4, 4), b.reshape(32, 6, 4)
    assert np.array_equal(found, np.einsum("kiq,kjq->ij", *quads))


def test_an_argument_that_is_written_is_the_callers_array(rng: np.random.Generator) -> None:
    a, b = packed(np.zeros((4, 8))), packed(rng.integers(-3, 4, (4, 8)))
    with inside(target="trn3"):
        found = overwrite(a, b)
    assert found is a
    assert np.array_equal(a, b)


def test_other_records_are_refused() -> None:
    with pytest.raises(KernelArgument, match="which NKI does not have"):
        overwrite(np.zeros((4, 2), [("x", "u4")]), packed(np.zeros((4, 8))))
