# %% [markdown] id="title"
# # 03 Custom operators
#
# A kernel becomes an operator of PyTorch: it takes tensors and returns tensors, and gradients pass through it. You
# write two backward kernels, have a third one made, train a small model through kernels, and find an error in a
# gradient that training does not show. About 20 minutes.
#
# This notebook needs PyTorch: `pip install 'nki-lab[torch]'`. [36](36_jax.ipynb) does the same with JAX.

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

# "No module named 'torch'"? Run %pip install torch in a new cell, then restart the kernel.
import torch

import nki_lab
from nki_lab.autodiff import backward
from nki_lab.exercises import answer, check, hint
from nki_lab.views.charts.curves import CurveChart

rng = np.random.default_rng(seed=3)


def tensor(*shape):
    return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32))


# %% [markdown] id="plain-text"
# ## A kernel alone
#
# This kernel computes `(a + b) * a * b`. Called with tensors, it returns a tensor.


# %% id="plain"
@nki.jit
def product(a, b):
    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    tile_a, tile_b = nl.load(a), nl.load(b)
    total = nl.add(tile_a, tile_b)
    nl.store(out, nl.multiply(total, nl.multiply(tile_a, tile_b)))
    return out


a, b = tensor(6, 4), tensor(6, 4)
print("equal:", torch.allclose(product(a, b), (a + b) * a * b))

# %% [markdown] id="lost-text"
# **Predict.** Now `a` is a weight that is being trained. Does the kernel know how its result changes with `a`?

# %% id="lost"
try:
    product(a.clone().requires_grad_(), b)
except nki_lab.errors.NkiError as error:
    print(error.message)

# %% [markdown] id="operator-text"
# ## An operator
#
# `custom_op` gives the kernel a name in PyTorch. Then `torch.compile`, `torch.func.vmap` and all others know what it
# takes and returns, and run it as a whole. A gradient has to be told: without a backward, asking for one is an error.

# %% id="operator"
forward_only = nki_lab.torch.custom_op("lab::product", product)
batch = torch.stack([a, -a, 2 * a])

print(forward_only)
print("a batch:", torch.func.vmap(forward_only, (0, None))(batch, b).shape)
try:
    forward_only(a.clone().requires_grad_(), b).sum().backward()
except nki_lab.errors.NkiError as error:
    print(error.message)

# %% [markdown] id="product-spec"
# ## Your turn: 03.1 The way back
#
# A loss depends on the result `out`, and PyTorch gives the backward `dout`: how the loss changes with each element of
# `out`. The backward returns how it changes with `a` and with `b`.
#
# **Specification.** `product_backward(dout, a, b)` returns two tensors, `dout` times the derivative of `(a + b) * a * b` by
# `a`, and `dout` times its derivative by `b`. All have the same shape, at most 128 rows, in float32.
#
# `nl.add`, `nl.multiply` and `nl.subtract` take two tiles, or a tile and a number.


# %% id="product" exercise="03.1"
@nki.jit
def product_backward(dout, a, b):
    da = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)
    db = nl.ndarray(b.shape, dtype=b.dtype, buffer=nl.shared_hbm)
    tile_dout, tile_a, tile_b = nl.load(dout), nl.load(a), nl.load(b)
    ...
    return da, db


# %% id="product-check" check="03.1"
check("03.1", product_backward)

# %% [markdown] id="product-op-text"
# Now both kernels become one operator. The names of the backward's arguments say what it takes after the gradient:
# arguments of the kernel, or results of it.
#
# `check_op` tries the operator as PyTorch would use it, and compares each use with the same formula in PyTorch.
# `gradcheck` changes an element of an argument a little and looks how the result changes.

# %% id="product-op" needs="03.1"
trained = nki_lab.torch.custom_op("lab::product", product, backward=product_backward)
print(trained.name)

nki_lab.check_op(
    trained,
    a,
    b,
    reference=lambda a, b: (a + b) * a * b,
    only=("forward", "vmap", "backward", "vmap(grad)", "gradcheck"),
)

# %% [markdown] id="names-text"
# The name `lab::product` was taken, so this is its second version: what was compiled with the first keeps that one.

# %% [markdown] id="rms-text"
# ## A result for the backward
#
# RMSNorm divides each row by its root mean square: `out = x * rstd * gamma` with `rstd = 1 / sqrt(mean(x²) + eps)`. The
# backward needs `rstd` again, so the kernel returns it, too.


# %% id="rms"
@nki.jit
def rmsnorm(x, gamma, eps=1e-6):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rstd = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.shared_hbm)
    tile, weight = nl.load(x), nl.load(gamma.reshape((1, x.shape[1])).broadcast(0, x.shape[0]))

    factor = nl.rsqrt(nl.add(nl.mean(nl.square(tile), axis=1, keepdims=True), eps))
    nl.store(rstd, factor)
    normal = nl.multiply(tile, nl.broadcast_to(factor, x.shape))
    nl.store(out, nl.multiply(normal, weight))
    return out, rstd


def rmsnorm_formula(x, gamma, eps=1e-6):
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + eps) * gamma


x, gamma = tensor(24, 16), 1 + 0.3 * tensor(16)
print("equal:", torch.allclose(rmsnorm(x, gamma)[0], rmsnorm_formula(x, gamma), rtol=1e-4))

# %% [markdown] id="rms-spec"
# ## Your turn: 03.2 RMSNorm, backward
#
# **Specification.** `rmsnorm_backward(dout, x, gamma, rstd)` returns `dx`, of the shape of `x`, and `dgamma`, of the shape
# of `gamma`. There are at most 128 rows and 512 columns, in float32. With `normal = x * rstd` and `h = dout * gamma`:
#
# * `dx = rstd * (h - normal * mean(h * normal))`, with the mean of each row: where a row becomes longer as a whole, the
#   result does not change, so that part of the gradient goes.
# * `dgamma = sum(dout * normal)` **over the rows**, since every row is multiplied by the same `gamma`. Rows lie in
#   different partitions. A product with a column of ones adds them up (notebook [13](13_reductions.ipynb)).


# %% id="rms-back" exercise="03.2"
@nki.jit
def rmsnorm_backward(dout, x, gamma, rstd):
    rows, columns = x.shape
    dx = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    dgamma = nl.ndarray(gamma.shape, dtype=gamma.dtype, buffer=nl.shared_hbm)

    tile, grad = nl.load(x), nl.load(dout)
    weight = nl.load(gamma.reshape((1, columns)).broadcast(0, rows))
    factor = nl.broadcast_to(nl.load(rstd), x.shape)
    ones = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)
    sums = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)

    # 1. normal, h, and the mean of h * normal in each row
    # 2. dx
    # 3. total = ones.T @ (dout * normal): nisa.nc_matmul(dst=total, stationary=ones, moving=...)
    ...

    nisa.tensor_copy(dst=sums, src=total)
    nl.store(dgamma.reshape((1, columns)), sums)
    return dx, dgamma


# %% id="rms-check" check="03.2"
check("03.2", rmsnorm_backward)

# %% [markdown] id="rms-op-text"
# `rstd` is a statistic: the backward takes it as it is, so nobody asks for its gradient.

# %% id="rms-op" needs="03.2"
by_hand = nki_lab.torch.custom_op("lab::rmsnorm", rmsnorm, backward=rmsnorm_backward)
print("without a gradient:", by_hand.no_grad)

nki_lab.check_op(
    by_hand, x, gamma, reference=lambda *a: (rmsnorm_formula(*a),), only=("backward", "gradcheck")
)

# %% [markdown] id="auto-text"
# ## A backward that is made
#
# `backward="auto"` goes through the instructions of the kernel from the last to the first and adds up what each gives
# to the gradients of what it read. The result is a kernel like any other: it runs, it has lines and a time.
#
# **Predict.** Which takes longer with 128 rows of 512, your kernel or this one?

# %% id="auto"
made = nki_lab.torch.custom_op("lab::rmsnorm", rmsnorm, backward="auto")
leaves = x.clone().requires_grad_(), gamma.clone().requires_grad_()
of_formula = x.clone().requires_grad_(), gamma.clone().requires_grad_()

(made(*leaves)[0] ** 3).sum().backward()
(rmsnorm_formula(*of_formula) ** 3).sum().backward()
for name, leaf, wanted in zip(("x", "gamma"), leaves, of_formula):
    print(
        f"gradient of {name}: equal {torch.allclose(leaf.grad, wanted.grad, rtol=1e-3, atol=1e-3)}"
    )

# %% id="auto-time" needs="03.2"
large, weight = torch.ones(128, 512), torch.ones(512)
_, rstd = rmsnorm(large, weight)
derived = backward(rmsnorm, large, weight)

hand_us = nki_lab.run(rmsnorm_backward, large, large, weight, rstd).profile.total_ns / 1000
made_us = nki_lab.run(derived, large, weight, large, rstd).profile.total_ns / 1000
print(f"yours takes {hand_us:.1f} us, the one that was made {made_us:.1f} us")

# %% [markdown] id="auto-after"
# A backward that is made is right without any work, and here hardly slower. One written by hand can keep what the kernel
# has computed, such as `rstd`, and leave out what cancels. So let it be made first, write those by hand in which the time
# goes, and compare.

# %% [markdown] id="layer-text"
# ## Train through kernels
#
# A second layer comes from a colleague: `bend` computes `tanh(x * w + b)`, and brings its backward along.


# %% id="layer"
def rows_of(vector, rows):
    """Return a vector in SBUF, in each of so many rows."""
    return nl.load(vector.reshape((1, vector.shape[0])).broadcast(0, rows))


@nki.jit
def bend(x, w, b):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0]
    nl.store(out, nl.tanh(nl.add(nl.multiply(nl.load(x), rows_of(w, rows)), rows_of(b, rows))))
    return out


@nki.jit
def bend_backward(dout, x, w, out):
    (rows, columns), width = x.shape, w.shape
    dx = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    dw, db = (nl.ndarray(width, dtype=x.dtype, buffer=nl.shared_hbm) for _ in range(2))
    ones = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)

    slope = nl.subtract(1.0, nl.square(nl.load(out)))
    h = nl.multiply(nl.load(dout), slope)
    nl.store(dx, nl.multiply(h, rows_of(w, rows)))
    of_w = nl.multiply(nl.multiply(h, nl.load(x)), rows / (rows - 1))
    for result, terms in ((dw, of_w), (db, h)):
        total = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.psum)
        sums = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.sbuf)
        nisa.nc_matmul(dst=total, stationary=ones, moving=terms)
        nisa.tensor_copy(dst=sums, src=total)
        nl.store(result.reshape((1, columns)), sums)
    return dx, dw, db


bent = nki_lab.torch.custom_op("lab::bend", bend, backward=bend_backward)

# %% [markdown] id="train-text"
# The model: RMSNorm, a matrix, `bend`, another matrix. It learns to tell from four numbers how far their product is from
# their sum. Everything but the two layers is PyTorch.
#
# **Predict.** Will the two losses agree to the last digit, roughly, or not at all?

# %% id="train"
rng = np.random.default_rng(seed=13)
points = tensor(21, 4)
wanted = points.prod(1, keepdim=True) - points.sum(1, keepdim=True)
start = [
    1 + 0.1 * tensor(4),
    tensor(4, 8) / 2,
    1 + 0.1 * tensor(8),
    0.1 * tensor(8),
    tensor(8, 1) / 3,
]


def losses(norm, bend, steps=31, rate=0.05):
    """Return the loss of each step."""
    weights = [part.clone().requires_grad_() for part in start]
    gamma, inner, w, b, last = weights
    optimizer, found = torch.optim.Adam(weights, lr=rate), []
    for _ in range(steps):
        loss = (bend(norm(points, gamma) @ inner, w, b) @ last - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(round(loss.item(), 3))
    return found


by_kernels = losses(lambda *a: made(*a)[0], bent)
by_torch = losses(rmsnorm_formula, lambda x, w, b: torch.tanh(x * w + b))
CurveChart("Loss of the small model", "step", "loss", {"PyTorch": by_torch, "kernels": by_kernels})

# %% [markdown] id="train-after"
# The model learns, and the curves lie on each other. Is everything all right?

# %% [markdown] id="wrong-spec"
# ## Your turn: 03.3 Which gradient is wrong
#
# It is not. One of the three gradients of `bend` is wrong by a few percent. Training hides that: the gradient still points
# the right way, and Adam divides each gradient by its own length. With another optimizer, or where two gradients are
# added up, it would not be hidden.
#
# Let `check_op` try it, with the same formula in PyTorch. It ends in an error, which is printed here. Which gradient is
# wrong?

# %% id="wrong-check"
arguments = tensor(21, 8), 1 + 0.1 * tensor(8), tensor(8)
try:
    nki_lab.check_op(
        bent,
        *arguments,
        reference=lambda x, w, b: torch.tanh(x * w + b),
        only=("forward", "backward"),
    )
except nki_lab.errors.CheckFailed as error:
    print(error.message)

# %% id="wrong-run"
suspect = nki_lab.run(bend_backward, tensor(21, 8), *arguments[:2], bend(*arguments))

# %% id="wrong" exercise="03.3" check="03.3"
# one of: "x", "w", "b"
answer("03.3", ..., suspect)

# %% [markdown] id="percent-spec"
# ## Your turn: 03.4 By how much
#
# By how many percent is it too large, or too small (a negative number), in this run of 21 rows?

# %% id="percent" exercise="03.4" check="03.4"
answer("03.4", ..., suspect)

# %% [markdown] id="percent-after"
# Somebody has divided by one row less, as for the variance of a sample, where a sum belongs. With 21 rows that is five
# percent, with 1000 rows nobody would have seen it in any run of a model. Correct the line, run the cells from there on
# again, and `check_op` is content.

# %% [markdown] id="seen"
# ## What you have seen
#
# * `custom_op` makes a kernel an operator: transforms of PyTorch take it as a whole, and a gradient that it lacks is an
#   error, never a zero.
# * A backward takes the gradients of the results, and what it needs of arguments and results by their names.
# * `backward="auto"` makes one. Kernels of the library have theirs: `custom_op("lab::rope", nki_lab.kernels.rope)`.
# * A loss that falls proves no gradient. `check_op` compares each with a formula, and with differences of values.
#
# Next: [04 Profiling](04_profiling.ipynb).
