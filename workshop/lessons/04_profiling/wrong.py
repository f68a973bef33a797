"""Wrong kernels of notebook 04."""

import nki
import nki.isa as nisa
import nki.language as nl


def tiles(x):
    return [slice(start, min(start + 128, x.shape[0])) for start in range(0, x.shape[0], 128)]


@nki.jit
def loads_each_time(x, w):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for rows in tiles(x):
        tile = nl.exp(nl.load(x[rows]))
        nl.store(out[rows], nl.multiply(tile, nl.load(w.broadcast(0, rows.stop - rows.start))))
    return out


@nki.jit
def scaled_first(x, w):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    weight = nl.load(w.broadcast(0, 128))
    for rows in tiles(x):
        tile = nl.load(x[rows])
        tile = nl.multiply(tile, weight[0 : rows.stop - rows.start])
        nl.store(out[rows], nl.exp(tile))
    return out


@nki.jit
def one_after_the_other(x, w):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns = x.shape[1]
    weight = nl.ndarray((128, columns), dtype=w.dtype, buffer=nl.sbuf)
    tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
    with nl.no_reorder():
        nisa.dma_copy(dst=weight, src=w.broadcast(0, 128))
        for rows in tiles(x):
            part = tile[0 : rows.stop - rows.start]
            nisa.dma_copy(dst=part, src=x[rows])
            nisa.activation(dst=part, op=nl.exp, data=part)
            nisa.tensor_tensor(
                dst=part, data1=part, data2=weight[0 : rows.stop - rows.start], op=nl.multiply
            )
            nisa.dma_copy(dst=out[rows], src=part)
    return out


@nki.jit
def returns_early(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for rows in tiles(x):
        tile = nl.load(x[rows])
        nl.store(out[rows], nl.multiply(tile, tile))
        return out


@nki.jit
def magnitudes(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for rows in tiles(x):
        tile = nl.load(x[rows])
        nl.store(out[rows], nl.multiply(tile, nl.abs(tile)))
    return out


WRONG = {
    "04.4": {"limit": loads_each_time, "mistake": scaled_first, "time": one_after_the_other},
    "04.5": {"unwritten": returns_early, "negative": magnitudes},
}
