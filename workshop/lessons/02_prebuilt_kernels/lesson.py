# %% [markdown] id="title"
# # 02 Prebuilt kernels
#
# Many kernels need not be written: they are there. You put attention kernels into a layer, compare their values,
# repair a layer that gives wrong ones, and find out why one way to compute attention is so much faster than another.
# About 20 minutes.

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
from neuronxcc.nki.kernels import attention

import nki_lab
from nki_lab import kernels
from nki_lab.exercises import answer, check, hint
from nki_lab.kernels.library.flash_fwd import FlashConfig

# %% [markdown] id="library-text"
# ## What there is
#
# `nki_lab.kernels` has the kernels; `kernels.get(name)` tells what is known about one. `.explain()` draws how its
# arguments lie in SBUF and goes through its steps: try `kernels.get("softmax").explain()` later. Kernels that came with
# the first NKI are also found under their old names, as `attention.flash_fwd` here.

# %% id="library"
for name in ("standard_attention", "flash_attention", "flash_fwd"):
    print(f"{name:<20}{kernels.get(name).summary}")

# %% [markdown] id="layer-text"
# ## A layer
#
# A layer of attention multiplies its input by three matrices, cuts the products into heads, lets each head attend, and
# multiplies what comes out by a fourth matrix. Only `attend` differs from one layer to the next. This one computes it
# with NumPy, in float64: `q`, `k` and `v` are [1, heads, tokens, d].


# %% id="layer"
class Attention:
    """Attention with several heads; a subclass says which kernel computes it."""

    def __init__(self, width, heads, seed=2):
        rng = np.random.default_rng(seed)
        self.heads = heads
        self.weights = rng.standard_normal((4, width, width), dtype=np.float32) / width**0.5

    def __call__(self, x):
        q, k, v = (self.split(x @ w) for w in self.weights[:3])
        joined = self.attend(q, k, v)[0].swapaxes(0, 1).reshape(x.shape)
        return joined @ self.weights[3]

    def split(self, y):
        """Return [tokens, width] as [1, heads, tokens, d]."""
        heads = y.reshape(1, len(y), self.heads, -1).swapaxes(1, 2)
        return np.ascontiguousarray(heads)

    def attend(self, q, k, v):
        q, k, v = (a.astype(np.float64) for a in (q, k, v))
        scores = q @ k.swapaxes(2, 3) / q.shape[3] ** 0.5
        weights = np.exp(scores - scores.max(axis=3, keepdims=True))
        return weights / weights.sum(axis=3, keepdims=True) @ v


# %% [markdown] id="two-text"
# ## Two kernels
#
# The kernels want `q` and `k` with the tokens last, [1, heads, d, tokens]: d is summed over, and what is summed over
# must lie in the partitions.
#
# *Standard* attention takes three steps. It writes the scores to HBM, reads them to make weights of them, writes the
# weights, and reads them to multiply them by `v`. *Flash* attention takes the keys in blocks and does all three steps
# with a block while its scores are on the chip.


# %% id="two"
def turned(a):
    """Return [1, heads, tokens, d] as [1, heads, d, tokens]."""
    return np.ascontiguousarray(a.swapaxes(2, 3))


class StandardAttention(Attention):
    def attend(self, q, k, v):
        return kernels.standard_attention(turned(q), turned(k), v)


class FlashAttention(Attention):
    def attend(self, q, k, v):
        return kernels.flash_attention(turned(q), turned(k), v)


# %% [markdown] id="values-text"
# **Predict.** They compute the same in different orders. Will the results agree with NumPy to the last bit, to about
# one part in a hundred thousand, or in a hundred?

# %% id="values"
x = np.random.default_rng(seed=3).standard_normal((384, 256), dtype=np.float32)
expected = Attention(width=256, heads=4)(x)

for layer in (StandardAttention, FlashAttention):
    error = np.abs(layer(width=256, heads=4)(x) - expected).max() / np.abs(expected).max()
    print(f"{layer.__name__:<20}equal {error == 0}, to 1e-5 {error < 1e-5}, to 1e-2 {error < 1e-2}")

# %% [markdown] id="values-after"
# float32 keeps about seven digits, and a sum of rounded numbers loses some of them. That is why tests of kernels
# compare with a tolerance.

# %% [markdown] id="broken-text"
# ## A layer that is wrong
#
# Somebody has built the layer with `attention.flash_fwd`, which is launched on a grid of batch and heads. Its
# `FlashConfig` says how `v` lies. They have tried it with 128 tokens and heads of 128, and nothing complained.


# %% id="broken"
class OfficialAttention(Attention):
    def attend(self, q, k, v):
        config = attention.FlashConfig(training=False, should_transpose_v=True)
        options = {"use_causal_mask": False, "mixed_precision": False, "config": config}
        return attention.flash_fwd[1, self.heads](turned(q), turned(k), v, None, **options)


square = np.random.default_rng(seed=4).standard_normal((128, 256), dtype=np.float32)
given = OfficialAttention(width=256, heads=2)(square)
wanted = Attention(width=256, heads=2)(square)
print("close to NumPy:", np.allclose(given, wanted, rtol=0.1, atol=0.1))

# %% [markdown] id="broken-long-text"
# **Predict.** What will the kernel do with 256 tokens?

# %% id="broken-long"
try:
    OfficialAttention(width=256, heads=2)(np.concatenate([square, square]))
except nki_lab.errors.NkiError as error:
    print(error.message)

# %% [markdown] id="broken-after"
# Now it complains: a `v` of that shape cannot be what the configuration says. With as many tokens as elements of a
# head both layouts have one shape, and nobody can tell them apart. Try a kernel with sizes that all differ.

# %% [markdown] id="attend-spec"
# ## Your turn: 02.1 How v lies
#
# **Specification.** `attend(q, k, v)` returns attention without a mask, for `q` [batch, heads, d, queries], `k` [batch,
# heads, d, keys] and `v` [batch, heads, **keys, d**].
#
# A kernel may call a prebuilt one. Complete this one with a call of `kernels.flash_fwd`, with `None` as its seed, the
# options of the layer above, and the right configuration. The check begins with keys and d of 128, as they did.


# %% id="attend" exercise="02.1"
@nki.jit
def attend(q, k, v):
    """Return attention without a mask; v is [batch, heads, keys, d]."""
    ...


# %% id="attend-check" check="02.1"
check("02.1", attend)

# %% [markdown] id="traffic-text"
# ## What is moved
#
# Both kernels give the same values. What they move between HBM and the chip differs. These are runs of one head, in
# float32:


# %% id="traffic"
def moved(kernel, keys, d):
    """Return the bytes that a kernel moves from and to HBM."""
    rng = np.random.default_rng(seed=5)
    q, k = (rng.standard_normal((1, 1, d, keys), dtype=np.float32) for _ in range(2))
    v = rng.standard_normal((1, 1, keys, d), dtype=np.float32)
    return nki_lab.run(kernel, q, k, v).roofline().hbm_bytes


for keys, d in ((128, 128), (256, 128), (512, 128), (512, 64)):
    standard = moved(kernels.standard_attention, keys, d)
    flash = moved(kernels.flash_attention, keys, d)
    print(f"{keys} keys, d {d:>3}: standard {standard:>9,} bytes, flash {flash:>9,}")

# %% [markdown] id="ratio-spec"
# ## Your turn: 02.2 The ratio
#
# **Specification.** `traffic_ratio(keys, d)` returns how many bytes standard attention moves for each byte that flash
# attention moves, for one head with as many queries as keys.
#
# Do not fit it to the numbers: count. Which matrices does each kernel read and write, how large are they, how
# often do they cross? The check compares the formula with runs of other sizes.


# %% id="ratio" exercise="02.2"
def traffic_ratio(keys, d):
    """Return the bytes of standard attention for each byte of flash attention."""
    ...


# %% id="ratio-check" check="02.2"
answer("02.2", traffic_ratio)

# %% [markdown] id="time-text"
# ## What it costs
#
# More bytes need not mean more time, as long as the engines have enough to do meanwhile. `kernels.compare` runs both
# kernels over the number of keys, in bfloat16 with d 128.
#
# **Predict.** In both kernels the products grow with the square of the keys. Will the ratio of the times stay as it
# is, or grow as the ratio of the bytes does?

# %% id="time"
comparison = kernels.compare("attention", target="trn2")
comparison

# %% [markdown] id="win-spec"
# ## Your turn: 02.3 Where flash attention wins
#
# Which is the smallest of these numbers of keys with which flash attention takes less than a quarter of the time of
# standard attention? `comparison.rows` has the numbers: each row has `kernel`, `size` and `time_us`.

# %% id="win" exercise="02.3" check="02.3"
# one of: "128", "256", "512", "1024", "2048"
answer("02.3", ...)

# %% [markdown] id="seen"
# ## What you have seen
#
# * A prebuilt kernel is called with arrays, also from a kernel of yours; its layouts are part of what it promises.
# * A wrong layout can have the right shape. Compare values with a reference, with sizes that all differ.
# * Standard attention moves two square matrices to HBM and back; flash attention never lets them leave the chip.
# * With few keys the fixed costs of transfers decide, with many keys the matrices do.
#
# Next: [03 Custom operators](03_custom_operators.ipynb).
