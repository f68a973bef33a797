"""Attention of a few new tokens to the keys and values of a cache."""

from __future__ import annotations

from typing import Any

import numpy as np

import nki_lab.language as nl
from nki_lab.api import isa as nisa
from nki_lab.api import nki
from nki_lab.kernels.prebuilt import Prebuilt, Refused, Step, require
from nki_lab.kernels.rows import check_floats, loaded, of_this_core

# Keys or values that one transfer brings, and columns of a bank of PSUM.
_CHUNK, _BANK = 4096, 512
# Scores of a head's keys stay in SBUF: so many bytes of each partition.
_SCORE_BYTES = 32 * 1024
# Stands for -inf, with which exp(-inf - -inf) would be NaN.
_MASKED = -1e30


@nki.jit
def attention_decode(
    q, k_active, v_active, k_prior, v_prior, prior_used_len, scale=None, update_cache=False
):
    """Return softmax(scale * q.T @ k) @ v of new tokens, over the used part of a cache and the tokens themselves.

    Query heads that share a head of keys are computed together. A new token sees the new tokens up to itself. All of
    the cache is read, so that nothing waits for the lengths; what lies beyond them is ignored, but must be finite.

    Args:
        q: [batch, d, heads, s_active], float32 or bfloat16; d at most 128.
        k_active: [batch, kv_heads, d, s_active]: keys of the new tokens; heads is a multiple of kv_heads.
        v_active: [batch, kv_heads, s_active, d].
        k_prior: [batch, kv_heads, d, s_prior]: the cache of keys.
        v_prior: [batch, kv_heads, s_prior, d].
        prior_used_len: [batch], int32: how many keys of the cache each sequence has, from 0 to s_prior.
        scale: of the scores, above 0; 1 / sqrt(d) where it is None.
        update_cache: write the new keys and values into the cache, in place, behind the used ones; they must fit.

    Returns:
        [batch, heads, s_active, d]; with `update_cache` also `k_prior` and `v_prior`, as they are then.
    """
    _check(q, k_active, v_active, k_prior, v_prior, prior_used_len, scale)
    (batch, d, heads, new), (kv_heads, keys) = q.shape, (k_prior.shape[1], k_prior.shape[3])
    scale = d**-0.5 if scale is None else scale
    out = nl.ndarray((batch, heads, new, d), dtype=q.dtype, buffer=nl.shared_hbm)
    queries = loaded(q.permute((1, 0, 2, 3)).reshape((d, batch, kv_heads, heads // kv_heads * new)))
    chunks, positions = _chunks(keys), _positions(_chunks(keys))
    used, lengths = _lengths(prior_used_len)
    shared = heads // kv_heads
    for n in range(batch * kv_heads):
        if not of_this_core(n):
            continue
        b, head = n // kv_heads, n % kv_heads
        scores = _scores(queries[:, b, head], k_prior[b, head], k_active[b, head], chunks)
        _mask(scores, positions, lengths[:, b : b + 1], new)
        weights, sums = _weights(scores, q.dtype, scale)
        result = _output(weights, sums, v_prior[b, head], v_active[b, head], chunks)
        nisa.dma_copy(
            dst=out[b, head * shared : (head + 1) * shared].reshape(result.shape), src=result
        )
    if not update_cache:
        return out
    for token in range(new):
        place = nl.ndarray(used.shape, dtype=nl.int32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=place, data=used, op0=nl.add, operand0=token)
        for n in range(batch * kv_heads):
            if of_this_core(n):
                b, head = n // kv_heads, n % kv_heads
                column = place[:1, b : b + 1]
                nisa.dma_copy(
                    dst=k_prior[b, head].select(1, column), src=k_active[b, head, :, token]
                )
                nisa.dma_copy(dst=v_prior[b, head].select(0, column), src=v_active[b, head, token])
    return out, k_prior, v_prior


def _chunks(keys):
    """Return parts of the keys: the first key, partitions, keys of each partition, and column of their scores."""
    pmax, first, column, chunks = nl.tile_size.pmax, 0, 0, []
    while first < keys:
        rows = min(pmax, keys - first)
        each = min(_CHUNK, keys - first) // rows
        chunks.append((first, rows, each, column))
        first, column = first + rows * each, column + each
    return chunks


def _lengths(prior_used_len):
    """Return the lengths in each partition, [128, batch], as int32 and as float32."""
    batch, pmax = prior_used_len.shape[0], nl.tile_size.pmax
    numbers = nl.ndarray((pmax, batch), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=numbers, src=prior_used_len.reshape((1, batch)).broadcast(0, pmax))
    lengths = nl.ndarray((pmax, batch), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=lengths, src=numbers)
    return numbers, lengths


def _positions(chunks):
    """Return the number of the key in each partition and column; none of an absent key is below a length."""
    width = chunks[-1][3] + chunks[-1][2]
    positions = nl.ndarray((nl.tile_size.pmax, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=positions, value=-_MASKED)
    for first, rows, each, column in chunks:
        nisa.iota(
            dst=positions[:rows, column : column + each], pattern=[[1, each]], offset=first,
            channel_multiplier=each,
        )  # fmt: skip
    return positions


def _scores(queries, k_prior, k_active, chunks):
    """Return the scores [128, queries, columns] of a head of keys in SBUF; those of the new keys come last."""
    count, pmax = queries.shape[1], nl.tile_size.pmax
    width = chunks[-1][3] + chunks[-1][2]
    scores = nl.ndarray((pmax, count, width + 1), dtype=nl.float32, buffer=nl.sbuf)
    if chunks[-1][1] < pmax:
        nisa.memset(dst=scores[:, :, width - 1 :], value=_MASKED)
    else:
        nisa.memset(dst=scores[:, :, width:], value=_MASKED)
    parts = [
        (
            loaded(k_prior[:, first : first + rows * each]).reshape((k_prior.shape[0], rows, each)),
            column,
        )
        for first, rows, each, column in chunks
    ]
    active = loaded(k_active)
    parts.append((active.reshape((*active.shape, 1)), width))
    step = _BANK // count
    for tile, column in parts:
        _, rows, each = tile.shape
        for start in range(0, each, step):
            stop = min(start + step, each)
            product = nl.ndarray((rows, count, stop - start), dtype=nl.float32, buffer=nl.psum)
            for n in range(start, stop):
                nisa.nc_matmul(
                    dst=product[:, :, n - start], stationary=tile[:, :, n], moving=queries
                )
            nisa.activation(
                dst=scores[:rows, :, column + start : column + stop], op=nl.copy, data=product
            )
    return scores


def _mask(scores, positions, length, new):
    """Mask keys of the cache from its used length on, and new keys for the tokens before them."""
    width, count = positions.shape[1], scores.shape[1]
    added = nl.ndarray(positions.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=added, data=positions, op0=nl.greater_equal, operand0=length,
        op1=nl.multiply, operand1=_MASKED,
    )  # fmt: skip
    prior = scores[:, :, :width]
    added = added.reshape((added.shape[0], 1, width)).broadcast(1, count)
    nisa.tensor_tensor(dst=prior, data1=prior, data2=added, op=nl.add)
    if new > 1:
        active = scores[:new, :, width].reshape((new, count // new, new))
        nisa.affine_select(
            dst=active, pattern=[[0, count // new], [1, new]], channel_multiplier=-1,
            on_true_tile=active, on_false_value=_MASKED, cmp_op=nl.greater_equal,
        )  # fmt: skip


def _weights(scores, dtype, scale):
    """Return exp(scale * (score - largest)) like the scores, and their sums [queries, 1], both in SBUF."""
    pmax, count, width = scores.shape
    largest = nl.ndarray((pmax, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=scores, axis=2)
    row = nl.ndarray((1, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_partition_reduce(dst=row, op=nl.max, data=largest)
    ones = nl.ndarray((pmax, pmax), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    spread = nl.ndarray((pmax, count), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=spread, stationary=ones[:1], moving=row)  # the row, in every partition
    nisa.tensor_tensor(
        dst=scores,
        data1=scores,
        data2=spread.reshape((pmax, count, 1)).broadcast(2, width),
        op=nl.subtract,
    )
    weights = nl.ndarray(scores.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.activation(dst=weights, op=nl.exp, data=scores, scale=scale)
    added = nl.ndarray((pmax, count), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=added, op=nl.add, data=weights, axis=2)
    sums = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=sums, stationary=added, moving=ones[:, :1])
    return weights, sums


def _output(weights, sums, v_prior, v_active, chunks):
    """Return the products [queries, d] of weights and values, divided by the sums."""
    count, d = weights.shape[1], v_prior.shape[1]
    product = nl.ndarray((count, d), dtype=nl.float32, buffer=nl.psum)
    parts = [
        (loaded(v_prior[first : first + rows * each].reshape((rows, each, d))), column)
        for first, rows, each, column in chunks
    ]
    active = loaded(v_active)
    parts.append((active.reshape((active.shape[0], 1, d)), weights.shape[2] - 1))
    for tile, column in parts:
        rows, each, _ = tile.shape
        for n in range(each):
            nisa.nc_matmul(dst=product, stationary=weights[:rows, :, column + n], moving=tile[:, n])
    share = nl.ndarray((count, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=share, data=sums)
    result = nl.ndarray((count, d), dtype=v_prior.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=product, op0=nl.multiply, operand0=share)
    return result


def _check(q, k_active, v_active, k_prior, v_prior, prior_used_len, scale):
    check_floats("attention_decode", q=q)
    for name, tensor, axes in (
        ("q", q, "batch, d, heads, s_active"), ("k_prior", k_prior, "batch, kv_heads, d, s_prior"),
    ):  # fmt: skip
        require(
            len(tensor.shape) == 4,
            f"attention_decode: `{name}` has shape {list(tensor.shape)}; expected [{axes}]",
            "give it all four axes; a batch or a token of one is an axis, too",
        )
    (batch, d, heads, new), (_, kv_heads, _, keys) = q.shape, k_prior.shape
    expected = {
        "k_prior": (k_prior, [batch, kv_heads, d, keys], "the keys last"),
        "v_prior": (v_prior, [batch, kv_heads, keys, d], "the keys before d"),
        "k_active": (k_active, [batch, kv_heads, d, new], "the new keys last"),
        "v_active": (v_active, [batch, kv_heads, new, d], "the new keys before d"),
    }
    for name, (tensor, shape, order) in expected.items():
        require(
            list(tensor.shape) == shape,
            f"attention_decode: `{name}` has shape {list(tensor.shape)}; expected {shape}, with {order}",
            "`q` gives batch, d and s_active, `k_prior` gives kv_heads and s_prior",
        )
        require(
            tensor.dtype == q.dtype,
            f"attention_decode: `{name}` is {tensor.dtype}, and `q` {q.dtype}",
            "cast them to one dtype",
        )
    require(
        tuple(prior_used_len.shape) == (batch,) and prior_used_len.dtype == nl.int32,
        f"attention_decode: `prior_used_len` is {list(prior_used_len.shape)} {prior_used_len.dtype}; "
        f"expected {[batch]} int32",
        "give one length for each sequence of the batch: np.array(lengths, np.int32)",
    )
    require(
        heads % kv_heads == 0
        and heads // kv_heads * new <= nl.tile_size.pmax
        and d <= nl.tile_size.pmax,
        f"attention_decode: {heads} heads of {d} elements and {new} tokens share {kv_heads} heads of keys; heads must "
        "be a multiple of kv_heads, and at most 128 queries share a head; d is at most 128",
        "give fewer tokens or heads at a time",
    )
    require(
        (keys // nl.tile_size.pmax + 2) * (heads // kv_heads) * new * 4 <= _SCORE_BYTES,
        f"attention_decode: {heads // kv_heads * new} queries to {keys} keys; the scores of a head of keys take "
        f"{_SCORE_BYTES} bytes of a partition",
        "give fewer tokens or heads at a time, or a shorter cache",
    )
    require(
        scale is None or scale > 0,
        f"attention_decode: `scale` is {scale}",
        "give a number above 0; a negative sign belongs into `q`",
    )


def _arguments(
    rng: np.random.Generator,
    dtype: Any,
    batch: int,
    heads: int,
    kv_heads: int,
    keys: int,
    d: int,
    new: int,
    update: int,
) -> dict[str, Any]:
    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(dtype)

    return {
        "q": normal(batch, d, heads, new),
        "k_active": normal(batch, kv_heads, d, new),
        "v_active": normal(batch, kv_heads, new, d),
        "k_prior": normal(batch, kv_heads, d, keys),
        "v_prior": normal(batch, kv_heads, keys, d),
        "prior_used_len": rng.integers(0, keys + 1 - new * update, batch, np.int32),
        "update_cache": bool(update),
    }


def _reference(
    q: Any, k_active: Any, v_active: Any, k_prior: Any, v_prior: Any, prior_used_len: Any, scale: Any = None,
    update_cache: bool = False,
) -> Any:  # fmt: skip
    _, d, heads, new = q.shape
    results = []
    for b, length in enumerate(prior_used_len):
        keys = np.concatenate([k_prior[b, ..., :length], k_active[b]], axis=2).astype(np.float64)
        values = np.concatenate([v_prior[b, :, :length], v_active[b]], axis=1).astype(np.float64)
        repeats = heads // len(keys)
        queries = q[b].astype(np.float64).transpose(1, 2, 0)
        scores = queries @ np.repeat(keys, repeats, axis=0) * (d**-0.5 if scale is None else scale)
        scores[..., length:][:, ~np.tri(new, dtype=bool)] = -np.inf
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        results.append(weights @ np.repeat(values, repeats, axis=0))
    if not update_cache:
        return np.stack(results)
    caches = (k_prior.copy(), v_prior.copy())
    for b, length in enumerate(prior_used_len):
        caches[0][b, ..., length : length + new] = k_active[b]
        caches[1][b, :, length : length + new] = v_active[b]
    return np.stack(results), *caches


def _edge(rng: np.random.Generator) -> dict[str, Any]:
    """Return an empty and a full cache, large scores, and a head of NaN."""
    arguments = _arguments(rng, np.float32, 3, 4, 2, 200, 32, 2, 0)
    arguments["prior_used_len"][:] = 0, 200, 77
    arguments["q"][1] *= 100
    arguments["q"][2, 5, 1, 0] = np.nan
    return arguments


KERNEL = Prebuilt(
    kernel=attention_decode,
    arguments=_arguments,
    reference=_reference,
    tested=(
        {"batch": 2, "heads": 4, "kv_heads": 2, "keys": 256, "d": 64, "new": 1, "update": 1},
        {"batch": 1, "heads": 3, "kv_heads": 1, "keys": 4500, "d": 128, "new": 2, "update": 0},
        {"batch": 3, "heads": 2, "kv_heads": 2, "keys": 77, "d": 40, "new": 5, "update": 1},
        {"batch": 1, "heads": 1, "kv_heads": 1, "keys": 1, "d": 1, "new": 1, "update": 0},
    ),
    ranges={
        "batch": range(1, 4),
        "heads": range(1, 9),
        "kv_heads": range(1, 3),
        "keys": range(1, 600),
        "d": range(1, 129),
        "new": range(1, 9),
        "update": range(2),
    },
    legal=lambda heads, kv_heads, keys, new, update, **_: heads % kv_heads == 0 and keys >= new * update,
    timed=(
        {"batch": 2, "heads": 8, "kv_heads": 1, "keys": 2048, "d": 128, "new": 1, "update": 0},
        {"batch": 8, "heads": 8, "kv_heads": 1, "keys": 16384, "d": 128, "new": 1, "update": 0},
    ),
    multiplies=lambda batch, heads, kv_heads, keys, d, new, update: 4 * batch * heads * new * d * (keys + new),
    tolerance={"float32": 1e-5, "bfloat16": 3e-2},
    cores=(1, 2),
    edges={"lengths, large scores and NaN": _edge},
    steps=(
        "A transfer brings 4096 keys [d, 4096], and 4096 values: 32 that follow each other to each partition.",
        Step(
            "The Tensor engine multiplies 128 keys by all queries that share them: scores [128 keys, queries].",
            "_scores",
        ),
        Step(
            "All scores of a head of keys stay in SBUF; keys from prior_used_len on get a score of -1e30.",
            "_mask",
        ),
        Step(
            "The Vector engine finds the largest score of each query in a partition, GpSimd over the partitions.",
            "_weights",
        ),
        Step(
            "The Scalar engine computes exp(scale * (score - largest)); the weights already lie as the next"
            " product needs.",
            "weights = nl.ndarray(",
        ),
        Step(
            "The Tensor engine multiplies them by the values, and by ones for their sum, which divides the output.",
            "_output",
        ),
        Step(
            "On request a transfer writes the new keys and values behind the used ones, at a place that a"
            " register tells.",
            "if not update_cache",
        ),
    ),
    sources=("NKI Library, attention_tkg",),
    refused=(
        Refused(
            {"q": (2, 32, 4, 1), "k_active": (2, 1, 32, 1), "v_active": (2, 1, 1, 32), "k_prior": (2, 1, 32, 64),
             "v_prior": (2, 1, 32, 64), "prior_used_len": np.zeros(2, np.int32)},
            "`v_prior` has shape [2, 1, 32, 64]; expected [2, 1, 64, 32], with the keys before d",
            "`k_prior` gives kv_heads and s_prior",
        ),
        Refused(
            {"q": (2, 32, 4, 1), "k_active": (2, 1, 32, 1), "v_active": (2, 1, 1, 32), "k_prior": (2, 1, 32, 64),
             "v_prior": (2, 1, 64, 32), "prior_used_len": (2,)},
            "`prior_used_len` is [2] float32; expected [2] int32",
            "np.array(lengths, np.int32)",
        ),
        Refused(
            {"q": (2, 32, 3, 1), "k_active": (2, 2, 32, 1), "v_active": (2, 2, 1, 32), "k_prior": (2, 2, 32, 64),
             "v_prior": (2, 2, 64, 32), "prior_used_len": np.zeros(2, np.int32)},
            "3 heads of 32 elements and 1 tokens share 2 heads of keys",
            "fewer tokens or heads",
        ),
    ),
)  # fmt: skip
