# %% [markdown] id="title"
# # 12 Engines and fused instructions
#
# A core has several engines that work side by side, and one instruction can do more than one step. You learn to
# choose the engine, and to **fuse** two or three steps into one instruction. About 40 minutes.
#
# | engine | made for | reads and writes |
# |---|---|---|
# | Tensor | products of matrices, transposes | reads SBUF, writes PSUM |
# | Vector | arithmetic with one or two tiles, sums and maxima of rows | SBUF, PSUM |
# | Scalar | functions of one tile: exp, tanh, sqrt | SBUF, PSUM |
# | GpSimd | what the others cannot do: index patterns, exact integers | SBUF only |
# | Sync | starting transfers | no data at all |

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

rng = np.random.default_rng(seed=12)
x = rng.standard_normal((128, 512), dtype=np.float32)
x16 = x.astype(nl.bfloat16)
scale = rng.standard_normal((128, 1), dtype=np.float32)
bias = rng.standard_normal((128, 1), dtype=np.float32)

# %% [markdown] id="choice-text"
# ## The same work on three engines
#
# Most instructions belong to one engine. Some, like `tensor_copy`, run on several, and `engine=` chooses one. Without
# it the compiler chooses.
#
# **Specification.** `copies(x)` copies a tile three times, once with each engine that can.
#
# **Predict.** Which engine is the fastest with float32, and how much faster?


# %% id="choice"
# %%nki --run "copies(x)" --check "np.stack([x, x, x])" --show none
@nki.jit
def copies(x):
    out = nl.ndarray((3, *x.shape), dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    second = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    third = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    nisa.tensor_copy(dst=first, src=tile, engine=nisa.engine.vector)
    nisa.tensor_copy(dst=second, src=tile, engine=nisa.engine.scalar)
    nisa.tensor_copy(dst=third, src=tile, engine=nisa.engine.gpsimd)

    nisa.dma_copy(dst=out[0], src=first)
    nisa.dma_copy(dst=out[1], src=second)
    nisa.dma_copy(dst=out[2], src=third)
    return out


# %% id="choice-times"
def busy(run):
    """Print how many instructions each engine ran, and how long it was busy."""
    summary = run.profile.summary
    for engine in ("vector", "scalar", "gpsimd"):
        count = summary[f"{engine}_engine_instruction_count"]
        time = summary[f"{engine}_engine_active_time"] * 1e9
        print(f"{engine:<8}{count:>3.0f} instructions {time:>7.0f} ns")


busy(copies_result)

# %% [markdown] id="choice-after"
# In float32 none is far ahead: each processes one element per cycle in every partition. What differs is the clock
# rate, and a fixed time that each instruction takes before and after its elements.
#
# **This does not make GpSimd the engine for copies.** Its fixed time is the shortest in the model, but it has no fast
# mode (you will see one in 12.1), it cannot reach PSUM, and it waits while Vector uses its fast mode, because both
# need the same bus. Index patterns and exact integers need GpSimd, so keep it free for them. What you should take from
# the table is that all three can work at the same time: that is the real gain.

# %% [markdown] id="fastest-text"
# ## Your turn: 12.1 The fastest copy
#
# **Predict.** The same kernel with bfloat16, whose elements have half the size. Which engine is busy for the shortest
# time now? Decide first; `busy(copies_result)` also tells you after the next cell.

# %% id="fastest-run"
# %nki --run "copies(x16)" --show none

# %% id="fastest" exercise="12.1" check="12.1"
# one of: "vector", "scalar", "gpsimd"
answer("12.1", ..., copies_result)

# %% [markdown] id="reach-text"
# ## Break it: what an engine cannot reach
#
# **Predict.** A product of the Tensor engine lies in PSUM. May GpSimd fetch it from there?


# %% id="reach"
# %%nki --run "fetch(x16)" --expect NKI203
@nki.jit
def fetch(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    product = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=product, stationary=tile[:, 0:128], moving=tile)

    result = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=product, engine=nisa.engine.gpsimd)
    nisa.dma_copy(dst=out, src=result)
    return out


# %% [markdown] id="fused-text"
# ## Fused instructions
#
# ![activation multiplies, adds, applies a function and may add up each row; tensor_scalar applies two operators with a value for each row; scalar_tensor_tensor applies one with a value and one with a tile](fused.svg)
#
# An instruction streams a tile through its engine, and the engine is a short pipeline: the second and third step cost
# no further pass. Three fused instructions are worth knowing by heart. "One value a row" is a number, or a tile of
# one column.
#
# This kernel computes `tanh(scale * x + bias)` step by step.
#
# **Predict.** Three instructions compute. How many times is the tile read and written, and which engines wait for each other?


# %% id="slow"
# %%nki --run "gate_slowly(x, scale, bias)" --check "np.tanh(scale * x + bias)" --show timeline
@nki.jit
def gate_slowly(x, scale, bias):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    factor = nl.ndarray(scale.shape, dtype=nl.float32, buffer=nl.sbuf)
    shift = nl.ndarray(bias.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=factor, src=scale)
    nisa.dma_copy(dst=shift, src=bias)

    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=factor)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=shift)
    nisa.activation(dst=tile, op=nl.tanh, data=tile)

    nisa.dma_copy(dst=out, src=tile)
    return out


# %% id="slow-busy"
busy(gate_slowly_result)

# %% [markdown] id="slow-after"
# Scalar has run two instructions, although the kernel has only one for it. The other one loads a **table**: Scalar
# computes functions from tables, and has to load the one for `tanh` before its first use. The load counts as an
# instruction below, too.

# %% [markdown] id="gate-spec"
# ## Your turn: 12.2 Scale, shift, function
#
# **Specification.** `gate(x, scale, bias)` returns `tanh(scale * x + bias)` for at most 128 rows in float32 or bfloat16.
# `scale` and `bias` are float32 of shape [rows, 1]. Vector runs nothing, Scalar two instructions (one is the table).


# %% id="gate" exercise="12.2"
@nki.jit
def gate(x, scale, bias):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0]

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    factor = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    shift = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=factor, src=scale)
    nisa.dma_copy(dst=shift, src=bias)
    ...

    nisa.dma_copy(dst=out, src=tile)
    return out


# %% id="gate-check" check="12.2"
check("12.2", gate)

# %% [markdown] id="tables-text"
# ## Tables cost time
#
# Functions are grouped in tables. A function from another table loads that table. Here four parts of a tile get
# `exp`, then `tanh`, part by part. In one run the compiler may choose the order; in the other, `nl.no_reorder()`
# keeps the order of the kernel.
#
# **Predict.** How many tables will be loaded in each case?


# %% id="tables"
def exp_and_tanh(tile):
    for start in range(0, 512, 128):
        part = tile[:, start : start + 128]
        nisa.activation(dst=part, op=nl.exp, data=part)
        nisa.activation(dst=part, op=nl.tanh, data=part)


@nki.jit
def exp_tanh(x, keep_order):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    if keep_order:
        with nl.no_reorder():
            exp_and_tanh(tile)
    else:
        exp_and_tanh(tile)

    nisa.dma_copy(dst=out, src=tile)
    return out


for keep_order in (False, True):
    run = nki_lab.run(exp_tanh, x, keep_order)
    np.testing.assert_allclose(run.value, np.tanh(np.exp(x)), rtol=1e-4)
    tables = list(run.profile.table("Instruction")["opcode"]).count("ACT_TABLE_LOAD")
    print(f"order kept: {keep_order!s:<5}  tables loaded: {tables}  {run.profile.total_ns:>6} ns")

# %% [markdown] id="tables-after"
# If nothing depends on the order, the compiler groups functions of the same table. If each result is needed for the
# next, it cannot: then your choice of functions decides.

# %% [markdown] id="hinge-spec"
# ## Your turn: 12.3 Two operators
#
# `tensor_scalar` computes `(data op0 operand0) op1 operand1`. With `reverse0=True` the first one is
# `operand0 op0 data`, which matters for differences.
#
# **Specification.** `hinge(x, margin)` returns `max(margin - x, 0)`; `margin` is float32 of shape [rows, 1]. Vector runs one
# instruction, and the other engines none.


# %% id="hinge" exercise="12.3"
@nki.jit
def hinge(x, margin):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = x.shape[0]

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    limit = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=limit, src=margin)
    ...

    nisa.dma_copy(dst=out, src=tile)
    return out


# %% id="hinge-check" check="12.3"
check("12.3", hinge)

# %% [markdown] id="momentum-spec"
# ## Your turn: 12.4 A number and a tile
#
# `scalar_tensor_tensor` computes `(data op0 operand0) op1 operand1`, where `operand1` is a tile as large as `data`. Optimizers
# are made of such steps.
#
# **Specification.** `momentum(w, v, g, beta, rate)` returns two arrays: `new_v = beta * v + g` and
# `new_w = w - rate * new_v`, in the order `new_w, new_v`. `beta` and `rate` are numbers. Vector runs two instructions, and the
# other engines none.
#
# **Predict.** How would you write `w - rate * new_v`, when the tile comes last?


# %% id="momentum" exercise="12.4"
@nki.jit
def momentum(w, v, g, beta, rate):
    new_w = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.shared_hbm)
    new_v = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.shared_hbm)

    weight = nl.ndarray(w.shape, dtype=w.dtype, buffer=nl.sbuf)
    speed = nl.ndarray(v.shape, dtype=v.dtype, buffer=nl.sbuf)
    slope = nl.ndarray(g.shape, dtype=g.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=weight, src=w)
    nisa.dma_copy(dst=speed, src=v)
    nisa.dma_copy(dst=slope, src=g)
    ...

    nisa.dma_copy(dst=new_w, src=weight)
    nisa.dma_copy(dst=new_v, src=speed)
    return new_w, new_v


# %% id="momentum-check" check="12.4"
check("12.4", momentum)

# %% [markdown] id="sum-text"
# ## Sums on the way
#
# Scalar has one number in each partition, an **accumulator**, to which it can add what it writes. `reduce_cmd` says
# when it is reset, and `reduce_res` where it is read out. Here `square` is summed over two halves of a row: the first
# instruction resets it, the second adds to it.
#
# **Predict.** How many instructions will Scalar run? Reading out is a separate instruction.


# %% id="sum"
# %%nki --run "energy(whole)" --check "np.square(whole).sum(axis=1, keepdims=True)" --show none
whole = rng.integers(-9, 10, (128, 512)).astype(np.float32)


@nki.jit
def energy(x):
    out = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.shared_hbm)

    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    squares = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    total = nl.ndarray((128, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)

    nisa.activation(
        dst=squares[:, 0:256],
        op=nl.square,
        data=tile[:, 0:256],
        reduce_op=nl.add,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
    )
    nisa.activation(
        dst=squares[:, 256:512],
        op=nl.square,
        data=tile[:, 256:512],
        reduce_op=nl.add,
        reduce_cmd=nisa.reduce_cmd.reduce,
        reduce_res=total,
    )

    nisa.dma_copy(dst=out, src=total)
    return out


# %% id="sum-opcodes"
table = energy_result.profile.table("Instruction")
for engine, opcode in zip(table["engine"], table["opcode"], strict=True):
    if engine == "scalar":
        print(opcode)

# %% [markdown] id="exp-spec"
# ## Your turn: 12.5 Function and sum
#
# **Specification.** `exp_sum(x)` returns two arrays: `exp(x)` in the dtype of `x`, and the sums of its rows in float32, of
# shape [rows, 1]. Scalar runs three instructions (a table, the function, reading out), and the other engines none.


# %% id="exp" exercise="12.5"
@nki.jit
def exp_sum(x):
    rows = x.shape[0]
    e = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    ...
    return e, total


# %% id="exp-check" check="12.5"
check("12.5", exp_sum)

# %% [markdown] id="poly-text"
# ## Choose, and fuse
#
# `cubic_slowly` computes `c0 + c1 x + c2 x² + c3 x³` as `((c3 x + c2) x + c1) x + c0`, piece by piece, with six instructions
# for each piece.
#
# **Predict.** It moves 4 MiB. What will it be bound by?


# %% id="poly"
# %%nki --run "cubic_slowly(long, 0.5, -1.0, 2.0, 0.25)" --check "((0.25 * long + 2.0) * long - 1.0) * long + 0.5" --rtol 1e-4 --show none
long = rng.standard_normal((128, 4096), dtype=np.float32)


@nki.jit
def cubic_slowly(x, c0, c1, c2, c3):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    for start in range(0, columns, 512):
        stop = min(start + 512, columns)
        tile = nl.ndarray((rows, stop - start), dtype=x.dtype, buffer=nl.sbuf)
        y = nl.ndarray((rows, stop - start), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start:stop])

        nisa.tensor_scalar(dst=y, data=tile, op0=nl.multiply, operand0=c3)
        nisa.tensor_scalar(dst=y, data=y, op0=nl.add, operand0=c2)
        nisa.tensor_tensor(dst=y, data1=y, data2=tile, op=nl.multiply)
        nisa.tensor_scalar(dst=y, data=y, op0=nl.add, operand0=c1)
        nisa.tensor_tensor(dst=y, data1=y, data2=tile, op=nl.multiply)
        nisa.tensor_scalar(dst=y, data=y, op0=nl.add, operand0=c0)

        nisa.dma_copy(dst=out[:, start:stop], src=y)
    return out


# %% id="poly-report"
busy(cubic_slowly_result)
print(f"the transfers {cubic_slowly_result.profile.summary['dma_active_time'] * 1e9:>15.0f} ns")

# %% [markdown] id="poly-spec"
# ## Your turn: 12.6 Two engines share
#
# **Specification.** `cubic(x, c0, c1, c2, c3)` returns the same, for at most 128 rows in float32. It passes when
# fused instructions save Vector a third of its work. For the star the transfers have to become the bottleneck: which
# of the steps could an engine do that is idle now?
#
# `activation` with `op=nl.copy` multiplies and adds, and needs no table.


# %% id="cubic" exercise="12.6"
@nki.jit
def cubic(x, c0, c1, c2, c3):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    ...
    return out


# %% id="cubic-check" check="12.6"
check("12.6", cubic)

# %% [markdown] id="seen"
# ## What you have seen
#
# * Engines work at the same time; work for another engine may cost nothing.
# * Narrow dtypes are faster on Vector, and GpSimd cannot reach PSUM.
# * `activation`: scale, bias, function, sum. `tensor_scalar`: two operators. `scalar_tensor_tensor`: one with a number, one
#   with a tile.
# * Keep functions of the same table together.
# * Fuse instructions to remove the bottleneck, not to make the kernel pretty.
#
# Next: [13 Reductions](13_reductions.ipynb).
