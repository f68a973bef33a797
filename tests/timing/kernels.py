"""Kernels that several tests of the timing model and of what is read from its profiles time."""

from __future__ import annotations

import nki_lab.language as nl
from nki_lab.isa import registry
from nki_lab.targets.engines import GPSIMD, VECTOR

dma_copy, tensor_copy, tensor_scalar, tensor_tensor, activation, nc_matmul, memset = (
    registry[name]
    for name in "dma_copy tensor_copy tensor_scalar tensor_tensor activation nc_matmul memset".split()
)


def chain(x):
    """Load a tile, change it on Scalar and then on Vector, store it: nothing overlaps."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    t = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    u = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    v = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    dma_copy(t, x)
    activation(u, nl.exp, t)
    tensor_scalar(v, u, op0=nl.add, operand0=1.0)
    dma_copy(out, v)
    return out


def streamed(x):
    """Change tile after tile on two engines; loads, engines and stores overlap."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    shape = (128, x.shape[1])
    for k in range(x.shape[0] // 128):
        rows = slice(128 * k, 128 * k + 128)
        t = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        u = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        v = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        dma_copy(t, x[rows, :])
        activation(u, nl.exp, t)
        tensor_scalar(v, u, op0=nl.multiply, operand0=2.0)
        dma_copy(out[rows, :], v)
    return out


def tiled_matmul(lhs_t, rhs):
    """Multiply tile by tile, loading both operands for every product."""
    size, rows = lhs_t.shape
    columns = rhs.shape[1]
    out = nl.ndarray((rows, columns), dtype=lhs_t.dtype, buffer=nl.shared_hbm)
    for m in range(rows // 128):
        for n in range(columns // 512):
            held = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(size // 128):
                a = nl.ndarray((128, 128), dtype=lhs_t.dtype, buffer=nl.sbuf)
                b = nl.ndarray((128, 512), dtype=rhs.dtype, buffer=nl.sbuf)
                dma_copy(a, lhs_t[128 * k : 128 * k + 128, 128 * m : 128 * m + 128])
                dma_copy(b, rhs[128 * k : 128 * k + 128, 512 * n : 512 * n + 512])
                nc_matmul(held, a, b)
            result = nl.ndarray((128, 512), dtype=lhs_t.dtype, buffer=nl.sbuf)
            tensor_copy(result, held)
            dma_copy(out[128 * m : 128 * m + 128, 512 * n : 512 * n + 512], result)
    return out


def side_by_side(x):
    """Keep Vector and GpSimd busy in SBUF at the same time, on tiles of their own."""
    out = nl.ndarray((256, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    tiles = []
    for engine in (VECTOR, GPSIMD):
        t = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        memset(t, 1.0, engine=engine)
        tiles.append((t, engine))
    for _ in range(4):
        for t, engine in tiles:
            tensor_tensor(t, t, t, op=nl.add, engine=engine)
    for k, (t, _) in enumerate(tiles):
        dma_copy(out[128 * k : 128 * k + 128, :], t)
    return out


def through_scalar(x):
    """Let Scalar issue the stores of what it computes into two tiles that take turns, while Tensor gives it the input.

    Each activation waits for a product and for the store of what its tile held before, whichever it hears of last.
    """
    out = nl.ndarray((128, x.shape[1]), dtype=nl.float32, buffer=nl.shared_hbm)
    loaded = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    dma_copy(loaded, x)
    tiles = [nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.sbuf) for _ in range(2)]
    for k in range(x.shape[1] // 128):
        part = slice(128 * k, 128 * k + 128)
        held = nl.ndarray((128, 128), dtype=nl.float32, buffer=nl.psum)
        for _ in range(k % 4 + 1):
            nc_matmul(held, loaded[:, part], loaded[:, part])
        activation(tiles[k % 2], nl.exp, held)
        dma_copy(out[:, part], tiles[k % 2])
    return out
