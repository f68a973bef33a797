# %% [markdown] id="title"
# # 36 Kernels in JAX
#
# A kernel becomes an operator of JAX: `jit`, `grad`, `vmap` and `scan` go through it. You write the backward of a step,
# let JAX repeat the step over time, and train what it depends on. About 15 minutes.
#
# This notebook needs JAX: `pip install 'nki-lab[jax]'`. [03](03_custom_operators.ipynb) does the same with PyTorch, and
# says more about backward kernels.

# %% [markdown] id="load-text"
# ## Load the extension

# %% id="load"
...

# %% id="target"
# %nki_target trn2

# %% id="inputs"
# "No module named 'jax'"? Run %pip install jax in a new cell, then restart the kernel.
import jax
import jax.numpy as jnp
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

import nki_lab
from nki_lab.exercises import check, hint

rng = np.random.default_rng(seed=36)


def array(*shape):
    return jnp.asarray(rng.standard_normal(shape, dtype=np.float32))


# %% [markdown] id="plain-text"
# ## A step
#
# A state `h` moves towards an input `x`, and a gate `g` between 0 and 1 says how far: `h + g * (x - h)`. All three have
# the same shape. Called with arrays of JAX, the kernel returns one.


# %% id="plain"
@nki.jit
def blend(h, x, g):
    out = nl.ndarray(h.shape, dtype=h.dtype, buffer=nl.shared_hbm)
    tile = nl.load(h)
    step = nl.multiply(nl.load(g), nl.subtract(nl.load(x), tile))
    nl.store(out, nl.add(tile, step))
    return out


def blend_formula(h, x, g):
    return h + g * (x - h)


h, x, g = array(5, 8), array(5, 8), jax.nn.sigmoid(array(5, 8))
print(type(blend(h, x, g)).__name__, jnp.allclose(blend(h, x, g), blend_formula(h, x, g)))

# %% [markdown] id="traced-text"
# **Predict.** `jax.jit` calls a function once, with *tracers*: arrays that have a shape and no values. What can a kernel
# make of them?

# %% id="traced"
try:
    jax.jit(blend)(h, x, g)
except nki_lab.errors.NkiError as error:
    print(error.message)

# %% [markdown] id="operator-text"
# ## An operator
#
# `custom_op` tells JAX which shapes the kernel returns, without running it, and has it called when the values are there
# (`jax.pure_callback`). Arguments that are no arrays are constants of the program.

# %% id="operator"
forward_only = nki_lab.jax.custom_op("lab::blend", blend)

print("jit:       ", jnp.allclose(jax.jit(forward_only)(h, x, g), blend_formula(h, x, g)))
print("eval_shape:", jax.eval_shape(forward_only, h, x, g))
try:
    jax.grad(lambda h: forward_only(h, x, g).sum())(h)
except nki_lab.errors.NkiError as error:
    print("grad:      ", error.message)

# %% [markdown] id="back-spec"
# ## Your turn: 36.1 The way back
#
# **Specification.** `blend_backward(dout, h, x, g)` returns three tensors of the same shape: how the loss changes with `h`,
# with `x` and with `g`, where `dout` says how it changes with the result `h + g * (x - h)`. There are at most 128 rows,
# in float32.


# %% id="back" exercise="36.1"
@nki.jit
def blend_backward(dout, h, x, g):
    dh, dx, dg = (nl.ndarray(h.shape, dtype=h.dtype, buffer=nl.shared_hbm) for _ in range(3))
    grad, state, new, gate = nl.load(dout), nl.load(h), nl.load(x), nl.load(g)
    ...
    return dh, dx, dg


# %% id="back-check" check="36.1"
check("36.1", blend_backward)

# %% [markdown] id="check-text"
# `check_op` compares the operator with the formula under what JAX can do with a function. `check_grads` changes the
# arguments a little and looks how the result changes.

# %% id="check-op" needs="36.1"
yours = nki_lab.jax.custom_op("lab::blend", blend, backward=blend_backward)
nki_lab.check_op(
    yours,
    h,
    x,
    g,
    reference=blend_formula,
    only=("forward", "jit", "vmap", "grad", "vmap(grad)", "check_grads"),
)

# %% [markdown] id="auto-text"
# ## A backward that is made
#
# `backward="auto"` makes the backward from the instructions of the kernel. What follows uses this one.

# %% id="auto"
step = nki_lab.jax.custom_op("lab::blend", blend, backward="auto")


def loss(function, h, x, g):
    return (function(h, x, g) ** 3).sum()


for name, found, wanted in zip(
    "hxg",
    jax.grad(loss, (1, 2, 3))(step, h, x, g),
    jax.grad(loss, (1, 2, 3))(blend_formula, h, x, g),
):
    print(f"gradient of {name}: equal {jnp.allclose(found, wanted, rtol=1e-4, atol=1e-5)}")

# %% [markdown] id="vmap-text"
# ## A batch
#
# **Predict.** `vmap` adds an axis to a function. The kernel was written for two axes. What does it get?

# %% id="vmap"
seen = []


@nki_lab.jax.custom_op("lab::watched")
@nki.jit
def watched(h, x, g):
    seen.append(h.shape)
    return blend(h, x, g)


batch = jnp.stack([x, 2 * x, -x])
print("result:", jax.vmap(watched, (None, 0, None))(h, batch, g).shape)
print("shapes that the kernel was traced with:", sorted(set(seen)))

# %% [markdown] id="vmap-after"
# Each element of the batch goes through the kernel alone, one after the other, and its program is compiled once. That
# is right for every kernel. Where batches are large, write a kernel that takes the axis itself: it can fill all
# 128 partitions.

# %% [markdown] id="scan-text"
# ## Over time
#
# `scan` repeats the step for each input of a series, and `grad` goes back through all of them. The gate is the same in
# every step, so its gradient is a sum over time.

# %% id="scan"
series = array(12, 5, 8)


def states(function, gate):
    """Return the state after each input, from zeros."""

    def one(h, x):
        h = function(h, x, gate)
        return h, h

    return jax.lax.scan(one, jnp.zeros((5, 8)), series)[1]


def error(function, logits, target):
    return jnp.square(states(function, jax.nn.sigmoid(logits)) - target).sum()


target = states(blend_formula, jnp.full((5, 8), 0.3))
logits = jnp.zeros((5, 8))
found = jax.jit(jax.grad(error, 1), static_argnums=0)(step, logits, target)
wanted = jax.grad(error, 1)(blend_formula, logits, target)
print("jit(grad(scan)): equal", jnp.allclose(found, wanted, rtol=1e-3, atol=1e-4))

# %% [markdown] id="train-text"
# **Predict.** The target was made with gates of 0.3. Does training find them, from gates of 0.5?

# %% id="train"
update = jax.jit(jax.value_and_grad(error, 1), static_argnums=0)
for name, function in (("kernel", step), ("formula", blend_formula)):
    logits, losses = jnp.zeros((5, 8)), []
    for _ in range(21):
        loss_now, slope = update(function, logits, target)
        logits = logits - 0.3 * slope
        losses.append(float(loss_now))
    gates = jax.nn.sigmoid(logits)
    print(f"{name}: loss {losses[0]:.2f}, {losses[5]:.2f}, {losses[20]:.2f}")
    print(f"    gates {gates.min():.2f} to {gates.max():.2f}")

# %% [markdown] id="loud-text"
# ## What there is not
#
# A derivative that the operator lacks ends in an error that names it. It is never silently zero.

# %% id="loud"
for what, call in (
    ("jvp", lambda: jax.jvp(lambda h: step(h, x, g), (h,), (h,))),
    ("grad(grad)", lambda: jax.hessian(lambda h: loss(step, h, x, g))(h)),
):
    try:
        call()
    except nki_lab.errors.NkiError as error_:
        print(f"{what}: {error_.message}")

# %% [markdown] id="seen"
# ## What you have seen
#
# * `nki_lab.jax.custom_op` makes a kernel an operator: `jit`, `vmap`, `grad` and `scan` take it as a whole.
# * The backward is a kernel, too: yours, or one that is made of the instructions.
# * On the simulator the kernel is a callback into Python, which is why `vmap` calls it for each element.
# * `check_op` compares all of that with a formula, by value.
