# %% [markdown] id="title"
# # 01 First kernel
#
# You write a kernel that adds two arrays, first on one tile, then on many. On the way you meet the three
# things every kernel does, **load, compute, store**, and the views that show what your code became.
#
# About 30 minutes. Run the cells from top to bottom. Where it says **Predict**, write your answer down
# before you run the next cell. Where it says **Your turn**, replace the line `...` of the skeleton; the
# cell below it checks your kernel and, if it is not right yet, says why.

# %% [markdown] id="load-text"
# ## Load the extension

# %% id="load"
# The cell that every notebook starts with; its text stands in workshop/generate.py.

# %% id="target"
# %nki_target trn2

# %% [markdown] id="model"
# ## Load, compute, store
#
# ```
#   HBM: large, far away           SBUF: small, on the chip
#                                  (128 partitions, one row of a tile in each)
#
#   a   [128 x 512]  --- DMA --->  left   [128 x 512]  --+
#                                                        +-->  Vector engine: add
#   b   [128 x 512]  --- DMA --->  right  [128 x 512]  --+             |
#                                                                      |
#   out [128 x 512]  <-- DMA ----  total  [128 x 512]  <---------------+
# ```
#
# Arrays live in **HBM**, where no engine can reach them. An engine works on **tiles** in **SBUF**. Row
# *i* of a tile lies in **partition** *i*, and there are 128 partitions. So a kernel
#
# 1. **loads** pieces of its inputs from HBM into tiles, by DMA,
# 2. **computes** on the tiles, with one of the engines,
# 3. **stores** the resulting tile back to HBM, by DMA.

# %% [markdown] id="one-spec"
# ## One tile
#
# **Specification.** `add(a, b)` returns an array `out` with `out[i, j] = a[i, j] + b[i, j]`. All three
# are 128 x 512 and float32, so that each is exactly one tile.
#
# First the inputs. They are seeded, so that everyone sees the same numbers.

# %% id="inputs"
import numpy as np

from nki_lab.exercises import answer, check, hint

rng = np.random.default_rng(seed=1)
a = rng.standard_normal((128, 512), dtype=np.float32)
b = rng.standard_normal((128, 512), dtype=np.float32)

# %% [markdown] id="one-kernel-text"
# **The kernel.** Read it with the picture above beside you. `nl.ndarray` makes a tensor and `buffer`
# says in which memory. Each `nisa` call is one instruction, and it writes to its `dst`.
#
# **Predict.** How many transfers will there be between HBM and SBUF, and how many bytes will they move
# altogether? How many instructions will the Vector engine run?

# %% id="one-kernel"
# %%nki --run "add(a, b)" --check "a + b"
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def add(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)

    nisa.dma_copy(dst=out, src=total)
    return out


# %% [markdown] id="one-report"
# `matches` in the second line is the check: if a single element were wrong, the cell would fail. Below it
# are views of the run, as tabs. (Where no kernel is running, as on GitHub, a picture stands in for
# them.) The first is the **report**:
#
# * *total time* is the modelled time from the first to the last event;
# * *bound by* says what would have to become faster for the kernel to become faster;
# * one row per *engine*: how long it was active, how many instructions it ran, how long it waited;
# * one row per *line of your cell*, the most expensive first.
#
# **Check your prediction.** The numbers of the report are also a dictionary, under the names that
# Neuron Explorer gives them.

# %% id="one-check"
summary = add_result.profile.summary

assert summary["dma_transfer_count"] == 3, "two loads and one store"
assert summary["dma_transfer_total_bytes"] == a.nbytes + b.nbytes + a.nbytes
assert summary["vector_engine_instruction_count"] == 1, "one addition, for all 128 partitions"

print(f"{summary['dma_transfer_total_bytes'] / 1024:.0f} KiB moved for one instruction")

# %% [markdown] id="one-call"
# A kernel is also an ordinary function. Called with NumPy arrays, it returns one.

# %% id="one-call-check"
result = add(a, b)

np.testing.assert_array_equal(result, a + b)
print(type(result).__name__, result.shape, result.dtype)

# %% [markdown] id="source-text"
# ## View: the source
#
# Your lines and the cost of each: time on the engines and in transfers, waiting, bytes. If several engines
# work at once, their times are added up, so the column can sum to more than the total time.
#
# **Predict.** Which line is the most expensive: a load, the addition or the store?

# %% id="source"
# %nki --run "add(a, b)" --show source

# %% [markdown] id="source-after"
# The transfers are the most expensive: each of them moves 256 KiB. The addition is short; it waits for its
# two inputs longer than it works. In the live view each bar is divided by engine, *Costliest line* goes to
# the top of the list, and Enter shows the instructions that a line became.

# %% [markdown] id="ir-text"
# ## View: the program
#
# nki_lab runs your function once, writes down the instructions it meets, and then completes that program
# in **passes**. The view starts with the program after the last pass; the lines that this pass wrote are
# marked.
#
# **Predict.** The addition needs both inputs. Where in the program does it say so? Nobody told the
# compiler where to put the tiles. Where does it say where they are?

# %% id="ir"
# %nki --run "add(a, b)" --show ir

# %% [markdown] id="ir-after"
# `waits #0, #1` makes the addition wait for both loads, and `at (0, 2048)` is partition 0, byte 2048.
# Both were added by passes. The program after each pass is kept, so you can see which pass it was.

# %% id="ir-passes"
for name, text in add_result.ir.items():
    waits, addresses = text.count(" waits #"), text.count(", at (")
    print(f"{name:<18}  waits: {waits}  addresses: {addresses}")

assert " waits #" not in add_result.ir["place_engines"]
assert " waits #" in add_result.ir["insert_waits"]

# %% [markdown] id="layout-text"
# ## View: the layout
#
# Where does each tensor lie? A row of 512 float32 numbers takes 2048 bytes, so each tile takes
# 2048 bytes of every one of the 128 partitions. Choose `left` in the list and see.

# %% id="layout"
# %nki --run "add(a, b)" --show layout

# %% [markdown] id="memory-text"
# ## View: the memory over time
#
# A tile needs its place only from its first to its last use. The numbers count instructions: 0 and 1
# are the loads, 2 is the addition, 3 is the store.
#
# **Predict.** May another tile be put where `left` is, once the addition is done?

# %% id="memory"
# %nki --run "add(a, b)" --show memory

# %% [markdown] id="memory-after"
# Yes: after instruction 2 nothing reads `left`. The compiler reuses such places when the kernel needs more
# memory than there is.

# %% [markdown] id="timeline-text"
# ## View: the timeline
#
# When did what happen? Every engine and every DMA queue has its own lane, and they all work at the same
# time. Drag across a part to zoom into it, double-click to see everything again, and click an event to see
# what it is.
#
# **Predict.** How long is the Vector engine busy, compared with the whole run?

# %% id="timeline"
# %nki --run "add(a, b)" --show timeline

# %% [markdown] id="timeline-after"
# Two things to notice. The Sync engine does not move data, it only *starts* transfers, and the data
# arrives much later. And the addition cannot start before its second input is there: most of this kernel
# is waiting. With a single tile there is nothing else to do in the meantime.

# %% id="timeline-check"
share = add_result.profile.summary["vector_engine_active_time_percent"]

assert share < 0.2, "the Vector engine is idle most of the time"
print(f"the Vector engine works {share:.0%} of the time")

# %% [markdown] id="turn-spec"
# ## Your turn: 01.1 Twice the sum
#
# **Specification.** `scaled_sum(a, b)` returns `2 * (a + b)` for arrays of at most 128 rows.
#
# The skeleton adds and stores the sum. One instruction is missing: replace the line `...` by one that
# multiplies the tile `total` by 2. `%nki_explain tensor_scalar` shows an instruction that can.
#
# The cell below the skeleton tries your kernel with several shapes, and with other numbers each time.
# Stuck? `hint("01.1")` helps, a little more each time you call it.


# %% id="turn" exercise="01.1"
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def scaled_sum(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
    ...

    nisa.dma_copy(dst=out, src=total)
    return out


# %% id="turn-check" check="01.1"
check("01.1", scaled_sum)

# %% [markdown] id="break-text"
# ## Break it: too many rows
#
# Errors are easier to read once you have made them on purpose. Here are three.
#
# **Predict.** What happens if the arrays have 129 rows, one more than there are partitions?
#
# `--expect NKI107` says that this cell must end with the error NKI107. The error is then printed, and
# the cell succeeds *because* it came. Without the error the cell would fail.

# %% id="break-inputs"
a_tall = rng.standard_normal((512, 512), dtype=np.float32)
b_tall = rng.standard_normal((512, 512), dtype=np.float32)

# %% id="break-partitions"
# %nki --run "add(a_tall[:129], b_tall[:129])" --expect NKI107

# %% [markdown] id="break-after"
# An error names what was found and what the limit is, shows the line of your cell, and says what to write
# instead. `%nki_explain` says more about each code.

# %% id="break-explain"
# %nki_explain NKI107

# %% [markdown] id="break-store-text"
# ## Break it: no store
#
# **Predict.** The addition is there, and the last line that copies `total` to `out` is not. What does
# `out` hold?


# %% id="break-store"
# %%nki --run "forgetful(a, b)" --expect NKI111
@nki.jit
def forgetful(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    total = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)
    return out


# %% [markdown] id="break-store-after"
# Nothing useful: on a device it would hold whatever was in that memory before. So this is an error, raised
# before anything runs. If only *part* of `out` is stored, the rest is filled with NaN here, and the cell
# says how many elements that is.

# %% [markdown] id="break-shape-text"
# ## Break it: shapes that do not fit
#
# **Predict.** NumPy repeats a row when it adds `[128, 512]` and `[1, 512]`. Does the Vector engine?

# %% id="break-shape"
# %nki --run "add(a, b[:1])" --expect NKI203

# %% [markdown] id="break-shape-after"
# It does not: each partition adds what lies in *that* partition, and partition 5 cannot see what
# partition 0 holds. The notes list the three tiles of the instruction, so you see which one is off.

# %% [markdown] id="many-spec"
# ## Many tiles
#
# ![An array of 512 rows is cut into four tiles of 128 rows; each is loaded into SBUF, one row a partition](tiles.svg)
#
# **Specification.** `add_tiles(a, b)` returns `a + b` when the number of rows is a multiple of 128.
#
# A loop does for each tile of 128 rows what `add` did for one tile. Python runs the loop while the
# kernel is compiled, so the program for the chip contains the instructions of every iteration. (A loop that
# the chip itself runs is in [31](31_dynamic_loops.ipynb).)
#
# **Predict.** 512 rows are four tiles. Will this take four times as long as one tile?


# %% id="many-kernel"
# %%nki --run "add_tiles(a_tall, b_tall)" --check "a_tall + b_tall"
@nki.jit
def add_tiles(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = a.shape
    size = nl.tile_size.pmax  # 128

    for start in range(0, rows, size):
        left = nl.ndarray((size, columns), dtype=a.dtype, buffer=nl.sbuf)
        right = nl.ndarray((size, columns), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=a[start : start + size])
        nisa.dma_copy(dst=right, src=b[start : start + size])

        total = nl.ndarray((size, columns), dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_tensor(dst=total, data1=left, data2=right, op=nl.add)

        nisa.dma_copy(dst=out[start : start + size], src=total)
    return out


# %% id="many-check"
one = add_result.profile.total_ns
four = add_tiles_result.profile.total_ns

assert four < 3 * one, "the tiles overlap"
print(
    f"one tile {one / 1000:.2f} us, four tiles {four / 1000:.2f} us: {four / one:.2f} times as long"
)

# %% [markdown] id="many-timeline-text"
# Look at the timeline to see why. While the Vector engine adds one tile, the DMA queues already load the
# next ones and store the one before.

# %% id="many-timeline"
# %nki --run "add_tiles(a_tall, b_tall)" --show timeline

# %% [markdown] id="ragged-text"
# ## The edge
#
# **Predict.** Does `add_tiles` work with 300 rows?

# %% id="ragged"
# %nki --run "add_tiles(a_tall[:300], b_tall[:300])" --expect NKI106

# %% [markdown] id="rows-spec"
# ## Your turn: 01.2 Any number of rows
#
# **Specification.** `add_rows(a, b)` returns `a + b` for *any* number of rows: 1, 127, 129, 300. NKI does
# not shorten slices as NumPy does, so the last tile must have exactly the remaining rows.
#
# Replace the line `...` by the body of the loop. The check also counts: 512 rows are four tiles, so four
# additions and twelve transfers are enough. A kernel in which they overlap earns a star.


# %% id="rows" exercise="01.2"
@nki.jit
def add_rows(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    rows, columns = a.shape

    for start in range(0, rows, nl.tile_size.pmax):
        ...

    return out


# %% id="rows-check" check="01.2"
check("01.2", add_rows)

# %% [markdown] id="distance-spec"
# ## Your turn: 01.3 The distance from one
#
# **Specification.** `distance(x)` returns `|x - 1|` for at most 128 rows, in float32 or bfloat16.
#
# This time the skeleton is nearly empty: load, two steps, store. The check uses numbers of both signs, so
# it catches a kernel that forgets the sign.


# %% id="distance" exercise="01.3"
@nki.jit
def distance(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="distance-check" check="01.3"
check("01.3", distance)

# %% [markdown] id="bound-text"
# ## Your turn: 01.4 What four tiles wait for
#
# Suppose you could make *one* thing twice as fast: an engine, or the transfers. Which one would make
# `add_tiles` faster? `%nki_profile` shows the report again.

# %% id="bound-report"
# %nki_profile add_tiles_result

# %% id="bound-answer" exercise="01.4" check="01.4"
# one of: "tensor", "vector", "scalar", "gpsimd", "dma", "waiting"
answer("01.4", ..., add_tiles_result)

# %% [markdown] id="targets-text"
# ## The same kernel on other chips
#
# `--target` compiles it for another chip. `--name` names the variable that keeps the run, and `--quiet`
# prints only if something is wrong.
#
# **Predict.** Transfers bound this kernel. What will a chip with more memory bandwidth change?

# %% id="targets-1"
# %nki --run "add_tiles(a_tall, b_tall)" --check "a_tall + b_tall" --target trn1 --name on_trn1 --quiet

# %% id="targets-2"
# %nki --run "add_tiles(a_tall, b_tall)" --check "a_tall + b_tall" --target trn2 --name on_trn2 --quiet

# %% id="targets-3"
# %nki --run "add_tiles(a_tall, b_tall)" --check "a_tall + b_tall" --target trn3 --name on_trn3 --quiet

# %% id="targets-compare"
print("target   total us   DMA busy us   Vector busy us")
for run in (on_trn1, on_trn2, on_trn3):
    s = run.profile.summary
    print(
        f"{run.profile.target.name:<8} {s['total_time'] * 1e6:>8.2f}"
        f"   {s['dma_active_time'] * 1e6:>11.2f}   {s['vector_engine_active_time'] * 1e6:>14.2f}"
    )

assert on_trn1.profile.total_ns > on_trn2.profile.total_ns > on_trn3.profile.total_ns

# %% [markdown] id="targets-after"
# All three return the same numbers, and only the times differ. They are modelled from public documents:
# trust the order and the reasons more than the digits.

# %% [markdown] id="seen"
# ## What you have seen
#
# * A kernel loads tiles from HBM, computes on them in SBUF and stores them.
# * A tile has at most 128 partitions; larger arrays are cut into tiles, and the last one may be smaller.
# * Each partition computes only with its own data.
# * Loads, computing and stores of different tiles overlap; one tile alone mostly waits.
# * A cell with `--check` or `check(...)` ends without an error only when the numbers are right.
#
# `%nki_exercise` shows which exercises you have solved. Next:
# [02 Prebuilt kernels](02_prebuilt_kernels.ipynb).
