"""Kernels with one planted fault each, and the mended kernels that compute the same values.

A comment `# fault` marks the lines of which the first advice must name one first. `python -m benchmarks.advice` prints
the table.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import nki_lab.language as nl
from nki_lab.api import isa as nisa

Shape = tuple[tuple[int, ...], str]
BF16, FP32 = nl.bfloat16, nl.float32
VECTOR, SCALAR, GPSIMD = nisa.engine.vector, nisa.engine.scalar, nisa.engine.gpsimd


@dataclass(frozen=True)
class Fault:
    """A kernel with a fault and its mended twin.

    Attributes:
        name: the fault in a few words.
        rule: the rule whose advice must come first.
        bad, good: kernels that compute the same values.
        shapes: shapes and dtypes of the arguments.
        good_shapes: those of the twin, where the fault is in the arguments.
        cores: number of physical cores that run the kernel.
        tuned: nothing is left to gain in the twin.
    """

    name: str
    rule: str
    bad: Callable[..., Any]
    good: Callable[..., Any]
    shapes: tuple[Shape, ...]
    good_shapes: tuple[Shape, ...] = ()
    cores: int = 1
    tuned: bool = True

    @property
    def lines(self) -> tuple[str, ...]:
        """The marked lines, as advice writes them."""
        code = inspect.unwrap(self.bad).__code__
        lines, first = inspect.getsourcelines(code)
        marked = [n for n, text in enumerate(lines, first) if "# fault" in text]
        return tuple(f"faults.py:{n}" for n in marked)


def sbuf(shape, dtype=BF16):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def psum(shape, dtype=FP32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def hbm(shape, dtype=BF16):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def loaded(source, dtype=None):
    tile = sbuf(source.shape, dtype or source.dtype)
    nisa.dma_copy(dst=tile, src=source)
    return tile


# -- PSUM is emptied by one engine ---------------------------------------------------------------------------------


def emptied_by(*engines, products=16, stored=4):
    def kernel(x, w):
        out = hbm((128, products * 512))
        a, b = loaded(x), loaded(w)
        for n in range(products):
            product = psum((128, 512))
            nisa.nc_matmul(dst=product, stationary=a, moving=b)
            if n % stored == 0:
                made = sbuf((128, stored * 512))
            part = slice(n % stored * 512, n % stored * 512 + 512)
            engine = engines[n % len(engines)]
            nisa.tensor_copy(dst=made[:, part], src=product, engine=engine)  # fault
            if n % stored == stored - 1:
                nisa.dma_copy(dst=out[:, (n + 1 - stored) * 512 : n * 512 + 512], src=made)
        return out

    return kernel


# -- load, compute and store one after the other -------------------------------------------------------------------


def in_phases(parts):
    def kernel(x):
        out = hbm(x.shape)
        width = x.shape[1] // parts
        for k in range(parts):
            columns = slice(width * k, width * k + width)
            a, b = sbuf((128, width)), sbuf((128, width))
            nisa.dma_copy(dst=a, src=x[:, columns])  # fault
            nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=out[:, columns], src=b)
        return out

    return kernel


def turns(inside):
    def kernel(x):
        out = hbm(x.shape, FP32)
        a, b = sbuf((128, 2048), FP32), sbuf((128, 2048), FP32)
        for k in range(8):
            columns = slice(2048 * k, 2048 * k + 2048)
            if inside:
                a, b = sbuf((128, 2048), FP32), sbuf((128, 2048), FP32)
            nisa.dma_copy(dst=a, src=x[:, columns])  # fault
            nisa.activation(dst=b, op=nl.exp, data=a)
            nisa.dma_copy(dst=out[:, columns], src=b)
        return out

    return kernel


# -- everything on GpSimd ------------------------------------------------------------------------------------------


def on_engine(engine):
    def kernel(x):
        out = hbm(x.shape)
        for k in range(8):
            columns = slice(1024 * k, 1024 * k + 1024)
            a = loaded(x[:, columns])
            for _ in range(6):
                b = sbuf((128, 1024))
                nisa.tensor_tensor(dst=b, data1=a, data2=a, op=nl.multiply, engine=engine)  # fault
                a = b
            nisa.dma_copy(dst=out[:, columns], src=a)
        return out

    return kernel


# -- a temporary through device memory -----------------------------------------------------------------------------


def through_hbm(x):
    out, between = hbm(x.shape), hbm(x.shape)
    for k in range(4):
        columns = slice(2048 * k, 2048 * k + 2048)
        a, b, c = loaded(x[:, columns]), sbuf((128, 2048)), sbuf((128, 2048))
        nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=between[:, columns], src=b)  # fault
        again = sbuf((128, 2048))
        nisa.dma_copy(dst=again, src=between[:, columns])  # fault
        nisa.tensor_scalar(dst=c, data=again, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[:, columns], src=c)
    return out


def stays_in_sbuf(x):
    out = hbm(x.shape)
    for k in range(4):
        columns = slice(2048 * k, 2048 * k + 2048)
        a, b, c = loaded(x[:, columns]), sbuf((128, 2048)), sbuf((128, 2048))
        nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=2.0)
        nisa.tensor_scalar(dst=c, data=b, op0=nl.add, operand0=1.0)
        nisa.dma_copy(dst=out[:, columns], src=c)
    return out


# -- barriers ------------------------------------------------------------------------------------------------------


def meeting(every):
    """Fill a shared tensor from both cores, then read what the other core wrote."""

    def kernel(x):
        core = nl.program_id(0)
        between, out = hbm((2, 8, 128, 2048)), hbm((2, 8, 128, 2048))
        for k in range(8):
            a, b = loaded(x[core, k]), sbuf((128, 2048))
            nisa.tensor_scalar(dst=b, data=a, op0=nl.multiply, operand0=2.0)
            nisa.dma_copy(dst=between[core, k], src=b)
            if every or k == 7:
                nisa.core_barrier(data=between, cores=(0, 1))  # fault
        for k in range(8):
            nisa.dma_copy(dst=out[core, k], src=loaded(between[1 - core, k]))
        return out

    return kernel


def shared_out(*parts):
    """Give one core parts[0] of 16 tiles and the other parts[1]."""

    def kernel(x):
        core = nl.program_id(0)
        out = hbm(x.shape)
        first = parts[0] if core else 0
        for k in range(first, first + parts[core]):
            a, b = sbuf((128, 2048)), sbuf((128, 2048))
            nisa.dma_copy(dst=a, src=x[k])  # fault
            nisa.activation(dst=b, op=nl.exp, data=a)  # fault
            nisa.dma_copy(dst=out[k], src=b)  # fault
        return out

    return kernel


# -- a copy that nothing needs -------------------------------------------------------------------------------------


def copied(needlessly):
    def kernel(x):
        out = hbm(x.shape)
        for k in range(8):
            columns = slice(2048 * k, 2048 * k + 2048)
            a, b = loaded(x[:, columns]), sbuf((128, 2048))
            if needlessly:
                held = sbuf((128, 2048))
                nisa.tensor_copy(dst=held, src=a, engine=VECTOR)  # fault
                a = held
            nisa.tensor_scalar(
                dst=b, data=a, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=1.0
            )
            nisa.tensor_tensor(dst=b, data1=b, data2=a, op=nl.multiply)
            nisa.dma_copy(dst=out[:, columns], src=b)
        return out

    return kernel


# -- float32 -------------------------------------------------------------------------------------------------------


def powers(x):
    out = hbm(x.shape, x.dtype)
    for k in range(4):
        part = slice(2048 * k, 2048 * k + 2048)
        a = loaded(x[:, part])
        for _ in range(6):
            b = sbuf((128, 2048), x.dtype)
            nisa.tensor_tensor(dst=b, data1=a, data2=a, op=nl.multiply)  # fault
            a = b
        nisa.dma_copy(dst=out[:, part], src=a)
    return out


def multiplied(x, w):
    out = hbm((128, 512), FP32)
    b, product, result = loaded(w), psum((128, 512)), sbuf((128, 512), FP32)
    for k in range(0, x.shape[1], 1024):
        a = loaded(x[:, k : k + 1024])
        for n in range(0, 1024, 128):
            nisa.nc_matmul(dst=product, stationary=a[:, n : n + 128], moving=b)  # fault
    nisa.tensor_copy(dst=result, src=product)
    nisa.dma_copy(dst=out, src=result)
    return out


# -- transposes ----------------------------------------------------------------------------------------------------


def turned(by_dma):
    def kernel(x):
        out = hbm(x.shape)
        for k in range(0, x.shape[1], 1024):
            a, b = loaded(x[:, k : k + 1024]), sbuf((128, 1024))
            for n in range(0, 1024, 128):
                part = slice(n, n + 128)
                if by_dma:
                    nisa.dma_transpose(dst=b[:, part], src=a[:, part])  # fault
                else:
                    product = psum((128, 128), BF16)
                    nisa.nc_transpose(dst=product, data=a[:, part])
                    nisa.tensor_copy(dst=b[:, part], src=product)
            nisa.dma_copy(dst=out[:, k : k + 1024], src=b)
        return out

    return kernel


# -- products with few columns -------------------------------------------------------------------------------------


def streamed(columns):
    def kernel(x, w):
        out = hbm((128, 512))
        a, b, product, result = loaded(x), loaded(w), psum((128, 512)), sbuf((128, 512))
        for n in range(0, 512, columns):
            part = slice(n, n + columns)
            for k in range(8):
                rows = slice(128 * k, 128 * k + 128)
                left, right = a[:, rows], b[:, part]
                nisa.nc_matmul(dst=product[:, part], stationary=left, moving=right)  # fault
        nisa.tensor_copy(dst=result, src=product)
        nisa.dma_copy(dst=out, src=result)
        return out

    return kernel


# -- small transfers, small instructions ---------------------------------------------------------------------------


def moved_by(width):
    def kernel(x):
        out = hbm(x.shape)
        for k in range(0, x.shape[1], 2048):
            a = sbuf((128, 2048))
            for n in range(0, 2048, width):
                nisa.dma_copy(dst=a[:, n : n + width], src=x[:, k + n : k + n + width])  # fault
            nisa.dma_copy(dst=out[:, k : k + 2048], src=a)
        return out

    return kernel


def worked_by(width):
    def kernel(x):
        out = hbm(x.shape)
        for k in range(0, x.shape[1], 2048):
            a, b = loaded(x[:, k : k + 2048]), sbuf((128, 2048))
            for n in range(0, 2048, width):
                part = slice(n, n + width)
                to, source = b[:, part], a[:, part]
                nisa.tensor_scalar(dst=to, data=source, op0=nl.multiply, operand0=2.0)  # fault
            nisa.dma_copy(dst=out[:, k : k + 2048], src=b)
        return out

    return kernel


# -- table reloads -------------------------------------------------------------------------------------------------


def functions(in_turns):
    def kernel(x):
        out = hbm(x.shape)
        for k in range(0, x.shape[1], 2048):
            a, b, c = loaded(x[:, k : k + 2048]), sbuf((128, 2048)), sbuf((128, 2048))
            between = sbuf((128, 512))
            parts = [slice(n, n + 512) for n in range(0, 2048, 512)]
            order = [(f, part) for f in range(2) for part in parts]
            if in_turns:
                order.sort(key=lambda pair: (pair[1].start, pair[0]))
            for f, part in order:
                made = between if in_turns else b[:, part]
                if f == 0:
                    nisa.activation(dst=made, op=nl.gelu, data=a[:, part])  # fault
                else:
                    nisa.activation(dst=c[:, part], op=nl.exp, data=made)  # fault
            nisa.dma_copy(dst=out[:, k : k + 2048], src=c)
        return out

    return kernel


# -- loads again, strides, few partitions --------------------------------------------------------------------------


def weights(inside):
    def kernel(x, w):
        out = hbm(x.shape)
        b = None if inside else loaded(w)
        for k in range(16):
            part = slice(2048 * k, 2048 * k + 2048)
            a, c = loaded(x[:, part]), sbuf((128, 2048))
            if inside:
                b = sbuf((128, 2048))
                nisa.dma_copy(dst=b, src=w)  # fault
            nisa.tensor_tensor(dst=c, data1=a, data2=b, op=nl.add)
            nisa.dma_copy(dst=out[:, part], src=c)
        return out

    return kernel


def apart(x):
    out = hbm((128, 4, 512), FP32)
    for k in range(4):
        a = sbuf((128, 512), FP32)
        nisa.dma_copy(dst=a, src=x[k].permute((1, 0)))  # fault
        nisa.dma_copy(dst=out[:, k, :], src=a)
    return out


def in_rows(x):
    out = hbm((128, 4, 512), FP32)
    for k in range(4):
        a = sbuf((128, 512), FP32)
        nisa.dma_copy(dst=a, src=x[:, k, :])
        nisa.dma_copy(dst=out[:, k, :], src=a)
    return out


def on_partitions(rows):
    def kernel(x):
        out = hbm(x.shape, FP32)
        a = sbuf((rows, 65536 // rows), FP32)
        nisa.dma_copy(dst=a, src=x.reshape(a.shape))  # fault
        nisa.dma_copy(dst=out.reshape(a.shape), src=a)
        return out

    return kernel


TILE, ROW = ((128, 128), "bfloat16"), ((128, 512), "bfloat16")
WIDE = ((128, 8192), "bfloat16")
FAULTS = (
    Fault("PSUM emptied by Vector alone, busy", "engine imbalance", emptied_by(VECTOR), emptied_by(VECTOR, SCALAR),
          (TILE, ROW)),
    Fault("PSUM emptied by Vector alone, not busy", "engine imbalance", emptied_by(VECTOR, products=4, stored=2),
          emptied_by(VECTOR, SCALAR, products=4, stored=2), (TILE, ROW)),
    Fault("load, compute, store of one tile", "no overlap", in_phases(1), in_phases(4), (((128, 16384), "bfloat16"),)),
    Fault("one tile for all trips", "no overlap", turns(False), turns(True), (((128, 16384), "float32"),)),
    Fault("everything on GpSimd", "engine imbalance", on_engine(GPSIMD), on_engine(VECTOR), (WIDE,)),
    Fault("temporary through HBM", "temporary in HBM", through_hbm, stays_in_sbuf, (WIDE,)),
    Fault("barriers too often", "barriers", meeting(True), meeting(False), (((2, 8, 128, 2048), "bfloat16"),), cores=2),
    Fault("unneeded copy", "unneeded copy", copied(True), copied(False), (((128, 16384), "bfloat16"),)),
    Fault("float32 on Vector", "float32 tiles", powers, powers, (((128, 8192), "float32"),),
          (WIDE,)),
    Fault("float32 on Tensor", "float32 products", multiplied, multiplied,
          (((128, 2048), "float32"), ((128, 512), "float32")), (((128, 2048), "bfloat16"), ROW)),
    Fault("transposes by DMA", "transposes", turned(True), turned(False), (((128, 4096), "bfloat16"),),
          tuned=False),
    Fault("products of few columns", "few columns per product", streamed(32), streamed(512),
          (((128, 1024), "bfloat16"), ROW)),
    Fault("small transfers", "small DMAs", moved_by(128), moved_by(2048), (WIDE,)),
    Fault("table reloads", "table reloads", functions(True), functions(False), (WIDE,), tuned=False),
    Fault("small instructions", "small instructions", worked_by(32), worked_by(2048), (WIDE,)),
    Fault("unequal cores", "unequal cores", shared_out(12, 4), shared_out(8, 8), (((16, 128, 2048), "bfloat16"),),
          cores=2),
    Fault("weights loaded in the loop", "reloaded input", weights(True), weights(False),
          (((128, 32768), "bfloat16"), ((128, 2048), "bfloat16"))),
    Fault("element by element", "non-contiguous DMA", apart, in_rows, (((4, 512, 128), "float32"),),
          (((128, 4, 512), "float32"),)),
    Fault("two partitions", "few DMA engines", on_partitions(2), on_partitions(128), (((65536,), "float32"),)),
)  # fmt: skip
