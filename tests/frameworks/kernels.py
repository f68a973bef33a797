"""RMS normalisation with its gradients, as kernels, and in NumPy-like formulas to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.runtime import CompiledFunction, jit


def _row(vector, tile):
    """Return a [width] vector in every row of a tile."""
    return nl.broadcast_to(nl.load(vector.reshape((1, vector.shape[0]))), tile.shape)


@jit
def rmsnorm(x, gamma, eps=1e-6):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rstd = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.load(x)
    scale = nl.rsqrt(nl.add(nl.mean(nl.square(tile), axis=1, keepdims=True), eps))
    normal = nl.multiply(tile, nl.broadcast_to(scale, x.shape))
    nl.store(rstd, scale)
    nl.store(out, nl.multiply(normal, _row(gamma, tile)))
    return out, rstd


@jit
def rmsnorm_backward(dy, x, gamma, rstd):
    dx = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    dgamma = nl.ndarray(gamma.shape, dtype=gamma.dtype, buffer=nl.shared_hbm)
    tile, grad, scale = nl.load(x), nl.load(dy), nl.broadcast_to(nl.load(rstd), x.shape)
    normal = nl.multiply(tile, scale)
    weighted = nl.multiply(grad, _row(gamma, tile))
    inner = nl.mean(nl.multiply(weighted, normal), axis=1, keepdims=True)
    along = nl.multiply(normal, nl.broadcast_to(inner, x.shape))
    nl.store(dx, nl.multiply(nl.subtract(weighted, along), scale))
    rows = nl.transpose(nl.multiply(grad, normal))
    nl.store(dgamma.reshape((gamma.shape[0], 1)), nl.sum(rows, axis=1, keepdims=True))
    return dx, dgamma


@jit
def several(x, *, times=2):
    """Return tensors, a number that only a trace knows, and what is fixed."""
    scaled = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    square = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    nl.store(scaled, nl.multiply(tile, times))
    nl.store(square, nl.multiply(tile, tile))
    rows = x.shape[0] * times
    return {"scaled": scaled, "more": (rows, square), "flag": True, "none": None}


def several_backward(dscaled, dsquare, x, times):
    """Return the gradient of its tensor."""
    return dscaled * times + 2 * x * dsquare


class Halves(NamedTuple):
    low: Any
    high: Any


@jit
def halves(parts, count):
    """Return the sum of the first `count` tensors, and of the others."""
    sums = []
    for some in (parts[:count], parts[count:]):
        out = nl.ndarray(some[0].shape, dtype=some[0].dtype, buffer=nl.shared_hbm)
        total = nl.load(some[0])
        for part in some[1:]:
            total = nl.add(total, nl.load(part))
        nl.store(out, total)
        sums.append(out)
    low, high = sums
    return Halves(low, high)


def halves_backward(dlow, dhigh, parts, count):
    """Return the gradients of its tensors."""
    return [dlow] * count + [dhigh] * (len(parts) - count)


@jit
def picked(x, rows):
    """Return rows of a matrix by their numbers, of which those that are too large end a run."""
    shape = (rows.shape[0], x.shape[1])
    out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)
    index = nl.ndarray(rows.shape, dtype=rows.dtype, buffer=nl.sbuf)
    tile = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=index, src=rows)
    pattern = [[x.shape[1], shape[0]], [1, shape[1]]]
    nisa.dma_copy(dst=tile, src=x.ap(pattern, vector_offset=index, indirect_dim=0))
    nisa.dma_copy(dst=out, src=tile)
    return out


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Interrupt the first kernel that runs inside, as Ctrl-C does."""
    real = CompiledFunction._run_on

    def run_on(self: Any, *args: Any) -> Any:
        CompiledFunction._run_on = real
        raise KeyboardInterrupt

    CompiledFunction._run_on = run_on
    try:
        yield
    finally:
        CompiledFunction._run_on = real
