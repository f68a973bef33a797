# %% [markdown] id="title"
# # 13 Reductions
#
# A reduction turns many numbers into one: a maximum, a sum, a mean. Softmax and the normalizations are made of them,
# and they are where kernels go wrong quietly: with negative rows, with large numbers, with narrow dtypes. You write
# six kernels that do not. About 50 minutes.

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

rng = np.random.default_rng(seed=13)
x = rng.standard_normal((128, 512), dtype=np.float32)

# %% [markdown] id="axes-text"
# ## Two directions
#
# ![Along a row each partition reduces what lies in it; down the columns a product with ones adds up across partitions](reduce.svg)
#
# A row lies in one partition, so all 128 rows can be reduced at once, independently. Down a column the numbers lie in
# different partitions, which do not see each other.
#
# **Predict.** `axis=0` is the partition axis. What does `tensor_reduce` do with it?


# %% id="axes"
# %%nki --run "wrong_axis(x)" --expect NKI203
@nki.jit
def wrong_axis(x):
    out = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    largest = nl.ndarray((1, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=tile, axis=0)
    nisa.dma_copy(dst=out, src=largest)
    return out


# %% [markdown] id="start-text"
# ## What to start from
#
# This kernel goes through a row in pieces and keeps the largest number so far, starting from zero.
#
# **Predict.** For which rows is that wrong?


# %% id="start"
# %%nki --run "max_from_zero(x)" --check "x.max(axis=1, keepdims=True)" --show none
@nki.jit
def max_from_zero(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    largest = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=largest, value=0.0)

    for start in range(0, columns, 128):
        tile = nl.ndarray((rows, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start : start + 128])
        here = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=here, op=nl.maximum, data=tile, axis=1)
        nisa.tensor_tensor(dst=largest, data1=largest, data2=here, op=nl.maximum)

    nisa.dma_copy(dst=out, src=largest)
    return out


# %% [markdown] id="start-after"
# It matches: among 512 random numbers of both signs at least one is positive. A test with ordinary numbers proves
# little. Now the same numbers, minus 10:

# %% id="start-negative"
wrong = max_from_zero(x - 10)
print(
    f"{np.sum(wrong == 0)} of {wrong.size} rows have the maximum 0, and all their numbers are negative"
)

# %% [markdown] id="max-spec"
# ## Your turn: 13.1 The largest of a long row
#
# **Specification.** `row_max(x)` returns the largest number of each row, shape [rows, 1], for at most 128 rows in float32 and
# *any* number of columns. A row of 70 000 is longer than a partition of SBUF, so go through it in pieces.
#
# What is the maximum of nothing? You need no answer if each piece writes its own maximum, and those are reduced at the end.


# %% id="max" exercise="13.1"
@nki.jit
def row_max(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="max-check" check="13.1"
check("13.1", row_max)

# %% [markdown] id="column-text"
# ## Down the columns
#
# GpSimd has an instruction that reduces across partitions, `tensor_partition_reduce`. A product is often better:
# `nc_matmul` computes `stationary.T @ moving`, and with a column of ones as `stationary` that is the sum of each
# column. It has another advantage. Products that go to the same place in PSUM are added up, so the sum can go on over
# many tiles.

# %% [markdown] id="column-spec"
# ## Your turn: 13.2 Sums down the columns
#
# **Specification.** `column_sum(x)` returns the sum of each column, shape [1, columns], for *any* number of rows and at most
# 512 columns, in float32 or bfloat16.


# %% id="column" exercise="13.2"
@nki.jit
def column_sum(x):
    rows, columns = x.shape
    out = nl.ndarray((1, columns), dtype=x.dtype, buffer=nl.shared_hbm)

    ones = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)

    for start in range(0, rows, 128):
        size = min(128, rows - start)
        ...

    sums = nl.ndarray((1, columns), dtype=x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(dst=sums, src=total)
    nisa.dma_copy(dst=out, src=sums)
    return out


# %% id="column-check" check="13.2"
check("13.2", column_sum)

# %% [markdown] id="naive-text"
# ## Softmax, as the formula says
#
# `softmax(x)` of a row is `exp(x) / sum(exp(x))`.
#
# **Predict.** What does this kernel return for `x`, and what for `10000 * x`?


# %% id="naive"
# %%nki --run "softmax_by_formula(x)" --check "np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)" --rtol 1e-4 --quiet
@nki.jit
def softmax_by_formula(x):
    rows = x.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    nisa.activation(dst=tile, op=nl.exp, data=tile)
    nisa.tensor_reduce(dst=total, op=nl.add, data=tile, axis=1)
    nisa.reciprocal(dst=total, data=total)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=total)

    nisa.dma_copy(dst=out, src=tile)
    return out


# %% id="naive-hot"
hot = np.float32(10000) * x
result = softmax_by_formula(hot)

print(f"{np.isnan(result).any(axis=1).sum()} of {len(result)} rows hold NaN")
print(f"the largest float32 is {np.finfo(np.float32).max:.2g}, and exp(89) is {np.exp(89.0):.2g}")

# %% [markdown] id="naive-after"
# For `x` it was right: with `--quiet` a check that holds prints nothing. But the exponential of a number above 88 is
# too large for float32: it is infinite, and infinity times 1 / infinity is NaN. The remedy costs nothing. Divide
# numerator and denominator by the same number, `exp(m)` with `m = max(x)`, and the quotient stays the same: `exp(x -
# m) / sum(exp(x - m))`.
#
# Now the largest exponent is 0. Numbers far below the maximum become 0, as they should.

# %% [markdown] id="softmax-spec"
# ## Your turn: 13.3 A stable softmax
#
# **Specification.** `softmax(x)` returns the softmax of each row, for any number of rows, in float32 or bfloat16. It is tried
# with numbers around ±10 000.
#
# Fused steps earn the star. Three helpers: `tensor_reduce(..., negate=True)` gives `-m`; `activation` takes it as
# `bias`; and it can add up what it writes (notebook 12).


# %% id="softmax" exercise="13.3"
@nki.jit
def softmax(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    for start in range(0, rows, 128):
        stop = min(start + 128, rows)
        ...

    return out


# %% id="softmax-check" check="13.3"
check("13.3", softmax)

# %% [markdown] id="narrow-text"
# ## Narrow sums
#
# Engines compute in float32, and round when they write. A bfloat16 has 8 significant bits. This kernel adds 512 ones, one
# column after the other, and keeps the sum in a tile of the dtype of `total`.
#
# **Predict.** What is the sum in float32, and what in bfloat16?


# %% id="narrow"
@nki.jit
def count_up(ones, total):
    out = nl.ndarray(total.shape, dtype=total.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(ones.shape, dtype=ones.dtype, buffer=nl.sbuf)
    so_far = nl.ndarray(total.shape, dtype=total.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=ones)
    nisa.dma_copy(dst=so_far, src=total)

    for j in range(ones.shape[1]):
        nisa.tensor_tensor(dst=so_far, data1=so_far, data2=tile[:, j : j + 1], op=nl.add)

    nisa.dma_copy(dst=out, src=so_far)
    return out


ones = np.ones((1, 512), np.float32)
for dtype in (nl.float32, nl.bfloat16):
    total = count_up(ones, np.zeros((1, 1), dtype))
    print(f"{total.dtype!s:<9} {float(total[0, 0]):.0f}")

# %% [markdown] id="narrow-after"
# From 256 on, adding 1 to a bfloat16 changes nothing: the next one is 258, and halfway is rounded to the even 256. So
# keep sums in float32, and round once, at the end. An accumulator of an engine is float32 anyway.

# %% [markdown] id="rms-spec"
# ## Your turn: 13.4 RMSNorm
#
# **Specification.** `rmsnorm(x, w, eps)` returns `x / sqrt(mean(x²) + eps) * w`, the mean over each row. `x` has at most
# 128 rows, `w` is one row, both in float32 or both in bfloat16. `eps` is a number, and matters when `x` is small.
#
# The mean is the sum times `1 / columns`, and `activation` multiplies by `scale` before its function. `nl.rsqrt` is
# `1 / sqrt`. `w.broadcast(0, rows)` repeats the row.


# %% id="rms" exercise="13.4"
@nki.jit
def rmsnorm(x, w, eps):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    weight = nl.ndarray(x.shape, dtype=w.dtype, buffer=nl.sbuf)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=weight, src=w.broadcast(0, rows))

    # 1. the sum of squares of each row, in float32
    # 2. factor = 1 / sqrt(sum / columns + eps)
    # 3. result = tile * factor * weight
    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="rms-check" check="13.4"
check("13.4", rmsnorm)

# %% [markdown] id="cancel-text"
# ## Small differences of large numbers
#
# LayerNorm subtracts the mean, then divides by the standard deviation. One formula for the variance needs only one
# pass: `mean(x²) - mean(x)²`.
#
# **Predict.** `far` has the mean 1000 and the standard deviation 0.2. How large are the two terms, and how much of
# their difference survives in float32, which has 7 digits?


# %% id="cancel"
# %%nki --run "variance(far)" --show none
far = (1000 + 0.2 * rng.standard_normal((128, 512))).astype(np.float32)


@nki.jit
def variance(x):
    rows, columns = x.shape
    out = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    squares = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    mean = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    square = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=squares, data1=tile, data2=tile, op=nl.multiply)
    nisa.tensor_reduce(dst=mean, op=nl.add, data=tile, axis=1)
    nisa.tensor_reduce(dst=square, op=nl.add, data=squares, axis=1)

    nisa.tensor_scalar(dst=mean, data=mean, op0=nl.multiply, operand0=1 / columns)
    nisa.tensor_scalar(dst=square, data=square, op0=nl.multiply, operand0=1 / columns)
    nisa.tensor_tensor(dst=mean, data1=mean, data2=mean, op=nl.multiply)
    nisa.tensor_tensor(dst=square, data1=square, data2=mean, op=nl.subtract)
    nisa.dma_copy(dst=out, src=square)
    return out


# %% id="cancel-check"
exact = far.astype(np.float64).var(axis=1)
found = variance_result.value[:, 0]

print(f"right: between {exact.min():.2f} and {exact.max():.2f}")
print(f"some are wrong by more than half: {(np.abs(found / exact - 1) > 0.5).any()}")

# %% [markdown] id="cancel-after"
# Both terms are about a million, and differ in the eighth digit, which float32 does not have. There are two safe
# ways: subtract the mean first and square the rest; or use `bn_stats`, which reads up to 512 numbers in each
# partition and writes six (statistics of the even and the odd positions). `bn_aggr` combines them into two: mean and
# variance.

# %% [markdown] id="layer-spec"
# ## Your turn: 13.5 LayerNorm, far from zero
#
# **Specification.** `layernorm(x, eps)` returns `(x - mean) / sqrt(variance + eps)` for at most 128 rows and at most 512
# columns in float32, also when the mean is 1000 and the standard deviation small.


# %% id="layer" exercise="13.5"
@nki.jit
def layernorm(x, eps):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="layer-check" check="13.5"
check("13.5", layernorm)

# %% [markdown] id="back-spec"
# ## Your turn: 13.6 The way back
#
# Training needs the gradient. If `y` is the softmax of a row and `dy` the gradient of a loss with respect to `y`, the gradient
# with respect to `x` is `y * (dy - sum(y * dy))`, with the sum over the row.
#
# First test the formula, without a kernel: how does the loss change if `x` changes a little?

# %% id="back-formula"
small, d_small = rng.standard_normal((2, 4, 6))


def softmax_of(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def loss(x):
    return np.sum(softmax_of(x) * d_small)


y = softmax_of(small)
gradient = y * (d_small - np.sum(y * d_small, axis=1, keepdims=True))
step = 1e-6 * rng.standard_normal(small.shape)
by_formula = np.sum(gradient * step)
by_difference = (loss(small + step) - loss(small - step)) / 2

assert abs(by_formula - by_difference) < 1e-6 * abs(by_formula)
print("the formula agrees with the difference")

# %% [markdown] id="back-spec-2"
# **Specification.** `softmax_backward(y, dy)` returns that gradient, for at most 128 rows in float32 or bfloat16. Three
# instructions of Vector are enough: the third one subtracts and multiplies.


# %% id="back" exercise="13.6"
@nki.jit
def softmax_backward(y, dy):
    dx = nl.ndarray(y.shape, dtype=y.dtype, buffer=nl.shared_hbm)
    rows = y.shape[0]
    ...
    return dx


# %% id="back-check" check="13.6"
check("13.6", softmax_backward)

# %% [markdown] id="seen"
# ## What you have seen
#
# * Along a row each partition reduces its own data; across partitions a product with ones adds up.
# * Start from the first piece, not from zero; test with rows that are negative throughout.
# * Subtract the maximum before `exp`, and the mean before squaring.
# * Keep sums in float32, round once.
# * Reductions on the way are free: `activation` adds up what it writes.
#
# Next: [14 Debugging clinic](14_debugging_clinic.ipynb).
