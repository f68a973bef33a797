"""Solutions of notebook 21, The matmul ladder."""

import nki
import nki.isa as nisa
import nki.language as nl

ANSWERS = {
    "21.2": 10 / 3,
    "21.6": 315,
}


def load(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def store(place, total):
    tile = nl.ndarray(total.shape, dtype=place.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total)
    nisa.dma_copy(dst=place, src=tile)


@nki.jit
def matmul_tiled(a_t, b):
    depth, rows = a_t.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a_t.dtype, buffer=nl.shared_hbm)

    for m in range(0, rows, 128):
        for n in range(0, columns, 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for k in range(0, depth, 128):
                left = load(a_t[k : k + 128, m : m + 128])
                right = load(b[k : k + 128, n : n + 512])
                nisa.nc_matmul(dst=total, stationary=left, moving=right)
            store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def matmul_hoisted(a_t, b):
    depth, rows = a_t.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a_t.dtype, buffer=nl.shared_hbm)

    for m in range(0, rows, 128):
        left = [load(a_t[k : k + 128, m : m + 128]) for k in range(0, depth, 128)]
        for n in range(0, columns, 512):
            right = [load(b[k : k + 128, n : n + 512]) for k in range(0, depth, 128)]
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            for i in range(depth // 128):
                nisa.nc_matmul(dst=total, stationary=left[i], moving=right[i])
            store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def matmul_blocks(a_t, b, high, wide):
    depth, rows = a_t.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a_t.dtype, buffer=nl.shared_hbm)
    steps = range(0, depth, 128)

    for top in range(0, rows, 128 * high):
        block_rows = range(top, min(top + 128 * high, rows), 128)
        left = {m: [load(a_t[k : k + 128, m : m + 128]) for k in steps] for m in block_rows}

        for start in range(0, columns, 512 * wide):
            block_columns = range(start, min(start + 512 * wide, columns), 512)
            right = {n: [load(b[k : k + 128, n : n + 512]) for k in steps] for n in block_columns}

            for m in block_rows:
                for n in block_columns:
                    total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                    for i in range(depth // 128):
                        nisa.nc_matmul(dst=total, stationary=left[m][i], moving=right[n][i])
                    store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def matmul_deep(a_t, b, deep):
    depth, rows = a_t.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a_t.dtype, buffer=nl.shared_hbm)

    sums = [
        nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf) for _ in range(rows // 128)
    ]

    for first in range(0, depth, 128 * deep):
        steps = range(first, min(first + 128 * deep, depth), 128)
        left = [load(a_t[k : k + 128]) for k in steps]
        right = [load(b[k : k + 128]) for k in steps]

        for row, held in enumerate(sums):
            m = 128 * row
            for n in range(0, columns, 512):
                total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
                for i in range(len(steps)):
                    nisa.nc_matmul(
                        dst=total,
                        stationary=left[i][:, m : m + 128],
                        moving=right[i][:, n : n + 512],
                    )
                place = held[:, n : n + 512]
                if first == 0:
                    nisa.tensor_copy(dst=place, src=total)
                else:
                    nisa.tensor_tensor(dst=place, data1=place, data2=total, op=nl.add)

    for row, held in enumerate(sums):
        store(out[128 * row : 128 * row + 128], held)
    return out
