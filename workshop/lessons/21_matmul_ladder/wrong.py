"""Wrong kernels of notebook 21."""

import nki
import nki.isa as nisa
import nki.language as nl

from .solutions import load, matmul_blocks, matmul_deep, store


def result_of(a_t, b):
    return nl.ndarray((a_t.shape[1], b.shape[1]), dtype=a_t.dtype, buffer=nl.shared_hbm)


def sums():
    return nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)


def tiles(a_t, b):
    return [(m, n) for m in range(0, a_t.shape[1], 128) for n in range(0, b.shape[1], 512)]


def steps(a_t):
    return range(0, a_t.shape[0], 128)


def multiply(total, a_t, b, m, n, k):
    left, right = load(a_t[k : k + 128, m : m + 128]), load(b[k : k + 128, n : n + 512])
    nisa.nc_matmul(dst=total, stationary=left, moving=right)


@nki.jit
def new_sums_for_each_step(a_t, b):
    out = result_of(a_t, b)
    for m, n in tiles(a_t, b):
        for k in steps(a_t):
            total = sums()
            multiply(total, a_t, b, m, n, k)
        store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def first_step_only(a_t, b):
    out = result_of(a_t, b)
    for m, n in tiles(a_t, b):
        total = sums()
        multiply(total, a_t, b, m, n, 0)
        store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def half_of_the_columns_at_a_time(a_t, b):
    out = result_of(a_t, b)
    for m, n in tiles(a_t, b):
        for half in (n, n + 256):
            total = nl.ndarray((128, 256), dtype=nl.float32, buffer=nl.psum)
            for k in steps(a_t):
                left = load(a_t[k : k + 128, m : m + 128])
                right = load(b[k : k + 128, half : half + 256])
                nisa.nc_matmul(dst=total, stationary=left, moving=right)
            store(out[m : m + 128, half : half + 256], total)
    return out


@nki.jit
def step_by_step(a_t, b):
    out = result_of(a_t, b)
    with nl.no_reorder():
        for m, n in tiles(a_t, b):
            total = sums()
            for k in steps(a_t):
                multiply(total, a_t, b, m, n, k)
            store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def contraction_in_the_columns(a_t, b):
    out = result_of(a_t, b)
    total = sums()
    nisa.nc_matmul(dst=total, stationary=load(a_t[0:128, 0:128]), moving=load(b[0:64, 0:512]))
    store(out[0:128, 0:512], total)
    return out


@nki.jit
def nothing_hoisted(a_t, b):
    out = result_of(a_t, b)
    for m, n in tiles(a_t, b):
        total = sums()
        for k in steps(a_t):
            multiply(total, a_t, b, m, n, k)
        store(out[m : m + 128, n : n + 512], total)
    return out


def early(a_t, b):
    out = result_of(a_t, b)
    right = [load(b[k : k + 128, 0:512]) for k in steps(a_t)]
    for m, n in tiles(a_t, b):
        total = sums()
        for k, moving in zip(steps(a_t), right, strict=True):
            stationary = load(a_t[k : k + 128, m : m + 128])
            nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
        store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def hoisted_too_far(a_t, b):
    return early(a_t, b)


@nki.jit
def hoisted_in_order(a_t, b):
    out = result_of(a_t, b)
    with nl.no_reorder():
        for m in range(0, a_t.shape[1], 128):
            left = [load(a_t[k : k + 128, m : m + 128]) for k in steps(a_t)]
            for n in range(0, b.shape[1], 512):
                total = sums()
                for k, stationary in zip(steps(a_t), left, strict=True):
                    moving = load(b[k : k + 128, n : n + 512])
                    nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
                store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def blocks_loaded_too_early(a_t, b, high, wide):
    return early(a_t, b)


@nki.jit
def blocks_of_one(a_t, b, high, wide):
    out = result_of(a_t, b)
    for m, n in tiles(a_t, b):
        total = sums()
        for k in steps(a_t):
            multiply(total, a_t, b, m, n, k)
        store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def whole_blocks_only(a_t, b, high, wide):
    out = result_of(a_t, b)
    rows, columns = a_t.shape[1], b.shape[1]
    for top in range(0, rows, 128 * high):
        left = [[load(a_t[k : k + 128, m : m + 128]) for k in steps(a_t)]
                for m in range(top, top + 128 * high, 128)]  # fmt: skip
        for n in range(0, columns, 512):
            for i, tiles_of_row in enumerate(left):
                total = sums()
                for k, stationary in zip(steps(a_t), tiles_of_row, strict=True):
                    moving = load(b[k : k + 128, n : n + 512])
                    nisa.nc_matmul(dst=total, stationary=stationary, moving=moving)
                m = top + 128 * i
                store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def blocks_of_four_by_two(a_t, b, high, wide):
    return matmul_blocks.func(a_t, b, 4, 2)


@nki.jit
def blocks_as_wide_as_the_result(a_t, b, high, wide):
    return matmul_blocks.func(a_t, b, high, b.shape[1] // 512)


def deep_blocks(a_t, b, deep, add=True, whole=False, sums_dtype=nl.float32):
    out = result_of(a_t, b)
    depth, rows = a_t.shape
    held = [nl.ndarray((128, b.shape[1]), dtype=sums_dtype, buffer=nl.sbuf) for _ in range(rows // 128)]  # fmt: skip
    last = depth // (128 * deep) * (128 * deep) if whole and depth > 128 * deep else depth
    for first in range(0, last, 128 * deep):
        of_block = range(first, min(first + 128 * deep, depth), 128)
        left = [load(a_t[k : k + 128]) for k in of_block]
        right = [load(b[k : k + 128]) for k in of_block]
        for row, sums_of_row in enumerate(held):
            for n in range(0, b.shape[1], 512):
                total = sums()
                for x, y in zip(left, right, strict=True):
                    stationary = x[:, 128 * row : 128 * row + 128]
                    nisa.nc_matmul(dst=total, stationary=stationary, moving=y[:, n : n + 512])
                place = sums_of_row[:, n : n + 512]
                if first and add:
                    nisa.tensor_tensor(dst=place, data1=place, data2=total, op=nl.add)
                else:
                    nisa.tensor_copy(dst=place, src=total)
    for row, sums_of_row in enumerate(held):
        store(out[128 * row : 128 * row + 128], sums_of_row)
    return out


@nki.jit
def overwritten(a_t, b, deep):
    return deep_blocks(a_t, b, deep, add=False)


@nki.jit
def without_the_last_steps(a_t, b, deep):
    return deep_blocks(a_t, b, deep, whole=True)


@nki.jit
def tile_by_tile(a_t, b, deep):
    out = result_of(a_t, b)
    for m, n in tiles(a_t, b):
        total = sums()
        for k in steps(a_t):
            multiply(total, a_t, b, m, n, k)
        store(out[m : m + 128, n : n + 512], total)
    return out


@nki.jit
def in_order(a_t, b, deep):
    with nl.no_reorder():
        return deep_blocks(a_t, b, deep)


@nki.jit
def four_steps_at_a_time(a_t, b, deep):
    return matmul_deep.func(a_t, b, 4)


@nki.jit
def sums_in_bfloat16(a_t, b, deep):
    return deep_blocks(a_t, b, deep, sums_dtype=nl.bfloat16)


WRONG = {
    "21.1": {
        "mistake": new_sums_for_each_step,
        "mistake-2": first_step_only,
        "limit": half_of_the_columns_at_a_time,
        "time": step_by_step,
        "error": contraction_in_the_columns,
    },
    "21.3": {"mistake": hoisted_too_far, "limit": nothing_hoisted, "time": hoisted_in_order},
    "21.4": {
        "mistake": blocks_loaded_too_early,
        "ignored": blocks_of_four_by_two,
        "ignored-2": blocks_as_wide_as_the_result,
        "limit": blocks_of_one,
        "error": whole_blocks_only,
    },
    "21.5": {
        "mistake": overwritten,
        "limit": tile_by_tile,
        "values": without_the_last_steps,
        "time": in_order,
        "ignored": four_steps_at_a_time,
        "narrow": sums_in_bfloat16,
    },
}
