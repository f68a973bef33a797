"""Wrong kernels of notebook 03."""

import nki
import nki.isa as nisa
import nki.language as nl


def product_kernel(terms):
    """Return a kernel that stores what `terms` makes of three tiles."""

    @nki.jit
    def product_backward(dout, a, b):
        da = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
        db = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
        tiles = nl.load(dout), nl.load(a), nl.load(b)
        for result, tile in zip((da, db), terms(*tiles), strict=True):
            nl.store(result, tile)
        return da, db

    return product_backward


def by_first(a, b):
    return nl.multiply(b, nl.add(nl.multiply(a, 2.0), b))


def without_dout(dout, a, b):
    # Adding nothing of it: so that all arguments are read.
    nothing = nl.multiply(dout, 0.0)
    return nl.add(by_first(a, b), nothing), nl.add(by_first(b, a), nothing)


def exchanged(dout, a, b):
    return nl.multiply(dout, by_first(b, a)), nl.multiply(dout, by_first(a, b))


def constant_sum(dout, a, b):
    total = nl.multiply(dout, nl.add(a, b))
    return nl.multiply(total, b), nl.multiply(total, a)


def first_only(dout, a, b):
    return nl.multiply(dout, by_first(a, b)), nl.multiply(by_first(b, a), nl.multiply(dout, 0.5))


def norm_kernel(along_factor=1.0, with_gamma=True, rows_are_summed=True):
    """Return the backward of RMSNorm with something changed."""

    @nki.jit
    def rmsnorm_backward(dout, x, gamma, rstd):
        rows, columns = x.shape
        dx = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        dgamma = nl.ndarray(gamma.shape, dtype=gamma.dtype, buffer=nl.shared_hbm)
        tile, grad = nl.load(x), nl.load(dout)
        weight = nl.load(gamma.reshape((1, columns)).broadcast(0, rows))
        factor = nl.broadcast_to(nl.load(rstd), x.shape)
        if not with_gamma:
            weight = nl.add(nl.multiply(weight, 0.0), 1.0)
        normal, h = nl.multiply(tile, factor), nl.multiply(grad, weight)
        mean = nl.mean(nl.multiply(h, normal), axis=1, keepdims=True)
        along = nl.multiply(normal, nl.broadcast_to(mean, x.shape))
        along = nl.multiply(along, along_factor)
        nl.store(dx, nl.multiply(factor, nl.subtract(h, along)))
        ones = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)
        nisa.memset(dst=ones, value=1.0 if rows_are_summed else 1.0 / rows)
        nisa.nc_matmul(dst=total, stationary=ones, moving=nl.multiply(grad, normal))
        sums = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=sums, src=total)
        nl.store(dgamma.reshape((1, columns)), sums)
        return dx, dgamma

    return rmsnorm_backward


WRONG = {
    "03.1": {
        "mistake": product_kernel(without_dout),
        "mistake-2": product_kernel(exchanged),
        "mistake-3": product_kernel(constant_sum),
        "factor": product_kernel(first_only),
    },
    "03.2": {
        "mistake": norm_kernel(along_factor=0.0),
        "mistake-2": norm_kernel(with_gamma=False),
        "factor": norm_kernel(rows_are_summed=False),
        "values": norm_kernel(along_factor=0.9),
    },
}
