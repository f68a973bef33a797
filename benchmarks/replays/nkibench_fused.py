"""Programs for the kernels of NKIBench that keep more than fits in SBUF, timed on trn1.

Tiles and transposes as in nkibench_matmul. What a source keeps in SBUF although it does not fit is written to HBM and
loaded again, as the old compiler spilled it; published byte counts stand for how much that was.

- bmm_softmax: scores of a pair of matrices and the largest of each row; then exponentials, their sum, and the
  quotients; 16 pairs, of which one is replayed.
- gqa: 16 heads of queries, two for each head of keys; scores of 128 queries with 512 keys are scaled and kept, then
  their exponentials are divided by their sum, transposed 128 x 128 at a time and multiplied by the values.
- swiglu: two projections, transposing x for each block of 1024 results, with the first one kept; the product of both
  goes through HBM and the third projection.
- lora: (x @ a) @ b first, kept; then x @ w in four parts of the contraction, added up, with x transposed anew for each
  part; the sum of both is transposed back in pieces of 128 columns.

Structure: github.com/zhang677/AccelOpt 47e29a7c NKIBench/kernels/.
"""

from __future__ import annotations

from functools import partial

import nki_lab.language as nl
from benchmarks.replay import Program, Replay
from benchmarks.replays.nkibench import both, filled, float32, sigmoid_reciprocal
from benchmarks.replays.nkibench_matmul import (
    columns_of,
    halves,
    product,
    transposed,
    transposed_blocks,
    unit_matrix,
)
from benchmarks.replays.old_dialect import copied, scaled
from benchmarks.replays.tiles import load, output, store, tile
from nki_lab.api import isa as nisa


def _kept(rows, columns):
    """Make tensors of 128 rows in HBM for what does not fit in SBUF."""
    return [
        nl.ndarray((128, columns), dtype=nl.float32, buffer=nl.private_hbm)
        for _ in range(rows // 128)
    ]


def _joined(total, part, op):
    nisa.tensor_tensor(dst=total, data1=total, data2=part, op=op)


def _reduced(data, op):
    part = tile(128, 1)
    nisa.tensor_reduce(dst=part, op=op, data=data, axis=1)
    return part


def _exponentials(scores, largest, count):
    """Return exp(scores - largest), block by block as `scores(n)` gives them, and the reciprocal of their sum."""
    shift, total, inverse = tile(128, 1), filled(0.0), tile(128, 1)
    nisa.tensor_scalar(
        dst=shift, data=largest, op0=nl.maximum, operand0=-3e38, op1=nl.multiply, operand1=-1.0
    )
    grown = []
    for n in range(count):
        made = tile(128, 512)
        nisa.activation(dst=made, op=nl.exp, data=scores(n), bias=shift)
        _joined(total, _reduced(made, nl.add), nl.add)
        grown.append(made)
    nisa.reciprocal(dst=inverse, data=total)
    return grown, inverse


# -- softmax -------------------------------------------------------------------------------------------------------


def bmm_softmax(lhs, rhs):
    """Multiply 16 pairs of matrices and take the softmax of each row."""
    batches, rows, depth = lhs.shape
    width = rhs.shape[2]
    unit, results = unit_matrix(), []
    for b in range(batches):
        out, scores = output((rows, width)), _kept(rows, width)
        results.append(out)
        largest = [filled(-3e38) for _ in range(rows // 128)]
        for left in range(0, width, 1024):
            moving = load(rhs[b, :, left : left + 1024])
            for top in range(0, rows, 1024):
                weights = tile(depth, 1024)
                for t in range(8):
                    held = load(lhs[b, top + 128 * t : top + 128 * t + 128, :])
                    transposed(columns_of(weights, t), held, unit)
                for t in range(8):
                    r = top // 128 + t
                    for h in range(2):
                        score, start = tile(128, 512), left + 512 * h
                        copied(
                            score, product([columns_of(weights, t)], [columns_of(moving, h, 512)])
                        )
                        _joined(largest[r], _reduced(score, nl.max), nl.maximum)
                        store(scores[r][:, start : start + 512], score)
        for r, bound in enumerate(largest):
            blocks = partial(_block_of, scores[r])
            grown, inverse = _exponentials(blocks, bound, width // 512)
            for pair in range(width // 1024):
                result = tile(128, 1024)
                for h in range(2):
                    scaled(columns_of(result, h, 512), grown[2 * pair + h], inverse)
                place = slice(128 * r, 128 * r + 128), slice(1024 * pair, 1024 * pair + 1024)
                store(out[place], result)
    return tuple(results)


def _block_of(kept, n):
    """Load 512 columns of what was kept."""
    return load(columns_of(kept, n, 512))


def gqa(q, k, v):
    """Attend with 16 heads of queries [4096, 16, 128] to 8 of keys [8, 4096, 128] and values [4096, 8, 128]."""
    length, heads, depth = q.shape
    out, unit = output((heads, length, depth)), unit_matrix()
    for g in range(k.shape[0]):
        keys = tile(depth, length)
        for n in range(length // 128):
            transposed(columns_of(keys, n), load(k[g, 128 * n : 128 * n + 128]), unit)
        values = [load(v[128 * n : 128 * n + 128, g]) for n in range(length // 128)]
        for head in (2 * g, 2 * g + 1):
            for r in range(length // 128):
                rows = slice(128 * r, 128 * r + 128)
                queries, bound = tile(depth, 128), filled(-3e38)
                (scores,) = _kept(128, length)
                transposed(queries, load(q[rows, head]), unit)
                for n in range(length // 512):
                    score = tile(128, 512)
                    scaled(score, product([queries], [columns_of(keys, n, 512)]), depth**-0.5)
                    _joined(bound, _reduced(score, nl.max), nl.maximum)
                    store(columns_of(scores, n, 512), score)
                blocks = partial(_block_of, scores)
                grown, inverse = _exponentials(blocks, bound, length // 512)
                weights = []
                for block in grown:
                    part = tile(128, 512)
                    scaled(part, block, inverse)
                    turned = transposed_blocks(part, unit)
                    weights += [columns_of(turned, t) for t in range(4)]
                result = tile(128, depth)
                copied(result, product(weights, values))
                store(out[head, rows], result)
    return out


# -- projections ---------------------------------------------------------------------------------------------------


def _turned_rows(x, top, first, width, unit):
    """Load four tiles of 128 rows of x and return their transposes: per 128 columns, [128, 512]."""
    turned = [tile(128, 512) for _ in range(width // 128)]
    for t in range(4):
        held = load(x[top + 128 * t : top + 128 * t + 128, first : first + width])
        for c, block in enumerate(turned):
            transposed(columns_of(block, t), columns_of(held, c), unit)
    return turned


def swiglu(x, up, down, gate):
    """Project x [4096, 1024] by up and gate [1024, 3072], and their product by down [3072, 1024]."""
    rows, depth = x.shape
    width = up.shape[1]
    out, kept, joined = output((rows, down.shape[1])), _kept(width, rows), _kept(width, rows)
    zero, one, unit = filled(0.0), filled(1.0), unit_matrix()

    def projected(w):
        for left in range(0, width, 1024):
            held = [load(w[k : k + 128, left : left + 1024]) for k in range(0, depth, 128)]
            for top in range(0, rows, 512):
                moving = _turned_rows(x, top, 0, depth, unit)
                for t in range(8):
                    place = left // 128 + t, slice(top, top + 512)
                    yield *place, product([columns_of(h, t) for h in held], moving)

    for block, columns, acc in projected(gate):
        result = tile(128, 512)
        copied(result, acc)
        store(kept[block][:, columns], result)
    for block, columns, acc in projected(up):
        gated = load(kept[block][:, columns])
        inverse = sigmoid_reciprocal(gated, zero, one)
        active = both(gated, inverse, nl.multiply)
        store(joined[block][:, columns], both(active, acc, nl.multiply))
    moving = [load(down[k : k + 128]) for k in range(0, width, 128)]
    for top in range(0, rows, 512):
        weights = [load(block[:, top : top + 512]) for block in joined]
        for t in range(4):
            place = out[top + 128 * t : top + 128 * t + 128]
            halves(place, [columns_of(w, t) for w in weights], moving)
    return out


def lora(x, w, a, b):
    """Add x @ w and (x @ a) @ b, with x [4096, 5120], w [5120, 12288], a [5120, 128] and b [128, 12288]."""
    rows, depth = x.shape
    width = w.shape[1]
    out = [output((128, width)) for _ in range(rows // 128)]
    low, kept, unit = _kept(width, rows), _kept(width, rows), unit_matrix()
    narrow = [load(a[k : k + 128]) for k in range(0, depth, 128)]
    for half in range(0, rows, 2048):
        inner = []
        for top in range(half, half + 2048, 512):
            moving = [
                block
                for first in range(0, depth, 1024)
                for block in _turned_rows(x, top, first, 1024, unit)
            ]
            held = tile(128, 512)
            copied(held, product(narrow, moving))
            inner.append(held)
        for left in range(0, width, 1024):
            weights = load(b[:, left : left + 1024])
            for n, moving in enumerate(inner):
                for t in range(8):
                    result, first = tile(128, 512), half + 512 * n
                    copied(result, product([columns_of(weights, t)], [moving]))
                    store(low[left // 128 + t][:, first : first + 512], result)
    for left in range(0, width, 1024):
        for quarter in range(0, depth, depth // 4):
            held = [load(w[k : k + 128, left : left + 1024]) for k in _tens(quarter)]
            for top in range(0, rows, 512):
                moving = _turned_rows(x, top, quarter, 640, unit)
                moving += _turned_rows(x, top, quarter + 640, 640, unit)
                for t in range(8):
                    place = kept[left // 128 + t][:, top : top + 512]
                    total = load(place) if quarter else _cleared()
                    _joined(total, product([columns_of(h, t) for h in held], moving), nl.add)
                    store(place, total)
        for top in range(0, rows, 512):
            columns = slice(top, top + 512)
            for block in range(left // 128, left // 128 + 8):
                parts = load(kept[block][:, columns]), load(low[block][:, columns])
                added = both(*parts, nl.add)
                for c in range(4):
                    result = tile(128, 128)
                    transposed(result, columns_of(added, c), unit)
                    store(columns_of(out[top // 128 + c], block), result)
    return tuple(out)


def _cleared():
    made = tile(128, 512)
    nisa.memset(dst=made, value=0.0)
    return made


def _tens(first):
    return range(first, first + 1280, 128)


def _replay(name, shapes, function, *tensors, repeats=1):
    return Replay(
        f"NKIBench {name}",
        shapes,
        lambda: Program(function, float32(*tensors), repeats=repeats),
        published_bytes=True,
    )


REPLAYS = (
    _replay("bmm_softmax", ".*B=16.*", bmm_softmax, (1, 4096, 64), (1, 64, 4096), repeats=16),
    _replay("gqa_full", ".*QH=16.*", gqa, (4096, 16, 128), (8, 4096, 128), (4096, 8, 128)),
    _replay("swiglu", ".*N=3072.*", swiglu, (4096, 1024), (1024, 3072), (3072, 1024), (1024, 3072)),
    _replay("lora", ".*R=128.*", lora, (4096, 5120), (5120, 12288), (5120, 128), (128, 12288)),
)
