"""Which kernel works for as long as a test wants?"""

from __future__ import annotations

#: A cell or file with the kernel `long(a, passes)`. Its loop is the device's, so that it is as short for all passes.
LONG = """\
import nki, nki.language as nl

@nki.jit
def long(a, passes):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile = nl.load(a)
    for _ in nl.dynamic_range(passes):
        tile[...] = nl.tanh(tile)
    nl.store(out, tile)
    return out
"""
