"""Programs for the attention kernels that Autocomp found once scores stayed on chip.

q, k, v and the result as in `autocomp_attention_hbm`: [128, length] bfloat16, result [length, 128]. Scores are
products [128 queries, 512 keys] of 128 queries with a block of keys, float32 in PSUM. Passes over all queries:

    A: the largest score of each query, block by block
    B: the sum of exp(score - largest), block by block; then the reciprocals of all totals at once
    C: exp again, times the reciprocal, and for each 128 of the 512 keys: transpose the weights and v on the Tensor
       engine, copy both out of PSUM, add their product to the result of the 128 queries

- once: scores are computed once and kept for all passes: 64 MiB of PSUM as written, of which there are 2. Passes A and
  B run together here, block by block of queries, and what C needs is spilled to HBM (SBUF holds 24 MB).
- passes: every pass computes the scores anew. All tiles float32.
- narrow: exponentials, weights, transposed tiles bfloat16.
- summed: `narrow`, pass B totals in the Scalar engine's registers. Three published versions differ in names alone:
  they are this kernel.
- cached: v is transposed once, before. For 128 queries at a time, A keeps scores as bfloat16 in SBUF; then for each
  128 keys exp, its sum, its transposition, and the product; at the end the result is divided by the sum.
- again: `cached`, but scores are computed anew for the exponentials, which read PSUM.
- one bound: `again`, but pass A runs for the first 128 queries alone, and all are shifted by what it found (the shift
  cancels out).

Writing as the source does: the negated maximum is made anew for each use; results that are only renamed are written
in place. The source computes scores with `is_transpose`, which takes a product's time and gives no product here.

Structure: ucb-bar/autocomp dd26a565 examples/trn-tutorial/4_attention_trace.py, the code above each score; dtype and
length from harnesses/trn-tutorial-nki1/4_attention_test.py.
"""

from __future__ import annotations

from functools import partial

import nki_lab.language as nl
from benchmarks.replay import Program, Replay
from benchmarks.replays.old_dialect import copied
from benchmarks.replays.tiles import load, output, store, sums, tile
from nki_lab.api import isa as nisa

QUERIES, KEYS, SUB = 128, 512, 128


def transposed(data, dtype):
    """Transpose [128, 128] on the Tensor engine and copy it to SBUF as `dtype`."""
    turned, held = sums(128, 128, data.dtype), tile(128, 128, dtype)
    nisa.nc_transpose(dst=turned, data=data, engine=nisa.tensor_engine)
    copied(dst=held, src=turned)
    return held


def scores_of(q, k, i, j):
    """Multiply 128 queries with 512 keys, into PSUM."""
    scores = sums(QUERIES, KEYS)
    queries = q[:, i * QUERIES : (i + 1) * QUERIES]
    nisa.nc_matmul(dst=scores, stationary=queries, moving=k[:, j * KEYS : (j + 1) * KEYS])
    return scores


def store_rows(out, i, held):
    """Copy [128, 128] to SBUF in the dtype of `out` and store it."""
    narrow = tile(128, 128, out.dtype)
    copied(dst=narrow, src=held)
    store(out[i * QUERIES : (i + 1) * QUERIES], narrow)


def _largest(dst, scores):
    nisa.tensor_reduce(dst=dst, op=nl.maximum, data=scores, axis=1)


def _sum(dst, data):
    nisa.tensor_reduce(dst=dst, op=nl.add, data=data, axis=1)


def _exp(scores, largest, dtype):
    """Return exp(scores - largest)."""
    result = tile(128, scores.shape[1], dtype)
    nisa.activation(dst=result, op=nl.exp, data=scores, bias=nl.negative(largest))
    return result


def _output(q):
    return output((q.shape[1], 128), q.dtype)


# -- three passes over all queries ----------------------------------------------------------------------------------


def once(q, k, v):
    """Attend with scores computed once and spilled."""
    q, k, v, out = load(q), load(k), load(v), _output(q)
    tall, wide = q.shape[1] // QUERIES, q.shape[1] // KEYS
    spilled = nl.ndarray((tall, wide, QUERIES, KEYS), dtype=nl.float32, buffer=nl.private_hbm)
    largest, totals = tile(128, tall), tile(128, tall)
    nisa.memset(dst=totals, value=0.0)
    for i in range(tall):
        blocks = [scores_of(q, k, i, j) for j in range(wide)]
        _pass_a(blocks.__getitem__, wide, largest[:, i : i + 1])
        _pass_b(blocks.__getitem__, wide, largest[:, i : i + 1], totals[:, i : i + 1], nl.float32)
        for j, scores in enumerate(blocks):
            kept = tile(128, KEYS)
            copied(dst=kept, src=scores)
            store(spilled[i, j], kept)

    def scores(i, j):
        return load(spilled[i, j])

    _pass_c(scores, largest, totals, v, out, nl.float32)
    return out


def passes(q, k, v):
    """Attend with scores computed in every pass; float32."""
    return _three_passes(q, k, v, nl.float32, _pass_b)


def narrow(q, k, v):
    """Attend as `passes`; bfloat16 behind the exponentials."""
    return _three_passes(q, k, v, nl.bfloat16, _pass_b)


def summed(q, k, v):
    """Attend as `narrow`; sum in the registers of Scalar."""
    return _three_passes(q, k, v, nl.bfloat16, _pass_b_in_registers)


def _three_passes(q, k, v, dtype, pass_b):
    q, k, v, out = load(q), load(k), load(v), _output(q)
    tall, wide = q.shape[1] // QUERIES, q.shape[1] // KEYS
    largest, totals = tile(128, tall), tile(128, tall)
    scores = partial(scores_of, q, k)
    for i in range(tall):
        _pass_a(partial(scores, i), wide, largest[:, i : i + 1])
    nisa.memset(dst=totals, value=0.0)
    for i in range(tall):
        pass_b(partial(scores, i), wide, largest[:, i : i + 1], totals[:, i : i + 1], dtype)
    _pass_c(scores, largest, totals, v, out, dtype)
    return out


def _pass_a(scores, wide, largest):
    _largest(largest, scores(0))
    for j in range(1, wide):
        block = tile(128, 1)
        _largest(block, scores(j))
        nisa.tensor_tensor(dst=largest, data1=largest, data2=block, op=nl.maximum)


def _pass_b(scores, wide, largest, total, dtype):
    shift = nl.negative(largest)
    for j in range(wide):
        held, part = tile(128, KEYS, dtype), tile(128, 1)
        nisa.activation(dst=held, op=nl.exp, data=scores(j), bias=shift)
        _sum(part, held)
        nisa.tensor_tensor(dst=total, data1=total, data2=part, op=nl.add)


def _pass_b_in_registers(scores, wide, largest, total, dtype):
    shift = nl.negative(largest)
    command = nisa.reduce_cmd.reset_reduce
    for j in range(wide):
        held = tile(128, KEYS)
        result = total if j in (0, wide - 1) else None
        nisa.activation(
            dst=held, op=nl.exp, data=scores(j), bias=shift,
            reduce_op=nl.add, reduce_res=result, reduce_cmd=command,
        )  # fmt: skip
        command = nisa.reduce_cmd.reduce


def _pass_c(scores, largest, totals, v, out, dtype):
    tall, wide = totals.shape[1], v.shape[1] // KEYS
    inverse = tile(128, tall)
    nisa.reciprocal(dst=inverse, data=totals)
    for i in range(tall):
        result = sums(QUERIES, 128)
        for j in range(wide):
            held = _exp(scores(i, j), largest[:, i : i + 1], dtype)
            weights = tile(128, KEYS, dtype)
            nisa.tensor_scalar(
                dst=weights, data=held, op0=nl.multiply, operand0=inverse[:, i : i + 1],
                engine=nisa.vector_engine,
            )  # fmt: skip
            for part in range(0, KEYS, SUB):
                stationary = transposed(weights[:, part : part + SUB], dtype)
                start = j * KEYS + part
                moving = transposed(v[:, start : start + SUB], dtype)
                nisa.nc_matmul(dst=result, stationary=stationary, moving=moving)
        if dtype is nl.float32:  # these versions copy the result as float32 first
            wide_result = tile(128, 128)
            copied(dst=wide_result, src=result)
            result = wide_result
        store_rows(out, i, result)


# -- 128 queries at a time ------------------------------------------------------------------------------------------


def cached(q, k, v):
    """Attend to 128 queries at a time; keep their scores as bfloat16."""
    q, k, values, out = load(q), load(k), _transposed_values(v), _output(q)
    wide = q.shape[1] // KEYS
    for i in range(q.shape[1] // QUERIES):
        blocks, maxima = [], tile(128, wide)
        for j in range(wide):
            scores, kept = scores_of(q, k, i, j), tile(128, KEYS, nl.bfloat16)
            _largest(maxima[:, j : j + 1], scores)
            nisa.tensor_copy(dst=kept, src=scores, engine=nisa.vector_engine)
            blocks.append(kept)
        largest = tile(128, 1)
        _largest(largest, maxima)
        _attend(blocks.__getitem__, largest, values, out, i)
    return out


def again(q, k, v):
    """Attend as `cached`; compute scores twice."""
    q, k, values, out = load(q), load(k), _transposed_values(v), _output(q)
    wide = q.shape[1] // KEYS
    for i in range(q.shape[1] // QUERIES):
        maxima, largest = tile(128, wide), tile(128, 1)
        for j in range(wide):
            _largest(maxima[:, j : j + 1], scores_of(q, k, i, j))
        _largest(largest, maxima)
        _attend(partial(scores_of, q, k, i), largest, values, out, i)
    return out


def one_bound(q, k, v):
    """Attend as `again`; one pass A for all queries."""
    q, k, values, out = load(q), load(k), _transposed_values(v), _output(q)
    largest = tile(128, 1)
    nisa.memset(dst=largest, value=-1e38)
    for j in range(q.shape[1] // KEYS):
        block = tile(128, 1)
        _largest(block, scores_of(q, k, 0, j))
        nisa.tensor_tensor(dst=largest, data1=largest, data2=block, op=nl.maximum)
    for i in range(q.shape[1] // QUERIES):
        _attend(partial(scores_of, q, k, i), largest, values, out, i)
    return out


def _transposed_values(v):
    starts = range(0, v.shape[1], SUB)
    return [transposed(load(v[:, start : start + SUB]), nl.bfloat16) for start in starts]


def _attend(scores, largest, values, out, i):
    result, parts = sums(QUERIES, 128), tile(128, len(values))
    nisa.memset(dst=parts, value=0.0)
    for j in range(len(values) * SUB // KEYS):
        block = scores(j)
        for part in range(KEYS // SUB):
            column = j * (KEYS // SUB) + part
            held = _exp(block[:, part * SUB : (part + 1) * SUB], largest, nl.bfloat16)
            _sum(parts[:, column : column + 1], held)
            weights = transposed(held, nl.bfloat16)
            nisa.nc_matmul(dst=result, stationary=weights, moving=values[column])
    total, inverse, scaled = tile(128, 1), tile(128, 1), tile(128, 128, out.dtype)
    _sum(total, parts)
    nisa.reciprocal(dst=inverse, data=total)
    nisa.tensor_scalar(
        dst=scaled, data=result, op0=nl.multiply, operand0=inverse, engine=nisa.vector_engine
    )
    store(out[i * QUERIES : (i + 1) * QUERIES], scaled)


#: (line of the score in the trace, program)
VERSIONS = (
    (670, once),
    (975, passes),
    (1265, narrow),
    (1567, summed),
    (1817, summed),
    (2159, summed),
    (2447, cached),
    (2706, again),
    (2910, one_bound),
)


def replay(line, function):
    """Make the replay of the version with its score in this line of the trace."""
    heads = ((128, 4096), "bfloat16")
    return Replay(
        "Autocomp attention",
        "d 128, seq 4096",
        lambda: Program(function, (heads, heads, heads)),
        source=f"4_attention_trace.py:{line}",
        family="Autocomp attention",
    )


REPLAYS = tuple(replay(*version) for version in VERSIONS)
