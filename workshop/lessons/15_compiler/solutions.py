"""Solutions of notebook 15, What the compiler does."""

import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def power(x, n):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    square = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=square, src=x)

    result = None
    while n > 0:
        if n % 2 == 1 and result is None:
            result = square
        elif n % 2 == 1:
            product = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=product, data1=result, data2=square, op=nl.multiply)
            result = product
        n = n // 2
        if n > 0:
            next_square = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.tensor_tensor(dst=next_square, data1=square, data2=square, op=nl.multiply)
            square = next_square

    nisa.dma_copy(dst=out, src=result)
    return out


ANSWERS = {
    "15.1": 39,
    "15.2": "b",
    "15.3": "remove_dead",
    "15.4": 8192,
    "15.5": "first",
    "15.6": "load",
    "15.7": 2,
}
