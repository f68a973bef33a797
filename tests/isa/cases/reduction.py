"""Cases of tensor_reduce and tensor_partition_reduce."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_, xor

import numpy as np

from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, empty, isa, nl, one_call, rounded, sample, tile

X = sample(128, 24, seed=40)
X64 = X.astype(float)
BLOCK = X.reshape(128, 2, 3, 4)
WHOLE = np.round(X64 * 8).reshape(128, 2, 3, 4)  # integers: sums and products of them are exact
BITS = np.random.default_rng(41).integers(-(2**31), 2**31, (64, 9)).astype(np.int32)
TRUTH = (sample(64, 9, seed=42) > 0.9).astype(np.float32)


def shrink(name, data, op, axis, dst, expected=None, **facts):
    options = {k: facts.pop(k) for k in ("negate", "keepdims") if k in facts}
    return Case(
        "tensor_reduce",
        name,
        {"dst": dst, "data": data},
        lambda t: isa.tensor_reduce(t.dst, op, t.data, axis, **options),
        {} if expected is None else {"dst": expected},
        **facts,
    )


def folded(op, rows):
    return [[reduce(op, (int(v) for v in row))] for row in rows]


ONE = empty((128, 1))
NEAR = {"rtol": 1e-5, "atol": 1e-5}

# A row of 1, 2**-8, 2**-8 keeps its small terms only in float32; row 5 holds a NaN; 4096 ones exceed bfloat16 steps.
ONES = np.ones((128, 4096), np.float32)
ONES[5, 77] = np.nan
ONES[7] = 0
ONES[7, :3] = 1, 2.0**-8, 2.0**-8
ONES_SUM = np.full((128, 1), 4096.0)
ONES_SUM[5], ONES_SUM[7] = np.nan, 1 + 2.0**-7

REDUCE = [
    shrink("sum", tile(X), nl.add, 1, ONE, X64.sum(axis=1, keepdims=True), **NEAR),
    shrink("sum of bfloat16 in float32", tile(ONES, "bfloat16"), nl.add, 1, ONE, ONES_SUM),
    shrink("sum of bfloat16 rounded once", tile(ONES, "bfloat16"), nl.add, (1,), empty((128, 1), "bfloat16"), ONES_SUM),
    shrink("sum, negated", tile(WHOLE), nl.add, [1, 2, 3], ONE, -WHOLE.sum(axis=(1, 2, 3)).reshape(128, 1),
           negate=True),
    shrink("maximum of the last axis", tile(BLOCK), nl.maximum, 3, empty((128, 2, 3)), BLOCK.max(axis=3)),
    shrink("minimum of two axes, kept", tile(BLOCK), nl.minimum, (2, 3), empty((128, 2, 1, 1)),
           BLOCK.min(axis=(2, 3), keepdims=True), keepdims=True),
    shrink("axes counted from the end", tile(BLOCK), nl.max, (-1, -2), empty((128, 2)), BLOCK.max(axis=(2, 3))),
    shrink("an axis moved to the end", tile(WHOLE, view=lambda t: t.permute((0, 3, 1, 2))), nl.add, (2, 3),
           empty((128, 4)), WHOLE.sum(axis=(1, 2))),
    shrink("into a column of a tile", tile(X), nl.max, 1, empty((128, 5), view=lambda t: t[:, 3:4]),
           np.hstack([empty((128, 3)).data, X.max(axis=1, keepdims=True), empty((128, 1)).data])),
    shrink("into every second column", tile(BLOCK), nl.max, (2, 3), empty((128, 4), view=lambda t: t[:, ::2]),
           np.stack([BLOCK[:, 0].max(axis=(1, 2)), empty((128, 1)).data[:, 0], BLOCK[:, 1].max(axis=(1, 2)),
                     empty((128, 1)).data[:, 0]], axis=1)),
    shrink("product", tile(X), nl.multiply, 1, ONE, X64.prod(axis=1, keepdims=True), rtol=1e-4),
    shrink("difference", tile(WHOLE), nl.subtract, (2, 3), empty((128, 2)),
           2 * WHOLE[:, :, 0, 0] - WHOLE.sum(axis=(2, 3))),
    shrink("NaN wins", tile([[1.0, np.nan, 3.0]]), nl.max, 1, empty((1, 1)), [[np.nan]]),
    shrink("in PSUM, into int8", tile(X * 9, space=PSUM), nl.maximum, 1, empty((128, 1), "int8", PSUM),
           np.round(rounded(X64.max(axis=1, keepdims=True) * 9, "float32").astype(float))),
    *(
        shrink(n, tile(TRUTH), getattr(nl, n), 1, empty((64, 1), "uint8"), e)
        for n, e in {
            "logical_and": TRUTH.all(axis=1, keepdims=True),
            "logical_or": TRUTH.any(axis=1, keepdims=True),
            "logical_xor": TRUTH.sum(axis=1, keepdims=True) % 2,
        }.items()
    ),
    *(
        shrink(n, tile(BITS), getattr(nl, n), 1, empty((64, 1), "int32"), folded(e, BITS))
        for n, e in {"bitwise_and": and_, "bitwise_or": or_, "bitwise_xor": xor}.items()
    ),
    shrink("partitions", tile(X), nl.add, 1, empty((64, 1)), breaks="number of partitions"),
    shrink("packed", tile(X, "float8_e5m2_x4"), nl.add, 1, ONE, breaks="packed (x4)"),
    shrink("operator that cannot reduce", tile(X), nl.equal, 1, ONE, breaks="an operator that may reduce"),
    shrink("NumPy operator", tile(X), np.max, 1, ONE, breaks="an operator that may reduce"),
    shrink("axis 0", tile(X), nl.add, (0, 1), ONE, breaks="`axis` must not hold axis 0"),
    shrink("not the last axis", tile(BLOCK), nl.add, 1, empty((128, 12)), breaks="`axis` must name"),
    shrink("axis twice", tile(BLOCK), nl.add, (3, 3), empty((128, 6)), breaks="`axis` must name"),
    shrink("no axis", tile(BLOCK), nl.add, (), empty((128, 24)), breaks="`axis` must name"),
    shrink("axis too large", tile(X), nl.add, 2, ONE, breaks="`axis` must name"),
    shrink("size of the result", tile(BLOCK), nl.add, (2, 3), ONE, breaks="`dst` must have one element"),
    shrink("bits of floats", tile(X), nl.bitwise_or, 1, ONE, breaks="integers of one width"),
    shrink("bits negated", tile(BITS), nl.bitwise_or, 1, empty((64, 1), "int32"), breaks="`negate` must be False",
           negate=True),
    shrink("flag", tile(X), nl.add, 1, ONE, breaks="True or False", negate=1),
]  # fmt: skip


# -- tensor_partition_reduce --------------------------------------------------------------------------


def over(name, op, data=None, expected=None, dst=None, **facts):
    given = {"dst": dst or empty((1, 24)), "op": op, "data": data or tile(X)}
    wanted = {} if expected is None else {"dst": expected}
    return one_call("tensor_partition_reduce", name, given, wanted, **facts)


TOTAL = X64.sum(axis=0, keepdims=True)
LOW = rounded(X, "bfloat16").astype(float)
SHORT = BITS.astype(np.int16)
PARTITIONS = [
    over("sum", nl.add, expected=TOTAL, **NEAR),
    # The official example (nki/test/test_nki_isa_partition_reduce.py): (128, 32, 4) into (1, 32, 4).
    over("several axes", nl.add, tile(BLOCK), TOTAL.reshape(1, 2, 3, 4), empty((1, 2, 3, 4)), **NEAR),
    over("into other axes", nl.add, tile(BLOCK), TOTAL.reshape(1, 4, 6), empty((1, 4, 6)), **NEAR),
    over("average", nl.average, expected=TOTAL / 128, **NEAR),
    over("average of 33 rows from partition 64", nl.average, tile(X, view=lambda t: t[64:97]),
         X64[64:97].mean(axis=0, keepdims=True), **NEAR),
    over("maximum", nl.max, expected=X64.max(axis=0, keepdims=True)),
    over("nl.maximum of bfloat16", nl.maximum, tile(X, "bfloat16"), [LOW.max(axis=0)]),
    over("sum of int16 into int32", nl.add, tile(SHORT), SHORT.astype(int).sum(axis=0)[None], empty((1, 9), "int32")),
    over("sum into bfloat16", nl.add, expected=TOTAL, dst=empty((1, 24), "bfloat16"), rtol=2.0**-8),
    over("or", nl.bitwise_or, tile(BITS), [[reduce(or_, map(int, c)) for c in BITS.T]], empty((1, 9), "int32")),
    over("and", nl.bitwise_and, tile(SHORT | 5), [[reduce(and_, map(int, c)) for c in (SHORT | 5).T]],
         empty((1, 9), "int16")),
    over("minimum", nl.minimum, breaks="`op` must be nl.add"),
    over("xor", nl.bitwise_xor, tile(BITS), dst=empty((1, 9), "int32"), breaks="`op` must be nl.add"),
    over("NumPy", np.add, breaks="`op` must be nl.add"),
    over("bits of floats", nl.bitwise_or, breaks="integers of one width"),
    over("two partitions", nl.add, dst=empty((2, 24)), breaks="`dst` must have one partition"),
    over("fewer elements", nl.add, dst=empty((1, 23)), breaks="`dst` must have one partition"),
    over("packed", nl.add, tile(X, "float8_e5m2_x4"), breaks="packed (x4)"),
    over("in PSUM", nl.add, tile(X, space=PSUM), breaks="`data` must be in sbuf"),
]  # fmt: skip

CASES = [*REDUCE, *PARTITIONS]
