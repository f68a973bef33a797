"""Tests that `t[...] = value` copies a tensor, and refuses everything else."""

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import NkiError, RuleBroken, TileAssignment
from nki_lab.runtime import run


def blocks(x):
    kept = nl.ndarray((x.shape[1], x.shape[0], x.shape[2]), x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for n in range(x.shape[0]):
        kept[:, n] = nl.load(x[n])
    for n in range(x.shape[0]):
        out[n] = kept[:, x.shape[0] - 1 - n, :]
    return out


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_tile_or_a_part_of_hbm_takes_a_copy(rng, dtype):
    x = (rng.standard_normal((3, 5, 7)) * 40).astype(dtype)
    result = run(blocks, x)
    assert np.array_equal(result.outputs[0], x[::-1])
    traced = result.compiled.stages[0][1]
    names = [i.definition.name for i in traced.instructions]
    assert names == ["dma_copy", "tensor_copy"] * 3 + ["dma_copy"] * 3


def test_the_copy_converts_like_the_instruction(rng):
    def kernel(x):
        tile = nl.ndarray(x.shape, nl.int32, buffer=nl.sbuf)
        tile[...] = nl.load(x)
        out = nl.ndarray(x.shape, nl.int32, buffer=nl.shared_hbm)
        nl.store(out, tile)
        return out

    x = rng.standard_normal((4, 9)).astype(np.float32) * 100
    assert np.array_equal(run(kernel, x).outputs[0], np.rint(x).astype(np.int32))


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (lambda t: 2.5, TileAssignment, "cannot assign float to elements of `t`"),
        (lambda t: np.ones((4, 2)), TileAssignment, "cannot assign ndarray"),
        (lambda t: t[:, 0:3], RuleBroken, "must have the same number of elements"),
        (lambda t: t + 1, NkiError, "Python operator"),
    ],
)
def test_what_is_refused(value, error, message):
    def kernel(x):
        t = nl.load(x)
        t[:, 4:6] = value(t)
        nisa.dma_copy(dst=x, src=t)

    with pytest.raises(error, match=r"test_assignment\.py, line") as caught:
        run(kernel, np.ones((4, 9), np.float32))
    assert message in str(caught.value)
