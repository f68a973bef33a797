# %% [markdown] id="title"
# # 31 Dynamic loops
#
# Until now every loop count and every address was known when the kernel was compiled. Here they come from **data**:
# how many tiles there are, when to stop, which rows to take. You meet **registers**, **loops that the device runs**,
# and **dynamic addresses**, and what each of them costs. About 45 minutes.

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

rng = np.random.default_rng(seed=31)
x = rng.standard_normal((1024, 256), dtype=np.float32)  # eight tiles of 128 rows


def whole(value):
    """Return one whole number as an array of [1, 1], as a kernel can load it."""
    return np.array([[value]], dtype=np.int32)


# %% [markdown] id="python-text"
# ## A number that Python does not know
#
# Suppose `x` has room for eight tiles of 128 rows, and only the first *n* are filled. The number *n* is computed on the
# device, so for the kernel it is an array of [1, 1] in HBM.
#
# **Predict.** `range(stop)` needs a number, and the kernel is compiled before it runs. What will Python get?


# %% id="python"
# %%nki --run "largest_in_python(x, whole(3))" --expect NKI117
@nki.jit
def largest_in_python(x, tiles):
    out = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    held = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=tiles)
    stop = nisa.register_alloc()
    nisa.register_load(dst=stop, src=held)

    most = nl.ndarray(out.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=most, value=-np.inf)
    for i in range(stop):
        tile = nl.ndarray(out.shape, dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[i * 128 : (i + 1) * 128])
        nisa.tensor_tensor(dst=most, data1=most, data2=tile, op=nl.maximum)
    nisa.dma_copy(dst=out, src=most)
    return out


# %% [markdown] id="python-after"
# The value is in a **register**: a small integer store beside the engines, filled by `nisa.register_load` while the
# kernel runs. Python only writes the program down: it can pass the register on, but it cannot see the value. So
# `range`, `int` and `if` do not work with it. These do:
#
# | | |
# |---|---|
# | `nl.fori_loop(lower, upper, body)` | the bounds of a loop that the *device* runs |
# | `nl.while_loop(register, body)` | its condition: continue while not zero |
# | `t[i]`, `t[nl.ds(i, size)]`, `t.ap(..., scalar_offset=i)` | an index: *where* a view begins |
#
# Every **shape** stays fixed: a register can move a window, but cannot make it larger.

# %% [markdown] id="loop-spec"
# ## A loop on the device
#
# ![Unrolled, a program has the body once for each tile; a loop on the device has it once](device_loop.svg)
#
# **Specification.** `largest(x, tiles)` returns, element by element, the largest of the first *n* tiles of `x`, as [128, 256].
#
# `fori_loop` calls `body` **once**, with a register `i`, and records the instructions as the body of the loop. All
# passes share that body, so data that must survive a pass lives in a tile made before the loop: here `most`.
#
# **Predict.** How many instructions will the *program* have for three tiles, and how many for eight?


# %% id="loop"
# %%nki --run "largest(x, whole(3))" --check "x.reshape(8, 128, 256)[:3].max(axis=0)" --show none
def register_of(value):
    """Return a register with the only element of an array [1, 1] in HBM."""
    held = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=held, src=value)
    register = nisa.register_alloc()
    nisa.register_load(dst=register, src=held)
    return register


@nki.jit
def largest(x, tiles):
    rows, columns = x.shape
    out = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = x.reshape((rows // 128, 128, columns))
    stop = register_of(tiles)

    most = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=most, value=-np.inf)

    def body(i):
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=blocks[i])
        nisa.tensor_tensor(dst=most, data1=most, data2=tile, op=nl.maximum)

    nl.fori_loop(0, stop, body)
    nisa.dma_copy(dst=out, src=most)
    return out


# %% [markdown] id="again-text"
# Compiled once, the same program runs for any number of tiles. `trips` says how often the body ran.

# %% id="again"
compiled = largest.compile(x, whole(0))

for n in (1, 3, 8):
    np.testing.assert_array_equal(compiled(x, whole(n)), x.reshape(8, 128, 256)[:n].max(axis=0))
    run = nki_lab.run(largest, x, whole(n))
    count = len(run.kernel.instructions)
    print(
        f"{n} tiles: {count} instructions in the program, passes of the loop: {run.execution.trips[0]}"
    )

# %% [markdown] id="again-after"
# In the program the loop is one block with a beginning and an end. The view of the IR shows it as a loop, and each
# line in it once.

# %% id="loop-ir"
# %nki --run "largest(x, whole(3))" --name with_loop --show ir

# %% [markdown] id="between-spec"
# ## Your turn: 31.1 From here to there
#
# **Specification.** `sum_between(x, bounds)` returns the **sum** of the tiles first, first + 1, ..., last - 1.
# `bounds` is `[[first, last]]` of int32. If first equals last, the result is zero. Load only the tiles that are
# needed.


# %% id="between" exercise="31.1"
@nki.jit
def sum_between(x, bounds):
    rows, columns = x.shape
    out = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = x.reshape((rows // 128, 128, columns))
    ...
    return out


# %% id="between-check" check="31.1"
check("31.1", sum_between)

# %% [markdown] id="price-text"
# ## What a loop costs
#
# The alternative is to unroll: compile a kernel for each *n*, or always work on all eight tiles, needed or not.
# `largest_unrolled(x, n)` takes *n* as a Python number and is compiled again for each.
#
# **Predict.** For the same *n*, which is faster: the loop or the unrolled kernel? By how much for eight tiles?


# %% id="price"
@nki.jit
def largest_unrolled(x, n):
    rows, columns = x.shape
    out = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = x.reshape((rows // 128, 128, columns))
    most = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=most, value=-np.inf)

    for i in range(n):
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=blocks[i])
        nisa.tensor_tensor(dst=most, data1=most, data2=tile, op=nl.maximum)

    nisa.dma_copy(dst=out, src=most)
    return out


print("tiles   loop us   instructions   unrolled us   instructions")
for n in (1, 2, 4, 8):
    loop = nki_lab.run(largest, x, whole(n))
    flat = nki_lab.run(largest_unrolled, x, n)
    print(
        f"{n:>5} {loop.profile.total_ns / 1000:>9.2f} {len(loop.kernel.instructions):>14}"
        f" {flat.profile.total_ns / 1000:>13.2f} {len(flat.kernel.instructions):>14}"
    )

assert loop.profile.total_ns > flat.profile.total_ns, "passes do not overlap, tiles do"

# %% [markdown] id="price-after"
# The unrolled program grows with each tile, and its tiles overlap: while one is compared, the next is on its way. In
# the loop a pass begins only when the one before is complete, so each pass waits for its whole transfer, from the
# start to the last byte.
#
# That passes never overlap is an *assumption of this model* (the report says so among its warnings), and on a device
# the gap may be smaller. The documentation gives the reason: in an unrolled loop the compiler can interleave the
# instructions of all tiles; a loop on the device has one body, which runs again and again.

# %% [markdown] id="waits-text"
# ## Your turn: 31.2 What a pass waits for

# %% id="waits-report"
# %nki --run "largest(x, whole(8))" --show timeline

# %% id="waits" exercise="31.2" check="31.2"
# one of: "tensor", "vector", "scalar", "gpsimd", "dma", "waiting"
answer("31.2", ..., largest_result)

# %% [markdown] id="four-spec"
# ## Your turn: 31.3 Four tiles in a pass
#
# The usual way lies between one tile per pass and all tiles in one program: a *few* tiles in each pass.
#
# **Specification.** `sum_by_four(x, tiles)` returns the sum of the first *n* tiles, and *n* is a multiple of four.
# Each pass takes four tiles. `fori_loop` has a `step`, which must be a Python number, and `blocks[nl.ds(i, 4)]` are
# the four blocks starting with number *i*.
#
# **Predict.** The unrolled kernel took one time, the loop another. Where between them will this one be?


# %% id="four" exercise="31.3"
@nki.jit
def sum_by_four(x, tiles):
    rows, columns = x.shape
    out = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = x.reshape((rows // 128, 128, columns))
    stop = register_of(tiles)
    ...
    return out


# %% id="four-check" check="31.3"
check("31.3", sum_by_four)

# %% [markdown] id="while-text"
# ## Until it is enough
#
# Sometimes even the device does not know the number of passes in advance. `nl.while_loop(register, body)` tests the
# register **before** each pass; `body` gets it, and returns the register with the next condition.
#
# `halved(x)` halves a row until no element is larger than 1. The comparison `nl.greater` gives 1 or 0, written as int32.
#
# **Predict.** For rows whose largest elements are 0.75, 1.5 and 100: how many passes?


# %% id="while"
# %%nki --run "halved(row)" --check "row / 64" --show none
row = rng.integers(-90, 90, (1, 40)).astype(np.float32)
row[0, 7] = 60.0
row = np.minimum(row, 60.0)


def load_too_large(more, row):
    """Load into register `more` whether an element of `row` is larger than 1."""
    most = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=most, data=row, op=nl.maximum, axis=1)
    again = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=again, data=most, op0=nl.greater, operand0=1.0)
    nisa.register_load(dst=more, src=again)


@nki.jit
def halved(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=x)

    def body(more):
        nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=0.5)
        load_too_large(more, row)
        return more

    more = nisa.register_alloc()
    load_too_large(more, row)
    nl.while_loop(more, body)

    nisa.dma_copy(dst=out, src=row)
    return out


# %% id="while-trips"
for largest_element in (0.75, 1.5, 100.0):
    run = nki_lab.run(halved, np.array([[largest_element, -1000.0]], dtype=np.float32))
    print(
        f"largest element {largest_element:>5}: passes {run.execution.trips[0]}, result {run.value[0, 0]}"
    )

# %% [markdown] id="while-after"
# The first row needs none: the test comes first. And the -1000 does not matter, since it is not *larger* than 1.

# %% [markdown] id="doubled-spec"
# ## Your turn: 31.4 Double until it is enough
#
# **Specification.** `doubled(x, limit)` doubles the row `x` [1, columns] as often as needed until its largest
# **magnitude** is at least `limit`, an array [1, 1] of float32. It may not need to double at all.
#
# Write the test as a separate function: you need it in two places.


# %% id="doubled" exercise="31.4"
def load_test(more, row, least):
    """Load into register `more` whether every magnitude of `row` is less than `least`."""
    ...


@nki.jit
def doubled(x, limit):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    row = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    least = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=x)
    nisa.dma_copy(dst=least, src=limit)
    ...
    nisa.dma_copy(dst=out, src=row)
    return out


# %% id="doubled-check" check="31.4"
check("31.4", doubled)

# %% [markdown] id="window-text"
# ## A window that a register moves
#
# ![The window has four columns; the register says where they begin](window.svg)
#
# A register can be an index wherever an integer can. `nl.ds(at, size)` is a slice that begins at `at` and has `size`
# elements.
#
# **Predict.** `columns_from(x, at)` returns 64 columns of 256. What happens for `at` = 200?


# %% id="window"
# %%nki --run "columns_from(x[:128], whole(100))" --check "x[:128, 100:164]" --show none
@nki.jit
def columns_from(x, at):
    rows, columns = x.shape
    out = nl.ndarray((rows, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    nisa.dma_copy(dst=out, src=tile[:, nl.ds(register_of(at), 64)])
    return out


# %% id="window-out"
# %nki --run "columns_from(x[:128], whole(200))" --expect NKI402

# %% [markdown] id="window-after"
# The kernel compiles, because the number is not known yet. The error comes while it runs, at the line with the
# address.

# %% [markdown] id="rolled-spec"
# ## Your turn: 31.5 Around the corner
#
# **Specification.** `rolled(x, shift)` moves all columns *s* places to the left; those that drop off come back on the
# right: `out[:, j] = x[:, (j + s) % columns]`, for at most 128 rows and 0 <= s < columns.
#
# Two pieces of sizes s and columns - s would do if sizes could come from a register. Four transfers are allowed.


# %% id="rolled" exercise="31.5"
@nki.jit
def rolled(x, shift):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="rolled-check" check="31.5"
check("31.5", rolled)

# %% [markdown] id="rows-text"
# ## Rows by number
#
# A table has 1000 rows, and `ids` says which of them you want. With registers that is a loop: load a number, copy its
# row.


# %% id="rows"
# %%nki --run "rows_one_by_one(table, ids)" --check "table[ids[:, 0]]" --show none
table = rng.standard_normal((1000, 64), dtype=np.float32)
ids = rng.integers(0, 1000, (96, 1)).astype(np.int32)


@nki.jit
def rows_one_by_one(table, ids):
    n = ids.shape[0]
    out = nl.ndarray((n, table.shape[1]), dtype=table.dtype, buffer=nl.shared_hbm)
    numbers = nl.ndarray((1, n), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=numbers, src=ids.reshape((1, n)))

    def body(k):
        wanted = nisa.register_alloc()
        nisa.register_load(dst=wanted, src=numbers[:, nl.ds(k, 1)])
        row = nl.ndarray((1, table.shape[1]), dtype=table.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=row, src=table[nl.ds(wanted, 1)])
        nisa.dma_copy(dst=out[nl.ds(k, 1)], src=row)

    nl.fori_loop(0, n, body)
    return out


# %% [markdown] id="gather-text"
# The other way is one transfer for many rows, a **gather**: `table.vector_select(0, index)` is a view whose row *k* is row
# `index[k]` of the table. `index` is a tile in SBUF with one number in each partition, so at most 128 of them.
#
# Who makes the descriptors? The hardware blocks take an address from a register, but not from a list. For a gather
# **GpSimd** makes them, in software (the documentation's page on the *descriptor generation engine* has a table of
# this).
#
# A number outside the table is an error, as with registers. With `oob_mode.skip` the row is left unchanged instead, a
# common trick for padding. Here -1 means "no row", and the tile is zero before.
#
# **Predict.** The loop took three instructions for each of 96 rows. How many times faster is the gather?


# %% id="gather"
# %%nki --run "rows_or_zero(table, padded)" --check "np.where(padded < 0, 0, table[padded[:, 0]])" --show none
padded = ids.copy()
padded[::5] = -1


@nki.jit
def rows_or_zero(table, ids):
    n = ids.shape[0]
    out = nl.ndarray((n, table.shape[1]), dtype=table.dtype, buffer=nl.shared_hbm)
    index = nl.ndarray((n, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=index, src=ids)

    rows = nl.ndarray((n, table.shape[1]), dtype=table.dtype, buffer=nl.sbuf)
    nisa.memset(dst=rows, value=0.0)
    nisa.dma_copy(dst=rows, src=table.vector_select(0, index), oob_mode=nisa.oob_mode.skip)
    nisa.dma_copy(dst=out, src=rows)
    return out


# %% id="gather-times"
loop, gather = rows_one_by_one_result.profile, rows_or_zero_result.profile
print(f"row by row {loop.total_ns / 1000:.2f} us, gather {gather.total_ns / 1000:.2f} us")

print("\ndescriptors     by hardware   by GpSimd")
for name, profile in (("row by row", loop), ("gather", gather)):
    hardware = profile.summary["hardware_dynamic_dma_packet_count"]
    software = profile.summary.get("software_dynamic_dma_packet_count", 0)
    print(f"{name:<15} {hardware:>11} {software:>11}")

assert gather.total_ns < loop.total_ns / 10

# %% [markdown] id="embed-spec"
# ## Your turn: 31.6 Rows by number
#
# **Specification.** `embed(table, ids)` returns `table[ids[:, 0]]` for any number of ids, [n, 1]. All of them are valid. Six
# transfers are enough for 200 rows.


# %% id="embed" exercise="31.6"
@nki.jit
def embed(table, ids):
    n = ids.shape[0]
    columns = table.shape[1]
    out = nl.ndarray((n, columns), dtype=table.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="embed-check" check="31.6"
check("31.6", embed)

# %% [markdown] id="old-text"
# ## Older kernels
#
# You will come across two older ways to write these loops, which ended with NKI 0.6. A comment says that a kernel is
# written for that version: then it still runs, and the finding says what to write now.


# %% id="old"
# %%nki --run "ranged(x, whole(3))" --check "x[:384] * 2" --show none
# nki: 0.6
@nki.jit
def ranged(x, tiles):
    out = nl.ndarray((384, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    blocks = x.reshape((x.shape[0] // 128, 128, x.shape[1]))
    results = out.reshape((3, 128, x.shape[1]))
    stop = register_of(tiles)

    for i in nl.dynamic_range(stop):
        tile = nl.ndarray((128, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=blocks[i])
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=results[i], src=tile)
    return out


# %% id="old-findings"
for finding in ranged_result.findings:
    print(f"{finding.message}\n  {finding.help}")

# %% [markdown] id="old-after"
# The other one is `while register:`, which is `nl.while_loop` today.

# %% [markdown] id="seen"
# ## What you have seen
#
# * A register holds a number that is only known at run time: a bound, a condition, or an index, never a shape.
# * `fori_loop` and `while_loop` record their body once. State passes from one pass to the next in tiles made before
#   the loop.
# * A loop takes its number of passes from data, but loses overlap. A few tiles in each pass bring most of it back.
# * An index is checked while the kernel runs.
# * To fetch many rows by number, use one gather; GpSimd makes its descriptors.
#
# `%nki_exercise` shows which exercises you have solved.
