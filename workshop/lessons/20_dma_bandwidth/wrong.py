"""Wrong kernels of notebook 20."""

import nki
import nki.isa as nisa
import nki.language as nl


def added(dst, left, right, kernel_dtype):
    x = nl.ndarray(left.shape, dtype=kernel_dtype, buffer=nl.sbuf)
    y = nl.ndarray(left.shape, dtype=kernel_dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x, src=left)
    nisa.dma_copy(dst=y, src=right)
    nisa.tensor_tensor(dst=x, data1=x, data2=y, op=nl.add)
    nisa.dma_copy(dst=dst, src=x)


@nki.jit
def one_partition(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    x, y, z = (t.reshape((1, n)) for t in (a, b, out))
    for start in range(0, n, 16384):
        part = slice(start, min(start + 16384, n))
        added(z[:, part], x[:, part], y[:, part], a.dtype)
    return out


@nki.jit
def piece_by_piece(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    columns = n // 128
    x, y, z = (t.reshape((128, columns)) for t in (a, b, out))
    for start in range(0, columns, 64):
        part = slice(start, min(start + 64, columns))
        added(z[:, part], x[:, part], y[:, part], a.dtype)
    return out


@nki.jit
def another_order(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    turned = b.reshape((n // 128, 128)).permute((1, 0))
    shape = (128, n // 128)
    added(out.reshape(shape), a.reshape(shape), turned, a.dtype)
    return out


@nki.jit
def always_512_columns(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    shape = (128, 512)
    added(out.reshape(shape), a.reshape(shape), b.reshape(shape), a.dtype)
    return out


def columns_of(x, chosen):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    part = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=part, src=tile[:, chosen])
    nisa.dma_copy(dst=out, src=part)
    return out


@nki.jit
def odd_columns(x):
    return columns_of(x, slice(1, x.shape[1], 2))


@nki.jit
def first_half(x):
    return columns_of(x, slice(0, x.shape[1] // 2))


@nki.jit
def strided_load(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x[:, 0:columns:2]))
    return out


@nki.jit
def one_column_each(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for j in range(columns // 2):
        nisa.dma_copy(dst=out[:, j : j + 1], src=tile[:, 2 * j : 2 * j + 1])
    return out


def streamed(a, b, size, whole=False):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    columns = n // 128
    x, y, z = (t.reshape((128, columns)) for t in (a, b, out))
    last = columns // size * size if whole and columns > size else columns
    for start in range(0, last, size):
        part = slice(start, min(start + size, columns))
        added(z[:, part], x[:, part], y[:, part], a.dtype)
    return out


@nki.jit
def one_large_piece(a, b):
    return streamed(a, b, 2048)


@nki.jit
def small_pieces(a, b):
    return streamed(a, b, 256)


@nki.jit
def without_the_rest(a, b):
    return streamed(a, b, 1024, whole=True)


@nki.jit
def past_the_end(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    x, y, z = (t.reshape((128, n // 128)) for t in (a, b, out))
    for start in range(0, n // 128, 1024):
        part = slice(start, start + 1024)
        added(z[:, part], x[:, part], y[:, part], a.dtype)
    return out


@nki.jit
def block_by_block(p, q):
    out = nl.ndarray(p.shape, dtype=p.dtype, buffer=nl.shared_hbm)
    for block in range(p.shape[0]):
        added(out[block], p[block], q[block], p.dtype)
    return out


@nki.jit
def backwards(p, q):
    out = nl.ndarray(p.shape, dtype=p.dtype, buffer=nl.shared_hbm)
    last = p.shape[0] - 1
    for block in range(p.shape[0]):
        added(out[block], p[block], q[last - block], p.dtype)
    return out


@nki.jit
def without_the_last_blocks(p, q):
    out = nl.ndarray(p.shape, dtype=p.dtype, buffer=nl.shared_hbm)
    blocks = p.shape[0]
    size = min(6, blocks)
    for start in range(0, blocks - size + 1, size):
        part = slice(start, start + size)
        order = (1, 0, 2)
        added(out[part].permute(order), p[part].permute(order), q[part].permute(order), p.dtype)
    return out


@nki.jit
def added_by_dma(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.add)
    return out


WRONG = {
    "20.2": {
        "time": one_partition,
        "limit": piece_by_piece,
        "mistake": another_order,
        "error": always_512_columns,
        "avoids": added_by_dma,
    },
    "20.4": {
        "mistake": odd_columns,
        "mistake-2": first_half,
        "time": strided_load,
        "limit": one_column_each,
    },
    "20.5": {
        "time": one_large_piece,
        "time-2": small_pieces,
        "unwritten": without_the_rest,
        "error": past_the_end,
        "avoids": added_by_dma,
    },
    "20.6": {"time": block_by_block, "mistake": backwards, "unwritten": without_the_last_blocks},
}
