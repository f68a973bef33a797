# %% [markdown] id="title"
# # 25 Allocation and scheduling
#
# Two things the compiler does for you: it decides *where* each tile lies, and in *which order* the instructions
# start. Here you take over both, and see how the addresses of tiles affect time, and how they can ruin a kernel.
# About 50 minutes.

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
from nki_lab.exercises import check, hint

rng = np.random.default_rng(seed=25)
x = rng.standard_normal((128, 512), dtype=np.float32)
y = rng.standard_normal((128, 512), dtype=np.float32)
long = rng.standard_normal((128, 8192), dtype=np.float32)

# %% [markdown] id="places-text"
# ## Addresses
#
# ![A partition of SBUF is a row of bytes in which tiles lie; PSUM is eight banks](places.svg)
#
# A tile on the chip has a first **partition** and a first **byte**, the same in each of its partitions. SBUF is one long
# row of bytes in each partition. PSUM is short, and divided into **banks**; what a matrix product writes must
# not cross from one bank into the next.

# %% id="places"
chip = nki_lab.get_target("trn2")

print(f"SBUF: {chip.sbuf_usable_bytes_per_partition:,} bytes of each partition for kernels")
print(f"PSUM: {chip.psum_banks} banks of {chip.psum_bank_bytes} bytes in each partition")

# %% [markdown] id="bank-text"
# ## Your turn: 25.1 Bank 3
#
# Banks count from 0. Think of PSUM as an array of bytes, [128, 16384]. Which slice of it is bank 3, in all partitions?
# `np.s_` makes a slice without an array: `np.s_[0:64, 0:100]` are the first 100 bytes of the first 64 partitions.

# %% id="bank" exercise="25.1" check="25.1"
check("25.1", ...)

# %% [markdown] id="auto-text"
# ## What the compiler does
#
# **Specification.** `blend(x, y)` returns `(x + y) * exp(y)` for arrays of 128 x 512.
#
# Five tiles of 2 KiB in each partition. None has an address, so the compiler gives each one.
#
# **Predict.** How many of the five are in use at the same time, at most? Follow them line by line.


# %% id="auto"
# %%nki --run "blend(x, y)" --check "(x + y) * np.exp(y)" --rtol 1e-4 --show memory
@nki.jit
def blend(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    right = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    grown = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    product = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)

    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=y)
    nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
    nisa.activation(dst=grown, op=nl.exp, data=right)
    nisa.tensor_tensor(dst=product, data1=total, data2=grown, op=nl.multiply)
    nisa.dma_copy(dst=out, src=product)
    return out


# %% [markdown] id="collision-text"
# ## Break it: a collision
#
# `address=(partition, byte)` puts a tile where you want it. (The second number counts bytes, not elements.) Here the
# sum goes where `right` lies.
#
# **Predict.** `right` has been read by the time the sum is written: it is an input of that same addition. Is its
# place free?


# %% id="collision"
# %%nki --run "collide(x, y)" --expect NKI302
@nki.jit
def collide(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 0))
    right = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 2048))
    total = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 2048))
    grown = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 0))

    nisa.dma_copy(dst=left, src=x)
    nisa.dma_copy(dst=right, src=y)
    nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
    nisa.activation(dst=grown, op=nl.exp, data=right)
    nisa.tensor_tensor(dst=total, data1=total, data2=grown, op=nl.multiply)
    nisa.dma_copy(dst=out, src=total)
    return out


# %% [markdown] id="collision-after"
# It is not: the exponential reads `right` later. A tile is in use from its first write to its *last* read. An
# instruction that reads one tile and writes another uses both.

# %% [markdown] id="fit-spec"
# ## Your turn: 25.2 Five tiles, three places
#
# **Specification.** `blend_small(x, y)` returns `(x + y) * exp(y)`, and no tile extends past byte 6144: there are
# three places of 2 KiB.
#
# Put the five tiles of `blend` there. A place can be reused once its tile has been read for the last time.


# %% id="fit" exercise="25.2"
@nki.jit
def blend_small(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 0))
    right = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, 2048))
    ...
    return out


# %% id="fit-check" check="25.2"
check("25.2", blend_small)

# %% [markdown] id="fit-price-text"
# **Predict.** Your kernel does the same work in fewer places. Is it as fast as `blend`?

# %% id="fit-price" needs="25.2"
small = nki_lab.run(blend_small, x, y).profile.total_ns
print(f"anywhere {blend_result.profile.total_ns} ns, in three places {small} ns")

# %% [markdown] id="fit-price-after"
# In a reused place, the new tile has to *wait* for the old one. That is the price of using less memory, and the
# subject of the next part.

# %% [markdown] id="stream-text"
# ## One place for a stream
#
# `exp_places(x, count)` loads, computes and stores a long row piece by piece. Piece i uses place `i % count`, and a
# place holds two tiles of 2 KiB: the input and the result.
#
# **Predict.** With a single place, what can happen at the same time? And with two? How many places are enough?


# %% id="stream"
@nki.jit
def exp_places(x, count):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    size = 512
    row_bytes = size * 4

    for i in range(columns // size):
        piece = x[:, size * i : size * i + size]
        byte = i % count * 2 * row_bytes
        tile = nl.ndarray(piece.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, byte))
        grown = nl.ndarray(
            piece.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, byte + row_bytes)
        )
        nisa.dma_copy(dst=tile, src=piece)
        nisa.activation(dst=grown, op=nl.exp, data=tile)
        nisa.dma_copy(dst=out[:, size * i : size * i + size], src=grown)
    return out


print(repr(nki_lab.vary(exp_places, long, count=[1, 2, 3, 4, 8])))

# %% [markdown] id="stream-one-text"
# The timelines say why. With one place, each load waits until the previous exponential has read its input:

# %% id="stream-one"
# %nki --run "exp_places(long, 1)" --show timeline

# %% [markdown] id="stream-four-text"
# With four places there is nearly always a transfer under way:

# %% id="stream-four"
# %nki --run "exp_places(long, 4)" --show timeline

# %% [markdown] id="turns-text"
# ## Your turn: 25.3 Taking turns
#
# Two places used in turn are called *double buffering*. In general, tile number `i` of `count` places of `size` bytes
# each: which bytes of an SBUF of [128, 16384] does it take? Write a function from the three to a slice:
# `lambda i, count, size: np.s_[:, first:end]`.
#
# (NKI before 0.2 had functions for this, such as `sbuf.mod_alloc`. Now you compute the byte.)

# %% id="turns" exercise="25.3" check="25.3"
check("25.3", ...)

# %% [markdown] id="own-spec"
# ## Your turn: 25.4 A stream in 16 KiB
#
# **Specification.** `squares_plus(x)` returns `x * x + x` for at most 128 rows and any number of columns (the last
# piece may be shorter), and no tile extends past byte 16384. Two places are enough to pass; the star needs more.
#
# Take `exp_places` as the pattern. One piece needs two steps and at least two tiles.


# %% id="own" exercise="25.4"
@nki.jit
def squares_plus(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    ...
    return out


# %% id="own-check" check="25.4"
check("25.4", squares_plus)

# %% [markdown] id="banks-text"
# ## Your turn: 25.5 Two banks
#
# Banks can take turns, too. While one product is being copied out of PSUM, the next one needs another bank.
#
# **Specification.** `matmul_banks(a_t, b)` returns `a_t.T @ b` in float32, for a_t [128, rows] with at most 128 rows and b
# [128, columns] with a multiple of 512 columns, and uses no more than **two** banks.
#
# By default the compiler uses more: it does not know that you want to keep the others free. A product of two tiles is
# `nisa.nc_matmul(dst=total, stationary=left, moving=right)`, and a tile in PSUM has `buffer=nl.psum`; it is copied to
# SBUF before it is stored. (See [21](21_matmul_ladder.ipynb).)


# %% id="banks" exercise="25.5"
@nki.jit
def matmul_banks(a_t, b):
    rows, columns = a_t.shape[1], b.shape[1]
    out = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    ...
    return out


# %% id="banks-check" check="25.5"
check("25.5", matmul_banks)

# %% [markdown] id="half-text"
# ## Break it: across a bank
#
# **Predict.** A tile of 512 float32 numbers fills a bank. What if it starts in the middle of one?


# %% id="half"
# %%nki --run "across(x)" --expect NKI107
@nki.jit
def across(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.psum, address=(0, 1024))
    nisa.dma_copy(dst=tile, src=x)
    nisa.nc_matmul(dst=total, stationary=tile[:, 0:128], moving=tile)
    nisa.tensor_copy(dst=tile, src=total)
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% [markdown] id="bad-text"
# ## Bad on purpose: 25.6 Four places that are one
#
# A colleague uses four places. The numbers are right and there is no finding, but it is as slow as with one.


# %% id="bad"
# %%nki --run "slow_squares(long)" --check "long * long" --show none
@nki.jit
def slow_squares(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns, size = x.shape[1], 512

    for i in range(columns // size):
        piece = x[:, size * i : size * i + size]
        tile = nl.ndarray(piece.shape, dtype=x.dtype, buffer=nl.sbuf, address=(0, i % 4 * size))
        nisa.dma_copy(dst=tile, src=piece)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[:, size * i : size * i + size], src=tile)
    return out


# %% [markdown] id="bad-ask"
# **Predict.** Where do the first four tiles begin, and where do they end? The program says where they lie:

# %% id="bad-places"
lines = slow_squares_result.ir["allocate_sbuf"].splitlines()
for line in [line for line in lines if "storage %tile" in line][:4]:
    print(line.strip().partition("  //")[0])

# %% [markdown] id="bad-mend"
# Name the cause: `"step"`, `"order"`, `"bank"` or `"descriptors"` (`hint("25.6")` says what each means). Then fix the
# kernel, with four places in 8 KiB.


# %% id="mend" exercise="25.6"
@nki.jit
def slow_squares(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns, size = x.shape[1], 512
    ...
    return out


# %% id="mend-check" exercise="25.6" check="25.6"
check("25.6", slow_squares, cause=...)

# %% [markdown] id="order-text"
# ## The order of instructions
#
# Each engine takes its instructions in the order of the program. The compiler may choose another order than yours, as
# long as every instruction still finds its inputs. You can restrict it in two ways.
#
# `nl.no_reorder()` is the strongest: within the block, each instruction waits until the one before it has finished,
# on any engine.
#
# **Predict.** The same stream, with tiles anywhere, in a `no_reorder` block. Which of the counts above will its time
# be close to?


# %% id="order"
# %%nki --run "exp_in_order(long)" --check "np.exp(long)" --rtol 1e-4 --show none
@nki.jit
def exp_in_order(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns, size = x.shape[1], 512

    with nl.no_reorder():
        for i in range(columns // size):
            piece = x[:, size * i : size * i + size]
            tile = nl.ndarray(piece.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=piece)
            nisa.activation(dst=tile, op=nl.exp, data=tile)
            nisa.dma_copy(dst=out[:, size * i : size * i + size], src=tile)
    return out


# %% id="order-times"
one = nki_lab.run(exp_places, long, 1).profile.total_ns
print(f"in order {exp_in_order_result.profile.total_ns} ns, with a single place {one} ns")

assert exp_in_order_result.profile.total_ns > one, "not even two transfers overlap"

# %% [markdown] id="order-after"
# It is slower than the worst of them: with a single place, a store could still overlap the next load. Use such a
# block to find out whether an order matters, or for a few instructions whose order matters, not for a loop.
#
# ## A single edge
#
# Naming instructions gives finer control: `kernel.with_schedule([("later", "earlier")])` is the kernel with one more
# dependence.
#
# **Predict.** `grow` runs on Scalar and `shift` on Vector, and neither needs the other. When does each start, and what does
# the edge change?


# %% id="edge"
@nki.jit
def two_ways(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    grown = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    shifted = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)

    nisa.dma_copy(dst=tile, src=x)
    nisa.activation(dst=grown, op=nl.exp, data=tile, name="grow")
    nisa.tensor_scalar(dst=shifted, data=tile, op0=nl.add, operand0=1.0, name="shift")
    nisa.tensor_tensor(dst=shifted, data1=grown, data2=shifted, op=nl.multiply, name="join")
    nisa.dma_copy(dst=out, src=shifted)
    return out


in_turn = two_ways.with_schedule([("grow", "shift")])
opcodes = {"shift": "SCALAR", "grow": "ACTIVATE", "join": "TENSOR_TENSOR"}  # as profiles call them

for kernel, title in ((two_ways, "as it is"), (in_turn, "grow after shift")):
    rows = nki_lab.run(kernel, x).profile.table("Instruction")
    starts = dict(zip(rows["opcode"], rows["start_ts"], strict=True))
    print(f"{title:<18}", ", ".join(f"{name} at {starts[op]} ns" for name, op in opcodes.items()))

# %% [markdown] id="edge-after"
# The edge delays `grow` until `shift` is done, and `join` with it. Here that costs time. It saves time where an
# unimportant instruction holds an engine or a queue that a more urgent one needs.

# %% [markdown] id="seen"
# ## What you have seen
#
# * A tile is in use from its first write to its last read; until then its place is taken.
# * Reusing a place makes the next tile wait. Two places overlap two steps, a few more overlap all.
# * Banks of PSUM are places, too: compute into one while another is copied out.
# * Places that overlap by mistake are not always an error: sometimes they only cost time.
# * The compiler chooses the order. `no_reorder` and `with_schedule` restrict it, and can only add waiting.
