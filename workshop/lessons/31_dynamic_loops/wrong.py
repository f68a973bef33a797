"""Wrong kernels of notebook 31."""

import nki
import nki.isa as nisa
import nki.language as nl


def register_of(value):
    held = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=value)
    register = nisa.register_alloc()
    nisa.register_load(dst=register, src=held)
    return register


def blocks_of(x):
    return x.reshape((x.shape[0] // 128, 128, x.shape[1]))


def add_to(total, source):
    tile = nl.ndarray(total.shape, dtype=total.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    nisa.tensor_tensor(dst=total, data1=total, data2=tile, op=nl.add)


def between(x, bounds, first=True, more=False, begins=True, times=1):
    out = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = blocks_of(x)
    low, high = register_of(bounds[:, 0:1]), register_of(bounds[:, 1:2])
    total = nl.ndarray(out.shape, dtype=x.dtype, buffer=nl.sbuf)
    if begins:
        nisa.memset(dst=total, value=0.0)

    def body(i):
        for _ in range(times):
            again = nl.ndarray(total.shape, dtype=total.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=again, src=blocks[i])
        nisa.tensor_tensor(dst=total, data1=total, data2=again, op=nl.add)

    nl.fori_loop(low if first else 0, high, body)
    if more:
        add_to(total, blocks[high])
    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def from_the_start(x, bounds):
    return between(x, bounds, first=False)


@nki.jit
def last_included(x, bounds):
    return between(x, bounds, more=True)


@nki.jit
def begins_with_nothing(x, bounds):
    return between(x, bounds, begins=False)


@nki.jit
def loads_twice(x, bounds):
    return between(x, bounds, times=2)


@nki.jit
def counts_in_python(x, bounds):
    out = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.zeros(out.shape, dtype=x.dtype, buffer=nl.sbuf)
    for i in range(register_of(bounds[:, 0:1]), register_of(bounds[:, 1:2])):
        add_to(total, blocks_of(x)[i])
    nisa.dma_copy(dst=out, src=total)
    return out


def by_four(x, tiles, size, step):
    out = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = blocks_of(x)
    stop = register_of(tiles)
    total = nl.zeros(out.shape, dtype=x.dtype, buffer=nl.sbuf)

    def body(i):
        some = blocks[nl.ds(i, size)]
        for k in range(size):
            add_to(total, some[k])

    nl.fori_loop(0, stop, body, step=step)
    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def one_at_a_time(x, tiles):
    return by_four(x, tiles, 1, 1)


@nki.jit
def without_step(x, tiles):
    return by_four(x, tiles, 4, 1)


@nki.jit
def one_of_four(x, tiles):
    return by_four(x, tiles, 1, 4)


def growing(x, limit, op=nl.abs, compare=nl.less, once=False):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row, least = nl.load(x), nl.load(limit)

    def double():
        nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=2.0)

    def test(more):
        size = nl.ndarray(row.shape, dtype=row.dtype, buffer=nl.sbuf)
        nisa.activation(dst=size, op=op, data=row)
        most = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=most, data=size, op=nl.maximum, axis=1)
        again = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=again, data=most, op0=compare, operand0=least)
        nisa.register_load(dst=more, src=again)

    def body(more):
        double()
        test(more)
        return more

    more = nisa.register_alloc()
    if once:
        double()
    test(more)
    nl.while_loop(more, body)
    nisa.dma_copy(dst=out, src=row)
    return out


@nki.jit
def largest_element(x, limit):
    return growing(x, limit, op=nl.copy)


@nki.jit
def at_least_once(x, limit):
    return growing(x, limit, once=True)


@nki.jit
def past_the_limit(x, limit):
    return growing(x, limit, compare=nl.less_equal)


@nki.jit
def five_times(x, limit):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row, least = nl.load(x), nl.load(limit)
    for _ in range(5):
        nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=2.0)
    nisa.tensor_scalar(dst=least, data=least, op0=nl.multiply, operand0=0.0)
    nisa.tensor_scalar(dst=row, data=row, op0=nl.add, operand0=least)
    nisa.dma_copy(dst=out, src=row)
    return out


@nki.jit
def never_comes_back(x, shift):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    held = nl.load(x)
    nisa.dma_copy(dst=out, src=held[:, nl.ds(register_of(shift), x.shape[1])])
    return out


@nki.jit
def to_the_right(x, shift):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    held = nl.load(x)
    twice = nl.ndarray((rows, 2 * columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=twice[:, 0:columns], src=held)
    nisa.tensor_copy(dst=twice[:, columns : 2 * columns], src=held)
    moved = nl.ndarray((rows, 2 * columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=moved, value=0.0)
    at = register_of(shift)
    nisa.tensor_copy(dst=moved[:, nl.ds(at, columns)], src=held)
    nisa.tensor_tensor(
        dst=moved[:, 0:columns],
        data1=moved[:, 0:columns],
        data2=moved[:, columns : 2 * columns],
        op=nl.add,
    )
    nisa.dma_copy(dst=out, src=moved[:, 0:columns])
    return out


@nki.jit
def column_by_column(x, shift):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    held = nl.load(x)
    twice = nl.ndarray((rows, 2 * columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=twice[:, 0:columns], src=held)
    nisa.tensor_copy(dst=twice[:, columns : 2 * columns], src=held)
    window = twice[:, nl.ds(register_of(shift), columns)]
    for k in range(columns):
        nisa.dma_copy(dst=out[:, k : k + 1], src=window[:, k : k + 1])
    return out


def chosen(table, ids, size=128, again=False):
    n = ids.shape[0]
    out = nl.ndarray((n, table.shape[1]), dtype=table.dtype, buffer=nl.shared_hbm)
    for start in range(0, n, size):
        stop = min(start + size, n)
        index = nl.load(ids[0 : stop - start] if again else ids[start:stop])
        rows = nl.ndarray((stop - start, table.shape[1]), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=rows, src=table.vector_select(0, index))
        nisa.dma_copy(dst=out[start:stop], src=rows)
    return out


@nki.jit
def same_indices(table, ids):
    return chosen(table, ids, again=True)


@nki.jit
def eight_at_a_time(table, ids):
    return chosen(table, ids, size=8)


@nki.jit
def all_at_once(table, ids):
    return chosen(table, ids, size=10_000)


@nki.jit
def first_part(table, ids):
    n = ids.shape[0]
    out = nl.ndarray((n, table.shape[1]), dtype=table.dtype, buffer=nl.shared_hbm)
    most = min(n, 128)
    index = nl.load(ids[0:most])
    rows = nl.ndarray((most, table.shape[1]), dtype=table.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=rows, src=table.vector_select(0, index))
    nisa.dma_copy(dst=out[0:most], src=rows)
    return out


WRONG = {
    "31.1": {
        "mistake": from_the_start,
        "mistake-2": last_included,
        "unwritten": begins_with_nothing,
        "limit": loads_twice,
        "error": counts_in_python,
    },
    "31.3": {"time": one_at_a_time, "mistake": without_step, "mistake-2": one_of_four},
    "31.4": {
        "mistake": largest_element,
        "mistake-2": at_least_once,
        "mistake-3": past_the_limit,
        "factor": five_times,
    },
    "31.5": {"error": never_comes_back, "mistake": to_the_right, "limit": column_by_column},
    "31.6": {
        "mistake": same_indices,
        "limit": eight_at_a_time,
        "error": all_at_once,
        "unwritten": first_part,
    },
}
