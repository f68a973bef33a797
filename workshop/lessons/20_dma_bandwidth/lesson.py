# %% [markdown] id="title"
# # 20 DMA bandwidth
#
# Adding two vectors takes hardly any arithmetic: the time goes into moving three vectors. You improve a kernel that
# uses a small part of the bandwidth until it uses most of it, and see the four things that matter: **partitions**,
# **descriptors**, **sizes of tiles** and **queues**. About 45 minutes.

# %% [markdown] id="load-text"
# ## Load the extension

# %% id="load"
...

# %% id="target"
# %nki_target trn2

# %% id="inputs"
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import nki_lab
from nki_lab.exercises import answer, check, hint

rng = np.random.default_rng(seed=20)
a = rng.standard_normal(2**18, dtype=np.float32)
b = rng.standard_normal(2**18, dtype=np.float32)

# %% [markdown] id="goal-text"
# ## What is possible
#
# A core has 16 DMA engines. Each has a peak rate, and no kernel moves data faster than all of them together. Two
# loads and a store of 1 MiB each therefore take at least this long:

# %% id="goal"
chip = nki_lab.get_target("trn2")
peak = chip.dma_bytes_per_ns_all_engines  # bytes per ns are GB/s
least = 3 * a.nbytes / peak

print(f"{chip.dma_engines} engines, {peak:.0f} GB/s together: at least {least / 1000:.2f} us")

# %% [markdown] id="row-spec"
# ## The first try
#
# **Specification.** `add_row(a, b)` returns `a + b` for two vectors of the same length.
#
# A vector has one axis and a tile has two, so the first try makes each piece of 8192 numbers a tile of one row.
# `t.reshape((1, n))` is a view: nothing moves.
#
# **Predict.** How many times as long as this minimum will it take: twice, five times, twenty times?


# %% id="row"
# %%nki --run "add_row(a, b)" --check "a + b" --show none
@nki.jit
def add_row(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    left_row, right_row, out_row = (t.reshape((1, n)) for t in (a, b, out))
    size = 8192

    for start in range(0, n, size):
        stop = min(start + size, n)
        left = nl.ndarray((1, stop - start), dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray((1, stop - start), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=left_row[:, start:stop])
        nisa.dma_copy(dst=right, src=right_row[:, start:stop])
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
        nisa.dma_copy(dst=out_row[:, start:stop], src=left)
    return out


# %% id="row-times"
print(f"{add_row_result.profile.total_ns / least:.1f} times as long as the transfers would need")

# %% [markdown] id="row-after"
# ![A tile of one row keeps one DMA engine of sixteen busy, a tile of 128 rows all of them](engines.svg)
#
# A transfer is dealt to the DMA engines *by partition*: the fewer partitions, the fewer engines work (here each takes
# eight of the 128). A tile of one row has work for one of them, and fifteen are idle. The same goes for the Vector
# engine: it has 128 lanes, and adds in only one.

# %% [markdown] id="rate-text"
# ## Your turn: 20.1 The rate of a run
#
# Bandwidth is bytes per unit of time. How many GB (10⁹ bytes) per second did `add_row` move, on average over its
# whole time? `add_row_result.profile.summary` has `dma_transfer_total_bytes`, and `total_time` in seconds.

# %% id="rate" exercise="20.1" check="20.1"
answer("20.1", ..., add_row_result)

# %% [markdown] id="wide-spec"
# ## Your turn: 20.2 All partitions
#
# **Specification.** `add_wide(a, b)` returns `a + b` for vectors whose length is a multiple of 128, in one tile of 128
# rows each.
#
# **Predict.** With sixteen times the DMA engines, will it be sixteen times as fast?


# %% id="wide" exercise="20.2"
@nki.jit
def add_wide(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="wide-check" check="20.2"
check("20.2", add_wide)

# %% [markdown] id="pieces-text"
# ## Descriptors
#
# ![A contiguous row is one descriptor; a row of pieces has one for each piece](descriptors.svg)
#
# A DMA engine works through a list of **descriptors**; each says how many bytes to move from where to where. Bytes
# that are contiguous on both sides form one descriptor; a gap starts another. Each descriptor costs the engine some
# fixed time, however few bytes it moves.
#
# `load_pieces` loads 8 KiB into each partition, 1 MiB in all, with one transfer for each of its `widths`. The view it
# loads from has a gap after every `width` numbers, so the widths change only the length of the descriptors.
#
# **Predict.** Which length is enough for nine tenths of the bandwidth: 64 bytes, 512, 4096?


# %% id="pieces"
# %%nki --run "load_pieces(x, widths)" --check "sum_of_pieces" --show none
widths = (1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048)
x = rng.integers(-9, 10, (128, 4096)).astype(np.float32)
sum_of_pieces = sum(x.reshape(128, -1, 2 * w)[:, :, :w].reshape(128, 2048) for w in widths)


@nki.jit
def load_pieces(x, widths):
    out = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=total, value=0.0)

    for width in widths:
        pieces = x.reshape((128, 2048 // width, 2 * width))[:, :, 0:width]
        tile = nl.ndarray(pieces.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=pieces)
        nisa.tensor_tensor(dst=total, data1=total, data2=tile.reshape((128, 2048)), op=nl.add)

    nisa.dma_copy(dst=out, src=total)
    return out


# %% [markdown] id="curve-text"
# The profile has one row for each transfer, with the rate it ran at.

# %% id="curve"
rates = load_pieces_result.profile.table("DmaPacketAggregated")["throughput"] / 1e9

print("bytes of a descriptor    GB/s    share of the peak")
for width, rate in zip(widths, rates[:-1], strict=True):  # the last transfer is the store
    print(f"{4 * width:>21} {rate:>7.0f} {rate / peak:>8.0%}  {'#' * round(40 * rate / peak)}")

# %% [markdown] id="curve-after"
# The guide to DMA bandwidth in the Neuron documentation (*Guideline to Avoid Under-Utilizing DMA Bandwidth*)
# describes the same curve in words: far below the peak under 256 bytes, better up to 2 KiB, near the peak from there,
# and saturated from 4 KiB. It gives no numbers in between, so trust the shape of our curve more than its digits.

# %% [markdown] id="enough-text"
# ## Your turn: 20.3 Long enough
#
# Of the lengths 64, 256, 1024, 2048 and 8192 bytes, which is the shortest that reaches nine tenths of the peak in this
# model?

# %% id="enough" exercise="20.3" check="20.3"
# one of: "64", "256", "1024", "2048", "8192"
answer("20.3", ..., load_pieces_result)

# %% [markdown] id="other-text"
# ## Your turn: 20.4 Hidden descriptors
#
# Short descriptors are rarely written on purpose. This kernel takes every other column in the obvious way.
#
# **Predict.** It loads half of `x` and stores that half. How long are the descriptors of the load?


# %% id="other-given"
# %%nki --run "every_other_slowly(wide)" --check "wide[:, ::2]" --show none
wide = rng.standard_normal((128, 1024), dtype=np.float32)


@nki.jit
def every_other_slowly(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, 0:columns:2])
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% id="other-count"
load, store = every_other_slowly_result.profile.table("DmaPacketAggregated")["throughput"] / 1e9
print(f"the load runs at {load:.0f} GB/s, the store at {store:.0f}")

# %% [markdown] id="other-spec"
# Four bytes: no two wanted numbers are neighbours in HBM.
#
# **Specification.** `every_other(x)` returns the same, `x[:, ::2]`, for at most 128 rows and an even number of columns.
#
# Engines read an SBUF tile with a stride nearly as fast as without one. So what could you move in long runs, and
# where could you pick the columns?


# %% id="other" exercise="20.4"
@nki.jit
def every_other(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns // 2), dtype=x.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="other-check" check="20.4"
check("20.4", every_other)

# %% [markdown] id="sweep-text"
# ## One tile, or many?
#
# A single large tile has long descriptors, but nothing overlaps: the addition waits for the last byte of both loads,
# and the store waits for the addition. If you cut it into pieces along the free axis, the pieces overlap. But each
# transfer has to be started, and that takes the queue's engine several hundred nanoseconds, whatever its size.
#
# `add_columns(a, b, columns)` cuts the 2048 columns into pieces. `nki_lab.vary` compiles and times a kernel for several
# values without computing anything.
#
# **Predict.** Which is the best: 64, 128, 256, 512, 1024 or 2048 columns? What will the extremes be bound by?


# %% id="sweep"
@nki.jit
def add_columns(a, b, columns):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    left_rows, right_rows, out_rows = (t.reshape((128, n // 128)) for t in (a, b, out))

    for start in range(0, n // 128, columns):
        left = nl.ndarray((128, columns), dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray((128, columns), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=left_rows[:, start : start + columns])
        nisa.dma_copy(dst=right, src=right_rows[:, start : start + columns])
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
        nisa.dma_copy(dst=out_rows[:, start : start + columns], src=left)
    return out


print(repr(nki_lab.vary(add_columns, a, b, columns=[64, 128, 256, 512, 1024, 2048])))

# %% [markdown] id="sweep-after"
# In the upper rows Sync is the bottleneck: it starts the transfers, one after the other. In the lower rows the
# transfers are few and long, and wait for each other. See both in the timelines. First the small pieces: Sync is busy
# most of the time, and the two queues of transfers hardly ever.

# %% id="sweep-small"
# %nki --run "add_columns(a, b, 128)" --show timeline

# %% [markdown] id="sweep-large-text"
# Then one large piece: no two of the three steps happen at the same time.

# %% id="sweep-large"
# %nki --run "add_columns(a, b, 2048)" --show timeline

# %% [markdown] id="stream-spec"
# ## Your turn: 20.5 The right size
#
# **Specification.** `add_stream(a, b)` returns `a + b` for vectors whose length is any multiple of 128, in float32 or
# bfloat16. The number of columns need not be a multiple of your piece: the last one may be shorter.
#
# It passes when it is faster than one large tile and than pieces that are too small. The best size earns the star.


# %% id="stream" exercise="20.5"
@nki.jit
def add_stream(a, b):
    (n,) = a.shape
    out = nl.ndarray((n,), dtype=a.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="stream-check" check="20.5"
check("20.5", add_stream)

# %% [markdown] id="queue-text"
# ## Queues
#
# Sometimes data comes in small blocks. `p` and `q` are 24 blocks of 128 x 64 each, one after the other in HBM.
# `add_each` moves block by block.
#
# **Predict.** What bounds it: the DMA engines, or the engine that starts the transfers?


# %% id="queue-given"
# %%nki --run "add_each(p, q)" --check "p + q" --show none
p = rng.standard_normal((24, 128, 64), dtype=np.float32)
q = rng.standard_normal((24, 128, 64), dtype=np.float32)


@nki.jit
def add_each(p, q):
    out = nl.ndarray(p.shape, dtype=p.dtype, buffer=nl.shared_hbm)
    blocks, rows, columns = p.shape

    for block in range(blocks):
        left = nl.ndarray((rows, columns), dtype=p.dtype, buffer=nl.sbuf)
        right = nl.ndarray((rows, columns), dtype=q.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=p[block])
        nisa.dma_copy(dst=right, src=q[block])
        nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.add)
        nisa.dma_copy(dst=out[block], src=left)
    return out


# %% id="queue-busy"
summary = add_each_result.profile.summary

for name in ("sync_engine", "dma", "scalar_engine"):
    print(f"{name:<14} busy {summary[name + '_active_time_percent']:>4.0%} of the time")

# %% [markdown] id="queue-after"
# Descriptors are made on the chip by a hardware block (the *descriptor generation engine*). According to the
# documentation it needs about 600 ns for each transfer. Sync starts it. There is a second one, which Scalar starts:
#
# ```
# nisa.dma_copy(dst=..., src=..., dge_mode=nisa.dge_mode.hwdge, engine=nisa.engine.scalar)
# ```
#
# The two have separate queues. That is one way to go faster. The other is to start fewer transfers: `p[0:4]` is an
# array of [4, 128, 64], and its view `p[0:4].permute((1, 0, 2))` of [128, 4, 64] has the rows in front, as a tile of
# that shape wants them.

# %% [markdown] id="blocks-spec"
# ## Your turn: 20.6 Many small blocks
#
# **Specification.** `add_blocks(p, q)` returns `p + q` for any number of blocks of at most 128 rows. Either way is
# enough to pass. For the star, choose a good number of blocks per transfer: not all at once, as you know from 20.5.


# %% id="blocks" exercise="20.6"
@nki.jit
def add_blocks(p, q):
    out = nl.ndarray(p.shape, dtype=p.dtype, buffer=nl.shared_hbm)
    blocks, rows, columns = p.shape
    ...
    return out


# %% id="blocks-check" check="20.6"
check("20.6", add_blocks)

# %% [markdown] id="ladder-text"
# ## The ladder
#
# Where did the time go, step by step? Each row is a kernel of this notebook for the same two vectors.

# %% id="ladder"
steps = {
    "one row": nki_lab.run(add_row, a, b),
    "128 rows, 64 columns": nki_lab.run(add_columns, a, b, 64),
    "128 rows, 256 columns": nki_lab.run(add_columns, a, b, 256),
    "128 rows, 1024 columns": nki_lab.run(add_columns, a, b, 1024),
}

for name, run in steps.items():
    ns = run.profile.total_ns
    print(f"{name:<24} {ns / 1000:>8.2f} us   {3 * a.nbytes / ns:>5.0f} GB/s   {least / ns:>4.0%}")

times = [run.profile.total_ns for run in steps.values()]
assert times == sorted(times, reverse=True), "each step is faster than the one before"

# %% [markdown] id="ladder-after"
# The last one does not reach 100 %, and cannot: before the first load arrives there is nothing to add, and during the
# last store there is nothing else to do. For longer vectors this start and end matter less.

# %% [markdown] id="seen"
# ## What you have seen
#
# * Use all 128 partitions, or DMA engines stay idle.
# * Contiguous bytes make long descriptors: from 2 KiB on, their fixed cost hardly matters.
# * A stride belongs on the chip, not into a transfer.
# * Make pieces small enough to overlap, and large enough to be worth starting.
# * Two hardware blocks start transfers; fewer transfers need fewer starts.
#
# Next: [21 The matmul ladder](21_matmul_ladder.ipynb).
