"""Wrong kernels of notebook 13."""

import nki
import nki.isa as nisa
import nki.language as nl

RESET = nisa.reduce_cmd.reset_reduce


def stored(tile, dtype):
    out = nl.ndarray(tile.shape, dtype=dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


def column(tile, dtype=nl.float32):
    return nl.ndarray((tile.shape[0], 1), dtype=dtype, buffer=nl.sbuf)


def in_float32(tile):
    return nl.ndarray(tile.shape, dtype=nl.float32, buffer=nl.sbuf)


def row_sum(tile):
    total = column(tile)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    return total


def running_max(x, first):
    columns = x.shape[1]
    largest = column(x)
    nisa.memset(dst=largest, value=first)
    for start in range(0, columns, 8192):
        here = column(x)
        tile = nl.load(x[:, start : min(start + 8192, columns)])
        nisa.tensor_reduce(dst=here, op=nl.maximum, data=tile, axis=1)
        nisa.tensor_tensor(dst=largest, data1=largest, data2=here, op=nl.maximum)
    return stored(largest, x.dtype)


@nki.jit
def from_zero(x):
    return running_max(x, 0.0)


@nki.jit
def from_a_small_number(x):
    return running_max(x, -1e30)


def by_columns(x, op, *, magnitude=False):
    rows, columns = x.shape
    size = min(columns, 8192)
    parts = (columns + size - 1) // size
    best = nl.ndarray((rows, parts), dtype=x.dtype, buffer=nl.sbuf)
    for k in range(parts):
        tile = nl.load(x[:, k * size : min((k + 1) * size, columns)])
        if magnitude:
            nisa.activation(dst=tile, op=nl.abs, data=tile)
        nisa.tensor_reduce(dst=best[:, k : k + 1], op=op, data=tile, axis=1)
    result = column(x)
    nisa.tensor_reduce(dst=result, op=op, data=best, axis=1)
    return stored(result, x.dtype)


@nki.jit
def largest_magnitude(x):
    return by_columns(x, nl.maximum, magnitude=True)


@nki.jit
def smallest(x):
    return by_columns(x, nl.minimum)


@nki.jit
def whole_row(x):
    tile = nl.load(x)
    result = column(tile)
    nisa.tensor_reduce(dst=result, op=nl.maximum, data=tile, axis=1)
    return stored(result, x.dtype)


def products(x, size=128, *, accumulate=None, most=None, scale=1.0):
    rows, columns = x.shape
    total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, min(rows, most or rows), size):
        height = min(size, rows - start)
        ones = nl.ndarray((height, 1), dtype=x.dtype, buffer=nl.sbuf)
        nisa.memset(dst=ones, value=1.0)
        tile = nl.load(x[start : start + height])
        nisa.nc_matmul(dst=total, stationary=ones, moving=tile, accumulate=accumulate)
    sums = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=sums, data=total, op0=nl.multiply, operand0=scale)
    return stored(sums, x.dtype)


@nki.jit
def last_tile(x):
    return products(x, accumulate=False)


@nki.jit
def first_tile(x):
    return products(x, most=1)


@nki.jit
def mean_of_columns(x):
    return products(x, scale=1.0 / x.shape[0])


@nki.jit
def half_tiles(x):
    return products(x, size=64)


@nki.jit
def across_partitions(x):
    rows, columns = x.shape
    total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)
    for start in range(0, rows, 128):
        part = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
        tile = nl.load(x[start : min(start + 128, rows)])
        nisa.tensor_partition_reduce(dst=part, op=nl.add, data=tile)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)
    return stored(total, x.dtype)


def softmax_like(x, size=128, *, sign=1.0, shifted=True, divided=True, shift_op=nl.maximum):
    rows = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(0, rows, size):
        part = slice(start, min(start + size, rows))
        tile = nl.load(x[part])
        e = in_float32(tile)
        nisa.tensor_scalar(dst=e, data=tile, op0=nl.multiply, operand0=sign)
        if shifted:
            most = column(e)
            nisa.tensor_reduce(dst=most, op=shift_op, data=e, axis=1)
            nisa.tensor_scalar(dst=e, data=e, op0=nl.subtract, operand0=most)
        nisa.activation(dst=e, op=nl.exp, data=e)
        if divided:
            total = row_sum(e)
            nisa.reciprocal(dst=total, data=total)
            nisa.tensor_scalar(dst=e, data=e, op0=nl.multiply, operand0=total)
        nl.store(out[part], e)
    return out


@nki.jit
def by_formula(x):
    return softmax_like(x, shifted=False)


@nki.jit
def less_the_minimum(x):
    return softmax_like(x, shift_op=nl.minimum)


@nki.jit
def not_divided(x):
    return softmax_like(x, divided=False)


@nki.jit
def of_minus_x(x):
    return softmax_like(x, sign=-1.0)


@nki.jit
def small_tiles(x):
    return softmax_like(x, size=32)


def normalized(
    x, eps, *, squares=True, mean=False, divide=True, root=True, weight=None, sums=nl.float32
):
    tile = nl.load(x)
    y = in_float32(tile)
    nisa.tensor_copy(dst=y, src=tile)
    columns = x.shape[1]
    if mean:
        middle = row_sum(y)
        nisa.tensor_scalar(dst=middle, data=middle, op0=nl.multiply, operand0=1.0 / columns)
        nisa.tensor_scalar(dst=y, data=y, op0=nl.subtract, operand0=middle)
    if squares:
        square, total, margin = in_float32(tile), column(tile, sums), column(tile)
        nisa.memset(dst=margin, value=eps)
        nisa.activation(
            dst=square, op=nl.square, data=y,
            reduce_op=nl.add, reduce_res=total, reduce_cmd=RESET,
        )  # fmt: skip
        share = 1.0 / columns if divide else 1.0
        function = nl.rsqrt if root else nl.reciprocal
        factor = column(tile)
        nisa.activation(dst=factor, op=function, data=total, scale=share, bias=margin)
        nisa.tensor_scalar(dst=y, data=y, op0=nl.multiply, operand0=factor)
    if weight is not None:
        factors = nl.ndarray(x.shape, dtype=weight.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=factors, src=weight.broadcast(0, x.shape[0]))
        nisa.tensor_tensor(dst=y, data1=y, data2=factors, op=nl.multiply)
    return stored(y, x.dtype)


@nki.jit
def rms_without_eps(x, w, eps):
    return normalized(x, 0.0, weight=w)


@nki.jit
def rms_of_sum(x, w, eps):
    return normalized(x, eps, divide=False, weight=w)


@nki.jit
def rms_without_weight(x, w, eps):
    weight = nl.load(w)
    nisa.tensor_scalar(dst=weight, data=weight, op0=nl.multiply, operand0=0.0)
    ones = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.shared_hbm)
    nisa.tensor_scalar(dst=weight, data=weight, op0=nl.add, operand0=1.0)
    nl.store(ones, weight)
    return normalized(x, eps, weight=ones)


@nki.jit
def rms_less_mean(x, w, eps):
    return normalized(x, eps, mean=True, weight=w)


@nki.jit
def rms_in_bfloat16(x, w, eps):
    tile = nl.load(x, dtype=nl.bfloat16)
    narrow = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.shared_hbm)
    nl.store(narrow, tile)
    result = normalized(narrow, eps, weight=w)
    return stored(nl.load(result), x.dtype)


@nki.jit
def sum_as_narrow_as_x(x, w, eps):
    return normalized(x, eps, weight=w, sums=x.dtype)


@nki.jit
def rms_with_a_fixed_eps(x, w, eps):
    return normalized(x, 1e-3, weight=w)


@nki.jit
def mean_left(x, eps):
    tile = nl.load(x)
    parts = nl.ndarray((x.shape[0], 6), dtype=nl.float32, buffer=nl.sbuf)
    moments = nl.ndarray((x.shape[0], 2), dtype=nl.float32, buffer=nl.sbuf)
    margin, factor = column(tile), column(tile)
    nisa.memset(dst=margin, value=eps)
    nisa.bn_stats(dst=parts, data=tile)
    nisa.bn_aggr(dst=moments, data=parts)
    nisa.activation(dst=factor, op=nl.rsqrt, data=moments[:, 1:2], bias=margin)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    return stored(tile, x.dtype)


@nki.jit
def mean_only(x, eps):
    return normalized(x, eps, squares=False, mean=True)


@nki.jit
def by_the_variance(x, eps):
    return normalized(x, eps, mean=True, root=False)


@nki.jit
def without_eps(x, eps):
    return normalized(x, 0.0, mean=True)


@nki.jit
def with_a_fixed_eps(x, eps):
    return normalized(x, 1e-4, mean=True)


@nki.jit
def in_one_pass(x, eps):
    """Take the variance as mean(x * x) - mean(x) * mean(x)."""
    tile = nl.load(x)
    share = 1.0 / x.shape[1]
    mean, square = row_sum(tile), row_sum(nl.multiply(tile, tile))
    nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=share)
    nisa.scalar_tensor_tensor(
        dst=square, data=square, op0=nl.multiply, operand0=share,
        op1=nl.subtract, operand1=nl.multiply(mean, mean),
    )  # fmt: skip
    nisa.tensor_scalar(
        dst=square, data=square, op0=nl.maximum, operand0=0.0, op1=nl.add, operand1=eps
    )
    nisa.activation(dst=square, op=nl.rsqrt, data=square)
    nisa.tensor_scalar(
        dst=tile, data=tile, op0=nl.subtract, operand0=mean, op1=nl.multiply, operand1=square
    )
    return stored(tile, x.dtype)


def back(y, dy, *, op=nl.multiply, summed="product"):
    result, slope = nl.load(y), nl.load(dy)
    product = in_float32(result)
    nisa.tensor_tensor(dst=product, data1=result, data2=slope, op=nl.multiply)
    total = row_sum(slope if summed == "slope" else product)
    change = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.sbuf)
    if summed == "nothing":
        nisa.tensor_copy(dst=change, src=product)
    elif op is nl.subtract:
        nisa.tensor_scalar(dst=change, data=product, op0=nl.subtract, operand0=total)
    else:
        nisa.scalar_tensor_tensor(
            dst=change, data=slope, op0=nl.subtract, operand0=total,
            op1=nl.multiply, operand1=result,
        )  # fmt: skip
    return stored(change, y.dtype)


@nki.jit
def product_only(y, dy):
    return back(y, dy, summed="nothing")


@nki.jit
def sum_not_multiplied(y, dy):
    return back(y, dy, op=nl.subtract)


@nki.jit
def sum_of_slope(y, dy):
    return back(y, dy, summed="slope")


@nki.jit
def four_instructions(y, dy):
    result, slope = nl.load(y), nl.load(dy)
    product = in_float32(result)
    nisa.tensor_tensor(dst=product, data1=result, data2=slope, op=nl.multiply)
    total = row_sum(product)
    nisa.tensor_scalar(dst=product, data=slope, op0=nl.subtract, operand0=total)
    nisa.tensor_tensor(dst=product, data1=product, data2=result, op=nl.multiply)
    return stored(product, y.dtype)


WRONG = {
    "13.1": {
        "mistake": from_zero,
        "mistake-2": largest_magnitude,
        "mistake-3": smallest,
        "constant": from_a_small_number,
        "error": whole_row,
    },
    "13.2": {
        "mistake": last_tile,
        "mistake-2": first_tile,
        "mistake-3": mean_of_columns,
        "uses": across_partitions,
        "limit": half_tiles,
    },
    "13.3": {
        "nan": by_formula,
        "nan-2": less_the_minimum,
        "mistake": not_divided,
        "mistake-2": of_minus_x,
        "time": small_tiles,
    },
    "13.4": {
        "mistake": rms_without_eps,
        "mistake-2": rms_of_sum,
        "mistake-3": rms_without_weight,
        "mistake-4": rms_less_mean,
        "rounded": rms_in_bfloat16,
        "narrow": sum_as_narrow_as_x,
        "ignored": rms_with_a_fixed_eps,
    },
    "13.5": {
        "mistake": mean_left,
        "mistake-2": mean_only,
        "mistake-3": by_the_variance,
        "mistake-4": without_eps,
        "values": in_one_pass,
        "ignored": with_a_fixed_eps,
    },
    "13.6": {
        "mistake": product_only,
        "mistake-2": sum_not_multiplied,
        "mistake-3": sum_of_slope,
        "limit": four_instructions,
    },
}
