"""Tests that only what an instruction really touches counts as read and as written."""

from __future__ import annotations

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import jit, run

RNG = np.random.default_rng(3)


def findings(kernel, *arrays, target="trn3"):
    result = run(jit(kernel), *arrays, target=target)
    return [f.message for f in result.kernel.findings if f.kind == "uninitialized"]


def loaded(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, source)
    return tile


def stored(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


X = RNG.standard_normal((64, 128)).astype(np.float16)


@pytest.mark.parametrize("whole", [False, True])
def test_scales_of_quantized_tiles(whole):
    def kernel(x):
        data = nl.ndarray((64, 32), dtype=nl.float8_e5m2_x4, buffer=nl.sbuf)
        scale = nl.ndarray((64, 32), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.quantize_mx(data, loaded(x), scale)
        if whole:
            return stored(scale)
        product = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(product, data, data, scale, scale)
        return stored(nl.copy(product))

    found = findings(kernel, X)
    assert (len(found), whole) in ((0, False), (1, True))
    assert all("1792 of 2048 elements of src" in message for message in found)


def test_scales_that_are_missing():
    def kernel(x):
        data = nl.ndarray((64, 32), dtype=nl.float8_e5m2_x4, buffer=nl.sbuf)
        scale = nl.ndarray((128, 32), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.quantize_mx(data, loaded(x), scale[4:, :])
        product = nl.ndarray((32, 32), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul_mx(product, data, data, scale[4:, :], scale[0:, :])
        return stored(nl.copy(product))

    (found,) = findings(kernel, X)
    assert "nc_matmul_mx: all elements of moving_scale" in found


@pytest.mark.parametrize("columns", [2, 3])
def test_results_of_topk_snake(columns):
    def kernel(x):
        values = nl.ndarray((32, 20), dtype=nl.bfloat16, buffer=nl.sbuf)
        places = nl.ndarray((32, 20), dtype=nl.uint32, buffer=nl.sbuf)
        source = nl.copy(loaded(x), dtype=nl.bfloat16)
        nisa.topk(values, places, source, n=100)
        return stored(places[:, 0:columns])

    found = findings(kernel, X[:32])
    assert (len(found), columns) in ((0, 2), (1, 3))
    assert all("32 of 96 elements" in message for message in found)


@pytest.mark.parametrize("row", [16, 17])
def test_partitions_of_nonzero_with_count(row):
    def kernel(x):
        source = nl.ndarray((32, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(source[0:1], x[0:1, 0:8])
        nisa.dma_copy(source[16:17], x[1:2, 0:8])
        listed = nl.ndarray((32, 9), dtype=nl.int32, buffer=nl.sbuf)
        nisa.nonzero_with_count(listed, source)
        return stored(listed[row : row + 1])

    found = findings(kernel, X.astype(np.float32))
    assert (len(found), row) in ((0, 16), (1, 17))
