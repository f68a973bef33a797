"""Solutions of notebook 20, DMA bandwidth."""

import nki
import nki.isa as nisa
import nki.language as nl

ANSWERS = {
    "20.1": 11.1,
    "20.3": "2048",
}


@nki.jit
def add_wide(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    shape = (128, n // 128)

    left = nl.ndarray(shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a.reshape(shape))
    nisa.dma_copy(dst=right, src=b.reshape(shape))
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
    nisa.dma_copy(dst=out.reshape(shape), src=left)
    return out


@nki.jit
def every_other(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    chosen = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=chosen, src=tile[:, 0:columns:2])
    nisa.dma_copy(dst=out, src=chosen)
    return out


@nki.jit
def add_stream(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    columns, size = n // 128, 1024
    left_rows, right_rows, out_rows = (t.reshape((128, columns)) for t in (a, b, out))

    for start in range(0, columns, size):
        stop = min(start + size, columns)
        left = nl.ndarray((128, stop - start), dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, stop - start), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=left_rows[:, start:stop])
        nisa.dma_copy(dst=right, src=right_rows[:, start:stop])
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
        nisa.dma_copy(dst=out_rows[:, start:stop], src=left)
    return out


@nki.jit
def add_blocks(p, q):
    out = nl.ndarray(p.shape, dtype=p.dtype, buffer=nl.shared_hbm)
    blocks, rows, columns = p.shape
    order = (1, 0, 2)  # rows first

    for start in range(0, blocks, 6):
        stop = min(start + 6, blocks)
        shape = (rows, stop - start, columns)
        left = nl.ndarray(shape, dtype=p.dtype, buffer=nl.sbuf)
        right = nl.ndarray(shape, dtype=q.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=p[start:stop].permute(order))
        nisa.dma_copy(dst=right, src=q[start:stop].permute(order))
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
        nisa.dma_copy(dst=out[start:stop].permute(order), src=left)
    return out
