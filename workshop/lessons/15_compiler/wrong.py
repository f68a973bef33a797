"""Wrong kernels of notebook 15."""

import nki
import nki.isa as nisa
import nki.language as nl


def multiplied(x, times):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=result, value=1.0)
    for _ in range(times):
        nisa.tensor_tensor(dst=result, data1=result, data2=tile, op=nl.multiply)
    nl.store(out, result)
    return out


@nki.jit
def one_by_one(x, n):
    return multiplied(x, n)


@nki.jit
def once_too_often(x, n):
    return multiplied(x, n + 1)


@nki.jit
def once_too_few(x, n):
    return multiplied(x, n - 1)


@nki.jit
def squares_only(x, n):
    times = 1
    while 2 * times <= n:
        times = 2 * times
    return multiplied(x, times)


@nki.jit
def always_13(x, n):
    return multiplied(x, 13)


WRONG = {
    "15.8": {
        "limit": one_by_one,
        "mistake": once_too_often,
        "mistake-2": once_too_few,
        "mistake-3": squares_only,
        "values": always_13,
    },
}
