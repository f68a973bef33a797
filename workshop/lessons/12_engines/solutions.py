"""Solutions of notebook 12, Engines and fused instructions."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def gate(x, scale, bias):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0]

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    factor = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    shift = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=factor, src=scale)
    nisa.dma_copy(dst=shift, src=bias)

    nisa.activation(dst=tile, op=nl.tanh, data=tile, scale=factor, bias=shift)

    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def hinge(x, margin):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0]

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    limit = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=limit, src=margin)

    nisa.tensor_scalar(
        dst=tile,
        data=tile,
        op0=nl.subtract,
        operand0=limit,
        reverse0=True,
        op1=nl.maximum,
        operand1=0.0,
    )

    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def momentum(w, v, g, beta, rate):
    new_w = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.shared_hbm)
    new_v = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.shared_hbm)

    weight = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    speed = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.sbuf)
    slope = nl.ndarray(g.shape, dtype=g.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weight, src=w)
    nisa.dma_copy(dst=speed, src=v)
    nisa.dma_copy(dst=slope, src=g)

    nisa.scalar_tensor_tensor(
        dst=speed, data=speed, op0=nl.multiply, operand0=beta, op1=nl.add, operand1=slope
    )
    nisa.scalar_tensor_tensor(
        dst=weight, data=speed, op0=nl.multiply, operand0=-rate, op1=nl.add, operand1=weight
    )

    nisa.dma_copy(dst=new_w, src=weight)
    nisa.dma_copy(dst=new_v, src=speed)
    return new_w, new_v


@nki.jit
def exp_sum(x):
    rows = x.shape[0]
    e = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    sums = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    nisa.activation(
        dst=tile,
        op=nl.exp,
        data=tile,
        reduce_op=nl.add,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
        reduce_res=sums,
    )

    nisa.dma_copy(dst=e, src=tile)
    nisa.dma_copy(dst=total, src=sums)
    return e, total


@nki.jit
def cubic(x, c0, c1, c2, c3):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    size = 512

    for start in range(0, columns, size):
        stop = min(start + size, columns)
        tile = nl.ndarray((rows, stop - start), dtype=x.dtype, buffer=nl.sbuf)
        y = nl.ndarray((rows, stop - start), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start:stop])

        nisa.activation(dst=y, op=nl.copy, data=tile, scale=c3)
        nisa.scalar_tensor_tensor(
            dst=y, data=y, op0=nl.add, operand0=c2, op1=nl.multiply, operand1=tile
        )
        nisa.scalar_tensor_tensor(
            dst=y, data=y, op0=nl.add, operand0=c1, op1=nl.multiply, operand1=tile
        )
        nisa.activation(dst=y, op=nl.copy, data=y, bias=c0)

        nisa.dma_copy(dst=out[:, start:stop], src=y)
    return out


ANSWERS = {"12.1": "vector"}
