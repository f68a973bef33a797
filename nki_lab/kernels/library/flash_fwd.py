"""Flash attention as neuronxcc.nki.kernels.attention has it: for training and inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.attention import (
    DRAWN,
    STEP,
    Dropout,
    Head,
    LogSums,
    Mask,
    added,
    biased,
    check_bias,
    check_products,
    divided,
    products,
    softmax_of,
    steps,
    tiles_of_queries,
    times,
    weighed,
)  # fmt: skip
from nki_lab.kernels.direct import Exact, attended
from nki_lab.kernels.launched import places, result
from nki_lab.kernels.library.flash_attn_bwd import flash_fwd_backward
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import loaded


@dataclass(frozen=True)
class FlashConfig:
    """How flash_fwd works.

    Attributes:
        seq_tile_size: keys of one step, a multiple of 512; at most 1024 are taken at once.
        attn_core_tile_size: how many tiles of queries the public kernel holds at once; this one holds one.
        training: return the logarithm of the sums (lse) for the backward kernel; dropout needs it.
        should_transpose_v: `v` is [batch, kv_heads, d, keys]; otherwise [batch, kv_heads, keys, d].
        lse_dtype: name of the dtype of lse; "" is float32.
    """

    seq_tile_size: int = 2048
    attn_core_tile_size: int = 256
    training: bool = True
    should_transpose_v: bool = False
    lse_dtype: str = ""


@nki.jit
def flash_fwd(
    q, k, v, seed, logit_bias=None, softmax_scale=None, use_causal_mask=True, sliding_window=-1,
    mixed_precision=True, dropout_p=0.0, config=None,
):  # fmt: skip
    """Return attention of each head, and in training the logarithm of its sums for flash_attn_bwd.

    A query whose keys are all hidden by a bias of -inf gives NaN, as its softmax does; so does one that sees NaN.

    Args:
        q: [batch, heads, d, queries], float32 or bfloat16; d at most 128.
        k: [batch, kv_heads, d, keys]; heads is a multiple of kv_heads, as in grouped-query attention.
        v: [batch, kv_heads, keys, d], or [batch, kv_heads, d, keys] with `config.should_transpose_v`.
        seed: [1] int32, for dropout; None in inference.
        logit_bias: added to the scaled scores: [1 or batch, 1 or heads, queries, keys].
        softmax_scale: of the scores; 1 / sqrt(d) where it is None.
        use_causal_mask: query i sees the keys up to i.
        sliding_window: above 0: query i sees its last so many keys, itself included.
        mixed_precision: multiply matrices in bfloat16; sums are float32 in any case.
        dropout_p: probability with which a weight becomes 0; the others are divided by 1 - dropout_p.
        config: a FlashConfig.

    Returns:
        o: [batch, heads, queries, d].
        lse: in training, [batch, heads, 128, queries / 128]: of query i at [i % 128, i // 128].
    """
    config = FlashConfig() if config is None else config
    causal, window = use_causal_mask or sliding_window > 0, max(sliding_window, 0)
    _check(q, k, v, window, dropout_p, config)
    (batch, heads, d, queries), (kv_heads, keys) = q.shape, (k.shape[1], k.shape[3])
    dtype = nl.bfloat16 if mixed_precision else q.dtype
    check_products("flash_fwd", dtype)
    scale = d**-0.5 if softmax_scale is None else softmax_scale
    lse_dtype = getattr(nl, config.lse_dtype) if config.lse_dtype else nl.float32
    o = result("o", (batch, heads, queries, d), q.dtype)
    lse: Any = None
    if config.training:
        lse = result("lse", (batch, heads, 128, queries // 128), lse_dtype)
    mask = Mask(keys, causal, window, DRAWN if dropout_p else 128)
    drop = Dropout.of("flash_fwd", seed, dropout_p, heads, queries, keys)
    check_bias("flash_fwd", "logit_bias", logit_bias, (batch, heads, queries, keys))
    step, turn = min(config.seq_tile_size, STEP), "v" * config.should_transpose_v
    shared = heads // kv_heads

    def stepwise(b: int, kv_head: int) -> None:
        held = Head(k[b, kv_head], v[b, kv_head], dtype, step, turn)
        for head in range(kv_head * shared, (kv_head + 1) * shared):
            sums = LogSums(queries) if config.training else None
            for first, part in tiles_of_queries(q[b, head], dtype):
                rows = part.shape[1]
                state: Any = None
                for start, stop in steps(mask.seen(first, rows), step):
                    of_keys, of_values = held.part(start, stop)
                    scores, factor = products(part, of_keys), scale
                    if logit_bias is not None:
                        at = (b % logit_bias.shape[0], head % logit_bias.shape[1])
                        bias = loaded(logit_bias[*at, first : first + rows, start:stop])
                        scores, factor = biased(scores, scale, bias), 1.0
                    mask.hide(scores, first, start)
                    weights, lowest, total = weighed(scores, factor, state, dtype)
                    if drop is not None:
                        drop.apply(weights, b, head, first, start)
                    state = added(state, lowest, total, times(weights, of_values))
                out = divided(state, q.dtype, 1.0 - dropout_p)
                nisa.dma_copy(dst=o[b, head, first : first + rows], src=out)
                if sums is not None:
                    sums.note(first, state.total, state.lowest)
            if sums is not None:
                sums.store(lse[b, head])

    own = list(places("flash_fwd", batch, kv_heads))
    if logit_bias is not None or drop is not None:
        for place in own:
            stepwise(*place)
        return (o, lse) if config.training else o
    exact = Exact()
    for b, kv_head in own:
        held = Head(k[b, kv_head], v[b, kv_head], dtype, step, turn, ones=1)
        for head in range(kv_head * shared, (kv_head + 1) * shared):
            sums = LogSums(queries) if config.training else None
            for first, total, out in attended(q[b, head], held, mask, scale, exact):
                nisa.dma_copy(dst=o[b, head, first : first + out.shape[0]], src=out)
                if sums is not None:
                    sums.note(first, total)
            if sums is not None:
                sums.store(lse[b, head])
    exact.otherwise(stepwise, own)
    return (o, lse) if config.training else o


def _check(q, k, v, window, dropout_p, config):
    shapes = {"q": list(q.shape), "k": list(k.shape), "v": list(v.shape)}
    for name, shape in shapes.items():
        require(
            len(shape) == 4,
            f"flash_fwd: `{name}` has shape {shape}; expected [batch, heads, d, "
            f"{'queries' if name == 'q' else 'keys'}]",
            "give it all four axes; a batch of one is an axis, too",
        )
    (batch, heads, d, queries), (kv_heads, keys) = shapes["q"], (k.shape[1], k.shape[3])
    turned, straight = [batch, kv_heads, d, keys], [batch, kv_heads, keys, d]
    require(
        shapes["k"] == turned,
        f"flash_fwd: `k` has shape {shapes['k']}; expected [{batch}, kv_heads, {d}, keys], with the keys last",
        "transpose it: np.ascontiguousarray(k.swapaxes(2, 3))",
    )
    expected = turned if config.should_transpose_v else straight
    other = config.should_transpose_v is False and shapes["v"] == turned
    require(
        shapes["v"] == expected,
        f"flash_fwd: `v` has shape {shapes['v']}; with should_transpose_v={config.should_transpose_v} expected"
        f" {expected}; should_transpose_v=False takes [batch, kv_heads, keys, d] = {straight}, and True takes"
        f" [batch, kv_heads, d, keys] = {turned}",
        f"write FlashConfig(should_transpose_v={not config.should_transpose_v}), or transpose `v`"
        if other or shapes["v"] == straight
        else "give `v` as many heads and keys as `k`",
    )
    require(
        heads % kv_heads == 0,
        f"flash_fwd: {heads} heads of `q` do not share {kv_heads} heads of `k` evenly",
        "give `q` a multiple of the heads of `k`",
    )
    require(
        d <= 128,
        f"flash_fwd: heads are {d} wide; the partitions hold 128",
        "split the heads, or project them to a smaller width",
    )
    require(
        config.seq_tile_size >= 512 and config.seq_tile_size % 512 == 0,
        f"flash_fwd: seq_tile_size is {config.seq_tile_size}; expected a multiple of 512",
        "write FlashConfig(seq_tile_size=2048)",
    )
    require(
        not config.training or queries % 128 == 0,
        f"flash_fwd: {queries} queries in training, where lse has 128 rows; expected a multiple of 128",
        "pad `q` with zeros to a multiple of 128, or write FlashConfig(training=False)",
    )
    require(
        config.training or not dropout_p,
        f"flash_fwd: dropout_p is {dropout_p} with training=False; dropout is for training",
        "write FlashConfig(training=True), or dropout_p=0.0",
    )
    require(
        not window or queries < keys + window,
        f"flash_fwd: of {queries} queries the last see none of {keys} keys within a window of {window}",
        f"give at most {keys + window - 1} queries, or a larger window",
    )


def _arguments(
    rng: np.random.Generator,
    dtype: Any,
    heads: int,
    kv_heads: int,
    queries: int,
    keys: int,
    d: int,
    causal: int,
    window: int,
    training: int,
) -> dict[str, Any]:
    q = rng.standard_normal((1, heads, d, queries)).astype(dtype)
    k = rng.standard_normal((1, kv_heads, d, keys)).astype(dtype)
    v = rng.standard_normal((1, kv_heads, keys, d)).astype(dtype)
    config = FlashConfig(seq_tile_size=512, training=bool(training))
    return {
        "q": q, "k": k, "v": v, "seed": None, "use_causal_mask": bool(causal),
        "sliding_window": window or -1, "mixed_precision": False, "config": config,
    }  # fmt: skip


def _reference(
    q: Any, k: Any, v: Any, seed: Any, logit_bias: Any = None, softmax_scale: float | None = None,
    use_causal_mask: bool = True, sliding_window: int = -1, mixed_precision: bool = True,
    dropout_p: float = 0.0, config: FlashConfig | None = None,
) -> Any:  # fmt: skip
    require(not dropout_p, "the reference draws no dropout", "write dropout_p=0.0")
    config = FlashConfig() if config is None else config
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    k, v = (np.repeat(a, q.shape[1] // k.shape[1], axis=1) for a in (k, v))
    v = v.swapaxes(2, 3) if config.should_transpose_v else v
    scores = q.swapaxes(2, 3) @ k * (q.shape[2] ** -0.5 if softmax_scale is None else softmax_scale)
    window = sliding_window
    weights, lse = softmax_of(scores, logit_bias, use_causal_mask or window > 0, window)
    with np.errstate(invalid="ignore"):
        out = weights @ v
    if not config.training:
        return out
    return out, lse.reshape((*lse.shape[:2], -1, 128)).swapaxes(2, 3)


def _large(rng: np.random.Generator) -> dict[str, Any]:
    """Return arguments with scores beyond 50 for some queries, and of -50 for another head."""
    given = _arguments(rng, np.float32, 2, 1, 256, 300, 24, 1, 0, 1)
    given["q"][0, 0, :, 130:] *= 12
    given["k"][0, 0, 0] = 10
    given["q"][0, 1, 0] = -25
    return given


def _multiplies(
    heads: int, kv_heads: int, queries: int, keys: int, d: int, causal: int, window: int, training: int
) -> int:  # fmt: skip
    query, key = np.ogrid[:queries, :keys]
    seen = (key <= query) if causal or window else np.ones((queries, keys), bool)
    return 4 * heads * d * int((seen & (key > query - window) if window else seen).sum())


def _with_bias(rng: np.random.Generator) -> dict[str, Any]:
    """Return arguments whose bias hides all keys of some queries, the first step's of others, and has NaN and inf."""
    given = _arguments(rng, np.float32, 2, 1, 140, 600, 24, 0, 0, 0)
    bias = rng.standard_normal((1, 2, 140, 600)).astype(np.float32)
    bias[0, 0, 3] = bias[0, 1, 130:] = -np.inf
    bias[0, 0, 4, :520] = bias[0, 1, 7, 515:] = -np.inf
    bias[0, 0, 9, 30], bias[0, 1, 9, 550] = np.nan, np.inf
    return {**given, "logit_bias": bias}


def _with_nan(rng: np.random.Generator) -> dict[str, Any]:
    """Return arguments with NaN and inf in keys that early queries do not see, and a row of NaN."""
    given = _arguments(rng, np.float32, 2, 1, 256, 256, 24, 1, 100, 1)
    given["k"][0, 0, 3, 150], given["k"][0, 0, 5, 30], given["q"][0, 1, 2, 7] = (
        np.nan,
        np.inf,
        np.nan,
    )
    return given


def _refused(message: str, help: str, **given: Any) -> Refused:
    usual = {"q": (2, 4, 16, 128), "k": (2, 2, 16, 64), "v": (2, 2, 64, 16), "seed": None}
    return Refused({**usual, **given}, message, help)


_REFUSED = (
    _refused("`q` has shape [4, 16, 128]; expected [batch, heads, d, queries]", "all four axes", q=(4, 16, 128)),
    _refused("`k` has shape [2, 2, 64, 16]; expected [2, kv_heads, 16, keys]", "k.swapaxes(2, 3)", k=(2, 2, 64, 16)),
    _refused(
        "should_transpose_v=False takes [batch, kv_heads, keys, d] = [2, 2, 64, 16], and True takes [batch, kv_heads,"
        " d, keys] = [2, 2, 16, 64]", "FlashConfig(should_transpose_v=True), or transpose `v`", v=(2, 2, 16, 64),
    ),
    _refused(
        "with should_transpose_v=True expected [2, 2, 16, 64]", "FlashConfig(should_transpose_v=False)",
        config=FlashConfig(should_transpose_v=True),
    ),
    _refused("`v` has shape [2, 1, 64, 16]", "as many heads and keys as `k`", v=(2, 1, 64, 16)),
    _refused("3 heads of `q` do not share 2 heads", "a multiple", q=(2, 3, 16, 128)),
    _refused("130 wide", "split the heads", q=(1, 1, 130, 128), k=(1, 1, 130, 4), v=(1, 1, 4, 130)),
    _refused("seq_tile_size is 500", "seq_tile_size=2048", config=FlashConfig(seq_tile_size=500)),
    _refused("100 queries in training", "training=False", q=(2, 4, 16, 100)),
    _refused("dropout_p is 1.0", "dropout_p=0.1", dropout_p=1.0, seed=np.ones(1, np.int32)),
    _refused("dropout_p is 0.5, and there is no seed", "give a seed", dropout_p=0.5),
    _refused("0.5 with training=False", "training=True", dropout_p=0.5, config=FlashConfig(training=False)),
    _refused("a window of 9", "at most 72 queries", sliding_window=9),
    _refused("flash_fwd: products of float16", "mixed_precision=True", mixed_precision=False,
             q=np.zeros((2, 4, 16, 128), np.float16)),
    _refused("`logit_bias` has shape [1, 1, 64, 128]", "each pair", logit_bias=(1, 1, 64, 128)),
)  # fmt: skip


KERNEL = Prebuilt(
    kernel=flash_fwd,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {
            "heads": 4,
            "kv_heads": 2,
            "queries": 256,
            "keys": 256,
            "d": 32,
            "causal": 1,
            "window": 0,
            "training": 1,
        },
        {
            "heads": 1,
            "kv_heads": 1,
            "queries": 200,
            "keys": 1300,
            "d": 64,
            "causal": 0,
            "window": 0,
            "training": 0,
        },
        {
            "heads": 1,
            "kv_heads": 1,
            "queries": 700,
            "keys": 700,
            "d": 16,
            "causal": 1,
            "window": 300,
            "training": 0,
        },
        {
            "heads": 1,
            "kv_heads": 1,
            "queries": 1,
            "keys": 1,
            "d": 1,
            "causal": 0,
            "window": 0,
            "training": 0,
        },
    ),
    ranges={
        "heads": range(1, 3),
        "kv_heads": range(1, 3),
        "queries": range(1, 400),
        "keys": range(1, 700),
        "d": range(1, 129, 9),
        "causal": range(2),
        "window": range(0, 300, 37),
        "training": range(2),
    },
    legal=lambda heads, kv_heads, queries, keys, d, causal, window, training: (
        heads % kv_heads == 0
        and not (training and queries % 128)
        and not (window and queries >= keys + window)
    ),
    timed=(
        {
            "heads": 1,
            "kv_heads": 1,
            "queries": 1024,
            "keys": 1024,
            "d": 128,
            "causal": 1,
            "window": 0,
            "training": 0,
        },
        {
            "heads": 2,
            "kv_heads": 1,
            "queries": 4096,
            "keys": 4096,
            "d": 128,
            "causal": 1,
            "window": 0,
            "training": 1,
        },
    ),
    multiplies=_multiplies,
    tolerance={"float32": 1e-5, "bfloat16": 3e-2},
    refused=_REFUSED,
    edges={"bias": _with_bias, "hidden": _with_nan, "large": _large},
    cores=(1, 2),
    operator={
        "results": ("o", "lse"),
        "backward": flash_fwd_backward,
        "no_grad": ("lse",),
        "wrt": ("q", "k", "v"),
        "types": {"seed": "Tensor?", "softmax_scale": "float?"},
    },
    steps=(
        Step(
            "Each head of keys and values is loaded once, and all heads of queries that share it follow.",
            "attention.py:_loaded",
        ),
        Step(
            "The Tensor engine multiplies 128 keys by 512 queries; tiles of pairs that are not seen are skipped.",
            "direct.py:nisa.nc_matmul(",
        ),
        Step(
            "The Scalar engine computes exp(score) of 256 keys in one instruction; GpSimd clears pairs that"
            " are not seen.",
            "direct.py:for n in range(1 if alike",
        ),
        Step(
            "The weights lie as the next product needs them: by the values, and by a column of ones for their sums.",
            "direct.py:for query in range(begin, end, 128)",
        ),
        Step(
            "The output is divided by the sum of weights; lse, the logarithm of the sums, is taken for a head at once.",
            "direct.py:for n in range(0, count, 128)",
        ),
        Step(
            "Where a sum leaves 1e-18 to 1e18, a loop computes all again with the largest score subtracted, 128"
            " queries at a time: their weights are transposed, and what was summed before is faded.",
            "stepwise",
        ),
        Step(
            "So it computes with a logit bias and with dropout, whose generator is seeded for each tile of weights.",
            "stepwise",
        ),
    ),
    sources=(
        "aws-neuron-sdk 2.21, neuronxcc.nki.kernels.attention.flash_fwd",
        "T. Dao, arXiv:2307.08691",
    ),
    official={
        "neuronxcc.nki.kernels.attention.flash_fwd": flash_fwd,
        "neuronxcc.nki.kernels.attention.FlashConfig": FlashConfig,
    },
)
