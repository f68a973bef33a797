"""Solutions of notebook 14, Debugging clinic."""

import nki
import nki.isa as nisa
import nki.language as nl

ANSWERS = {
    "14.1": "bounds",
    "14.2": "unwritten",
    "14.3": "bank",
    "14.4": "accumulate",
    "14.5": "rounding",
    "14.6": "overflow",
    "14.7": "address",
    "14.8": "capacity",
    "14.9": "transposed",
    "14.10": "race",
}


@nki.jit
def shifted(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns = x.shape[1]

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    nisa.dma_copy(dst=tile[:, 0 : columns - 1], src=x[:, 1:columns])

    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def row_sums(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)

    for start in range(0, columns, 64):
        stop = min(start + 64, columns)
        tile = nl.ndarray((rows, stop - start), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start:stop])

        part = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=part, data=tile, op=nl.add, axis=1)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)

    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def product(a, b):
    k, m = a.shape
    n = b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    result = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.sbuf)
    for start in range(0, n, 512):
        stop = min(start + 512, n)
        total = nl.ndarray((m, stop - start), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=left, moving=right[:, start:stop])
        nisa.tensor_copy(dst=result[:, start:stop], src=total)

    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def products(a, b):
    k, m = a.shape
    n = b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)

    for start in range(0, n, 512):
        columns = slice(start, start + 512)
        right = nl.ndarray((k, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=right, src=b[:, columns])

        total = nl.ndarray((m, 512), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(dst=total, stationary=left, moving=right)

        result = nl.ndarray((m, 512), dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[:, columns], src=result)
    return out


@nki.jit
def mean_square(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    square = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=square, data1=tile, data2=tile, op=nl.multiply)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, data=square, op=nl.add, axis=1)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1.0 / columns)

    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def softmax(x):
    rows = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    largest = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, data=tile, op=nl.maximum, axis=1)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=largest)

    nisa.activation(dst=tile, op=nl.exp, data=tile)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, data=tile, op=nl.add, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)

    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def difference(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf, address=(0, 0))
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf, address=(0, 1024))
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.subtract)
    nisa.dma_copy(dst=out, src=left)
    return out


@nki.jit
def halved(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    for start in range(0, columns, 4096):
        stop = min(start + 4096, columns)
        tile = nl.ndarray((rows, stop - start), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start:stop])
        half = nl.ndarray((rows, stop - start), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=half, data=tile, op0=nl.multiply, operand0=0.5)
        nisa.dma_copy(dst=out[:, start:stop], src=half)
    return out


@nki.jit
def matmul(a, b):
    m, k = a.shape
    n = b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray((m, k), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    turned = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_transpose(dst=turned, src=left)

    total = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=turned, moving=right)

    result = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out


@nki.jit
def swapped(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    staged = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = columns // 2
    core = nl.program_id(0)
    own = slice(core * half, (core + 1) * half)
    other = slice((1 - core) * half, (2 - core) * half)

    tile = nl.ndarray((rows, half), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, own])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=staged[:, own], src=tile)

    nisa.core_barrier(data=staged, cores=(0, 1))
    nisa.dma_copy(dst=tile, src=staged[:, other])
    nisa.dma_copy(dst=out[:, own], src=tile)
    return out
