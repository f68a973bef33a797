"""Tests that a compiled kernel computes for the call it gets, or says that it was compiled for another one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.errors import KernelArgument
from nki_lab.runtime import jit

X = np.random.default_rng(4).standard_normal((128, 24)).astype(np.float32)


@dataclass
class Scale:
    factor: float


@jit
def scaled(x, factor=1.0, options=None):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, options.factor if options else factor)
    nisa.dma_copy(out, tile)
    return out


@jit
def difference(**tensors):
    a, b = nl.load(tensors["a"]), nl.load(tensors["b"])
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.tensor_tensor(a, a, b, nl.subtract)
    nisa.dma_copy(out, a)
    return out


@pytest.mark.parametrize(
    ("compiled_for", "called_with"),
    [
        ({"factor": 2.0}, {"factor": 3.0}),
        ({"factor": 2.0}, {}),
        ({"factor": np.float32(2)}, {"factor": np.array(3, np.float32)}),
        ({"options": Scale(2.0)}, {"options": Scale(3.0)}),
        ({"options": Scale(2.0)}, {}),
    ],
)
def test_another_constant_is_refused(compiled_for, called_with):
    compiled = scaled.compile(X, **compiled_for)
    np.testing.assert_array_equal(compiled(-X, **compiled_for), np.float32(-2) * X)
    with pytest.raises(KernelArgument, match="the kernel was compiled for"):
        compiled(X, **called_with)


def test_an_equal_constant_is_accepted():
    compiled = scaled.compile(X, 2.0, Scale(5.0))
    for same in (Scale(5.0), Scale(np.float32(5))):
        np.testing.assert_array_equal(compiled(X, 2, same), np.float32(5) * X)
    nan = scaled.compile(X, np.nan)
    assert np.isnan(nan(X, float("nan"))).all()


def test_an_array_is_not_a_number():
    compiled = scaled.compile(X, 2.0)
    with pytest.raises(KernelArgument, match="`factor` is an array"):
        compiled(X, np.full((1, 1), 2.0, np.float32))


def test_arrays_are_told_apart_by_name_not_by_order():
    compiled = difference.compile(a=X, b=3 * X)
    np.testing.assert_array_equal(compiled(b=3 * X, a=X), X - np.float32(3) * X)
    with pytest.raises(KernelArgument, match=r"`tensors\.c` is an array, .* for absent"):
        compiled(a=X, b=X, c=X)


def test_a_kernel_may_change_what_it_is_given():
    counter = Scale(1.0)

    @jit
    def counting(x, counter):
        counter.factor += 1
        return scaled(x, counter.factor)

    for factor in (2, 3):
        np.testing.assert_array_equal(counting(X, counter), np.float32(factor) * X)


def test_torch_tensors_that_numpy_cannot_read_are_named():
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X.copy())
    for odd in (tensor.to_sparse(), torch._neg_view(tensor)):
        with pytest.raises(KernelArgument, match="`x` is a torch tensor that NumPy cannot read"):
            scaled(odd)


def test_what_is_returned_is_known_before_a_run():
    compiled = difference.compile(a=X, b=X)
    assert (compiled.returns.shape, compiled.returns.dtype, compiled.runs) == (
        (128, 24),
        nl.float32,
        0,
    )
