"""Wrong kernels of notebook 30."""

import nki
import nki.isa as nisa
import nki.language as nl


def exponential_of(out, x, starts):
    for start in starts:
        part = slice(start, min(start + 128, x.shape[0]))
        tile = nl.load(x[part])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[part], src=tile)


@nki.jit
def both_do_all(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    exponential_of(out, x, range(0, x.shape[0], 128))
    return out


@nki.jit
def one_does_all(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        exponential_of(out, x, range(0, x.shape[0], 128))
    return out


@nki.jit
def core_0_only(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        exponential_of(out, x, range(0, x.shape[0], 256))
    return out


@nki.jit
def whole_pairs(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    share = x.shape[0] // 2
    core = nl.program_id(0)
    for start in range(core * share, (core + 1) * share, 128):
        tile = nl.load(x[start : start + 128])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[start : start + 128], src=tile)
    return out


@nki.jit
def small_tiles(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for start in range(64 * nl.program_id(0), x.shape[0], 128):
        part = slice(start, min(start + 64, x.shape[0]))
        tile = nl.load(x[part])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[part], src=tile)
    return out


def half_of(x):
    """Return this core's columns, a tile of them, and the sums of their rows."""
    half = x.shape[1] // 2
    core = nl.program_id(0)
    own = slice(core * half, (core + 1) * half)
    tile = nl.load(x[:, own])
    part = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=part, data=tile, op=nl.add, axis=1)
    return own, tile, part


def divided(x, own, tile, total):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)
    nisa.dma_copy(dst=out[:, own], src=tile)
    return out


def over_hbm(x, barrier="between", buffer=nl.shared_hbm, seen="both"):
    own, tile, part = half_of(x)
    core = nl.program_id(0)
    sums = nl.ndarray((x.shape[0], 2), dtype=nl.float32, buffer=buffer)
    if barrier == "before":
        nisa.core_barrier(data=sums, cores=(0, 1))
    nisa.dma_copy(dst=sums[:, core : core + 1], src=part)
    if barrier == "between" or (barrier == "one" and core == 0):
        nisa.core_barrier(data=sums, cores=(0, 1))
    both = nl.load(sums)
    total = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    chosen = {"both": both, "own": part, "other": both[:, 1 - core : 2 - core]}[seen]
    nisa.tensor_reduce(dst=total, data=chosen, op=nl.add, axis=1)
    return divided(x, own, tile, total)


@nki.jit
def without_barrier(x):
    return over_hbm(x, barrier="none")


@nki.jit
def too_early(x):
    return over_hbm(x, barrier="before")


@nki.jit
def one_waits(x):
    return over_hbm(x, barrier="one")


@nki.jit
def own_half(x):
    return over_hbm(x, seen="own")


@nki.jit
def other_half(x):
    return over_hbm(x, seen="other")


@nki.jit
def loads_all(x):
    own, tile, part = half_of(x)
    both = nl.load(x)
    nisa.tensor_reduce(dst=part, data=both, op=nl.add, axis=1)
    spare = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    if nl.program_id(0) == 0:
        nisa.dma_copy(dst=spare, src=part[0:1])
    nisa.core_barrier(data=spare, cores=(0, 1))
    return divided(x, own, tile, part)


@nki.jit
def alone(x):
    both = nl.load(x)
    _, _, part = half_of(x)
    nisa.tensor_reduce(dst=part, data=both, op=nl.add, axis=1)
    own = half_of(x)[0]
    return divided(x, own, nl.load(x[:, own]), part)


def by_sending(x, seen="sum", whole=False, barrier=False):
    own, tile, part = half_of(x)
    if barrier:
        sums = nl.ndarray((x.shape[0], 2), dtype=nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=sums[:, nl.program_id(0) : nl.program_id(0) + 1], src=part)
        nisa.core_barrier(data=sums, cores=(0, 1))
    core = nl.program_id(0)
    sent = tile if whole else part
    got = nl.ndarray(sent.shape, dtype=sent.dtype, buffer=nl.sbuf)
    nisa.sendrecv(src=sent, dst=got, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0)
    if whole:
        other = nl.ndarray(part.shape, dtype=part.dtype, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=other, data=got, op=nl.add, axis=1)
        got = other
    if seen == "sum":
        nisa.tensor_tensor(dst=part, data1=part, data2=got, op=nl.add)
    return divided(x, own, tile, got if seen == "other" else part)


@nki.jit
def sends_and_forgets(x):
    return by_sending(x, seen="own")


@nki.jit
def received_alone(x):
    return by_sending(x, seen="other")


@nki.jit
def barrier_on_a_tensor_nobody_reads(x):
    return by_sending(x, barrier=True)


@nki.jit
def sends_the_tile(x):
    return by_sending(x, whole=True)


@nki.jit
def still_over_hbm(x):
    return over_hbm(x)


def rounds(x, y, barriers=1, second=True, parts=2):
    rows = x.shape[0]
    out = nl.ndarray((rows, 2), dtype=x.dtype, buffer=nl.shared_hbm)
    staged = nl.ndarray((rows, 2), dtype=nl.float32, buffer=nl.shared_hbm)
    core = nl.program_id(0)
    own_rows = slice(core * rows // 2, (core + 1) * rows // 2)
    for k, t in enumerate((x, y)):
        part = half_of(t)[2]
        if k == 1 and not second:
            nisa.tensor_scalar(dst=part, data=part, op0=nl.multiply, operand0=0.0)
            nisa.tensor_tensor(dst=part, data1=part, data2=half_of(x)[2], op=nl.add)
        nisa.dma_copy(dst=staged[:, core : core + 1], src=part)
        if barriers:
            nisa.core_barrier(data=staged, cores=(0, 1))
        both = nl.load(staged[own_rows])
        total = nl.ndarray((rows // 2, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, data=both[:, 0:parts], op=nl.add, axis=1)
        nisa.dma_copy(dst=out[own_rows, k : k + 1], src=total)
        if barriers == 2:
            nisa.core_barrier(data=staged, cores=(0, 1))
    return out


@nki.jit
def one_barrier(x, y):
    return rounds(x, y)


@nki.jit
def no_barrier(x, y):
    return rounds(x, y, barriers=0)


@nki.jit
def x_twice(x, y):
    return rounds(x, y, barriers=2, second=False)


@nki.jit
def left_halves(x, y):
    return rounds(x, y, barriers=2, parts=1)


WRONG = {
    "30.1": {
        "finding": both_do_all,
        "time": one_does_all,
        "unwritten": core_0_only,
        "error": whole_pairs,
        "limit": small_tiles,
    },
    "30.3": {
        "finding": without_barrier,
        "finding-2": too_early,
        "error": one_waits,
        "mistake": own_half,
        "mistake-2": other_half,
        "limit": loads_all,
        "uses": alone,
        "barrier": barrier_on_a_tensor_nobody_reads,
    },
    "30.4": {
        "mistake": sends_and_forgets,
        "mistake-2": received_alone,
        "limit": sends_the_tile,
        "uses": still_over_hbm,
    },
    "30.5": {
        "finding": one_barrier,
        "finding-2": no_barrier,
        "mistake": x_twice,
        "mistake-2": left_halves,
    },
}
