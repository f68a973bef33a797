# %% [markdown] id="title"
# # 14 Debugging clinic
#
# Ten kernels come with ten different complaints. For each one: read what it *should* do, run it, read the symptom,
# **name the cause, then fix it**. The check asks for both. About 60 minutes; you can take the patients in any order.
#
# | what you see | what it tells you |
# |---|---|
# | an error with a line | a rule is broken; the notes show the operands, the help says what to change |
# | a finding (`uninitialized`, `hazard`) | the numbers may be wrong on a device, even if they look right here |
# | NaN | something was never written, or a number became too large on the way |
# | a part is wrong | compare it with the part that is right: what differs? |
# | everything is wrong | try the smallest case, and shapes that are not square |
#
# The causes, one for each patient:
#
# | cause | |
# |---|---|
# | `"bounds"` | a slice reaches past the end of its tensor |
# | `"unwritten"` | a tile is read before anything has written it |
# | `"bank"` | one product is larger than a bank of PSUM |
# | `"accumulate"` | a product is added to an old one that should have been overwritten |
# | `"rounding"` | an intermediate tile has a narrower dtype than the result needs |
# | `"overflow"` | intermediate numbers are too large for their dtype |
# | `"address"` | two tiles that are in use at the same time share bytes |
# | `"capacity"` | the tiles in use at the same time do not fit into SBUF |
# | `"transposed"` | the axes of an operand are swapped |
# | `"race"` | one core reads what the other may not have written yet |

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

rng = np.random.default_rng(seed=14)
x = rng.standard_normal((128, 256), dtype=np.float32)
hot = 100 * x
long = rng.standard_normal((8, 65536), dtype=np.float32)


def whole_numbers(rows, columns, largest=3):
    return rng.integers(-largest, largest + 1, (rows, columns)).astype(np.float32)


# Whole numbers, so that products and sums of them can be checked by hand.
wide = whole_numbers(128, 2048, largest=63)
a, b = whole_numbers(128, 64), whole_numbers(128, 1024)
p, q = whole_numbers(128, 128), whole_numbers(128, 128)

# %% [markdown] id="shift-text"
# ## Patient 1: 14.1 One column to the left
#
# **Specification.** `shifted(x)` moves every column one place to the left: `out[:, j] = x[:, j + 1]`. The last column becomes 0.


# %% id="shift"
# %%nki --run "shifted(x)" --expect NKI106
@nki.jit
def shifted(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    columns = x.shape[1]

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, 1 : columns + 1])

    nisa.dma_copy(dst=out, src=tile)
    return out


# %% [markdown] id="shift-ask"
# The first line of the error names a slice and the axis it does not fit.


# %% id="shift-mend" exercise="14.1"
@nki.jit
def shifted(x): ...  # the kernel from above, mended


# %% id="shift-check" exercise="14.1" check="14.1"
check("14.1", shifted, cause=...)

# %% [markdown] id="sums-text"
# ## Patient 2: 14.2 Sums of nothing
#
# **Specification.** `row_sums(x)` returns the sum of each row, as `[rows, 1]`. It goes through the columns in tiles of 64.


# %% id="sums"
# %%nki --run "row_sums(x)" --check "x.sum(axis=1, keepdims=True, dtype=np.float64)" --show none --expect NKI601
@nki.jit
def row_sums(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)

    for start in range(0, columns, 64):
        stop = min(start + 64, columns)
        tile = nl.ndarray((rows, stop - start), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start:stop])

        part = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=part, data=tile, op=nl.add, axis=1)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)

    nisa.dma_copy(dst=out, src=total)
    return out


# %% [markdown] id="sums-ask"
# Memory that nothing has written holds NaN here, so that such a read cannot go unnoticed. On a device it would hold what
# was there before: often zero, and wrong only on the second call.


# %% id="sums-mend" exercise="14.2"
@nki.jit
def row_sums(x): ...  # the kernel from above, mended


# %% id="sums-check" exercise="14.2" check="14.2"
check("14.2", row_sums, cause=...)

# %% [markdown] id="product-text"
# ## Patient 3: 14.3 A wide product
#
# **Specification.** `product(a, b)` returns `a.T @ b` for `a` [k, m] and `b` [k, n], k and m up to 128, any n.


# %% id="product"
# %%nki --run "product(a, b)" --expect NKI203
@nki.jit
def product(a, b):
    k, m = a.shape
    n = b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    total = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)
    result = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)

    nisa.dma_copy(dst=out, src=result)
    return out


# %% [markdown] id="product-ask"
# Is the data too large, or is one instruction asked to write too much?


# %% id="product-mend" exercise="14.3"
@nki.jit
def product(a, b): ...  # the kernel from above, mended


# %% id="product-check" exercise="14.3" check="14.3"
check("14.3", product, cause=...)

# %% [markdown] id="products-text"
# ## Patient 4: 14.4 The second half is wrong
#
# **Specification.** `products(a, b)` returns `a.T @ b` as well, for n a multiple of 512. It goes through `b` in tiles of 512 columns.


# %% id="products"
# %%nki --run "products(a, b)" --check "a.T @ b" --rtol 1e-4 --show none --expect NKI601
@nki.jit
def products(a, b):
    k, m = a.shape
    n = b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray((k, m), dtype=a.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    total = nl.ndarray((m, 512), dtype=nl.float32, buffer=nl.psum)

    for start in range(0, n, 512):
        columns = slice(start, start + 512)
        right = nl.ndarray((k, 512), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=right, src=b[:, columns])

        nisa.nc_matmul(dst=total, stationary=left, moving=right)

        result = nl.ndarray((m, 512), dtype=a.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(dst=result, src=total)
        nisa.dma_copy(dst=out[:, columns], src=result)
    return out


# %% [markdown] id="products-ask"
# **Predict.** The element that is off the most: in which tile of columns is it? What is its value the sum of?


# %% id="products-mend" exercise="14.4"
@nki.jit
def products(a, b): ...  # the kernel from above, mended


# %% id="products-check" exercise="14.4" check="14.4"
check("14.4", products, cause=...)

# %% [markdown] id="digits-text"
# ## Patient 5: 14.5 Four digits of seven
#
# **Specification.** `mean_square(x)` returns the mean of the squares of each row, as `[rows, 1]` in float32.


# %% id="digits"
# %%nki --run "mean_square(wide)" --check "(wide.astype(np.float64) ** 2).mean(axis=1, keepdims=True)" --show none --expect NKI601
@nki.jit
def mean_square(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    square = nl.ndarray(x.shape, dtype=nl.bfloat16, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=square, data1=tile, data2=tile, op=nl.multiply)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, data=square, op=nl.add, axis=1)
    nisa.tensor_scalar(dst=total, data=total, op0=nl.multiply, operand0=1.0 / columns)

    nisa.dma_copy(dst=out, src=total)
    return out


# %% [markdown] id="digits-ask"
# Nothing is lost and nothing is misplaced, yet the result does not match. Follow one number through its tiles.


# %% id="digits-mend" exercise="14.5"
@nki.jit
def mean_square(x): ...  # the kernel from above, mended


# %% id="digits-check" exercise="14.5" check="14.5"
check("14.5", mean_square, cause=...)

# %% [markdown] id="nan-text"
# ## Patient 6: 14.6 Not a number
#
# **Specification.** `softmax(x)` returns `exp(x) / sum(exp(x))` of each row. With `x` it is right. `hot` is `100 * x`.


# %% id="nan-right"
def right_softmax(x):
    exponentials = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


# %% id="nan"
# %%nki --run "softmax(hot)" --check "right_softmax(hot)" --rtol 1e-4 --show none --expect NKI601
@nki.jit
def softmax(x):
    rows = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    nisa.activation(dst=tile, op=nl.exp, data=tile)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=total, data=tile, op=nl.add, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)

    nisa.dma_copy(dst=out, src=tile)
    return out


# %% [markdown] id="nan-ask"
# The exact result is harmless: numbers between 0 and 1. So something goes wrong on the way.


# %% id="nan-mend" exercise="14.6"
@nki.jit
def softmax(x): ...  # the kernel from above, mended


# %% id="nan-check" exercise="14.6" check="14.6"
check("14.6", softmax, cause=...)

# %% [markdown] id="place-text"
# ## Patient 7: 14.7 Two tiles, one place
#
# **Specification.** `difference(a, b)` returns `a - b` for up to 256 columns. Its author wanted to choose the addresses of the tiles:
# `address=(partition, byte)`.


# %% id="place"
# %%nki --run "difference(x, x[::-1])" --expect NKI302
@nki.jit
def difference(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf, address=(0, 0))
    right = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.sbuf, address=(0, 256))
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)
    nisa.tensor_tensor(dst=left, data1=left, data2=right, op=nl.subtract)
    nisa.dma_copy(dst=out, src=left)
    return out


# %% [markdown] id="place-ask"
# The notes say which bytes each tile takes.


# %% id="place-mend" exercise="14.7"
@nki.jit
def difference(a, b): ...  # the kernel from above, mended


# %% id="place-check" exercise="14.7" check="14.7"
check("14.7", difference, cause=...)

# %% [markdown] id="room-text"
# ## Patient 8: 14.8 Too much at once
#
# **Specification.** `halved(x)` returns `x / 2` for any number of columns.


# %% id="room"
# %%nki --run "halved(long)" --expect NKI301
@nki.jit
def halved(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    half = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=half, data=tile, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out, src=half)
    return out


# %% [markdown] id="room-ask"
# The help names three changes. Which of them works for any number of columns?


# %% id="room-mend" exercise="14.8"
@nki.jit
def halved(x): ...  # the kernel from above, mended


# %% id="room-check" exercise="14.8" check="14.8"
check("14.8", halved, cause=...)

# %% [markdown] id="square-text"
# ## Patient 9: 14.9 Square and wrong
#
# **Specification.** `matmul(a, b)` returns `a @ b` for `a` [m, k] and `b` [k, n], none larger than 128.


# %% id="square"
# %%nki --run "matmul(p, q)" --check "p @ q" --rtol 1e-4 --show none --expect NKI601
@nki.jit
def matmul(a, b):
    m, k = a.shape
    n = b.shape[1]
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)
    left = nl.ndarray((m, k), dtype=a.dtype, buffer=nl.sbuf)
    right = nl.ndarray((k, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=left, src=a)
    nisa.dma_copy(dst=right, src=b)

    total = nl.ndarray((m, n), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=left, moving=right)

    result = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total)
    nisa.dma_copy(dst=out, src=result)
    return out


# %% [markdown] id="square-ask"
# Square arrays hide this kind of mistake: with other shapes it is an error at once. Always try shapes that differ.


# %% id="square-mend" exercise="14.9"
@nki.jit
def matmul(a, b): ...  # the kernel from above, mended


# %% id="square-check" exercise="14.9" check="14.9"
check("14.9", matmul, cause=...)

# %% [markdown] id="cores-text"
# ## Patient 10: 14.10 Two cores, no agreement
#
# **Specification.** `swapped(x)` runs on two cores. Each doubles one half of the columns, leaves it in `staged`, and takes the *other* half
# from there for its part of the result.


# %% id="cores-right"
def swapped_halves(x):
    left, right = np.split(2 * x, 2, axis=1)
    return np.concatenate([right, left], axis=1)


# %% id="cores"
# %%nki --lnc 2 --run "swapped(x)" --check "swapped_halves(x)" --show none --expect NKI601
@nki.jit
def swapped(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    staged = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    half = columns // 2
    core = nl.program_id(0)
    own = slice(core * half, (core + 1) * half)
    other = slice((1 - core) * half, (2 - core) * half)

    tile = nl.ndarray((rows, half), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[:, own])
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=staged[:, own], src=tile)

    nisa.dma_copy(dst=tile, src=staged[:, other])
    nisa.dma_copy(dst=out[:, own], src=tile)
    return out


# %% [markdown] id="cores-ask"
# Look at the finding above the error: it names two lines, one on each core. On a device the result would be right
# some of the time.


# %% id="cores-mend" exercise="14.10"
@nki.jit
def swapped(x): ...  # the kernel from above, mended


# %% id="cores-check" exercise="14.10" check="14.10"
check("14.10", swapped, cause=...)

# %% [markdown] id="seen"
# ## What you have seen
#
# * A compiler error is the friendliest symptom: it has a line. Read its notes before its help.
# * A finding is a mistake that a device would not report.
# * NaN spreads, so look for the first instruction that makes one. `%nki --show stepper` goes there.
# * Wrong in part: compare with the part that is right. Wrong everywhere: try shapes that differ.
# * A test with square, positive, small arrays proves little.
