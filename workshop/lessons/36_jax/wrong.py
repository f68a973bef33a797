"""Wrong kernels of notebook 36."""

import nki
import nki.language as nl


def kernel(gradients):
    """Return a kernel that stores what `gradients` makes of four tiles."""

    @nki.jit
    def blend_backward(dout, h, x, g):
        results = [nl.ndarray(h.shape, dtype=h.dtype, buffer=nl.shared_hbm) for _ in range(3)]
        tiles = nl.load(dout), nl.load(h), nl.load(x), nl.load(g)
        for result, tile in zip(results, gradients(*tiles), strict=True):
            nl.store(result, tile)
        return tuple(results)

    return blend_backward


def first_only(dout, h, x, g):
    return nl.multiply(dout, 1.0), nl.multiply(dout, g), nl.multiply(dout, nl.subtract(x, h))


def other_sign(dout, h, x, g):
    of_x = nl.multiply(dout, g)
    return nl.subtract(dout, of_x), of_x, nl.multiply(dout, nl.subtract(h, x))


def gate_squared(dout, h, x, g):
    of_x = nl.multiply(dout, g)
    return nl.subtract(dout, nl.multiply(of_x, g)), of_x, nl.multiply(dout, nl.subtract(x, h))


WRONG = {
    "36.1": {
        "mistake": kernel(first_only),
        "mistake-2": kernel(other_sign),
        "values": kernel(gate_squared),
    },
}
