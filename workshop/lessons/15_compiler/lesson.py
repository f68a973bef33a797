# %% [markdown] id="title"
# # 15 What the compiler does
#
# There is a compiler between your function and the engines. You follow one kernel through it: from the source to a
# program, and through the passes that clean it up, assign engines and addresses, order it and insert waits. Each step
# has a view, and before each view you predict what you will see. About 40 minutes.
#
# ![Your function is run once and becomes a list of instructions, which passes clean, place, order and make wait](passes.svg)
#
# The passes are those of nki_lab. The compiler of the Neuron SDK has others, and does the same work.

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

rng = np.random.default_rng(seed=15)
x = rng.standard_normal((384, 512), dtype=np.float32)

# %% [markdown] id="small-text"
# ## A program of three instructions
#
# The program is written in a small language. We start with a kernel of three instructions.


# %% id="small"
# %%nki --run "halve(x[:128])" --check "x[:128] / 2" --show source
@nki.jit
def halve(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% [markdown] id="small-program-text"
# `result.ir` holds the program after each pass. The first one, `trace`, is the result of running your function.

# %% id="small-program"
print(halve_result.ir["trace"])

# %% [markdown] id="small-after"
# * `storage` lines are tensors: name, dtype, shape, memory. A name of the program begins with `%`.
# * Then comes one line for each instruction, with all its operands. It ends with the line of your cell that the
#   instruction came from.
# * Nothing is left of Python: there are tensors, numbers and instructions.

# %% [markdown] id="blend-text"
# ## From the source to the program
#
# This kernel uses ordinary Python: two loops, a function, a condition, a power. `steps` is a number that is known
# when the kernel is compiled.


# %% id="blend"
def scaled(dst, src, factor):
    nisa.tensor_scalar(dst=dst, data=src, op0=nl.multiply, operand0=factor)


@nki.jit
def blend(x, steps, positive=False):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    for start in range(0, rows, 128):
        tile = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        part = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        spare = nl.ndarray((128, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[start : start + 128])
        nisa.memset(dst=spare, value=0.0)

        for step in range(1, steps + 1):
            scaled(part, tile, 0.5**step)
            nisa.tensor_tensor(dst=tile, data1=tile, data2=part, op=nl.add)
        if positive:
            nisa.activation(dst=tile, op=nl.abs, data=tile)

        nisa.dma_copy(dst=out[start : start + 128], src=tile)
    return out


# %% [markdown] id="count-text"
# ## Your turn: 15.1 How long is the program?
#
# `x` has 384 rows. How many instructions does the trace of `blend(x, 5)` have? Count on paper; transfers are
# instructions, too.

# %% id="count" exercise="15.1" check="15.1"
answer("15.1", ..., nki_lab.run(blend, x, 5))

# %% [markdown] id="line-text"
# ## Your turn: 15.2 What becomes of a line?
#
# Take 256 rows and 3 steps. The second tile, second step: which of these lines is in the trace?
#
# | | |
# |---|---|
# | `"a"` | `tensor_scalar(dst=%part, data=%tile, op0=nl.multiply, operand0=factor)` |
# | `"b"` | `tensor_scalar(dst=%part.1, data=%tile.1, op0=nl.multiply, operand0=0.25)` |
# | `"c"` | `scaled(dst=%part.1, src=%tile.1, factor=0.25)` |
# | `"d"` | `tensor_scalar(dst=%part.1, data=%tile.1, op0=nl.multiply, operand0=0.5**2)` |

# %% id="line" exercise="15.2" check="15.2"
answer("15.2", ..., nki_lab.run(blend, x[:256], 3))

# %% [markdown] id="trace-text"
# Now look. The same names `tile` and `part` in each iteration are different tensors, so the program numbers them. Of
# the function `scaled` only its line remains, and of the condition nothing: it was false.

# %% id="trace"
# %nki --run "blend(x[:256], 3)" --show none

# %% id="trace-lines"
print(blend_result.ir["trace"])

# %% [markdown] id="condition-text"
# ## Break it: a condition on a value
#
# `if positive` was decided while the function ran, before there were any values to compute with.
#
# **Predict.** What if the condition depends on a number in a tile?


# %% id="condition"
# %%nki --run "clipped(x[:128])" --expect NKI103
@nki.jit
def clipped(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    if tile[0:1, 0:1] > 0:
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
    nisa.dma_copy(dst=out, src=tile)
    return out


# %% [markdown] id="passes-text"
# ## The passes
#
# Each pass reads the program and returns another one. Most change little. Here are all of them, with the size of the
# program after each.

# %% id="passes"
print("after                engines   addresses   waits")
for name, program in blend_result.ir.items():
    marks = [program.count(mark) for mark in (" on ", ", at (", " waits #")]
    print(f"{name:<20}{marks[0] - 1:>8}{marks[1]:>12}{marks[2]:>8}")  # "kernel blend on trn2"

# %% [markdown] id="dead-text"
# ## Your turn: 15.3 Which pass leaves instructions out?
#
# One of the passes makes the program shorter. Which one, and which instructions does it remove?
# `blend_result.ir["..."]` shows the program after a pass.

# %% id="dead" exercise="15.3" check="15.3"
# one of: "settle_accumulate", "find_uninitialized", "remove_dead", "place_engines", "allocate_sbuf", "schedule"
answer("15.3", ..., blend_result)

# %% [markdown] id="final-text"
# The view starts with the program after the last pass, and marks what the passes wrote.

# %% id="final"
# %nki --run "blend(x[:256], 3)" --show ir

# %% [markdown] id="peak-text"
# ## Allocation
#
# Your kernel makes six tiles of 128 x 512 float32 numbers, three in each iteration. A row of 512 such numbers has 2048 bytes.
#
# ## Your turn: 15.4 How much of a partition?
#
# What is the largest number of bytes in use in each partition at one time?

# %% id="peak" exercise="15.4" check="15.4"
answer("15.4", ..., blend_result)

# %% [markdown] id="layout-text"
# Here is where they are. Each iteration has its own places, so the second need not wait for the first.

# %% id="layout"
# %nki --run "blend(x[:256], 3)" --show layout

# %% [markdown] id="reuse-text"
# ## When memory is short
#
# `chain` makes four tiles one after the other. With 4096 columns all of them fit side by side.
#
# **Predict.** With 16384 columns each takes 64 KiB of a partition, and only three fit. Will it compile?


# %% id="reuse"
# %%nki --run "chain(long)" --check "long + np.square(long) + 1" --show memory
long = rng.integers(-9, 10, (128, 16384)).astype(np.float32)


@nki.jit
def chain(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    first = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    second = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    third = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    fourth = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)

    nisa.dma_copy(dst=first, src=x)
    nisa.tensor_tensor(dst=second, data1=first, data2=first, op=nl.multiply)
    nisa.tensor_tensor(dst=third, data1=second, data2=first, op=nl.add)
    nisa.tensor_scalar(dst=fourth, data=third, op0=nl.add, operand0=1.0)
    nisa.dma_copy(dst=out, src=fourth)
    return out


# %% [markdown] id="place-text"
# ## Your turn: 15.5 Whose place?
#
# It compiles: a tile needs its place from its first to its last use only. Whose place does `fourth` take?

# %% id="place" exercise="15.5" check="15.5"
# one of: "first", "second", "third", "own"
answer("15.5", ..., chain_result)

# %% [markdown] id="place-after"
# Reusing a place has a price: an instruction that writes there has to wait until the old contents have been read for
# the last time.

# %% [markdown] id="order-text"
# ## The schedule
#
# The passes may reorder instructions, as long as each gets its inputs. `waves` works on four parts, one after the
# other: load, exp, tanh, store.
#
# ## Your turn: 15.6 What comes second?
#
# In your function the second instruction is the `exp` of the first part. In the program after the pass `schedule`, what is it?


# %% id="order-kernel"
# %%nki --run "waves(x[:128])" --show none
@nki.jit
def waves(x):
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    for start in range(0, columns, 128):
        tile = nl.ndarray((rows, 128), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x[:, start : start + 128])
        nisa.activation(dst=tile, op=nl.exp, data=tile)
        nisa.activation(dst=tile, op=nl.tanh, data=tile)
        nisa.dma_copy(dst=out[:, start : start + 128], src=tile)
    return out


# %% id="order" exercise="15.6" check="15.6"
# one of: "load", "exp", "tanh", "store"
answer("15.6", ..., waves_result)

# %% [markdown] id="order-after"
# Loading late gains nothing: transfers and engines work at the same time, so the four loads come first. Now look at
# the functions. The `exp` of parts 1, 2 and 3 stand together, and so do their `tanh`: the functions of one table are
# grouped (notebook 12). Part 0 is the exception. While Scalar would have to wait for the next load, the scheduler
# lets it do the `tanh` of part 0.
#
# **Predict.** `exp` and `tanh` need different tables. How many times will Scalar load a table?

# %% id="order-lines"
instructions = [line for line in waves_result.ir["schedule"].splitlines() if "(dst=" in line]
print("\n".join(line.partition("  //")[0].strip() for line in instructions))

# %% id="order-tables"
opcodes = list(waves_result.profile.table("Instruction")["opcode"])
tables = opcodes.count("ACT_TABLE_LOAD")

assert tables == 4, "exp, then tanh for part 0; exp, then tanh for the others"
print(f"{tables} loads of a table for {opcodes.count('ACTIVATE')} functions")

# %% [markdown] id="order-timeline-text"
# Four loads for two tables: going back to `exp` after the first `tanh` costs two more. No pass tries every order, so
# the program is good and not always the best. The timeline shows the same program over time. The four loads of a
# table are the long events on Scalar's lane.

# %% id="order-timeline"
# %nki --run "waves(x[:128])" --show timeline

# %% [markdown] id="wait-text"
# ## Waiting
#
# Engines do not know about each other. For each instruction, the last pass writes down which others must finish
# before it starts: those whose results it reads, and those that read what it overwrites.
#
# ## Your turn: 15.7 Who waits for nothing?
#
# In the final program of `blend_result`, two tiles and three steps, how many instructions wait for nothing?

# %% id="wait" exercise="15.7" check="15.7"
answer("15.7", ..., blend_result)

# %% [markdown] id="power-text"
# ## Your turn: 15.8 A kernel that writes itself
#
# Since Python runs while the kernel is compiled, it can decide what the program will be.
#
# **Specification.** `power(x, n)` returns `x` to the power of `n`, for at most 128 rows in float32 and a whole number
# `n` of at least 1. The program multiplies tiles, and reuses squares so that it needs no more multiplications than
# necessary: for `n = 13` five of them, since x¹³ = x · x⁴ · x⁸.
#
# A loop over the binary digits of `n` does it: `n % 2` is the last one, `n // 2` the rest.


# %% id="power" exercise="15.8"
@nki.jit
def power(x, n):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    square = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=square, src=x)
    ...

    nisa.dma_copy(dst=out, src=result)
    return out


# %% id="power-check" check="15.8"
check("15.8", power)

# %% [markdown] id="seen"
# ## What you have seen
#
# * Your function runs once; loops, calls and conditions are gone, and numbers and slices take their place.
# * Each iteration makes new tensors.
# * Passes remove instructions whose results nothing reads, choose engines and places, order the program, and write
#   down what waits for what.
# * Places are reused when memory is short, and then more instructions have to wait.
# * `result.ir` has the program after each pass: when a kernel puzzles you, read it.
#
# Next: [20 DMA bandwidth](20_dma_bandwidth.ipynb).
