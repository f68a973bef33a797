# %% [markdown] id="title"
# # 04 Profiling
#
# You find out what a kernel waits for, change one thing, and measure again. About 30 minutes.
#
# The steps are the same on a device and here: **capture** a run, read the **metrics**, find the
# **bottleneck**, make **one change**, **measure again**. Here every run is captured, and its times are
# modelled; on a device they are measured. The tables are the same.

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

rng = np.random.default_rng(seed=4)
x = rng.standard_normal((512, 1024), dtype=np.float32)
w = rng.standard_normal((1, 1024), dtype=np.float32)

# %% [markdown] id="kernel-text"
# ## The kernel under test
#
# **Specification.** `scaled_exp(x, w)` returns `exp(x) * w`. `w` is one row, and each row of `x` is
# multiplied by it.
#
# A partition sees only its own data, so the row `w` must be in every partition: `w.broadcast(0, n)` is a view
# in which the row is repeated n times, and the DMA writes it n times.

# %% [markdown] id="capture-text"
# ## Capture
#
# **Predict.** Nobody has looked at this kernel's time yet. Which line will be the most expensive?


# %% id="capture"
# %%nki --run "scaled_exp(x, w)" --check "np.exp(x) * w" --rtol 1e-4 --show source
@nki.jit
def scaled_exp(x, w):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    for start in range(0, rows, 128):
        stop = min(start + 128, rows)
        shape = (stop - start, columns)

        tile = nl.ndarray(shape, dtype=x.dtype, buffer=nl.sbuf)
        weight = nl.ndarray(shape, dtype=w.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start:stop])
        nisa.dma_copy(dst=weight, src=w.broadcast(0, stop - start))

        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.tensor_tensor(dst=tile, data1=tile, data2=weight, op=nl.multiply)

        nisa.dma_copy(dst=out[start:stop], src=tile)
    return out


# %% [markdown] id="capture-after"
# The three transfers cost more than the two instructions that compute. The profile of the run is kept in
# `scaled_exp_result.profile`; `profile.save("run.json")` writes it to a file, and `%nki_profile run.json`
# shows it again.

# %% [markdown] id="metrics-text"
# ## Metrics
#
# A profile gives numbers, under the names that Neuron Explorer uses; `%nki_summary` prints all of them.

# %% id="metrics"
summary = scaled_exp_result.profile.summary

for name in ("dma_transfer_count", "dma_transfer_average_bytes", "hbm_read_bytes"):
    print(f"{name:<28}{summary[name]:>12,.0f}")
for name in ("dma", "scalar_engine", "vector_engine"):
    print(f"{name + '_active_time_percent':<36}{summary[name + '_active_time_percent']:>4.0%}")

# %% [markdown] id="traffic-text"
# ## Your turn: 04.1 Bytes for a byte
#
# The kernel reads `x` and writes a result of the same size: at least two bytes must move for each byte of the
# result. How many does this kernel move? Count them in the kernel first, then compute the number from the
# metrics: `hbm_read_bytes`, `hbm_write_bytes` and `dma_transfer_total_bytes` help.

# %% id="traffic-answer" exercise="04.1" check="04.1"
answer("04.1", ..., scaled_exp_result)

# %% [markdown] id="bound-text"
# ## The bottleneck
#
# Each lane of the timeline is an engine or a queue of transfers. The lane without gaps is the bottleneck: if
# anything else becomes faster, the run does not. All queues share the same DMA engines, so look at them
# together, as the curve *DMA throughput* does.
#
# **Predict.** Which lanes have gaps?

# %% id="bound"
# %nki_timeline scaled_exp_result

# %% [markdown] id="bound-ask"
# ## Your turn: 04.2 What bounds it

# %% id="bound-answer" exercise="04.2" check="04.2"
# one of: "tensor", "vector", "scalar", "gpsimd", "dma", "waiting"
answer("04.2", ..., scaled_exp_result)

# %% [markdown] id="gain-text"
# ## Your turn: 04.3 Where time could be won
#
# Before you rewrite a kernel, ask how much you could gain. The model can time the run again as if some part
# took no time.
#
# **Predict.** Exponentials are hard work. What if the Scalar engine computed them in no time at all?

# %% id="gain"
# %nki --run "scaled_exp(x, w)" --show none --what-if free-scalar

# %% [markdown] id="gain-after"
# Nothing changes: the Scalar engine waits for data most of the time, and would only wait longer. Of the four
# changes `free-loads`, `free-stores`, `free-vector`, `free-scalar`, which would help the most? Ask the model
# in the same way, or guess first.

# %% id="gain-answer" exercise="04.3" check="04.3"
answer("04.3", ..., scaled_exp_result)

# %% [markdown] id="change-text"
# ## Your turn: 04.4 One change
#
# ![Loaded in each iteration, the weights are a third of what is moved; loaded once, a ninth](reloads.svg)
#
# **Specification.** `scaled_exp_once(x, w)` returns the same as `scaled_exp`, for any number of rows, and
# loads `w` *once*. With 512 rows that makes nine transfers instead of twelve.
#
# Copy the kernel from above, and move the part that need not be repeated out of the loop.


# %% id="change" exercise="04.4"
@nki.jit
def scaled_exp_once(x, w):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape
    ...
    return out


# %% id="change-check" check="04.4"
check("04.4", scaled_exp_once)

# %% [markdown] id="again-text"
# ## Measure again
#
# A change is an improvement only once you have measured it. The comparison shows where the time went, by
# engine and by line.

# %% id="again" needs="04.4"
before = scaled_exp_result
after = nki_lab.run(scaled_exp_once, x, w)
print(nki_lab.compare(before, after))

# %% [markdown] id="again-after"
# The kernel is still bound by DMA, but has less to move. What remains is `x` in, the result out, and one load
# of `w`: with these inputs on this chip there is not much more to gain. Knowing when to stop is a result,
# too.

# %% [markdown] id="roof-text"
# ## How good could it be?
#
# **Predict.** The model knows how long the transfers alone would take at full rate. How close does your
# kernel come?

# %% id="roof" needs="04.4"
print(after.roofline())

# %% [markdown] id="hunt-text"
# ## Bug hunt: 04.5 The early return
#
# A colleague is proud of `squares`: four times as many rows, and no slower. Here are the times for 128 and
# for 512 rows.


# %% id="hunt"
# %%nki --run "squares(x[:128])" --show none
@nki.jit
def squares(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows, columns = x.shape

    for start in range(0, rows, 128):
        stop = min(start + 128, rows)
        tile = nl.ndarray((stop - start, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start:stop])
        nisa.tensor_tensor(dst=tile, data1=tile, data2=tile, op=nl.multiply)
        nisa.dma_copy(dst=out[start:stop], src=tile)
        return out


# %% id="hunt-all"
# %nki --run "squares(x)" --show none

# %% [markdown] id="hunt-after"
# **Predict.** 512 rows are four tiles: how many transfers should there be? The profile counts them. A time
# that is too good is as suspicious as one that is too long.

# %% id="hunt-count"
print(f"{squares_result.profile.summary['dma_transfer_count']} transfers")

# %% [markdown] id="hunt-ask"
# Name the cause (`"return"`, `"slice"`, `"race"` or `"rounding"`), and fix the kernel: the check asks for
# both.


# %% id="mend" exercise="04.5"
@nki.jit
def squares(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ...
    return out


# %% id="mend-check" exercise="04.5" check="04.5"
check("04.5", squares, cause=...)

# %% [markdown] id="seen"
# ## What you have seen
#
# * A profile says what bounds a run: the lane without gaps, or waiting.
# * Making anything else faster changes nothing; `--what-if` tells you in advance what a change could gain.
# * If a load in a loop always loads the same data, move it before the loop.
# * Measure after each change, and distrust times that are too good.
