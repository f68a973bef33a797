"""What nearly all replays do: make a tile, load one, store one."""

from __future__ import annotations

import nki_lab.language as nl
from nki_lab.api import isa as nisa


def tile(rows, columns, dtype=nl.float32):
    """Make a tile in SBUF."""
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)


def sums(rows, columns, dtype=nl.float32):
    """Make a tile in PSUM."""
    return nl.ndarray((rows, columns), dtype=dtype, buffer=nl.psum)


def load(source, **how):
    """Load a view of HBM into a new tile of its shape and dtype."""
    held = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=source, **how)
    return held


def output(shape, dtype=nl.float32):
    """Make a tensor that the kernel returns."""
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


def store(destination, held, **how):
    """Store a tile into a view of HBM."""
    nisa.dma_copy(dst=destination, src=held, **how)


def block(tensor, row, column, rows=128, columns=512):
    """Return the view of a matrix that starts at this tile's place."""
    return tensor[rows * row : rows * row + rows, columns * column : columns * column + columns]
