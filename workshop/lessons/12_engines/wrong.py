"""Wrong kernels of notebook 12."""

import nki
import nki.isa as nisa
import nki.language as nl


def stored(x, tile):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def bias_first(x, scale, bias):
    tile, factor, shift = nl.load(x), nl.load(scale), nl.load(bias)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=shift)
    nisa.activation(dst=tile, op=nl.tanh, data=tile, scale=factor)
    return stored(x, tile)


@nki.jit
def function_first(x, scale, bias):
    tile, factor, shift = nl.load(x), nl.load(scale), nl.load(bias)
    nisa.activation(dst=tile, op=nl.tanh, data=tile)
    nisa.activation(dst=tile, op=nl.copy, data=tile, scale=factor, bias=shift)
    return stored(x, tile)


@nki.jit
def without_bias(x, scale, bias):
    tile, factor, shift = nl.load(x), nl.load(scale), nl.load(bias)
    nisa.tensor_scalar(dst=shift, data=shift, op0=nl.multiply, operand0=0.0)
    nisa.activation(dst=tile, op=nl.tanh, data=tile, scale=factor, bias=shift)
    return stored(x, tile)


@nki.jit
def step_by_step(x, scale, bias):
    tile, factor, shift = nl.load(x), nl.load(scale), nl.load(bias)
    nisa.activation(dst=tile, op=nl.copy, data=tile, scale=factor)
    nisa.activation(dst=tile, op=nl.tanh, data=tile, bias=shift)
    return stored(x, tile)


@nki.jit
def on_vector_first(x, scale, bias):
    tile, factor, shift = nl.load(x), nl.load(scale), nl.load(bias)
    nisa.tensor_scalar(
        dst=tile, data=tile, op0=nl.multiply, operand0=factor, op1=nl.add, operand1=shift
    )
    nisa.activation(dst=tile, op=nl.tanh, data=tile)
    return stored(x, tile)


@nki.jit
def not_reversed(x, margin):
    tile, limit = nl.load(x), nl.load(margin)
    nisa.tensor_scalar(
        dst=tile, data=tile, op0=nl.subtract, operand0=limit, op1=nl.maximum, operand1=0.0
    )
    return stored(x, tile)


@nki.jit
def not_clipped(x, margin):
    tile, limit = nl.load(x), nl.load(margin)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=limit, reverse0=True)
    return stored(x, tile)


@nki.jit
def maximum_first(x, margin):
    tile, limit = nl.load(x), nl.load(margin)
    nisa.tensor_scalar(
        dst=tile, data=tile, op0=nl.maximum, operand0=0.0,
        op1=nl.subtract, operand1=limit, reverse1=True,
    )  # fmt: skip
    return stored(x, tile)


@nki.jit
def two_instructions(x, margin):
    tile, limit = nl.load(x), nl.load(margin)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.subtract, operand0=limit, reverse0=True)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=0.0)
    return stored(x, tile)


def moved(w, v, g, beta, factor, *, speed_of_before=False, flipped=False):
    weight, speed, slope = nl.load(w), nl.load(v), nl.load(g)
    new = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=new, data=speed, op0=nl.multiply, operand0=beta, op1=nl.add, operand1=slope
    )
    used = speed if speed_of_before else new
    op = nl.subtract if flipped else nl.add
    nisa.scalar_tensor_tensor(
        dst=weight, data=used, op0=nl.multiply, operand0=factor, op1=op, operand1=weight
    )
    return stored(w, weight), stored(v, new)


@nki.jit
def old_speed(w, v, g, beta, rate):
    return moved(w, v, g, beta, -rate, speed_of_before=True)


@nki.jit
def uphill(w, v, g, beta, rate):
    return moved(w, v, g, beta, rate)


@nki.jit
def flipped(w, v, g, beta, rate):
    return moved(w, v, g, beta, rate, flipped=True)


@nki.jit
def four_steps(w, v, g, beta, rate):
    weight, speed, slope = nl.load(w), nl.load(v), nl.load(g)
    new = nl.add(nl.multiply(speed, beta), slope)
    return stored(w, nl.subtract(weight, nl.multiply(new, rate))), stored(v, new)


def with_sums(x, tile, sums):
    out = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=sums)
    return stored(x, tile), out


@nki.jit
def sum_of_x(x):
    tile = nl.load(x)
    sums = nl.sum(tile, axis=1, keepdims=True, dtype=nl.float32)
    return with_sums(x, nl.exp(tile), sums)


@nki.jit
def mean_of_exp(x):
    tile = nl.exp(nl.load(x))
    sums = nl.sum(tile, axis=1, keepdims=True, dtype=nl.float32)
    return with_sums(x, tile, nl.multiply(sums, 1.0 / x.shape[1]))


@nki.jit
def sum_on_vector(x):
    tile = nl.exp(nl.load(x))
    return with_sums(x, tile, nl.sum(tile, axis=1, keepdims=True, dtype=nl.float32))


@nki.jit
def idle_sum(x):
    tile = nl.load(x)
    sums = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=tile, op=nl.exp, data=tile, reduce_op=nl.add, reduce_res=sums)
    return with_sums(x, tile, sums)


def horner(x, coefficients, whole=False):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns = x.shape[1]
    for start in range(0, columns, 512):
        part = slice(start, start + 512 if whole else min(start + 512, columns))
        tile = nl.load(x[:, part])
        y = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=y, data=tile, op0=nl.multiply, operand0=coefficients[0],
            op1=nl.add, operand1=coefficients[1],
        )  # fmt: skip
        for c in coefficients[2:]:
            nisa.tensor_tensor(dst=y, data1=y, data2=tile, op=nl.multiply)
            nisa.tensor_scalar(dst=y, data=y, op0=nl.add, operand0=c)
        nisa.dma_copy(dst=out[:, part], src=y)
    return out


@nki.jit
def unfused(x, c0, c1, c2, c3):
    return horner(x, [c3, c2, c1, c0])


@nki.jit
def backwards(x, c0, c1, c2, c3):
    return horner(x, [c0, c1, c2, c3])


@nki.jit
def without_constant(x, c0, c1, c2, c3):
    return horner(x, [c3, c2, c1, 0.0])


@nki.jit
def without_square(x, c0, c1, c2, c3):
    return horner(x, [c3, 0.0, c1, c0])


@nki.jit
def whole_pieces_only(x, c0, c1, c2, c3):
    return horner(x, [c3, c2, c1, c0], whole=True)


WRONG = {
    "12.2": {
        "mistake": bias_first,
        "mistake-2": function_first,
        "mistake-3": without_bias,
        "limit": step_by_step,
        "limit-2": on_vector_first,
    },
    "12.3": {
        "mistake": not_reversed,
        "mistake-2": not_clipped,
        "mistake-3": maximum_first,
        "limit": two_instructions,
    },
    "12.4": {
        "mistake": old_speed,
        "mistake-2": uphill,
        "mistake-3": flipped,
        "uses": four_steps,
    },
    "12.5": {
        "mistake": sum_of_x,
        "mistake-2": mean_of_exp,
        "limit": sum_on_vector,
        "nan": idle_sum,
    },
    "12.6": {
        "mistake": backwards,
        "mistake-2": without_constant,
        "mistake-3": without_square,
        "time": unfused,
        "error": whole_pieces_only,
    },
}
