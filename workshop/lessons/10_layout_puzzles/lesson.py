# %% [markdown] id="title"
# # 10 Layout puzzles
#
# Fifteen short puzzles about one question: **which element lies where?** Nearly everything that is hard about kernels
# for this chip is a matter of layout: which axis lies across the partitions, which operand must be transposed, what
# fits into a bank, how far away the next element is.
#
# About 60 minutes. An answer is a slice, an access pattern, a number or a small kernel. The checks look at *which
# elements* are touched, not only at values. If the array is small, the check draws a wrong answer: `#` right, `o`
# missing, `x` too many. Do not guess twice: read the drawing.

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

from nki_lab.exercises import answer, check, hint

rng = np.random.default_rng(seed=10)


def whole_numbers(rows, columns):
    return rng.integers(-9, 10, (rows, columns)).astype(np.float32)


# %% [markdown] id="slices-text"
# ## Part 1: rows and columns
#
# ```
#                  free axis: elements 0, 1, 2, ... one after the other
#                +----+----+----+----+----
#   partition 0  | 00 | 01 | 02 | 03 | ...   row 0 of the tile
#                +----+----+----+----+----
#   partition 1  | 10 | 11 | 12 | 13 | ...   row 1
#                +----+----+----+----+----
#        ...
# ```
#
# A tile in SBUF has a **partition axis**, its first one, and a **free axis**. All partitions work at the same time,
# each on its own data. Along the free axis, elements are processed one after the other.
#
# Slices are written as in NumPy. `np.s_[...]` is a slice by itself, without an array:

# %% id="slices"
small = np.arange(12).reshape(3, 4)

where = np.s_[0:2, 1:3]
print(small[where])

# %% [markdown] id="two-partitions-spec"
# ## 10.1 Two partitions
#
# An array of `rows` x `columns` elements is loaded into one tile, as it is. Which elements lie in partitions
# 2 and 3?
#
# Replace `...` by a slice, `np.s_[...]`. It is tried with two sizes.

# %% id="two-partitions" exercise="10.1" check="10.1"
check("10.1", ...)

# %% [markdown] id="odd-columns-spec"
# ## 10.2 The odd columns
#
# The Vector engine is to read columns 1, 3, 5 and so on of a tile, in all partitions. Which slice of the tile is
# that?

# %% id="odd-columns" exercise="10.2" check="10.2"
check("10.2", ...)

# %% [markdown] id="grid-spec"
# ## 10.3 One tile of a grid
#
# ```
#             width   width   width
#           +-------+-------+-------+
#   height  | (0,0) | (0,1) | (0,2) |
#           +-------+-------+-------+
#   height  | (1,0) | (1,1) | (1,2) |
#           +-------+-------+-------+
# ```
#
# An array is cut into a grid of tiles, each `height` x `width`; those at the lower and right edges may be smaller.
# Which elements does tile `(i, j)` hold?
#
# The answer depends on the sizes, so it is a function that returns the slice. Remember that NKI does not
# shorten a slice that reaches past the end.


# %% id="grid" exercise="10.3" check="10.3"
def grid_tile(rows, columns, height, width, i, j):
    # Return a slice: np.s_[first row : end of rows, first column : end of columns].
    ...


check("10.3", grid_tile)

# %% [markdown] id="axis-text"
# ## Part 2: the axis that is summed over
#
# Within a partition the Vector engine can add up any elements. **Predict.** Can it add up the rows of a tile into a
# single row of sums?


# %% id="axis"
# %%nki --run "sum_of_rows(whole_numbers(8, 12))" --expect NKI203
@nki.jit
def sum_of_rows(x):
    out = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    total = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, data=tile, op=nl.add, axis=0)
    nisa.dma_copy(dst=out, src=total)
    return out


# %% [markdown] id="axis-after"
# It cannot: partition 5 does not see what partition 0 holds. Adding up *across* partitions is the job of the **Tensor
# engine**, and its only job:
#
# ![stationary has axes k and m, moving has k and n, both with k across the partitions; the result has m and n](matmul_axes.svg)
#
# `nc_matmul(dst, stationary, moving)` computes `stationary.T @ moving`. It sums over the partition axis of **both**
# operands. The other axes are their free axes. That is the one thing to remember; the rest of this part follows from
# it.

# %% [markdown] id="transposed-tile-spec"
# ## 10.4 One partition of a transposed tile
#
# `a` has `m` rows and `k` columns, and the sum is to run over `k`. So `a` is loaded transposed: `k` becomes
# the partition axis. Which elements of `a` lie in partition `p` then?


# %% id="transposed-tile" exercise="10.4" check="10.4"
def in_partition(m, k, p):
    # Return a slice of `a`.
    ...


check("10.4", in_partition)

# %% [markdown] id="rows-of-product-spec"
# ## 10.5 What a few rows of a product need
#
# `stationary` is `k` x `m`. You want only `count` rows of `stationary.T @ moving`, starting at row `start`. Which
# elements of `stationary` do you need?


# %% id="rows-of-product" exercise="10.5" check="10.5"
def needed(k, m, start, count):
    # Return a slice of `stationary`.
    ...


check("10.5", needed)

# %% [markdown] id="no-transpose-spec"
# ## 10.6 A product without a transpose
#
# **Specification.** `transposed_product(a, b)` returns `a.T @ b` for `a` [k, m] and `b` [k, n] in float32, with
# k and m at most 128 and n at most 512. Three transfers, no transpose.
#
# The skeleton loads. You decide which operand is which, make the result (`nc_matmul` writes to a tile in
# `nl.psum`, in float32), and copy it to a tile `result` in `nl.sbuf`, since transfers do not reach PSUM.


# %% id="no-transpose" exercise="10.6"
@nki.jit
def transposed_product(a, b):
    (k, m), n = a.shape, b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="no-transpose-check" check="10.6"
check("10.6", transposed_product)

# %% [markdown] id="turned-result-spec"
# ## 10.7 The same product, transposed
#
# **Specification.** `turned_result(a, b)` returns `(a.T @ b).T`, which is [n, m]. All sizes are at most 128.
# Three transfers, and still no transpose.
#
# **Predict.** Why is none needed? (As before, the skeleton stores a tile `result` that you make.)


# %% id="turned-result" exercise="10.7"
@nki.jit
def turned_result(a, b):
    (k, m), n = a.shape, b.shape[1]
    out = nl.ndarray((n, m), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="turned-result-check" check="10.7"
check("10.7", turned_result)

# %% [markdown] id="which-text"
# ## Part 3: which transpose?
#
# Sometimes an operand does have its axes the wrong way round. There are several ways to transpose it:
#
# | how | from, to | size | |
# |---|---|---|---|
# | `nisa.nc_transpose` on the Tensor engine | SBUF to PSUM | up to 128 x 128 | a product with the identity |
# | `nisa.nc_transpose` on the Vector engine | SBUF or PSUM, to either | up to 32 x 32 | |
# | `nisa.dma_copy` from `x.permute((1, 0))` | HBM to SBUF | any | one element at a time |
#
# **Predict.** The next two cells load 128 x 96 numbers and store them transposed, one in the last way, one in the
# first. Which one is faster, although it has more instructions?


# %% id="by-transfer"
# %%nki --run "turned_by_transfer(tall)" --check "tall.T" --show none
tall = whole_numbers(128, 96)


@nki.jit
def turned_by_transfer(x):
    out = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x.permute((1, 0)))
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% id="by-tensor"
# %%nki --run "turned_by_tensor(tall)" --check "tall.T" --show none
@nki.jit
def turned_by_tensor(x):
    out = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    turned = nl.ndarray(x.shape[::-1], dtype=x.dtype, buffer=nl.psum)
    nisa.nc_transpose(dst=turned, data=tile)
    nisa.dma_copy(dst=out, src=nl.copy(turned))
    return out


# %% id="which-compare"
slow, fast = turned_by_transfer_result.profile, turned_by_tensor_result.profile

assert fast.total_ns < slow.total_ns
print(
    f"by transfer {slow.total_ns / 1000:.2f} us, by the Tensor engine {fast.total_ns / 1000:.2f} us"
)

# %% [markdown] id="which-after"
# A transfer is fast when it moves long pieces. Column by column, each piece is a single element of 4 bytes.

# %% [markdown] id="one-transpose-spec"
# ## 10.8 A product with one transpose
#
# **Specification.** `plain_product(a, b)` returns `a @ b` for `a` [m, k] and `b` [k, n] in float32, with m and k at
# most 128 and n at most 512. One of the two operands has its axes the wrong way round: transpose that one, with the
# Tensor engine.
#
# Ask of each operand: is the axis that is summed over its first one? And note that the operands of
# `nc_matmul` come from SBUF, while `nc_transpose` on the Tensor engine writes to PSUM (in the dtype of its
# `data`).


# %% id="one-transpose" exercise="10.8"
@nki.jit
def plain_product(a, b):
    (m, k), n = a.shape, b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray((m, k), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="one-transpose-check" check="10.8"
check("10.8", plain_product)

# %% [markdown] id="row-products-spec"
# ## 10.9 All products of rows
#
# **Specification.** `row_products(x)` returns `x @ x.T` for `x` [rows, columns] in float32, both at most 128. Two
# transfers, *one* transpose, one product.


# %% id="row-products" exercise="10.9"
@nki.jit
def row_products(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, rows), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="row-products-check" check="10.9"
check("10.9", row_products)

# %% [markdown] id="squares-spec"
# ## 10.10 A transpose made of squares
#
# ```
#   +---+---+         +-----+-----+
#   | A | B |         | A.T | C.T |
#   +---+---+   -->   +-----+-----+
#   | C | D |         | B.T | D.T |
#   +---+---+         +-----+-----+
# ```
#
# **Specification.** `turn_in_squares(x)` returns `x.T` for a square `x` in float32 whose size is 32, 64, 96 or 128.
# The Tensor engine is busy with other things: use only the Vector engine (`engine=nisa.engine.vector`), which
# transposes at most 32 x 32 at a time.


# %% id="squares" exercise="10.10"
@nki.jit
def turn_in_squares(x):
    size = x.shape[0]
    out = nl.ndarray((size, size), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray((size, size), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    turned = nl.ndarray((size, size), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(0, size, 32):
        ...

    nisa.dma_copy(dst=out, src=turned)
    return out


# %% id="squares-check" check="10.10"
check("10.10", turn_in_squares)

# %% [markdown] id="banks-text"
# ## Part 4: banks of PSUM
#
# ![PSUM has eight banks side by side, each with 2048 bytes of each partition; a tile of 600 float32 columns reaches into the second bank](psum_banks.svg)
#
# PSUM has eight **banks**, and a product of `nc_matmul` must fit into one of them. In each partition a bank has
# 2048 bytes.
#
# **Predict.** What happens if one product is wider than that?


# %% id="banks"
# %%nki --run "too_wide(stationary, moving)" --expect NKI203
stationary, moving = whole_numbers(64, 48), whole_numbers(64, 1200)


@nki.jit
def too_wide(a, b):
    left, right = nl.load(a), nl.load(b)
    total = nl.ndarray((a.shape[1], b.shape[1]), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.copy(total))
    return out


# %% [markdown] id="how-many-spec"
# ## 10.11 How many banks?
#
# So the product is made in pieces, each in its own bank. The kernel below has *one* tile `total` of 48 x 1200 float32
# numbers. How many banks does that tile take?


# %% id="how-many-run"
# %%nki --run "in_pieces(stationary, moving)" --check "stationary.T @ moving" --show none --quiet
@nki.jit
def in_pieces(a, b):
    left, right = nl.load(a), nl.load(b)
    columns = b.shape[1]
    total = nl.ndarray((a.shape[1], columns), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, columns, 512):
        piece = slice(start, min(start + 512, columns))
        nisa.nc_matmul(dst=total[:, piece], stationary=left, moving=right[:, piece])
    out = nl.ndarray(total.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.copy(total))
    return out


# %% id="how-many" exercise="10.11" check="10.11"
answer("10.11", ..., in_pieces_result)

# %% [markdown] id="in-a-bank-spec"
# ## 10.12 What lies in one bank
#
# A tile in PSUM has `rows` x `columns` elements of `itemsize` bytes, and begins at the start of bank 0. Which of
# its elements lie in bank number `bank`? The last bank may be filled only in part.


# %% id="in-a-bank" exercise="10.12" check="10.12"
def in_bank(rows, columns, itemsize, bank):
    # Return a slice of the tile.
    ...


check("10.12", in_bank)

# %% [markdown] id="one-bank-spec"
# ## 10.13 A wide product in one bank
#
# **Specification.** `one_bank(a, b)` returns `a.T @ b` for `a` [k, m] and `b` [k, n] in float32, with k and m at most
# 128 and *any* n. It uses **one** bank of PSUM, so that the others stay free, and stores with one transfer.
#
# The skeleton has the bank and a wide tile in SBUF for the result. What is missing is the loop over the pieces.
# Remember that the last one may be narrower. And remember that a bank keeps its contents: a product is *added* to
# what the kernel has put there before, unless it says `accumulate=False`.


# %% id="one-bank" exercise="10.13"
@nki.jit
def one_bank(a, b):
    (k, m), n = a.shape, b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)

    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    result = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.sbuf)
    total = nl.ndarray((m, 512), dtype=nl.float32, buffer=nl.psum)
    for start in range(0, n, 512):
        ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="one-bank-check" check="10.13"
check("10.13", one_bank)

# %% [markdown] id="strides-text"
# ## Part 5: strides
#
# ![An array of 3 x 5 and the same elements one after the other in memory; the pattern comes to the elements 6, 8, 11 and 13](strides.svg)
#
# In memory there are no rows: `x[i, j]` of an array with 5 columns is element `5 * i + j`. A view is an **access
# pattern**: where it begins and, for each axis, how far apart the elements are (the stride) and how many there are. A
# slice has such a pattern, too:


# %% id="strides"
# %%nki --run "show_pattern(whole_numbers(3, 5))" --show none --quiet
@nki.jit
def show_pattern(x):
    view = x[1:3, 1:5:2]
    print("pattern", view.get_pattern(), "offset", view.offset)
    out = nl.ndarray(view.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=nl.load(view))
    return out


# %% [markdown] id="strides-after"
# With `.ap` you write the pattern yourself: `x.ap(pattern=[[5, 2], [2, 2]], offset=6)` is the same view. The **last**
# pair runs fastest, as the last axis does. A pattern can also do things that no slice can.

# %% [markdown] id="by-columns-spec"
# ## 10.14 Column by column
#
# Which pattern reads an array of `rows` x `columns` column by column: first all of column 0 from top to bottom, then
# column 1, and so on? Here the *order* of the elements counts, too.
#
# Answer with a function that returns the arguments of `.ap` as a dictionary, with `"offset"` if it is not 0.


# %% id="by-columns" exercise="10.14" check="10.14"
def by_columns(rows, columns):
    # Return {"pattern": [[stride, count], [stride, count]]}.
    ...


check("10.14", by_columns)

# %% [markdown] id="diagonal-spec"
# ## 10.15 The diagonal
#
# Which pattern reads the diagonal of an array, [0, 0], [1, 1], [2, 2] and so on, until the rows or the columns
# end?


# %% id="diagonal" exercise="10.15" check="10.15"
def diagonal(rows, columns):
    # Return {"pattern": [[stride, count]]}.
    ...


check("10.15", diagonal)

# %% [markdown] id="seen"
# ## What you have seen
#
# * Row *i* of a tile lies in partition *i*. Partitions do not see each other, except through the Tensor engine.
# * `nc_matmul` sums over the partition axis of both operands. Swapping them transposes the result.
# * Before you transpose, check whether the axis to sum over is already the first one.
# * A product fits into a bank: 2048 bytes of each partition, 512 float32 numbers. A bank can be reused.
# * A view is an offset, strides and counts. A slice is a simple one.
#
# `%nki_exercise` shows which puzzles you have solved. Next: [11 Indexing and access patterns](11_indexing.ipynb).
