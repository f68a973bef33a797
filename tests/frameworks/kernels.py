"""RMS normalisation with its gradients, as kernels, and in NumPy-like formulas to compare with."""

from __future__ import annotations

import nki_lab.language as nl
from nki_lab.runtime import jit


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
