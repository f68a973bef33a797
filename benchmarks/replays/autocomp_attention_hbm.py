"""Programs for the attention kernels that Autocomp began with, where every step goes through HBM.

q, k, v [128, length] bfloat16, result [length, 128] = softmax(q.T @ k) @ v.T. All tiles between are float32, and each
step reads all of what the step before has stored:

1. scores of 128 queries (8 products [128, 512] fill PSUM), their largest, their difference: stored
2. load, exp: stored
3. load, sum along the row (`fused`: step 2 sums, and there is no step 3); then the reciprocals of all sums at once
4. load, times the reciprocal: stored
5. v in tiles of [128, 128]: transposed, stored
6. scores in tiles of [128, 128]: loaded, transposed, stored
7. for each 128 queries, for each 128 keys: load both tiles, add their product

The source computes all scores before their maxima, in 64 MiB of PSUM, of which there are 2: step 1 runs here for 128
queries at a time, as a compiler must order it.

Structure: ucb-bar/autocomp dd26a565 examples/trn-tutorial/4_attention_trace.py, the code above each score.
"""

from __future__ import annotations

import nki_lab.language as nl
from benchmarks.replays.autocomp_attention import (
    KEYS,
    QUERIES,
    replay,
    scores_of,
    store_rows,
    transposed,
)
from benchmarks.replays.tiles import load, output, store, sums, tile
from nki_lab.api import isa as nisa


def separate(q, k, v):
    """Attend with a separate pass for the sums."""
    return _through_hbm(q, k, v, fused=False)


def fused(q, k, v):
    """Attend with sums made along with the exponentials."""
    return _through_hbm(q, k, v, fused=True)


def _through_hbm(q, k, v, fused):
    length = q.shape[1]
    tall = length // QUERIES
    out = output((length, 128), q.dtype)
    q, k, v = load(q), load(k), load(v)

    shifted = _rows(tall, length)
    for i in range(tall):
        store(shifted[i], _shifted_scores(q, k, i))

    totals, exponentials = tile(128, tall), _rows(tall, length)
    for i in range(tall):
        held, result = load(shifted[i]), tile(128, length)
        if fused:
            nisa.activation(
                dst=result, op=nl.exp, data=held, reduce_op=nl.add,
                reduce_res=totals[:, i : i + 1], reduce_cmd=nisa.reduce_cmd.reset_reduce,
            )  # fmt: skip
        else:
            nisa.activation(dst=result, op=nl.exp, data=held)
        store(exponentials[i], result)
    if not fused:
        for i in range(tall):
            held = load(exponentials[i])
            nisa.tensor_reduce(dst=totals[:, i : i + 1], op=nl.add, data=held, axis=1)
    inverse = tile(128, tall)
    nisa.reciprocal(dst=inverse, data=totals)

    weights = _rows(tall, length)
    for i in range(tall):
        held, result = load(exponentials[i]), tile(128, length)
        nisa.tensor_scalar(
            dst=result, data=held, op0=nl.multiply, operand0=inverse[:, i : i + 1],
            engine=nisa.vector_engine,
        )  # fmt: skip
        store(weights[i], result)

    values = _rows(tall, 128)
    for j in range(tall):
        store(values[j], transposed(v[:, j * 128 : (j + 1) * 128], nl.float32))
    turned = nl.ndarray((tall, tall, 128, 128), dtype=nl.float32, buffer=nl.private_hbm)
    for i in range(tall):
        for j in range(tall):
            held = load(weights[i, :, j * 128 : (j + 1) * 128])
            store(turned[j, i], transposed(held, nl.float32))

    for i in range(tall):
        result = sums(QUERIES, 128)
        for j in range(tall):
            stationary = load(turned[j, i])
            nisa.nc_matmul(dst=result, stationary=stationary, moving=load(values[j]))
        store_rows(out, i, result)
    return out


def _rows(count, columns):
    return nl.ndarray((count, 128, columns), dtype=nl.float32, buffer=nl.private_hbm)


def _shifted_scores(q, k, i):
    """Return the scores of 128 queries less their largest, in SBUF."""
    wide = q.shape[1] // KEYS
    blocks = [scores_of(q, k, i, j) for j in range(wide)]
    maxima, largest, result = tile(128, wide), tile(128, 1), tile(128, q.shape[1])
    for j, scores in enumerate(blocks):
        nisa.tensor_reduce(dst=maxima[:, j : j + 1], op=nl.maximum, data=scores, axis=1)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=maxima, axis=1)
    for j, scores in enumerate(blocks):
        nisa.tensor_scalar(
            dst=result[:, j * KEYS : (j + 1) * KEYS], data=scores, op0=nl.subtract,
            operand0=largest, engine=nisa.vector_engine,
        )  # fmt: skip
    return result


VERSIONS = ((128, separate), (389, fused))

REPLAYS = tuple(replay(*version) for version in VERSIONS)
