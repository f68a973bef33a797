# %% [markdown] id="title"
# # 11 Indexing and access patterns
#
# Which elements an instruction reads and writes is written down as a **view**: a slice, a permuted or reshaped
# tensor, or a pattern of strides. A view costs nothing and copies nothing, and it decides how much work remains. Here
# you meet its four uses, **edges, patterns, broadcasts and reshapes**, and the cases where a view is *not* what it
# would be in NumPy.
#
# About 60 minutes. Every check draws new shapes, so it catches a kernel that works for only one size.

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

from nki_lab.exercises import check, hint

x = np.arange(8 * 12, dtype=np.float32).reshape(8, 12) - 40
long = np.arange(640, dtype=np.float32).reshape(1, 640) - 300

# %% [markdown] id="shapes-text"
# ## A number as an index
#
# **Predict.** In NumPy `x[3]` and `x[:, 3]` of an array [8, 12] have the shapes (12,) and (8,). Which shapes do they
# have here, in HBM and on the chip?


# %% id="shapes"
# %%nki --run "shapes(x)" --check "x" --show none --quiet
@nki.jit
def shapes(x):
    tile = nl.load(x)
    print("HBM  ", x[3].shape, x[:, 3].shape)
    print("SBUF ", tile[3].shape, tile[:, 3].shape)
    print("SBUF ", tile[:, 3].get_pattern())

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% [markdown] id="shapes-after"
# On the chip the partition axis never goes away, and at least one free axis remains: a tile is at least [partitions,
# elements]. The pattern shows why this costs nothing: each view is strides and counts over the same memory. The first
# stride, 12, leads from partition to partition.

# %% [markdown] id="alias-text"
# ## A view is not a copy
#
# **Predict.** `memset` writes to a view of a tile, and then the *tile* is stored. What does column 0 hold?


# %% id="alias"
# %%nki --run "write_to_view(x)" --show none --quiet
@nki.jit
def write_to_view(x):
    tile = nl.load(x)
    view = tile[:, 0::4]
    nisa.memset(dst=view, value=0.0)

    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% id="alias-check"
changed = write_to_view_result.value != x

print("changed columns:", np.flatnonzero(changed.any(axis=0)))

# %% [markdown] id="edges-text"
# ## Part 1: edges and masks
#
# **Predict.** `x` has 8 rows. What is `x[0:10]`?


# %% id="edges"
# %%nki --run "too_far(x)" --expect NKI106
@nki.jit
def too_far(x):
    tile = nl.load(x[0:10])
    out = nl.ndarray(tile.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% [markdown] id="edges-after"
# An error, where NumPy would shorten the slice. You shorten it yourself, with `min`, and give the tile the remaining
# size.

# %% [markdown] id="ragged-spec"
# ## Your turn: 11.1 Two ragged edges
#
# ```
#              256      256      188
#           +--------+--------+------+
#      128  |        |        |      |
#           |        |        |      |         200 x 700 in six tiles
#           +--------+--------+------+
#       72  |        |        |      |
#           +--------+--------+------+
# ```
#
# **Specification.** `triple_tiles(x)` returns `3 * x` for any number of rows and columns. A tile has at most 128 rows
# and 256 columns. The check counts transfers and instructions, and looks at how much of SBUF is in use.


# %% id="ragged" exercise="11.1"
@nki.jit
def triple_tiles(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    for top in range(0, rows, 128):
        for left in range(0, columns, 256):
            ...
    return out


# %% id="ragged-check" check="11.1"
check("11.1", triple_tiles)

# %% [markdown] id="needed-spec"
# ## Your turn: 11.2 Only what is needed
#
# **Specification.** `odd_rows(x, first)` returns rows 1, 3, 5, ... of `x`, without the columns before `first`. It
# reads from `x` only what it returns, with one transfer.
#
# The check looks at *which elements of `x` the kernel reads*. Loading all of `x` and choosing on the chip gives the
# right numbers, but is rejected with a drawing.


# %% id="needed" exercise="11.2"
@nki.jit
def odd_rows(x, first):
    ...
    return out


# %% id="needed-check" check="11.2"
check("11.2", odd_rows)

# %% [markdown] id="mask-text"
# ## Masks
#
# A slice takes the same columns from every row. If the columns depend on the row, you need a **mask**.
# `nisa.affine_select` makes it from the indices: for partition *i* and element *j* it computes a *position*
#
# ```
#   position = offset + i * channel_multiplier + j * step     with pattern=[[step, count]]
# ```
#
# and keeps the element of `on_true_tile` where `cmp_op(position, 0)` holds. **Predict.** What does this one keep?


# %% id="mask"
# %%nki --run "some_columns(x)" --show none --quiet
@nki.jit
def some_columns(x):
    kept = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.affine_select(
        dst=kept,
        pattern=[[1, x.shape[1]]],
        channel_multiplier=0,
        offset=-3,
        cmp_op=nl.less,
        on_true_tile=nl.load(x),
        on_false_value=99.0,
    )
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=kept)
    return out


# %% id="mask-check"
print((some_columns_result.value[:2]).astype(int))

# %% [markdown] id="triangle-spec"
# ## Your turn: 11.3 A mask that follows the indices
#
# **Specification.** `lower_triangle(x)` returns x[i, j] where j <= i, and 0 elsewhere, for at most 128 rows. It uses
# `affine_select`. (This is the mask of causal attention: row *i* may look at what came before it.)


# %% id="triangle" exercise="11.3"
@nki.jit
def lower_triangle(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="triangle-check" check="11.3"
check("11.3", lower_triangle)

# %% [markdown] id="patterns-text"
# ## Part 2: patterns
#
# ![Windows of three elements of a row of eight: the pattern has one pair from window to window, and one within a window](windows.svg)
#
# `x.ap(pattern=[[stride, count], ...], offset=0)` is a view whose steps you choose. The shape is that of the counts.
# Elements may appear more than once, as in the overlapping windows of the picture.
#
# On the chip the first pair is the partition axis, and its stride is given: the number of elements that a
# partition of the tile has.


# %% id="patterns"
# %%nki --run "every_third(x)" --check "x[:, 2::3]" --show none --quiet
@nki.jit
def every_third(x):
    rows, columns = x.shape
    tile = nl.load(x)
    view = tile.ap(pattern=[[columns, rows], [3, columns // 3]], offset=2)

    out = nl.ndarray(view.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=view)
    return out


# %% [markdown] id="windows-spec"
# ## Your turn: 11.4 Sliding windows
#
# **Specification.** `windows(x, width)` returns for a row `x` [1, n] all windows of `width` elements: row *i* of the
# result is `x[0, i : i + width]`. There are n - width + 1 of them, at most 128. One load, one store.


# %% id="windows" exercise="11.4"
@nki.jit
def windows(x, width):
    count = x.shape[1] - width + 1
    out = nl.ndarray((count, width), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray((count, width), dtype=x.dtype, buffer=nl.sbuf)
    ...
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% id="windows-check" check="11.4"
check("11.4", windows)

# %% [markdown] id="turns-spec"
# ## Your turn: 11.5 Two arrays, taking turns
#
# ```
#   a  a0 a1 a2
#                  ->   a0 b0 a1 b1 a2 b2
#   b  b0 b1 b2
# ```
#
# **Specification.** `interleaved(a, b)` returns [rows, 2 * columns]: columns 0, 2, 4, ... are those of `a`, the
# others those of `b`. At most 128 rows, three transfers.
#
# Views can be *written*, too.


# %% id="turns" exercise="11.5"
@nki.jit
def interleaved(a, b):
    rows, columns = a.shape
    out = nl.ndarray((rows, 2 * columns), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="turns-check" check="11.5"
check("11.5", interleaved)

# %% [markdown] id="broadcast-text"
# ## Part 3: broadcasts
#
# A stride of **0** returns to the same element again and again. That is a broadcast: `view.broadcast(axis, size)`
# repeats an axis of size 1.
#
# **Predict.** A tile [1, 12] lies in partition 0. Can it be broadcast to 128 partitions?


# %% id="broadcast"
# %%nki --run "to_all_partitions(x[:1])" --expect NKI105
@nki.jit
def to_all_partitions(row):
    tile = nl.load(row)
    copies = nl.copy(tile.broadcast(0, 128))
    out = nl.ndarray(copies.shape, dtype=row.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=copies)
    return out


# %% [markdown] id="broadcast-after"
# Not on the chip: there, partition 5 reads only from partition 5. But HBM has no partitions, and there the same call
# is an ordinary view. So the *load* can do it.

# %% [markdown] id="row-spec"
# ## Your turn: 11.6 One row for all partitions
#
# **Specification.** `add_row(x, row)` returns `x + row` for `x` [rows, columns] with at most 128 rows, and `row`
# [1, columns]. Three transfers and one addition.


# %% id="row" exercise="11.6"
@nki.jit
def add_row(x, row):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="row-check" check="11.6"
check("11.6", add_row)

# %% [markdown] id="repeat-spec"
# ## Your turn: 11.7 Each column several times
#
# ```
#   0 1 2    ->    0 0 1 1 2 2         times = 2
# ```
#
# **Specification.** `repeated(x, times)` returns each column `times` times, one after the other: [rows,
# columns * times], for at most 128 rows. Two transfers, and *one* instruction that copies.
#
# Along a free axis, a broadcast works on the chip as well. `expand_dim(axis)` makes a new axis of size 1.


# %% id="repeat" exercise="11.7"
@nki.jit
def repeated(x, times):
    rows, columns = x.shape
    out = nl.ndarray((rows, columns * times), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    result = nl.ndarray((rows, columns * times), dtype=x.dtype, buffer=nl.sbuf)
    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="repeat-check" check="11.7"
check("11.7", repeated)

# %% [markdown] id="reshape-text"
# ## Part 4: reshapes
#
# `reshape` splits and merges free axes, `permute` reorders them. Neither moves anything. **Predict.** A tile [8, 12]
# is seen as [8, 3, 4], the last two axes are swapped, and they are merged again. Does that work?


# %% id="reshape"
# %%nki --run "swapped_and_merged(x)" --expect NKI105
@nki.jit
def swapped_and_merged(x):
    tile = nl.load(x)
    swapped = tile.reshape((8, 3, 4)).permute((0, 2, 1))
    merged = swapped.reshape((8, 12))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=merged)
    return out


# %% [markdown] id="reshape-after"
# It does not. After the swap the strides are 1 and 4 with 4 and 3 elements: no *single* stride visits them in that
# order. NumPy would copy silently; here a copy is an instruction, and you write it. The two sides of an instruction
# may have different shapes, as long as they have the same partitions and the same number of elements in each.

# %% [markdown] id="largest-spec"
# ## Your turn: 11.8 The largest of each group
#
# **Specification.** `largest_of(x, count)` returns the largest of every `count` adjacent columns: [rows,
# columns // count], for at most 128 rows and a number of columns that `count` divides. One `tensor_reduce`.


# %% id="largest" exercise="11.8"
@nki.jit
def largest_of(x, count):
    rows, columns = x.shape
    groups = columns // count
    out = nl.ndarray((rows, groups), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    result = nl.ndarray((rows, groups), dtype=x.dtype, buffer=nl.sbuf)
    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="largest-check" check="11.8"
check("11.8", largest_of)

# %% [markdown] id="regroup-spec"
# ## Your turn: 11.9 Regrouped columns
#
# ```
#   a0 a1 a2  b0 b1 b2    ->    a0 b0  a1 b1  a2 b2         groups = 2
# ```
#
# **Specification.** The columns of `x` come in `groups` groups of equal size. `regrouped(x, groups)` returns them in
# another order: the first of each group, then the second of each, and so on. At most 128 rows, and one
# instruction that copies on the chip.


# %% id="regroup" exercise="11.9"
@nki.jit
def regrouped(x, groups):
    rows, columns = x.shape
    size = columns // groups
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    result = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="regroup-check" check="11.9"
check("11.9", regrouped)

# %% [markdown] id="long-text"
# ## One partition or all of them
#
# If a long row is loaded as it is, it lies in one partition, and 127 lanes of the engine have nothing to do.
# **Predict.** Can the tile be reshaped to [128, 5]?


# %% id="long"
# %%nki --run "spread_on_chip(long)" --expect NKI105
@nki.jit
def spread_on_chip(x):
    tile = nl.load(x).reshape((128, 5))
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% [markdown] id="long-spec"
# ## Your turn: 11.10 One long row on all partitions
#
# ![One long row in HBM is cut into 128 pieces, one for each partition](long_row.svg)
#
# No: what lies in a partition stays there. **Specification.** `triple_flat(x)` returns `3 * x` for one long row `x` [1, n],
# where n is a multiple of 128. All 128 partitions take part: one instruction, two transfers, and n / 128 elements
# in each partition.


# %% id="flat" exercise="11.10"
@nki.jit
def triple_flat(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="flat-check" check="11.10"
check("11.10", triple_flat)

# %% [markdown] id="seen"
# ## What you have seen
#
# * Slices are not shortened. The last tile of each axis gets the remaining size.
# * A view is an offset, strides and counts. It costs nothing, and writing to it writes to its tensor.
# * On the chip the partition axis stays: no broadcast, no reshape, no permutation across it. In HBM all of them are
#   views, so let the transfer do it.
# * A stride of 0 repeats; equal strides overlap; a permuted view cannot be merged without a copy.
# * Read only what you need: the transfer takes slices with steps.
#
# `%nki_exercise` shows which exercises you have solved. Next: [12 Engines](12_engines.ipynb).
