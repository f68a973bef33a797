"""Wrong kernels of notebook 25."""

import nki
import nki.isa as nisa
import nki.language as nl

PLACE = 2048


def at(shape, dtype, byte):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf, address=(0, byte))


def blended(x, y, places, exp_of):
    """Return (x + y) * exp(...) with the five tiles at the given places; None leaves one to the compiler."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    names = ("left", "right", "total", "grown", "product")
    tiles = {
        name: nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
        if place is None
        else at(x.shape, x.dtype, PLACE * place)
        for name, place in zip(names, places, strict=True)
    }
    nisa.dma_copy(dst=tiles["left"], src=x)
    nisa.dma_copy(dst=tiles["right"], src=y)
    nisa.tensor_tensor(dst=tiles["total"], data1=tiles["left"], data2=tiles["right"], op=nl.add)
    nisa.activation(dst=tiles["grown"], op=nl.exp, data=tiles[exp_of])
    nisa.tensor_tensor(
        dst=tiles["product"], data1=tiles["total"], data2=tiles["grown"], op=nl.multiply
    )
    nisa.dma_copy(dst=out, src=tiles["product"])
    return out


@nki.jit
def anywhere(x, y):
    return blended(x, y, (None,) * 5, "right")


@nki.jit
def a_place_for_each(x, y):
    return blended(x, y, (0, 1, 2, 3, 4), "right")


@nki.jit
def a_place_too_early(x, y):
    return blended(x, y, (0, 1, 1, 0, 2), "right")


@nki.jit
def exponential_of_the_sum(x, y):
    return blended(x, y, (0, 1, 2, 0, 1), "total")


@nki.jit
def exponential_of_x(x, y):
    return blended(x, y, (0, 1, 2, 1, 0), "left")


def streamed(x, count, step, compute, whole=False):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    last = max(columns // 512 * 512, 1) if whole else columns
    for i, start in enumerate(range(0, last, 512)):
        stop = min(start + 512, columns)
        shape = (rows, stop - start)
        byte = i % count * step
        tile, total = at(shape, x.dtype, byte), at(shape, x.dtype, byte + PLACE)
        nisa.dma_copy(dst=tile, src=x[:, start:stop])
        compute(total, tile)
        nisa.dma_copy(dst=out[:, start:stop], src=total)
    return out


def squared_plus(total, tile):
    nisa.tensor_tensor(dst=total, data1=tile, data2=tile, op=nl.multiply)
    nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)


def squared(total, tile):
    nisa.tensor_tensor(dst=total, data1=tile, data2=tile, op=nl.multiply)


def doubled_times(total, tile):
    nisa.tensor_tensor(dst=total, data1=tile, data2=tile, op=nl.add)
    nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.multiply)


@nki.jit
def one_place(x):
    return streamed(x, 1, 2 * PLACE, squared_plus)


@nki.jit
def eight_places(x):
    return streamed(x, 8, 2 * PLACE, squared_plus)


@nki.jit
def places_half_as_far(x):
    return streamed(x, 4, PLACE // 2, squared_plus)


@nki.jit
def one_step_missing(x):
    return streamed(x, 4, 2 * PLACE, squared)


@nki.jit
def steps_exchanged(x):
    return streamed(x, 4, 2 * PLACE, doubled_times)


@nki.jit
def last_piece_missing(x):
    return streamed(x, 4, 2 * PLACE, squared_plus, whole=True)


def multiplied(a_t, b, address_of, tile_of=lambda i, n: i):
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.load(a_t)
    for i in range(columns // 512):
        first = 512 * tile_of(i, columns // 512)
        right = nl.load(b[:, first : first + 512])
        total = nl.ndarray((rows, 512), dtype=nl.float32, buffer=nl.psum, address=address_of(i))
        nisa.nc_matmul(dst=total, stationary=left, moving=right)
        result = nl.ndarray((rows, 512), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[:, 512 * i : 512 * i + 512], src=result)
    return out


@nki.jit
def one_bank(a_t, b):
    return multiplied(a_t, b, lambda i: (0, 0))


@nki.jit
def any_bank(a_t, b):
    return multiplied(a_t, b, lambda i: None)


@nki.jit
def half_a_bank_apart(a_t, b):
    return multiplied(a_t, b, lambda i: (0, i % 2 * PLACE // 2))


@nki.jit
def last_tile_for_all(a_t, b):
    return multiplied(a_t, b, lambda i: (0, i % 2 * PLACE), lambda i, n: n - 1)


def squares(x, byte_of):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(x.shape[1] // 512):
        piece = x[:, 512 * i : 512 * i + 512]
        tile = at(piece.shape, x.dtype, byte_of(i))
        nisa.dma_copy(dst=tile, src=piece)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[:, 512 * i : 512 * i + 512], src=tile)
    return out


@nki.jit
def still_slow(x):
    return squares(x, lambda i: i % 4 * 512)


@nki.jit
def still_in_order(x):
    with nl.no_reorder():
        return squares(x, lambda i: i % 4 * PLACE)


@nki.jit
def more_room(x):
    return squares(x, lambda i: i % 16 * PLACE)


@nki.jit
def negative_addresses(x):
    return squares(x, lambda i: -(i % 4) * PLACE)


WRONG = {
    "25.2": {
        "limit": anywhere,
        "limit-2": a_place_for_each,
        "error": a_place_too_early,
        "mistake": exponential_of_the_sum,
        "mistake-2": exponential_of_x,
    },
    "25.4": {
        "time": one_place,
        "limit": eight_places,
        "time-2": places_half_as_far,
        "mistake": one_step_missing,
        "mistake-2": steps_exchanged,
        "unwritten": last_piece_missing,
    },
    "25.5": {
        "time": one_bank,
        "limit": any_bank,
        "error": half_a_bank_apart,
        "mistake": last_tile_for_all,
    },
    "25.6": {
        "time": still_slow,
        "time-2": still_in_order,
        "limit": more_room,
        "error": negative_addresses,
    },
}
