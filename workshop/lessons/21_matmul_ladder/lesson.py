# %% [markdown] id="title"
# # 21 The matmul ladder
#
# Five kernels multiply the same matrices with the same instructions of the Tensor engine. They differ in *what is
# loaded when*, and that alone makes the last one several times as fast as the second. You write four of them. About 60
# minutes.
#
# The steps follow the *Matrix multiplication* tutorial in the Neuron documentation; the kernels and the text are our
# own. Its measurements were made on a trn1, so that is the chip of this notebook.

# %% [markdown] id="load-text"
# ## Load the extension

# %% id="load"
...

# %% id="target"
# %nki_target trn1

# %% id="inputs"
import ml_dtypes
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import nki_lab
from nki_lab.exercises import answer, check, hint


def whole_numbers(rows, columns):
    return rng.integers(-4, 5, (rows, columns)).astype(ml_dtypes.bfloat16)


rng = np.random.default_rng(seed=21)
a_t = whole_numbers(4096, 512)
b = whole_numbers(4096, 1024)

# %% [markdown] id="one-text"
# ## Step 1: one product
#
# ![The Tensor engine takes both tiles with the contraction along the partitions, and writes sums to PSUM](product.svg)
#
# `nisa.nc_matmul` multiplies two tiles in SBUF and writes float32 sums into PSUM. Both tiles have the axis to sum
# over in their *partitions*: at most 128. The **stationary** tile has at most 128 columns; they become the rows of
# the result. The **moving** tile has at most 512; they become its columns.
#
# So the left matrix has to be transposed: here `a_t` is [depth, rows], and the result is `a_t.T @ b`.
#
# All kernels use `load` and `store`. DMA cannot reach PSUM, so `store` copies to SBUF first, which also rounds to the
# dtype of the result.
#
# **Predict.** How many transfers does one product take, and what does the Tensor engine do in the meantime?


# %% id="one"
# %%nki --run "matmul_one(a_t[:128, :64], b[:128, :512])" --check "left.T @ right" --show timeline
left, right = a_t[:128, :64].astype(np.float32), b[:128, :512].astype(np.float32)


def load(source):
    tile = nl.ndarray(source.shape, dtype=source.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=source)
    return tile


def store(place, total):
    tile = nl.ndarray(total.shape, dtype=place.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=tile, src=total)
    nisa.dma_copy(dst=place, src=tile)


@nki.jit
def matmul_one(a_t, b):
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)

    total = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=load(a_t), moving=load(b))
    store(out, total)
    return out


# %% [markdown] id="tiled-spec"
# ## Your turn: 21.1 Step 2, tiles
#
# **Specification.** `matmul_tiled(a_t, b)` returns `a_t.T @ b` for a depth and a number of rows that are multiples of
# 128, and a number of columns that is a multiple of 512.
#
# Each tile of the result is a sum of products along the depth. The sum is made in PSUM: the first `nc_matmul` into a
# new tile writes it, each further one into the *same* tile adds to it.
#
# Load both tiles of a product just before it, and do not worry about speed yet.


# %% id="tiled" exercise="21.1"
@nki.jit
def matmul_tiled(a_t, b):
    depth, rows = a_t.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a_t.dtype, buffer=nl.shared_hbm)

    for m in range(0, rows, 128):
        for n in range(0, columns, 512):
            total = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
            ...
            store(out[m : m + 128, n : n + 512], total)
    return out


# %% id="tiled-check" check="21.1"
check("21.1", matmul_tiled)

# %% [markdown] id="traffic-text"
# ## Your turn: 21.2 Bytes read for a byte of input
#
# Your kernel is right. How often does it read the same data? For [4096, 512] and [4096, 1024], how many bytes are
# read from HBM for each byte of the two inputs?
#
# Count first: each tile of `a_t` is used for how many tiles of the result? And each tile of `b`?

# %% id="traffic" exercise="21.2" check="21.2"
answer("21.2", ..., nki_lab.run(matmul_tiled, a_t, b))

# %% [markdown] id="intensity-text"
# ## Arithmetic intensity
#
# Work per byte moved, in FLOP per byte, is the *arithmetic intensity* of a kernel. Below a certain value the
# transfers are the limit, above it the Tensor engine is. For a single product with its two loads it is the same for
# all matrices:

# %% id="intensity"
flop = 2 * 128 * 128 * 512
moved = 2 * (128 * 128 + 128 * 512)
chip = nki_lab.get_target("trn1")
balance = 2 * 128 * 128 * chip.clock_ghz(nisa.engine.tensor) / chip.dma_bytes_per_ns_all_engines

print(f"{flop / moved:.0f} FLOP per byte for a product whose two tiles are loaded for it")
print(f"{balance:.0f} FLOP per byte where the Tensor engine and all DMA engines take the same time")

# %% [markdown] id="hoist-text"
# ## Your turn: 21.3 Step 3, loads before the loop
#
# ![Which tiles are in SBUF at one time, in the four kernels](held_tiles.svg)
#
# For one `m`, the tiles of `a_t` are the same for every `n`. Load them before the loop over `n`: a list of tiles, one
# for each step of the depth. Do the same with the tiles of `b` for one `n`, before the loop over the depth.
#
# **Specification.** `matmul_hoisted(a_t, b)` returns the same, and loads each tile of `a_t` only once.
#
# **Predict.** Which of the two loads is worth more: that of `a_t`, now once instead of twice, or that of `b`, as often
# as before? What will the time become?


# %% id="hoist" exercise="21.3"
@nki.jit
def matmul_hoisted(a_t, b):
    depth, rows = a_t.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a_t.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="hoist-check" check="21.3"
check("21.3", matmul_hoisted)

# %% [markdown] id="blocks-text"
# ## Your turn: 21.4 Step 4, blocks of rows and columns
#
# Most of the bytes belong to `b`: it is loaded again in full for every 128 rows of the result. With room for `high`
# tiles of rows at a time, it would be loaded `high` times less often.
#
# **Specification.** `matmul_blocks(a_t, b, high, wide)` returns the same. It loads `high` columns of tiles of `a_t`,
# then `wide` columns of tiles of `b`, and computes `high` x `wide` tiles of the result from them. The last block
# of rows or columns may be smaller.
#
# The check counts with high=4 and wide=2, where every byte of the inputs needs to be loaded only once.


# %% id="blocks" exercise="21.4"
@nki.jit
def matmul_blocks(a_t, b, high, wide):
    depth, rows = a_t.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a_t.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="blocks-check" check="21.4"
check("21.4", matmul_blocks)

# %% [markdown] id="vary-text"
# **Predict.** Which of the two sizes makes the kernel faster: `high`, `wide`, or both?

# %% id="vary" needs="21.4"
print(repr(nki_lab.vary(matmul_blocks, a_t, b, high=[1, 2, 4], wide=[1, 2])))

# %% [markdown] id="vary-after"
# Only `high` does. Each tile of `a_t` was already loaded only once, and `b` is loaded once for each block of *rows*,
# however many of its columns are loaded together. With the two outer loops exchanged it would be the other way round.

# %% [markdown] id="room-text"
# ## The memory it takes
#
# Blocks of 4 x 2 were good for this depth. They hold the whole depth, so the memory they need grows with it.

# %% id="room"
usable = chip.sbuf_usable_bytes_per_partition

for depth in (2048, 4096, 8192, 16384):
    held = depth // 128 * (4 * 128 + 2 * 512) * 2  # bytes of a partition, in bfloat16
    print(f"depth {depth:>6}: {held / 1024:>4.0f} KiB of {usable / 1024:.0f} in each partition")

# %% [markdown] id="deep-text"
# Memory is not the only problem: while all of this is loaded first, the Tensor engine waits.
#
# ## Your turn: 21.5 Step 5, blocks of the depth
#
# Take a few steps of the depth at a time. Their products are summed up in PSUM, as before, and then *added* to sums in
# SBUF, which stay there for the whole kernel.
#
# **Specification.** `matmul_deep(a_t, b, deep)` returns the same, and loads `deep` steps (of 128) of both matrices
# at a time, all rows and columns. The last block may have fewer steps. Keep the sums in float32: bfloat16 would round after each block.
#
# If you load whole rows of a matrix anyway, load them in one transfer: `load(a_t[k : k + 128])` is a tile of [128,
# rows], its descriptors are longer, and a slice of it is a tile for `nc_matmul`.
#
# (For matrices whose sums do not fit, the two loops of 21.4 go around this kernel. That is the whole ladder.)


# %% id="deep" exercise="21.5"
@nki.jit
def matmul_deep(a_t, b, deep):
    depth, rows = a_t.shape
    columns = b.shape[1]
    out = nl.ndarray((rows, columns), dtype=a_t.dtype, buffer=nl.shared_hbm)

    sums = [
        nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.sbuf) for _ in range(rows // 128)
    ]
    ...

    for row, held in enumerate(sums):
        store(out[128 * row : 128 * row + 128], held)
    return out


# %% id="deep-check" check="21.5"
check("21.5", matmul_deep)

# %% [markdown] id="ladder-text"
# ## The ladder
#
# **Predict.** The number of products is the same in all of them. By which factor do the bytes shrink, and the time?

# %% id="ladder" needs="21.5"
steps = {
    "tiled": nki_lab.run(matmul_tiled, a_t, b),
    "hoisted": nki_lab.run(matmul_hoisted, a_t, b),
    "blocks of 2 x 2": nki_lab.run(matmul_blocks, a_t, b, 2, 2),
    "blocks of 4 x 2": nki_lab.run(matmul_blocks, a_t, b, 4, 2),
    "blocks of the depth": nki_lab.run(matmul_deep, a_t, b, 4),
}

print("step                       us   MiB moved   transfers   products   Tensor busy")
for name, run in steps.items():
    s = run.profile.summary
    print(
        f"{name:<20} {s['total_time'] * 1e6:>8.1f} {s['dma_transfer_total_bytes'] / 2**20:>11.1f}"
        f" {s['dma_transfer_count']:>11.0f} {s['matmul_instruction_count']:>10.0f}"
        f" {s['tensor_engine_active_time_percent']:>12.0%}"
    )

times = [run.profile.total_ns for run in steps.values()]
assert times == sorted(times, reverse=True), "each step is faster than the one before"

# %% [markdown] id="roof-text"
# ## Your turn: 21.6 FLOP per byte
#
# One multiplication and one addition for each element of each product: 2 x 4096 x 512 x 1024 FLOP. How many FLOP is that for each
# byte that `matmul_deep` moves between HBM and SBUF?

# %% id="roof" exercise="21.6" check="21.6"
answer("21.6", ..., nki_lab.run(matmul_deep, a_t, b, 4))

# %% [markdown] id="roofline-text"
# The roofline shows both limits side by side. The kernel is now close to both: to become much faster, it would have
# to move less *and* compute faster.

# %% id="roofline" needs="21.5"
print(steps["blocks of the depth"].profile.roofline())

# %% [markdown] id="published-text"
# ## What a device measured
#
# The tutorial once had measurements, on a trn1.32xlarge in bfloat16 (page *general/nki/tutorials/matrix_multiplication*
# of the Neuron documentation, version 2.21 of the SDK): 51.80 ms tiled, 42.96 ms with the loads hoisted, 22.07 ms with blocks of 2 x 2
# tiles. Its matrices were [8192, 4096] and [8192, 8192].
#
# Here our model times *your* kernels. To keep that short, the matrices are half as large in each direction, an eighth
# of the products; `shrink = 1` uses the size of the tutorial and takes half a minute. Compare the time *for each
# product*, and the steps.
#
# **Predict.** Steps, or absolute times: which will agree better?

# %% id="published" needs="21.4"
shrink = 2
large_a_t = np.zeros((8192 // shrink, 4096 // shrink), ml_dtypes.bfloat16)
large_b = np.zeros((8192 // shrink, 8192 // shrink), ml_dtypes.bfloat16)
products, all_products = (64 * 32 * 16 // s**3 for s in (shrink, 1))

modelled = [
    nki_lab.benchmark(kernel, large_a_t, large_b, *block).latency_ns / products
    for kernel, block in ((matmul_tiled, ()), (matmul_hoisted, ()), (matmul_blocks, (2, 2)))
]
measured = [ms * 1e6 / all_products for ms in (51.80, 42.96, 22.07)]

print("              ns for each product       as a share of the step before")
print("step         measured    modelled       measured    modelled")
for i, name in enumerate(("tiled", "hoisted", "blocks 2 x 2")):
    shares = [f"{of[i] / of[i - 1]:.2f}" if i else "-" for of in (measured, modelled)]
    print(f"{name:<12} {measured[i]:>8.0f} {modelled[i]:>11.0f} {shares[0]:>14} {shares[1]:>11}")

print(
    f"modelled by measured: {', '.join(f'{x / y:.2f}' for x, y in zip(modelled, measured, strict=True))}"
)

steps_of = [np.divide(of[1:], of[:-1]) for of in (measured, modelled)]
assert modelled == sorted(modelled, reverse=True), "the order is the measured one"
assert np.abs(steps_of[0] - steps_of[1]).max() < 0.1, "the steps are alike"

# %% [markdown] id="published-after"
# The order is the same and the steps are similar. The absolute times are not: the last line says what share of the
# measured time the model gives. There are two likely reasons. Transfers took longer per descriptor then than in the
# later kernels that the model is fitted to. And the old compiler changed which loads are made: the measured first
# step is smaller than its bytes suggest. So trust a model for the order, the reason and roughly the factor, and a
# device for the milliseconds.

# %% [markdown] id="chips-text"
# ## The same ladder on trn2
#
# **Predict.** A trn2 has more bandwidth, and starting a transfer takes its queue's engine some 600 ns. Which steps
# gain, and why?

# %% id="chips" needs="21.5"
print("step                  trn1 us   trn2 us   and there")
for name, run in steps.items():
    kernel, extra = {
        "tiled": (matmul_tiled, ()),
        "hoisted": (matmul_hoisted, ()),
        "blocks of 2 x 2": (matmul_blocks, (2, 2)),
        "blocks of 4 x 2": (matmul_blocks, (4, 2)),
        "blocks of the depth": (matmul_deep, (4,)),
    }[name]
    other = nki_lab.run(kernel, a_t, b, *extra, target="trn2").profile
    sync, tensor = (other.summary[f"{e}_engine_active_time_percent"] for e in ("sync", "tensor"))
    print(
        f"{name:<20} {run.profile.total_ns / 1000:>8.1f} {other.total_ns / 1000:>9.1f}"
        f"   Sync busy {sync:.0%}, Tensor {tensor:.0%}"
    )

# %% [markdown] id="chips-after"
# There the number of *transfers* matters most: hundreds of small ones are started one after the other. Blocks of
# whole rows need only a few long ones, and the Tensor engine becomes the limit. See [20](20_dma_bandwidth.ipynb).

# %% [markdown] id="seen"
# ## What you have seen
#
# * The axis to sum over lies in the partitions, and PSUM sums for free.
# * Load a tile once and use it for many products: that moves fewer bytes, and it is the whole ladder.
# * Blocks of rows and columns reduce the traffic; blocks of the depth limit the memory.
# * FLOP per byte tells you which side of the roofline a kernel is on.
# * With modelled times, trust the order and the reasons first.
#
# Next: [25 Allocation and scheduling](25_allocation.ipynb).
