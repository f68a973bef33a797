"""Kernels for the tests of the simulator, and what each computes by NumPy alone.

Together they read and write slices, steps, transposed and reinterpreted views, casts of every kind, hidden registers,
accumulators whose first write differs by element, tiles at explicit addresses, and arguments updated in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa


@dataclass(frozen=True)
class Example:
    """A kernel, its arguments, and the expected results by an independent formula.

    Attributes:
        kernel: the function.
        arrays: makes the arguments.
        expected: arguments as float64 (integers as they are) -> list of results.
        rtol: relative to the largest result; 0 means equal.
    """

    kernel: Callable[..., Any]
    arrays: Callable[[np.random.Generator], list[np.ndarray]]
    expected: Callable[..., list[np.ndarray]]
    rtol: float = 0.0


def one(value: int) -> np.ndarray:
    return np.array([[value]], np.int32)


def tile_of(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(tile, source)
    return tile


def in_register(tile):
    register = nisa.register_alloc()
    nisa.register_load(register, tile)
    return register


def returned(tile):
    out = nl.ndarray(tile.shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def read_through(view):
    """Copy a view of HBM into a result of its shape, through a tile."""
    tile = nl.ndarray(
        view.shape if len(view.shape) > 1 else (1, *view.shape), view.dtype, buffer=nl.sbuf
    )
    nisa.dma_copy(tile, view)
    return returned(tile)


def reading(view, by):
    """Return a kernel that reads a view of a table that an index in a tile or a register moves."""

    def read(table, index):
        held = tile_of(index)
        return read_through(view(table, in_register(held) if by == "register" else held))

    return read


def matmul(lhs, rhs):
    (k_size, m_size), (_, n_size) = lhs.shape, rhs.shape
    out = nl.ndarray((m_size, n_size), dtype=lhs.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(m_size // 64):
        for n in nl.affine_range(n_size // 256):
            acc = nl.ndarray((64, 256), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(k_size // 128):
                a = nl.ndarray((128, 64), dtype=lhs.dtype, buffer=nl.sbuf)
                b = nl.ndarray((128, 256), dtype=rhs.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=a, src=lhs[nl.ds(k * 128, 128), nl.ds(m * 64, 64)])
                nisa.dma_copy(dst=b, src=rhs[nl.ds(k * 128, 128), nl.ds(n * 256, 256)])
                nisa.nc_matmul(dst=acc, stationary=a, moving=b)
            result = nl.ndarray((64, 256), dtype=lhs.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=result, src=acc)
            nisa.dma_copy(dst=out[nl.ds(m * 64, 64), nl.ds(n * 256, 256)], src=result)
    return out


def softmax(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in range(0, rows, 128):
        t = nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf)
        largest, total, scale = (
            nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf) for _ in range(3)
        )
        nisa.dma_copy(dst=t, src=x[r : r + 128])
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=t, axis=1, negate=True)
        nisa.activation_reduce(
            dst=t, op=nl.exp, data=t, bias=largest, reduce_op=nl.add, reduce_res=total
        )
        nisa.reciprocal(dst=scale, data=total)
        nisa.tensor_scalar(dst=t, data=t, op0=nl.multiply, operand0=scale)
        nisa.dma_copy(dst=out[r : r + 128], src=t)
    return out


def _softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return [e / e.sum(axis=1, keepdims=True)]


def views(x):
    """Move a tile through steps, permutations, splits, bits and repeats."""
    out = nl.ndarray((64, 2, 12), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray((64, 24), dtype=nl.float32, buffer=nl.sbuf)
    u = nl.ndarray((64, 24), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x.permute((1, 0)))
    nisa.tensor_copy(dst=u[:, 0:24:2], src=t[:, 12:24])
    nisa.tensor_copy(dst=u[:, 1:24:2], src=t[:, 0:12])
    swapped = u.reshape((64, 2, 12)).permute((0, 2, 1))
    nisa.tensor_copy(dst=t.reshape((64, 12, 2)), src=swapped)
    nisa.tensor_copy(dst=t[:, 0:4].view(nl.int32), src=u[:, 4:5].view(nl.int32).broadcast(1, 4))
    nisa.tensor_tensor(dst=t[:, 1:24], data1=t[:, 0:23], data2=t[:, 1:24], op=nl.add)
    nisa.dma_copy(dst=out, src=t.reshape((64, 2, 12)))
    return out


def _views(x):
    t = x.T.copy()
    u = np.empty((64, 24))
    u[:, 0::2], u[:, 1::2] = t[:, 12:], t[:, :12]
    t = u.reshape(64, 2, 12).transpose(0, 2, 1).reshape(64, 24).copy()
    t[:, 0:4] = u[:, 4:5]
    t[:, 1:] = t[:, :-1] + t[:, 1:]
    return [t.reshape(64, 2, 12)]


def casts(x):
    """Round a tile to narrower types and back."""
    kinds = (nl.bfloat16, nl.float16, nl.float8_e5m2, nl.int8, nl.int32, nl.uint8)
    out = nl.ndarray((len(kinds), 128, 16), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x)
    for k, kind in enumerate(kinds):
        narrow = nl.ndarray((128, 16), dtype=kind, buffer=nl.sbuf)
        wide = nl.ndarray((128, 16), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=narrow, src=t)
        nisa.tensor_copy(dst=wide, src=narrow)
        nisa.dma_copy(dst=out[k], src=wide)
    return out


def _casts(x):
    floats = [
        x.astype(t).astype(float) for t in (ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2)
    ]
    limits = [np.iinfo(t) for t in (np.int8, np.int32, np.uint8)]
    return [np.stack([*floats, *(np.clip(np.rint(x), i.min, i.max) for i in limits)])]


def partly_first(x, y):
    """Let products overlap, so that one instruction overwrites here and adds there."""
    out = nl.ndarray((32, 96), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(y)
    acc = nl.ndarray((32, 96), dtype=nl.float32, buffer=nl.psum)
    for low, high in ((0, 40), (30, 70), (60, 96), (10, 90)):
        nisa.nc_matmul(dst=acc[:, low:high], stationary=a, moving=b[:, low:high])
    result = nl.ndarray((32, 96), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=acc)
    nisa.dma_copy(dst=out, src=result)
    return out


def _partly_first(x, y):
    times = np.zeros(96)
    for low, high in ((0, 40), (30, 70), (60, 96), (10, 90)):
        times[low:high] += 1
    return [(x.T @ y) * times]


def registers(x):
    """Sum over several instructions in the accumulator of the Scalar engine."""
    out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.load(x)
    copy = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    command = nisa.reduce_cmd
    for k in range(4):
        nisa.activation(dst=copy, op=nl.square, data=t[:, 8 * k : 8 * k + 8], reduce_op=nl.add,
                        reduce_cmd=command.reduce if k else command.reset_reduce,
                        reduce_res=total if k == 3 else None)  # fmt: skip
    nisa.dma_copy(dst=out, src=total)
    return out


def at_addresses(x):
    """Use one place for tiles of different shapes and types, one after the other."""
    out = nl.ndarray((4, 128, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    for k, kind in enumerate((nl.float32, nl.bfloat16, nl.int32, nl.float32)):
        t = nl.ndarray((128, 8), dtype=kind, buffer=nl.sbuf, address=(0, 96 + 4 * (k % 2)))
        wide = nl.ndarray((128, 8), dtype=nl.float32, buffer=nl.sbuf, address=(0, 256))
        nisa.dma_copy(dst=wide, src=x[:, 8 * k : 8 * k + 8])
        nisa.tensor_copy(dst=t, src=wide)
        nisa.tensor_copy(dst=wide, src=t)
        nisa.dma_copy(dst=out[k], src=wide)
    return out


def in_place(x, y):
    """Add to an argument and return another."""
    for r in range(0, 256, 128):
        t, u = nl.load(x[r : r + 128]), nl.load(y[r : r + 128])
        nisa.tensor_tensor(dst=t, data1=t, data2=u, op=nl.add)
        nisa.dma_copy(dst=x[r : r + 128], src=t)
    return x


def bits(x):
    """Shift and mask integers, and count positions."""
    out = nl.ndarray((2, 128, 16), dtype=nl.uint32, buffer=nl.shared_hbm)
    t = nl.load(x)
    u = nl.ndarray((128, 16), dtype=nl.uint32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=u, data=t, op0=nl.right_shift, operand0=3, op1=nl.bitwise_and, operand1=0xFF)  # fmt: skip
    nisa.dma_copy(dst=out[0], src=u)
    nisa.iota(dst=u.view(nl.int32), pattern=[[2, 16]], offset=5, channel_multiplier=100)
    nisa.dma_copy(dst=out[1], src=u)
    return out


def _bits(x):
    return [np.stack([(x >> 3) & 0xFF, np.arange(128)[:, None] * 100 + 2 * np.arange(16) + 5])]


def signed(*shapes, dtype=np.float32):
    """Return a maker of small signed integers in arrays of the given shapes."""
    return lambda rng: [rng.integers(-9, 10, s).astype(dtype) for s in shapes]


def normal(*shapes, dtype=np.float32, scale=1.0):
    """Return a maker of normally distributed arrays."""
    return lambda rng: [(scale * rng.standard_normal(s)).astype(dtype) for s in shapes]


EXAMPLES = {
    "matmul": Example(matmul, signed((256, 128), (256, 512)), lambda a, b: [a.T @ b]),
    "matmul_bfloat16": Example(
        matmul,
        normal((256, 128), (256, 512), dtype=ml_dtypes.bfloat16),
        lambda a, b: [a.T @ b],
        4e-3,
    ),
    "softmax": Example(softmax, normal((256, 200), scale=4.0), _softmax, 1e-5),
    "views": Example(views, signed((24, 64)), _views),
    "casts": Example(casts, normal((128, 16), scale=90.0), _casts),
    "partly_first": Example(partly_first, signed((128, 32), (128, 96)), _partly_first),
    "registers": Example(
        registers, signed((128, 32)), lambda x: [np.square(x).sum(axis=1, keepdims=True)]
    ),
    "at_addresses": Example(
        at_addresses, signed((128, 32)), lambda x: [x.reshape(128, 4, 8).transpose(1, 0, 2)]
    ),
    "in_place": Example(in_place, signed((256, 12), (256, 12)), lambda x, y: [x + y]),
    "bits": Example(bits, lambda rng: [rng.integers(0, 2**32, (128, 16)).astype(np.uint32)], _bits),
}
