"""Kernels that have been compiled and not run: one with a loop that the device counts, one for two cores."""

from __future__ import annotations

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.compiler.program import CompiledKernel
from nki_lab.runtime import jit

ROWS = np.zeros((512, 64), np.float32)


@jit
def doubled_often(x, count):
    """Double the rows of x from 0 to count, 128 at a time."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    zero = nl.zeros((128, x.shape[1]), dtype=x.dtype)
    for k in range(x.shape[0] // 128):
        nisa.dma_copy(out[k * 128 : (k + 1) * 128], zero)
    tile = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(tile, count)
    end = nisa.register_alloc()
    nisa.register_load(end, tile)
    for i in nl.dynamic_range(0, end, 128):
        part = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(part, x.ap([[64, 128], [1, 64]], scalar_offset=i))
        nisa.tensor_scalar(part, part, nl.multiply, 2.0)
        nisa.dma_copy(out.ap([[64, 128], [1, 64]], scalar_offset=i), part)
    return out


@jit
def halves_doubled(x):
    """Double the rows of x, each core one half of them."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.program_id(0) * 256
    for k in range(2):
        rows = slice(first + k * 128, first + (k + 1) * 128)
        nl.store(out[rows], nl.multiply(nl.load(x[rows]), 2.0))
    return out


def looped() -> CompiledKernel:
    """Return the kernel with a device loop, for trn2."""
    return doubled_often.compile(ROWS, np.array([[256]], np.int32)).compiled


def of_two_cores() -> CompiledKernel:
    """Return the kernel for both cores of a logical core."""
    return halves_doubled[2].compile(ROWS).compiled
