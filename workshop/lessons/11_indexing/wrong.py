"""Wrong kernels of notebook 11."""

import nki
import nki.isa as nisa
import nki.language as nl


def stored(shape, tile):
    out = nl.ndarray(shape, dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


def in_tiles(x, height, width, whole=False):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for top in range(0, rows, height):
        for left in range(0, columns, width):
            bottom, right = min(top + height, rows), min(left + width, columns)
            if whole and columns > width and right - left < width:
                continue
            where = (slice(top, bottom), slice(left, right))
            nisa.dma_copy(dst=out[where], src=nl.multiply(nl.load(x[where]), 3.0))
    return out


@nki.jit
def wide_tiles(x):
    return in_tiles(x, 128, x.shape[1])


@nki.jit
def low_tiles(x):
    return in_tiles(x, 64, 256)


@nki.jit
def no_last_columns(x):
    return in_tiles(x, 128, 256, whole=True)


@nki.jit
def not_shortened(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for top in range(0, x.shape[0], 128):
        rows = slice(top, top + 128)
        nisa.dma_copy(dst=out[rows], src=nl.multiply(nl.load(x[rows]), 3.0))
    return out


@nki.jit
def unchanged(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for top in range(0, x.shape[0], 128):
        rows = slice(top, min(top + 128, x.shape[0]))
        nisa.dma_copy(dst=out[rows], src=nl.load(x[rows]))
    return out


@nki.jit
def all_columns_read(x, first):
    tile = nl.load(x[1::2])
    return stored((tile.shape[0], x.shape[1] - first), tile[:, first:])


@nki.jit
def even_rows(x, first):
    rows = 2 * (x.shape[0] // 2)
    tile = nl.load(x[0:rows:2, first:])
    return stored(tile.shape, tile)


@nki.jit
def row_by_row(x, first):
    count = x.shape[0] // 2
    tile = nl.ndarray((count, x.shape[1] - first), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(count):
        nisa.dma_copy(dst=tile[i : i + 1], src=x[2 * i + 1 : 2 * i + 2, first:])
    return stored(tile.shape, tile)


def selected(x, cmp_op):
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.affine_select(
        dst=result,
        pattern=[[-1, x.shape[1]]],
        channel_multiplier=1,
        cmp_op=cmp_op,
        on_true_tile=nl.load(x),
        on_false_value=0.0,
    )
    return stored(x.shape, result)


@nki.jit
def upper(x):
    return selected(x, nl.less_equal)


@nki.jit
def without_diagonal(x):
    return selected(x, nl.greater)


@nki.jit
def row_by_hand(x):
    tile = nl.load(x)
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    zeros = nl.zeros(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for i in range(rows):
        kept = min(i + 1, columns)
        nisa.dma_copy(dst=out[i : i + 1, :kept], src=tile[i : i + 1, :kept])
        if kept < columns:
            nisa.dma_copy(dst=out[i : i + 1, kept:], src=zeros[i : i + 1, kept:])
    return out


@nki.jit
def one_by_one(x, width):
    count = x.shape[1] - width + 1
    tile = nl.ndarray((count, width), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(count):
        nisa.dma_copy(dst=tile[i : i + 1], src=x[:, i : i + width])
    return stored(tile.shape, tile)


@nki.jit
def side_by_side(x, width):
    count = x.shape[1] - width + 1
    tile = nl.ndarray((count, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[width, count], [1, width]]))
    return stored(tile.shape, tile)


@nki.jit
def standing_still(x, width):
    count = x.shape[1] - width + 1
    tile = nl.ndarray((count, width), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.ap(pattern=[[0, count], [1, width]]))
    return stored(tile.shape, tile)


def both(a, b, where_a, where_b):
    result = nl.ndarray((a.shape[0], 2 * a.shape[1]), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result[:, where_a], src=nl.load(a))
    nisa.tensor_copy(dst=result[:, where_b], src=nl.load(b))
    return stored(result.shape, result)


@nki.jit
def one_after_the_other(a, b):
    columns = a.shape[1]
    return both(a, b, slice(0, columns), slice(columns, 2 * columns))


@nki.jit
def second_first(a, b):
    return both(a, b, slice(1, None, 2), slice(0, None, 2))


@nki.jit
def two_stores(a, b):
    out = nl.ndarray((a.shape[0], 2 * a.shape[1]), dtype=a.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out[:, 0::2], src=nl.load(a))
    nisa.dma_copy(dst=out[:, 1::2], src=nl.load(b))
    return out


@nki.jit
def first_partition_only(x, row):
    tile = nl.load(x)
    nisa.tensor_tensor(dst=tile[0:1], data1=tile[0:1], data2=nl.load(row), op=nl.add)
    return stored(x.shape, tile)


@nki.jit
def as_numpy_does(x, row):
    tile = nl.load(x)
    nisa.tensor_tensor(dst=tile, data1=tile, data2=nl.load(row), op=nl.add)
    return stored(x.shape, tile)


@nki.jit
def a_row_at_a_time(x, row):
    copies = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for i in range(x.shape[0]):
        nisa.dma_copy(dst=copies[i : i + 1], src=row)
    return stored(x.shape, nl.add(nl.load(x), copies))


def repeating(x, shape, view):
    tile = nl.load(x)
    result = nl.ndarray((shape[0], shape[1] * shape[2]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result.reshape(shape), src=view(tile))
    return stored(result.shape, result)


@nki.jit
def whole_rows(x, times):
    shape = (x.shape[0], times, x.shape[1])
    return repeating(x, shape, lambda tile: tile.expand_dim(1).broadcast(1, times))


@nki.jit
def many_copies(x, times):
    tile = nl.load(x)
    result = nl.ndarray((x.shape[0], x.shape[1] * times), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(times):
        nisa.tensor_copy(dst=result[:, i::times], src=tile)
    return stored(result.shape, result)


@nki.jit
def no_new_axis(x, times):
    tile = nl.load(x)
    view = tile.broadcast(1, times)
    return stored(view.shape, view)


@nki.jit
def twice_at_most(x, times):
    tile = nl.load(x)
    result = nl.ndarray((x.shape[0], x.shape[1] * times), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=result, value=0.0)
    for i in range(2):
        nisa.tensor_copy(dst=result[:, i::times], src=tile)
    return stored(result.shape, result)


@nki.jit
def far_apart(x, count):
    rows, columns = x.shape
    groups = columns // count
    result = nl.ndarray((rows, groups), dtype=x.dtype, buffer=nl.sbuf)
    view = nl.load(x).reshape((rows, count, groups)).permute((0, 2, 1))
    nisa.tensor_reduce(dst=result, data=view, op=nl.maximum, axis=2)
    return stored(result.shape, result)


@nki.jit
def smallest(x, count):
    rows, columns = x.shape
    groups = columns // count
    result = nl.ndarray((rows, groups), dtype=x.dtype, buffer=nl.sbuf)
    view = nl.load(x).reshape((rows, groups, count))
    nisa.tensor_reduce(dst=result, data=view, op=nl.minimum, axis=2)
    return stored(result.shape, result)


@nki.jit
def group_by_group(x, count):
    groups = x.shape[1] // count
    tile = nl.load(x)
    result = nl.ndarray((x.shape[0], groups), dtype=x.dtype, buffer=nl.sbuf)
    for g in range(groups):
        nisa.tensor_reduce(
            dst=result[:, g : g + 1],
            data=tile[:, g * count : (g + 1) * count],
            op=nl.maximum,
            axis=1,
        )
    return stored(result.shape, result)


@nki.jit
def way_back(x, groups):
    rows, columns = x.shape
    tile = nl.load(x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(
        dst=result.reshape((rows, groups, columns // groups)),
        src=tile.reshape((rows, columns // groups, groups)).permute((0, 2, 1)),
    )
    return stored(x.shape, result)


@nki.jit
def flattened(x, groups):
    view = nl.load(x).reshape((x.shape[0], groups, x.shape[1] // groups)).permute((0, 2, 1))
    return stored(x.shape, view.reshape(x.shape))


@nki.jit
def group_for_group(x, groups):
    size = x.shape[1] // groups
    tile = nl.load(x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    for g in range(groups):
        nisa.tensor_copy(dst=result[:, g::groups], src=tile[:, g * size : (g + 1) * size])
    return stored(x.shape, result)


@nki.jit
def in_one_partition(x):
    return stored(x.shape, nl.multiply(nl.load(x), 3.0))


@nki.jit
def reshaped_on_chip(x):
    tile = nl.load(x).reshape((128, x.shape[1] // 128))
    return stored(x.shape, nl.multiply(tile, 3.0))


@nki.jit
def flat_unchanged(x):
    return stored(x.shape, nl.load(x.reshape((128, x.shape[1] // 128))))


WRONG = {
    "11.1": {
        "limit": wide_tiles,
        "limit-2": low_tiles,
        "unwritten": no_last_columns,
        "error": not_shortened,
        "mistake": unchanged,
    },
    "11.2": {"reads": all_columns_read, "mistake": even_rows, "limit": row_by_row},
    "11.3": {"mistake": upper, "mistake-2": without_diagonal, "uses": row_by_hand},
    "11.4": {"limit": one_by_one, "error": side_by_side, "values": standing_still},
    "11.5": {"mistake": one_after_the_other, "mistake-2": second_first, "limit": two_stores},
    "11.6": {"values": first_partition_only, "error": as_numpy_does, "limit": a_row_at_a_time},
    "11.7": {
        "mistake": whole_rows,
        "limit": many_copies,
        "error": no_new_axis,
        "part": twice_at_most,
    },
    "11.8": {"mistake": far_apart, "values": smallest, "limit": group_by_group},
    "11.9": {"mistake": way_back, "error": flattened, "limit": group_for_group},
    "11.10": {"limit": in_one_partition, "error": reshaped_on_chip, "mistake": flat_unchanged},
}
