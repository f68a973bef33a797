"""Solutions of notebook 01, First kernel."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def scaled_sum(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=2.0)

    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def add_rows(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = a.shape

    for start in range(0, rows, nl.tile_size.pmax):
        stop = min(start + nl.tile_size.pmax, rows)
        shape = (stop - start, columns)

        left = nl.ndarray(shape, dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray(shape, dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a[start:stop])
        nisa.dma_copy(dst=right, src=b[start:stop])

        total = nl.ndarray(shape, dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)

        nisa.dma_copy(dst=out[start:stop], src=total)
    return out


@nki.jit
def distance(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    shifted = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=shifted, data=tile, op0=nl.subtract, operand0=1.0)
    size = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.activation(dst=size, op=nl.abs, data=shifted)

    nisa.dma_copy(dst=out, src=size)
    return out


ANSWERS = {"01.4": "dma"}
