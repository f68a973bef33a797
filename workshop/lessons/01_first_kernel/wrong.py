"""Wrong kernels of notebook 01."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def sum_only(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.add(nl.load(a), nl.load(b)))
    return out


@nki.jit
def one_doubled(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.load(a)
    nl.store(out, nl.add(nl.add(left, left), nl.load(b)))
    return out


@nki.jit
def part_doubled(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.add(nl.load(a), nl.load(b))
    most = a.shape[1] - 1
    nisa.tensor_scalar(dst=total[:, :most], data=total[:, :most], op0=nl.multiply, operand0=2.0)
    nl.store(out, total)
    return out


@nki.jit
def blind(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    total = nl.add(nl.load(a), nl.load(a))
    nl.store(out, nl.add(total, total))
    return out


@nki.jit
def returns_early(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[0], 128):
        rows = slice(start, min(start + 128, a.shape[0]))
        nl.store(out[rows], nl.add(nl.load(a[rows]), nl.load(b[rows])))
        return out


@nki.jit
def whole_tiles_only(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[0], 128):
        rows = slice(start, start + 128)
        nl.store(out[rows], nl.add(nl.load(a[rows]), nl.load(b[rows])))
    return out


@nki.jit
def loads_twice(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[0], 128):
        rows = slice(start, min(start + 128, a.shape[0]))
        left = nl.load(a[rows])
        again = nl.load(a[rows])
        nisa.tensor_tensor(dst=left, data1=again, data2=nl.load(b[rows]), op=nl.add)
        nl.store(out[rows], left)
    return out


@nki.jit
def small_tiles(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    for start in range(0, a.shape[0], 64):
        rows = slice(start, min(start + 64, a.shape[0]))
        nl.store(out[rows], nl.add(nl.load(a[rows]), nl.load(b[rows])))
    return out


@nki.jit
def overwrites(a, b):
    for start in range(0, a.shape[0], 128):
        rows = slice(start, min(start + 128, a.shape[0]))
        nl.store(a[rows], nl.add(nl.load(a[rows]), nl.load(b[rows])))
    return a


def step(x, change):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, change(nl.load(x)))
    return out


@nki.jit
def with_sign(x):
    return step(x, lambda tile: nl.subtract(tile, 1.0))


@nki.jit
def other_order(x):
    return step(x, lambda tile: nl.subtract(nl.abs(tile), 1.0))


@nki.jit
def always_float32(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nl.store(out, nl.abs(nl.subtract(nl.load(x), 1.0)))
    return out


@nki.jit
def plus_one(x):
    return step(x, lambda tile: nl.abs(nl.add(tile, 1.0)))


@nki.jit
def added_by_dma(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=out, srcs=[a, b], reduce_op=nl.add)
    return out


WRONG = {
    "01.1": {
        "mistake": sum_only,
        "mistake-2": one_doubled,
        "part": part_doubled,
        "unread": blind,
    },
    "01.2": {
        "unwritten": returns_early,
        "error": whole_tiles_only,
        "limit": small_tiles,
        "argument": overwrites,
        "limit-2": loads_twice,
        "avoids": added_by_dma,
    },
    "01.3": {
        "mistake": with_sign,
        "mistake-2": other_order,
        "dtype": always_float32,
        "values": plus_one,
    },
}
