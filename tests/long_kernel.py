"""A kernel that works for as long as a test wants."""

from __future__ import annotations

#: A cell or file with the kernel `long(a, passes)`. Its loop is the device's, so that it is as short for all passes.
LONG = """\
import nki, nki.isa as nisa, nki.language as nl

@nki.jit
def long(a, passes):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)

    def body(i):
        nisa.activation(dst=tile, data=tile, op=nl.tanh)

    nl.fori_loop(0, passes, body)
    nl.store(out, tile)
    return out
"""
