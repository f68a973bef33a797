"""Solutions of notebook 11, Indexing and access patterns."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def triple_tiles(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    for top in range(0, rows, 128):
        height = min(128, rows - top)
        for left in range(0, columns, 256):
            width = min(256, columns - left)
            where = (slice(top, top + height), slice(left, left + width))

            tile = nl.ndarray((height, width), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=x[where])
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
            nisa.dma_copy(dst=out[where], src=tile)
    return out


@nki.jit
def odd_rows(x, first):
    rows, columns = x.shape
    shape = (rows // 2, columns - first)
    out = nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[1::2, first:])
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def lower_triangle(x):
    columns = x.shape[1]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.affine_select(
        dst=result,
        pattern=[[-1, columns]],
        offset=0,
        channel_multiplier=1,
        cmp_op=nl.greater_equal,
        on_true_tile=tile,
        on_false_value=0.0,
    )
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def windows(x, width):
    count = x.shape[1] - width + 1
    out = nl.ndarray((count, width), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray((count, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[1, count], [1, width]]))
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def interleaved(a, b):
    rows, columns = a.shape
    out = nl.ndarray((rows, 2 * columns), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    result = nl.ndarray((rows, 2 * columns), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result[:, 0::2], src=left)
    nisa.tensor_copy(dst=result[:, 1::2], src=right)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def add_row(x, row):
    rows = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    copies = nl.ndarray(x.shape, dtype=row.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=copies, src=row.broadcast(0, rows))

    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=tile, data2=copies, op=nl.add)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def repeated(x, times):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns * times), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    result = nl.ndarray((rows, columns * times), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(
        dst=result.reshape((rows, columns, times)),
        src=tile.expand_dim(2).broadcast(2, times),
    )
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def largest_of(x, count):
    rows, columns = x.shape
    groups = columns // count
    out = nl.ndarray((rows, groups), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    result = nl.ndarray((rows, groups), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=result, data=tile.reshape((rows, groups, count)), op=nl.maximum, axis=2)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def regrouped(x, groups):
    rows, columns = x.shape
    size = columns // groups
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(
        dst=result.reshape((rows, size, groups)),
        src=tile.reshape((rows, groups, size)).permute((0, 2, 1)),
    )
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def triple_flat(x):
    shape = (128, x.shape[1] // 128)
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.reshape(shape))
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=3.0)
    nisa.dma_copy(dst=out.reshape(shape), src=tile)
    return out
