"""The gradients of flash attention, as neuronxcc.nki.kernels.attention has them."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.attention import (
    DRAWN,
    Dropout,
    Mask,
    biased,
    check_bias,
    check_products,
    products,
    softmax_of,
    tile,
    transposed,
)  # fmt: skip
from nki_lab.kernels.launched import places, result
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import loaded

# Queries stay in SBUF, for all heads that share keys, while they and their gradients take so much of each partition.
_RESIDENT_BYTES = 128 * 1024


@nki.jit
def flash_attn_bwd(
    q_ref, k_ref, v_ref, o_ref, dy_ref, lse_ref, seed_ref, logit_bias_ref=None, use_causal_mask=False,
    mixed_precision=False, dropout_p=0.0, softmax_scale=None, sliding_window=-1,
):  # fmt: skip
    """Return the gradients of attention by its queries, keys and values.

    All have the sequence last, also `v_ref` and `o_ref`, which flash_fwd has the other way round. Products have the
    dtype of `q_ref`; sums are float32.

    Args:
        q_ref: [batch, heads, d, queries], float32 or bfloat16; d at most 128, queries a multiple of 128.
        k_ref, v_ref: [batch, kv_heads, d, keys]; heads is a multiple of kv_heads.
        o_ref, dy_ref: the output of flash_fwd, and the gradient by it: [batch, heads, d, queries].
        lse_ref: of flash_fwd: [batch, heads, 128, queries / 128].
        seed_ref: [1] int32, that of flash_fwd; None without dropout.
        logit_bias_ref: added to the scaled scores: [1 or batch, 1 or heads, queries, keys].
        use_causal_mask: query i sees the keys up to i.
        mixed_precision: changes nothing here: softmax and sums are float32 in any case.
        dropout_p: probability with which flash_fwd dropped a weight.
        softmax_scale: of the scores; 1 / sqrt(d) where it is None.
        sliding_window: above 0: query i sees its last so many keys, itself included.

    Returns:
        dq: [batch, heads, d, queries].
        dk, dv: [batch, kv_heads, d, keys].
    """
    causal, window = use_causal_mask or sliding_window > 0, max(sliding_window, 0)
    _check(q_ref, k_ref, v_ref, o_ref, dy_ref, lse_ref, window)
    (batch, heads, d, queries), (_, kv_heads, _, keys) = q_ref.shape, k_ref.shape
    check_bias("flash_attn_bwd", "logit_bias_ref", logit_bias_ref, (batch, heads, queries, keys))
    scale = d**-0.5 if softmax_scale is None else softmax_scale
    dq = result("dq", q_ref.shape, q_ref.dtype)
    dk, dv = (result(name, k_ref.shape, k_ref.dtype) for name in ("dk", "dv"))
    mask = Mask(keys, causal, window, DRAWN if dropout_p else 128)
    drop = Dropout.of("flash_attn_bwd", seed_ref, dropout_p, heads, queries, keys)
    shared, itemsize = heads // kv_heads, 4 if q_ref.dtype == nl.float32 else 2
    stays = shared * queries * 4 * (1 + itemsize) <= _RESIDENT_BYTES
    for b, kv_head in places("flash_attn_bwd", batch, kv_heads):
        group = range(kv_head * shared, (kv_head + 1) * shared)
        of_queries = {
            h: _Queries(q_ref[b, h], o_ref[b, h], dy_ref[b, h], lse_ref[b, h], stays) for h in group
        }
        for block in range(0, keys, DRAWN):
            span = slice(block, min(block + DRAWN, keys))
            of_keys = _Keys(k_ref[b, kv_head, :, span], v_ref[b, kv_head, :, span])
            for h in group:
                for first in range(0, queries, 128):
                    start, stop = mask.seen(first, 128)
                    part = slice(max(start, block) - block, min(stop, span.stop) - block)
                    if part.start >= part.stop:
                        continue
                    scores = products(of_queries[h].part(first)[0], of_keys.k[:, part])
                    factor = scale
                    if logit_bias_ref is not None:
                        at = (b % logit_bias_ref.shape[0], h % logit_bias_ref.shape[1])
                        seen = slice(block + part.start, block + part.stop)
                        bias = loaded(logit_bias_ref[*at, first : first + 128, seen])
                        scores, factor = biased(scores, scale, bias), 1.0
                    mask.hide(scores, first, block + part.start)
                    kept = None
                    if drop is not None:
                        kept = tile(scores.shape, q_ref.dtype)
                        nisa.memset(dst=kept, value=1.0)
                        drop.apply(kept, b, h, first, block + part.start)
                    _add(of_queries[h], of_keys, first, part, scores, factor, kept, 1 - dropout_p)
            of_keys.store(dk[b, kv_head, :, span], dv[b, kv_head, :, span], scale)
        for h in group:
            of_queries[h].store(dq[b, h], scale)
    return dq, dk, dv


@nki.jit
def flash_fwd_backward(
    do, q, k, v, o, lse, seed, logit_bias=None, softmax_scale=None, use_causal_mask=True, sliding_window=-1,
    mixed_precision=True, dropout_p=0.0,
):  # fmt: skip
    """Return what flash_attn_bwd returns, from the arguments and results of flash_fwd in their layouts.

    Args:
        do: the gradient by `o`: [batch, heads, queries, d].
        q, k, v, seed, logit_bias, softmax_scale, use_causal_mask, sliding_window, mixed_precision, dropout_p: what
            flash_fwd was given.
        o, lse: what it returned.

    Returns:
        dq, dk: as `q` and `k`.
        dv: [batch, kv_heads, keys, d].
    """
    kv_heads, shared = k.shape[1], q.shape[1] // k.shape[1]
    turned = [
        nl.ndarray((*x.shape[:2], x.shape[3], x.shape[2]), x.dtype, nl.private_hbm)
        for x in (v, o, do)
    ]
    own = list(places("flash_fwd_backward", q.shape[0], kv_heads))
    for b, head in own:
        _turn(turned[0][b, head], v[b, head])
        for h in range(head * shared, (head + 1) * shared):
            _turn(turned[1][b, h], o[b, h])
            _turn(turned[2][b, h], do[b, h])
    dq, dk, dv_turned = flash_attn_bwd(
        q, k, *turned, lse, seed, logit_bias, use_causal_mask, mixed_precision, dropout_p, softmax_scale,
        sliding_window,
    )  # fmt: skip
    dv = result("dv_rows", v.shape, v.dtype)
    for b, head in own:
        _turn(dv[b, head], dv_turned[b, head])
    return dq, dk, dv


def _turn(dst: Any, src: Any) -> None:
    """Write `src` [rows, columns] transposed."""
    for first in range(0, src.shape[0], 128):
        rows = slice(first, min(first + 128, src.shape[0]))
        for n, part in enumerate(transposed(loaded(src[rows]))):
            nisa.dma_copy(dst=dst[n * 128 : n * 128 + part.shape[0], rows], src=part)


class _Queries:
    """The queries of one head: what is needed of 128 at a time, and the gradient by them.

    Attributes:
        sums: for each tile of queries [128, 1], the sum of dy * o.
        lowest: -lse, [128, tiles].
    """

    def __init__(self, q: Any, o: Any, dy: Any, lse: Any, stays: bool) -> None:
        self._q, self._o, self._dy, self._stays = q, o, dy, stays
        self._parts: dict[int, tuple[Any, ...]] = {}
        self._gradient: dict[int, Any] = {}
        self.lowest, self.sums = tile(lse.shape), tile(lse.shape)
        nisa.tensor_scalar(dst=self.lowest, data=loaded(lse), op0=nl.multiply, operand0=-1.0)
        self._summed = 0
        self._ones = tile((q.shape[0], 1))
        nisa.memset(dst=self._ones, value=1.0)

    def part(self, first: int) -> tuple[Any, ...]:
        """Return q and dy [d, 128] of queries from `first`, and both transposed, [128, d]."""
        if first not in self._parts:
            if not self._stays:
                self._parts.clear()
            width = 512 if self._stays else 128
            several = slice(first, min(first + width, self._q.shape[1]))
            q, dy = loaded(self._q[:, several]), loaded(self._dy[:, several])
            if first >= self._summed:
                self._sum(first, dy, loaded(self._o[:, several]))
            for n, turned in enumerate(zip(transposed(q), transposed(dy), strict=True)):
                column = slice(n * 128, n * 128 + 128)
                self._parts[first + n * 128] = (q[:, column], dy[:, column], *turned)
        return self._parts[first]

    def _sum(self, first: int, dy: Any, o: Any) -> None:
        """Take the sums of queries from `first`: products over d, which lies in the partitions."""
        both = tile(dy.shape)
        nisa.tensor_tensor(dst=both, data1=o, data2=dy, op=nl.multiply)
        for n in range(0, dy.shape[1], 128):
            at = (first + n) // 128
            total = products(both[:, n : n + 128], self._ones)
            nisa.tensor_copy(dst=self.sums[:, at : at + 1], src=total)
        self._summed = first + dy.shape[1]

    def add(self, first: int, product: Any) -> None:
        """Add to the gradient by queries from `first` [d, 128]."""
        if first not in self._gradient:
            self._gradient[first] = tile(product.shape)
            nisa.tensor_copy(dst=self._gradient[first], src=product)
        else:
            gradient = self._gradient[first]
            nisa.tensor_tensor(dst=gradient, data1=gradient, data2=product, op=nl.add)

    def store(self, dq: Any, scale: float) -> None:
        """Write the gradient by all queries, times the scale of the scores."""
        for first, gradient in self._gradient.items():
            _store(dq[:, first : first + 128], gradient, scale)


class _Keys:
    """Up to 512 keys and values, and the gradients by them in PSUM.

    Attributes:
        k, v: [d, keys].
        rows: the keys as tiles [up to 128, d].
        dk, dv: [d, keys].
    """

    def __init__(self, k: Any, v: Any) -> None:
        self.k, self.v = loaded(k), loaded(v)
        self.rows = list(transposed(self.k))
        self.dk, self.dv = tile(k.shape, buffer=nl.psum), tile(k.shape, buffer=nl.psum)
        self._seen = 0

    def add(self, part: slice, dk: tuple[Any, Any], dv: tuple[Any, Any]) -> None:
        """Add products, stationary and moving, to the gradients by some of the keys."""
        nisa.nc_matmul(dst=self.dk[:, part], stationary=dk[0], moving=dk[1])
        nisa.nc_matmul(dst=self.dv[:, part], stationary=dv[0], moving=dv[1])
        self._seen = max(self._seen, part.stop)

    def store(self, dk: Any, dv: Any, scale: float) -> None:
        """Write the gradients; those by keys that no query sees are 0."""
        for dst, gradient, factor in ((dk, self.dk, scale), (dv, self.dv, 1.0)):
            if self._seen:
                _store(dst[:, : self._seen], gradient[:, : self._seen], factor)
            if self._seen < dst.shape[1]:
                rest = tile((dst.shape[0], dst.shape[1] - self._seen), dst.dtype)
                nisa.memset(dst=rest, value=0.0)
                nisa.dma_copy(dst=dst[:, self._seen :], src=rest)


def _store(dst: Any, gradient: Any, factor: float) -> None:
    scaled = tile(gradient.shape, dst.dtype)
    nisa.tensor_scalar(dst=scaled, data=gradient, op0=nl.multiply, operand0=factor)
    nisa.dma_copy(dst=dst, src=scaled)


def _add(of_queries, of_keys, first, part, scores, scale, kept, share):
    """Add what 128 queries and some keys give to all gradients.

    Args:
        of_queries, of_keys: the two.
        first: the first of the queries.
        part: which keys of `of_keys`.
        scores: [128, keys] of this part, not scaled yet.
        scale: of the scores.
        kept: 1 for weights that dropout keeps, 0 for the others; None without dropout.
        share: the share of weights that dropout keeps.
    """
    q, dy, q_rows, dy_rows = of_queries.part(first)
    at = slice(first // 128, first // 128 + 1)
    weights = tile(scores.shape, q.dtype)
    nisa.activation(dst=weights, op=nl.exp, data=scores, scale=scale, bias=of_queries.lowest[:, at])
    by_weights, used = products(dy, of_keys.v[:, part]), weights
    if kept is not None:
        used, both = tile(scores.shape, q.dtype), tile(scores.shape)
        for dst, data in ((used, weights), (both, by_weights)):
            nisa.scalar_tensor_tensor(
                dst=dst,
                data=data,
                op0=nl.multiply,
                operand0=1 / share,
                op1=nl.multiply,
                operand1=kept,
            )
        by_weights = both
    by_scores = tile(scores.shape, q.dtype)
    nisa.scalar_tensor_tensor(
        dst=by_scores, data=by_weights, op0=nl.subtract, operand0=of_queries.sums[:, at],
        op1=nl.multiply, operand1=weights,
    )  # fmt: skip
    of_keys.add(part, (q_rows, by_scores), (dy_rows, used))
    product = tile((q.shape[0], 128), buffer=nl.psum)
    for n, turned in enumerate(transposed(by_scores), part.start // 128):
        nisa.nc_matmul(dst=product, stationary=of_keys.rows[n][: turned.shape[0]], moving=turned)
    of_queries.add(first, product)


def _check(q, k, v, o, dy, lse, window):
    check_products("flash_attn_bwd", q.dtype, "cast all arguments to bfloat16")
    for name, ref in (("q_ref", q), ("k_ref", k)):
        require(
            len(ref.shape) == 4,
            f"flash_attn_bwd: `{name}` has shape {list(ref.shape)}; expected [batch, heads, d, sequence]",
            "give it all four axes; a batch of one is an axis, too",
        )
    (batch, heads, d, queries), (_, kv_heads, _, keys) = q.shape, k.shape
    require(
        queries % 128 == 0 and d <= 128,
        f"flash_attn_bwd: `q_ref` has d={d} and {queries} queries; expected d up to 128 and a multiple of 128 queries",
        "pad the queries with zeros, or split the heads; the order is [batch, heads, d, queries]",
    )
    require(
        heads % kv_heads == 0,
        f"flash_attn_bwd: {heads} heads of `q_ref` do not share {kv_heads} heads of `k_ref` evenly",
        "give `q_ref` a multiple of the heads of `k_ref`",
    )
    of_keys, of_queries = [batch, kv_heads, d, keys], [batch, heads, d, queries]
    for name, ref, expected in (
        ("k_ref", k, of_keys), ("v_ref", v, of_keys), ("o_ref", o, of_queries), ("dy_ref", dy, of_queries),
    ):  # fmt: skip
        require(
            list(ref.shape) == expected and ref.dtype == q.dtype,
            f"flash_attn_bwd: `{name}` has shape {list(ref.shape)} and dtype {ref.dtype}; expected {expected}, with"
            f" the sequence last, and {q.dtype}",
            f"transpose it, as flash_fwd has it the other way: np.ascontiguousarray({name}.swapaxes(2, 3))"
            if name in ("v_ref", "o_ref", "dy_ref") and ref.dtype == q.dtype
            else "give it the batch, d and dtype of `q_ref`",
        )
    expected = [batch, heads, 128, queries // 128]
    require(
        list(lse.shape) == expected,
        f"flash_attn_bwd: `lse_ref` has shape {list(lse.shape)}; expected {expected}",
        "give the second result of flash_fwd with FlashConfig(training=True)",
    )
    require(
        heads // kv_heads * queries <= 32768,
        f"flash_attn_bwd: {heads // kv_heads} heads with {queries} queries each share keys; their gradients are summed"
        " in SBUF, which holds 32768",
        "call it with fewer heads at a time, and add up `dk` and `dv`",
    )
    require(
        not window or queries < keys + window,
        f"flash_attn_bwd: of {queries} queries the last see none of {keys} keys within a window of {window}",
        f"give at most {keys + window - 1} queries, or a larger window",
    )


def _arguments(
    rng: np.random.Generator, dtype: Any, heads: int, kv_heads: int, queries: int, keys: int, d: int,
    causal: int, window: int,
) -> dict[str, Any]:  # fmt: skip
    q, dy = (rng.standard_normal((1, heads, d, queries)).astype(dtype) for _ in range(2))
    k, v = (rng.standard_normal((1, kv_heads, d, keys)).astype(dtype) for _ in range(2))
    given = {
        "q_ref": q, "k_ref": k, "v_ref": v, "o_ref": q, "dy_ref": dy, "lse_ref": None, "seed_ref": None,
        "use_causal_mask": bool(causal), "sliding_window": window or -1,
    }  # fmt: skip
    return with_results(given)


def with_results(given: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with the output and lse that belong to them."""
    weights, v, lse = _weights(given)
    out = (weights @ v.swapaxes(2, 3)).swapaxes(2, 3).astype(given["q_ref"].dtype)
    lse = lse.reshape((*lse.shape[:2], -1, 128)).swapaxes(2, 3).astype(np.float32)
    return {**given, "o_ref": np.ascontiguousarray(out), "lse_ref": np.ascontiguousarray(lse)}


def _weights(given: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return weights [batch, heads, queries, keys], values for each head, and lse, in float64."""
    q, k, v = (given[name].astype(np.float64) for name in ("q_ref", "k_ref", "v_ref"))
    k, v = (np.repeat(a, q.shape[1] // k.shape[1], axis=1) for a in (k, v))
    scale = given.get("softmax_scale") or q.shape[2] ** -0.5
    window = given.get("sliding_window", -1)
    causal = given.get("use_causal_mask", False) or window > 0
    weights, lse = softmax_of(
        q.swapaxes(2, 3) @ k * scale, given.get("logit_bias_ref"), causal, window
    )
    return weights, v, lse


def _loss(**given: Any) -> float:
    weights, v, _ = _weights(given)
    out = weights @ v.swapaxes(2, 3)
    return float((out.swapaxes(2, 3) * given["dy_ref"].astype(np.float64)).sum())


def _reference(**given: Any) -> Any:
    require(not given.get("dropout_p"), "the reference draws no dropout", "write dropout_p=0.0")
    weights, v, _ = _weights(given)
    q, k, dy = (given[name].astype(np.float64) for name in ("q_ref", "k_ref", "dy_ref"))
    shared = q.shape[1] // k.shape[1]
    scale = given.get("softmax_scale") or q.shape[2] ** -0.5
    by_weights = dy.swapaxes(2, 3) @ v
    total = (by_weights * weights).sum(axis=-1, keepdims=True)
    by_scores = weights * (by_weights - total) * scale
    dq = np.repeat(k, shared, axis=1) @ by_scores.swapaxes(2, 3)
    summed = [
        a.reshape((*k.shape[:2], shared, *k.shape[2:])).sum(2)
        for a in (q @ by_scores, dy @ weights)
    ]
    return dq, *summed


def _multiplies(
    heads: int, kv_heads: int, queries: int, keys: int, d: int, causal: int, window: int
) -> int:
    query, key = np.ogrid[:queries, :keys]
    seen = (key <= query) if causal or window else np.ones((queries, keys), bool)
    return 10 * heads * d * int((seen & (key > query - window) if window else seen).sum())


def _with_bias(rng: np.random.Generator) -> dict[str, Any]:
    """Return arguments whose bias hides some keys of all queries, and all but one of one."""
    given = _arguments(rng, np.float32, 2, 1, 128, 200, 24, 0, 0)
    bias = rng.standard_normal((1, 2, 128, 200)).astype(np.float32)
    bias[:, :, :, 30:40] = bias[0, 1, 9, 1:] = -np.inf
    return with_results({**given, "logit_bias_ref": bias, "softmax_scale": 0.3})


def _hidden(rng: np.random.Generator) -> dict[str, Any]:
    """Return arguments whose bias hides all keys of one query."""
    given = _with_bias(rng)
    given["logit_bias_ref"][0, 0, 3] = -np.inf
    with np.errstate(invalid="ignore"):
        return with_results(given)


def _refused(message: str, help: str, **given: Any) -> Refused:
    usual: dict[str, Any] = {
        "q_ref": (2, 4, 16, 128), "k_ref": (2, 2, 16, 64), "v_ref": (2, 2, 16, 64), "o_ref": (2, 4, 16, 128),
        "dy_ref": (2, 4, 16, 128), "lse_ref": (2, 4, 128, 1), "seed_ref": None,
    }  # fmt: skip
    return Refused({**usual, **given}, message, help)


_REFUSED = (
    _refused("`q_ref` has shape [4, 16, 128]", "all four axes", q_ref=(4, 16, 128)),
    _refused("d=16 and 100 queries", "pad the queries", q_ref=(2, 4, 16, 100)),
    _refused("3 heads of `q_ref` do not share 2", "a multiple", q_ref=(2, 3, 16, 128)),
    _refused("`k_ref` has shape [2, 2, 8, 64]", "the batch, d and dtype of `q_ref`", k_ref=(2, 2, 8, 64)),
    _refused("`v_ref` has shape [2, 2, 64, 16] and dtype float32; expected [2, 2, 16, 64], with the sequence last",
             "v_ref.swapaxes(2, 3)", v_ref=(2, 2, 64, 16)),
    _refused("`o_ref` has shape [2, 4, 128, 16]", "o_ref.swapaxes(2, 3)", o_ref=(2, 4, 128, 16)),
    _refused("`lse_ref` has shape [2, 4, 128]", "the second result", lse_ref=(2, 4, 128)),
    _refused("`dy_ref` has shape [2, 4, 16, 128] and dtype float16", "dtype of `q_ref`",
             dy_ref=np.zeros((2, 4, 16, 128), np.float16)),
    _refused("products of float16", "cast all", q_ref=np.zeros((2, 4, 16, 128), np.float16)),
    _refused("no seed", "give a seed", dropout_p=0.5),
    _refused("dropout_p is -1", "dropout_p=0.1", dropout_p=-1, seed_ref=np.ones(1, np.int32)),
    _refused("a window of 9", "at most 72 queries", sliding_window=9),
    _refused("`logit_bias_ref` has shape [1, 1, 64, 128]", "each pair", logit_bias_ref=(1, 1, 64, 128)),
    _refused("2 heads with 16512 queries", "fewer heads", q_ref=(1, 2, 1, 16512), k_ref=(1, 1, 1, 64),
             v_ref=(1, 1, 1, 64), o_ref=(1, 2, 1, 16512), dy_ref=(1, 2, 1, 16512), lse_ref=(1, 2, 128, 129)),
)  # fmt: skip


KERNEL = Prebuilt(
    kernel=flash_attn_bwd,
    arguments=_arguments,
    reference=_reference,
    loss=_loss,
    gradients=("q_ref", "k_ref", "v_ref"),
    tested=(
        {"heads": 2, "kv_heads": 1, "queries": 128, "keys": 200, "d": 16, "causal": 1, "window": 0},
        {"heads": 1, "kv_heads": 1, "queries": 256, "keys": 650, "d": 64, "causal": 0, "window": 0},
        {
            "heads": 1,
            "kv_heads": 1,
            "queries": 384,
            "keys": 384,
            "d": 40,
            "causal": 1,
            "window": 150,
        },
        {"heads": 1, "kv_heads": 1, "queries": 128, "keys": 1, "d": 1, "causal": 0, "window": 0},
    ),
    ranges={
        "heads": range(1, 3),
        "kv_heads": range(1, 3),
        "queries": range(128, 512, 128),
        "keys": range(1, 700),
        "d": range(1, 129, 9),
        "causal": range(2),
        "window": range(0, 300, 37),
    },
    legal=lambda heads, kv_heads, queries, keys, d, causal, window: (
        heads % kv_heads == 0 and not (window and queries >= keys + window)
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
        },
        {
            "heads": 2,
            "kv_heads": 1,
            "queries": 2048,
            "keys": 2048,
            "d": 128,
            "causal": 1,
            "window": 0,
        },
    ),
    multiplies=_multiplies,
    tolerance={"float32": 2e-5, "bfloat16": 5e-2},
    cores=(1, 2),
    refused=_REFUSED,
    edges={"bias": _with_bias, "hidden": _hidden},
    falls_short={
        "float32": "the Tensor engine also transposes the gradient by the scores",
        "bfloat16": "the Tensor engine also transposes the gradient by the scores; Scalar and Vector take nearly"
        " as long for a tile, and each waits for the others",
    },
    steps=(
        "The sum of dy * o of each query is taken first, by a product with a column of ones.",
        Step(
            "For 512 keys at a time, all queries that see them follow, 128 at a time; other pairs are skipped.",
            "for first in range(0, queries, 128)",
        ),
        Step(
            "The weights are computed again: exp(scale * q.T @ k - lse), with -inf for pairs that are not seen.",
            "nisa.activation(dst=weights",
        ),
        Step(
            "With dropout, the same seeds draw the same weights as in flash_fwd.",
            "if kept is not None",
        ),
        Step(
            "The gradient by the weights is dy.T @ v; that by the scores is weight * (gradient - sum).",
            "by_scores = tile(",
        ),
        Step(
            "Gradients by keys and values are summed in PSUM: q @ by_scores and dy @ weights.",
            "of_keys.add(",
        ),
        Step(
            "The gradient by the scores is transposed for the one by the queries, which is summed in SBUF.",
            "for n, turned in enumerate(transposed(by_scores)",
        ),
    ),
    sources=(
        "aws-neuron-sdk 2.21, neuronxcc.nki.kernels.attention.flash_attn_bwd",
        "T. Dao, arXiv:2307.08691, algorithm 2",
    ),
    official={"neuronxcc.nki.kernels.attention.flash_attn_bwd": flash_attn_bwd},
)
