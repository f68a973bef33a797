"""What the body of a loop makes belongs to it (general/nki/api/nki.errors.rst)."""

import numpy as np
import pytest

from nki_lab.api.beta1 import language as nl
from nki_lab.api.beta1 import nki
from nki_lab.errors.beta1 import OutOfScope
from nki_lab.source import Span

X = np.random.default_rng(5).standard_normal((128, 24)).astype(np.float32)


@nki.jit
def rebound(x, ranges):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    data = nl.load(x)
    for _ in ranges(3):
        data = data + data
    nl.store(out, data)
    return out


@nki.jit
def kept(x, ranges):
    out = nl.ndarray((3, *x.shape), x.dtype, buffer=nl.shared_hbm)
    blocks = nl.ndarray((3, nl.par_dim(128), 24), x.dtype)
    last = nl.zeros(x.shape, x.dtype)
    for i in ranges(3):
        inside = nl.load(x)
        for k in ranges(2):
            inside[...] = inside + float(k)
        blocks[i] = inside * float(i)
        last[...] = inside
    for i in ranges(3):
        nl.store(out[i], blocks[i] + last)
    return out


@pytest.mark.parametrize("ranges", [nl.affine_range, nl.sequential_range])
def test_a_name_that_a_loop_gives_to_another_tensor_is_told_where_it_is_used(ranges):
    with pytest.raises(
        OutOfScope, match=r"`data.*` is used after the nl\.\w+ in which it was made"
    ) as caught:
        rebound(X, ranges)
    assert Span.of(caught.value.stack[0]).line == rebound.func.__code__.co_firstlineno + 6
    assert "err_local_variable_used_out_of_scope" in caught.value.notes[1]
    assert "t[...] = value" in caught.value.help


def test_unrolled_loops_have_no_scope_of_their_own():
    for ranges in (range, nl.static_range):
        np.testing.assert_array_equal(rebound(X, ranges), 8 * X)


def test_tensors_of_outside_and_their_blocks_outlive_the_loop():
    expected = np.stack([(X + 1) * (i + 1) for i in range(3)])
    np.testing.assert_allclose(kept(X, nl.sequential_range), expected, rtol=1e-6)


def test_what_an_inner_loop_makes_or_declares_ends_with_it():
    @nki.jit
    def kernel(x, blocks):
        out = nl.ndarray((2, *x.shape), x.dtype, buffer=nl.shared_hbm)
        for i in nl.affine_range(2):
            for k in nl.affine_range(2):
                if blocks:
                    held = nl.ndarray((2, nl.par_dim(128), 24), x.dtype)
                    held[k] = nl.load(x)
                    tile = held[k]
                else:
                    tile = nl.load(x)
            nl.store(out[i], tile)
        return out

    for blocks in (False, True):
        with pytest.raises(OutOfScope) as caught:
            kernel(X, blocks)
        assert Span.of(caught.value.stack[0]).line == kernel.func.__code__.co_firstlineno + 11


def test_a_tile_that_is_returned_is_used_after_the_loop():
    @nki.jit
    def kernel(x):
        for _ in nl.affine_range(2):
            t = nl.load(x)
        return t

    with pytest.raises(OutOfScope):
        kernel(X)
