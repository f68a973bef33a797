"""Compares kernels of the older dialect with the same kernels in today's: how fast they are traced and simulated.

python -m benchmarks.older_dialect            # all pairs
python -m benchmarks.older_dialect attention  # those whose names hold this word

Both kernels of a pair are measured in one process and take turns, so what counts is the ratio. A pair computes the same
values by the same tiles; the sizes are those of real kernels, and small ones beside two of them, since most of what is
traced of large ones are copies. Tracing and compiling, which is tracing and all passes, are measured in seconds of the
processor, and simulating in those of a wall.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import nki_lab.language as nl
from benchmarks.kernels import matmul
from benchmarks.stopwatch import best, quiet
from nki_lab.api import isa as nisa
from nki_lab.api.beta1 import isa as older_nisa
from nki_lab.api.beta1 import language as older_nl
from nki_lab.choices import Choices
from nki_lab.compiler.frontend import SourceKernel
from nki_lab.compiler.pipeline import compile_again, compile_kernel
from nki_lab.compiler.trace import trace
from nki_lab.simulator import Program
from nki_lab.targets import TRN2


class Pair(NamedTuple):
    """One kernel in both dialects, and the shapes of its arguments."""

    older: Callable[..., Any]
    today: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]


# -- products ------------------------------------------------------------------------------------------------------


def older_matmul(lhs, rhs):
    """Multiply lhs.T @ rhs in tiles of 128 x 128 x 512 that index tensors choose."""
    (k_size, m_size), (_, n_size) = lhs.shape, rhs.shape
    out = older_nl.ndarray((m_size, n_size), dtype=lhs.dtype, buffer=older_nl.shared_hbm)
    i_k, i_m = older_nl.mgrid[0:128, 0:128]
    i_p, i_n = older_nl.mgrid[0:128, 0:512]
    for m in older_nl.affine_range(m_size // 128):
        for n in older_nl.affine_range(n_size // 512):
            acc = older_nl.zeros((128, 512), older_nl.float32, buffer=older_nl.psum)
            for k in older_nl.affine_range(k_size // 128):
                a = older_nl.ndarray((older_nl.par_dim(128), 128), lhs.dtype)
                b = older_nl.ndarray((older_nl.par_dim(128), 512), rhs.dtype)
                a[...] = older_nl.load(lhs[k * 128 + i_k, m * 128 + i_m])
                b[...] = older_nl.load(rhs[k * 128 + i_p, n * 512 + i_n])
                acc[...] += older_nl.matmul(a, b, transpose_x=True)
            result = older_nl.copy(acc, dtype=lhs.dtype)
            older_nl.store(out[m * 128 + i_p, n * 512 + i_n], value=result)
    return out


# -- attention -----------------------------------------------------------------------------------------------------


def older_attention(q, k, v):
    """Attend: q and k are [d, n], v is [n, d]; 128 queries at a time."""
    d, size = q.shape
    out = older_nl.ndarray((size, d), dtype=q.dtype, buffer=older_nl.shared_hbm)
    i_d, i_d_f = older_nl.arange(d)[:, None], older_nl.arange(d)[None, :]
    i_p, i_f = older_nl.arange(128)[:, None], older_nl.arange(128)[None, :]
    for i in older_nl.affine_range(size // 128):
        queries = older_nl.load(q[i_d, i * 128 + i_f])
        scores = older_nl.ndarray((older_nl.par_dim(128), size), dtype=older_nl.float32)
        for j in older_nl.affine_range(size // 128):
            keys = older_nl.load(k[i_d, j * 128 + i_f])
            product = older_nl.zeros((128, 128), older_nl.float32, buffer=older_nl.psum)
            product[i_p, i_f] += older_nisa.nc_matmul(queries, keys)
            scores[i_p, j * 128 + i_f] = older_nl.copy(product)
        largest = older_nisa.tensor_reduce(older_nl.max, scores, axis=1, negate=True)
        raised = older_nisa.activation(older_nl.exp, scores, bias=largest)
        total = older_nl.sum(raised, axis=1)
        gathered = older_nl.zeros((128, d), older_nl.float32, buffer=older_nl.psum)
        for j in older_nl.affine_range(size // 128):
            turned = older_nisa.nc_transpose(raised[i_p, j * 128 + i_f])
            weights = older_nl.copy(turned)
            values = older_nl.load(v[j * 128 + i_p, i_d_f])
            gathered[i_p, i_d_f] += older_nisa.nc_matmul(weights, values)
        result = older_nisa.tensor_scalar(gathered, older_nl.multiply, older_nl.reciprocal(total))
        older_nl.store(out[i * 128 + i_p, i_d_f], value=result)
    return out


def today_attention(q, k, v):
    """Do the same in today's dialect."""
    d, size = q.shape
    out = nl.ndarray((size, d), dtype=q.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(size // 128):
        queries = nl.ndarray((d, 128), q.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=queries, src=q[:, nl.ds(i * 128, 128)])
        scores = nl.ndarray((128, size), nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(size // 128):
            keys = nl.ndarray((d, 128), k.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=keys, src=k[:, nl.ds(j * 128, 128)])
            product = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=product, stationary=queries, moving=keys)
            nisa.tensor_copy(dst=scores[:, nl.ds(j * 128, 128)], src=product)
        largest = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=1, negate=True)
        raised = nl.ndarray((128, size), nl.float32, buffer=nl.sbuf)
        nisa.activation(dst=raised, op=nl.exp, data=scores, bias=largest)
        total = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=raised, axis=1)
        gathered = nl.ndarray((128, d), nl.float32, buffer=nl.psum)
        for j in nl.affine_range(size // 128):
            turned = nl.ndarray((128, 128), nl.float32, buffer=nl.psum)
            nisa.nc_transpose(dst=turned, data=raised[:, nl.ds(j * 128, 128)])
            weights = nl.ndarray((128, 128), nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=weights, src=turned)
            values = nl.ndarray((128, d), v.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=values, src=v[nl.ds(j * 128, 128)])
            nisa.nc_matmul(dst=gathered, stationary=weights, moving=values)
        inverse = nl.ndarray((128, 1), nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=inverse, data=total)
        result = nl.ndarray((128, d), q.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=gathered, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[nl.ds(i * 128, 128)], src=result)
    return out


# -- elementwise, with tails -----------------------------------------------------------------------------------------


def older_masked(x, y):
    """Compute exp(x) * y + x in tiles of 128 x 512, the last ones cut by a mask."""
    rows, columns = x.shape
    out = older_nl.ndarray(x.shape, dtype=x.dtype, buffer=older_nl.shared_hbm)
    i_p, i_f = older_nl.mgrid[0:128, 0:512]
    for r in older_nl.affine_range((rows + 127) // 128):
        for c in older_nl.affine_range((columns + 511) // 512):
            i_r, i_c = r * 128 + i_p, c * 512 + i_f
            inside = (i_r < rows) & (i_c < columns)
            a = older_nl.load(x[i_r, i_c], mask=inside)
            b = older_nl.load(y[i_r, i_c], mask=inside)
            raised = older_nl.exp(a, mask=inside)
            product = older_nl.multiply(raised, b, mask=inside)
            total = older_nl.add(product, a, mask=inside)
            older_nl.store(out[i_r, i_c], value=total, mask=inside)
    return out


def today_masked(x, y):
    """Do the same in today's dialect."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for r in nl.affine_range((rows + 127) // 128):
        for c in nl.affine_range((columns + 511) // 512):
            p, f = min(128, rows - r * 128), min(512, columns - c * 512)
            part = (nl.ds(r * 128, p), nl.ds(c * 512, f))
            a = nl.ndarray((p, f), x.dtype, buffer=nl.sbuf)
            b = nl.ndarray((p, f), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=a, src=x[part])
            nisa.dma_copy(dst=b, src=y[part])
            raised = nl.ndarray((p, f), x.dtype, buffer=nl.sbuf)
            nisa.activation(dst=raised, op=nl.exp, data=a)
            product = nl.ndarray((p, f), x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=product, data1=raised, data2=b, op=nl.multiply)
            total = nl.ndarray((p, f), x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=total, data1=product, data2=a, op=nl.add)
            nisa.dma_copy(dst=out[part], src=total)
    return out


# -- convolution -----------------------------------------------------------------------------------------------------


def older_convolution(image, weights):
    """Convolve image [batch, channels, n] by channel with weights [channels, taps]; tiles of 128 channels."""
    batch, channels, size = image.shape
    taps = weights.shape[1]
    kept = size - taps + 1
    out = older_nl.ndarray((batch, channels, kept), image.dtype, buffer=older_nl.shared_hbm)
    i_p, i_f = older_nl.arange(128)[:, None], older_nl.arange(kept)[None, :]
    i_t = older_nl.arange(taps)[None, :]
    for c in older_nl.affine_range(channels // 128):
        held = older_nl.load(weights[c * 128 + i_p, i_t])
        for b in older_nl.affine_range(batch):
            row = older_nl.load(image[b, c * 128 + i_p, older_nl.arange(size)[None, :]])
            products = older_nl.ndarray((older_nl.par_dim(128), taps, kept), image.dtype)
            for t in older_nl.affine_range(taps):
                products[i_p, t, i_f] = older_nl.multiply(row[i_p, t + i_f], held[i_p, t])
            total = older_nl.ndarray((older_nl.par_dim(128), kept), image.dtype)
            total[i_p, i_f] = older_nl.copy(products[i_p, 0, i_f])
            for t in older_nl.sequential_range(taps - 1):
                total[i_p, i_f] += products[i_p, t + 1, i_f]
            older_nl.store(out[b, c * 128 + i_p, i_f], value=total)
    return out


def today_convolution(image, weights):
    """Do the same in today's dialect."""
    batch, channels, size = image.shape
    taps = weights.shape[1]
    kept = size - taps + 1
    out = nl.ndarray((batch, channels, kept), image.dtype, buffer=nl.shared_hbm)
    for c in nl.affine_range(channels // 128):
        held = nl.ndarray((128, taps), weights.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=held, src=weights[nl.ds(c * 128, 128)])
        for b in nl.affine_range(batch):
            row = nl.ndarray((128, size), image.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=row, src=image[b, nl.ds(c * 128, 128)])
            products = nl.ndarray((128, taps, kept), image.dtype, buffer=nl.sbuf)
            for t in nl.affine_range(taps):
                nisa.tensor_scalar(
                    dst=products[:, t], data=row[:, nl.ds(t, kept)], op0=nl.multiply,
                    operand0=held[:, t : t + 1],
                )  # fmt: skip
            total = nl.ndarray((128, kept), image.dtype, buffer=nl.sbuf)
            nisa.tensor_copy(dst=total, src=products[:, 0])
            for t in nl.sequential_range(taps - 1):
                nisa.tensor_tensor(dst=total, data1=total, data2=products[:, t + 1], op=nl.add)
            nisa.dma_copy(dst=out[b, nl.ds(c * 128, 128)], src=total)
    return out


# -- tiny tiles ------------------------------------------------------------------------------------------------------


def older_tiny(x, y):
    """Compute (x + y) * x - 2 column by column."""
    rows, columns = x.shape
    out = older_nl.ndarray(x.shape, dtype=x.dtype, buffer=older_nl.shared_hbm)
    a, b = older_nl.load(x), older_nl.load(y)
    result = older_nl.ndarray((older_nl.par_dim(rows), columns), x.dtype)
    i_p, i_f = older_nl.arange(rows)[:, None], older_nl.arange(1)[None, :]
    for c in older_nl.affine_range(columns):
        total = older_nl.add(a[i_p, c + i_f], b[i_p, c + i_f])
        product = total * a[i_p, c + i_f]
        result[i_p, c + i_f] = older_nl.subtract(product, 2.0)
    older_nl.store(out, value=result)
    return out


def today_tiny(x, y):
    """Do the same in today's dialect."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a, b, result = (nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(3))
    nisa.dma_copy(dst=a, src=x)
    nisa.dma_copy(dst=b, src=y)
    for c in nl.affine_range(columns):
        total = nl.ndarray((rows, 1), x.dtype, buffer=nl.sbuf)
        product = nl.ndarray((rows, 1), x.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=a[:, nl.ds(c, 1)], data2=b[:, nl.ds(c, 1)], op=nl.add)
        nisa.tensor_tensor(dst=product, data1=total, data2=a[:, nl.ds(c, 1)], op=nl.multiply)
        nisa.tensor_scalar(dst=result[:, nl.ds(c, 1)], data=product, op0=nl.subtract, operand0=2.0)
    nisa.dma_copy(dst=out, src=result)
    return out


PAIRS = {
    "product": Pair(older_matmul, matmul, ((2048, 2048), (2048, 2048))),
    "small product": Pair(older_matmul, matmul, ((1024, 1024), (1024, 2048))),
    "attention": Pair(older_attention, today_attention, ((64, 4096), (64, 4096), (4096, 64))),
    "small attention": Pair(older_attention, today_attention, ((64, 2048), (64, 2048), (2048, 64))),
    "masked elementwise": Pair(older_masked, today_masked, ((4000, 12000), (4000, 12000))),
    "convolution": Pair(older_convolution, today_convolution, ((64, 512, 1030), (512, 7))),
    "tiny tiles": Pair(older_tiny, today_tiny, ((128, 2048), (128, 2048))),
}


def main(words: list[str] | None = None) -> None:
    """Print a row for each pair whose name holds one of the words."""
    chosen = {n: p for n, p in PAIRS.items() if not words or any(w in n for w in words)}
    print(
        f"{'':20}{'instructions':>14}{'traced a second':>20}{'ratio':>8}{'compiled a second':>20}{'ratio':>8}"
        f"{'simulated':>22}{'ratio':>8}"
    )
    with quiet():
        for name, pair in chosen.items():
            print(row(name, pair))


def row(name: str, pair: Pair) -> str:
    """Measure a pair: the older kernel, and today's as the unit of the ratios."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in pair.shapes]
    sources = SourceKernel.of(pair.older), SourceKernel.of(pair.today)
    tracing = [
        lambda source=source: trace(source, tuple(arrays), {}, TRN2, Choices())
        for source in sources
    ]
    kernels = [call() for call in tracing]
    passing = [lambda kernel=kernel: compile_again([kernel], Choices()) for kernel in kernels]
    counts = [len(kernel.instructions) for kernel in kernels]
    times = best(*tracing, *passing, times=5, clock=time.process_time)
    traced = [n / t for n, t in zip(counts, times[:2], strict=True)]
    whole = [n / (t + p) for n, t, p in zip(counts, times[:2], times[2:], strict=True)]
    programs = [
        Program(compile_kernel(source, tuple(arrays), {}, TRN2, Choices()).kernel)
        for source in sources
    ]
    older, today = (program.run(arrays)[0] for program in programs)
    np.testing.assert_array_equal(older, today)
    runs = best(*[lambda program=program: program.run(arrays) for program in programs], times=2)
    return (
        f"{name:20}{counts[0]:>7,}{counts[1]:>7,}{traced[0]:>10,.0f}{traced[1]:>10,.0f}{traced[0] / traced[1]:>8.2f}"
        f"{whole[0]:>10,.0f}{whole[1]:>10,.0f}{whole[0] / whole[1]:>8.2f}"
        f"{runs[0] * 1e3:>8.1f}{runs[1] * 1e3:>8.1f} ms   {runs[0] / runs[1]:>8.2f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
