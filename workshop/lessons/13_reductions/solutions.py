"""Solutions of notebook 13, Reductions."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def row_max(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    size = 8192
    pieces = (columns + size - 1) // size

    largest = nl.ndarray((rows, pieces), dtype=x.dtype, buffer=nl.sbuf)
    for piece in range(pieces):
        start, stop = piece * size, min((piece + 1) * size, columns)
        tile = nl.ndarray((rows, stop - start), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start:stop])
        nisa.tensor_reduce(dst=largest[:, piece : piece + 1], op=nl.maximum, data=tile, axis=1)

    result = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=result, op=nl.maximum, data=largest, axis=1)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def column_sum(x):
    rows, columns = x.shape
    out = nl.ndarray((1, columns), dtype=x.dtype, buffer=nl.shared_hbm)

    ones = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)

    for start in range(0, rows, 128):
        size = min(128, rows - start)
        tile = nl.ndarray((size, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + size])
        nisa.nc_matmul(dst=total, stationary=ones[0:size], moving=tile)

    sums = nl.ndarray((1, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=sums, src=total)
    nisa.dma_copy(dst=out, src=sums)
    return out


@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    for start in range(0, rows, 128):
        stop = min(start + 128, rows)
        shape = (stop - start, columns)
        tile = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start:stop])

        shift = nl.ndarray((stop - start, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=shift, op=nl.maximum, data=tile, axis=1, negate=True)

        e = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((stop - start, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(
            dst=e,
            op=nl.exp,
            data=tile,
            bias=shift,
            reduce_op=nl.add,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
            reduce_res=total,
        )

        share = nl.ndarray((stop - start, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(dst=share, data=total)
        result = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=result, data=e, op0=nl.multiply, operand0=share)

        nisa.dma_copy(dst=out[start:stop], src=result)
    return out


@nki.jit
def rmsnorm(x, w, eps):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    weight = nl.ndarray(x.shape, dtype=w.dtype, buffer=nl.sbuf)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=weight, src=w.broadcast(0, rows))

    squares = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(
        dst=squares,
        op=nl.square,
        data=tile,
        reduce_op=nl.add,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
        reduce_res=total,
    )

    margin = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=margin, value=eps)
    factor = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=factor, op=nl.rsqrt, data=total, scale=1.0 / columns, bias=margin)

    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=result,
        data=tile,
        op0=nl.multiply,
        operand0=factor,
        op1=nl.multiply,
        operand1=weight,
    )
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def layernorm(x, eps):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0]

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    parts = nl.ndarray((rows, 6), dtype=nl.float32, buffer=nl.sbuf)
    moments = nl.ndarray((rows, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.bn_stats(dst=parts, data=tile)
    nisa.bn_aggr(dst=moments, data=parts)

    factor = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    margin = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=margin, value=eps)
    nisa.activation(dst=factor, op=nl.rsqrt, data=moments[:, 1:2], bias=margin)

    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=result,
        data=tile,
        op0=nl.subtract,
        operand0=moments[:, 0:1],
        op1=nl.multiply,
        operand1=factor,
    )
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def softmax_backward(y, dy):
    dx = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.shared_hbm)
    rows = y.shape[0]

    result = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.sbuf)
    slope = nl.ndarray(dy.shape, dtype=dy.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=result, src=y)
    nisa.dma_copy(dst=slope, src=dy)

    products = nl.ndarray(y.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=products, data1=result, data2=slope, op=nl.multiply)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, op=nl.add, data=products, axis=1)

    change = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=change,
        data=slope,
        op0=nl.subtract,
        operand0=total,
        op1=nl.multiply,
        operand1=result,
    )
    nisa.dma_copy(dst=dx, src=change)
    return dx
