"""Cases of tensor_copy, memset and tensor_copy_predicated."""

from __future__ import annotations

import numpy as np

from nki_lab.targets.engines import GPSIMD, SCALAR, TENSOR
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, empty, isa, rounded, sample, tile

X = sample(128, 24, seed=1)
# 2**24 + 1 is the first integer that float32 does not hold.
INTEGERS = np.array([[2**24 + 1, -(2**31), 2**31 - 1, 7]], np.int32).repeat(32, axis=0)
# Ties, values past the range, infinities and NaN, as float32 to integer casts meet them.
AWKWARD = np.array(
    [[0.5, 1.5, 2.5, -0.5, -1.5, 126.6, 127.5, 300.0, -300.0, 3e9, -3e9, np.inf, -np.inf, np.nan]],
    np.float32,
)
BITS8 = np.arange(256, dtype=np.uint8).reshape(2, 128)


def copy(name, source, dst, expected, **facts):
    engine = facts.pop("engine", None)
    run = (
        (lambda t: isa.tensor_copy(t.dst, t.src))
        if engine is None
        else (lambda t: isa.tensor_copy(t.dst, t.src, engine=engine))
    )
    return Case("tensor_copy", name, {"dst": dst, "src": source}, run, {"dst": expected}, **facts)


def refuse_copy(name, breaks, source, dst, run=lambda t: isa.tensor_copy(t.dst, t.src), **facts):
    return Case("tensor_copy", name, {"dst": dst, "src": source}, run, breaks=breaks, **facts)


def saturated(values, dtype):
    # Python's round is to nearest, ties to even.
    info = np.iinfo(dtype)
    return [
        [0 if np.isnan(v) else min(max(round(v) if np.isfinite(v) else v, info.min), info.max) for v in row]
        for row in values.tolist()
    ]  # fmt: skip


COPIES = [
    copy("same dtype", tile(X), empty(X.shape), X),
    copy("from PSUM", tile(X, space=PSUM), empty(X.shape), X),
    copy("to PSUM", tile(X), empty(X.shape, space=PSUM), X),
    copy("on GpSimd", tile(X), empty(X.shape), X, engine=GPSIMD),
    copy("on Scalar", tile(X), empty(X.shape), X, engine=SCALAR, targets=("trn2", "trn3")),
    copy("integers keep their bits", tile(INTEGERS), empty(INTEGERS.shape, "int32"), INTEGERS),
    copy(
        "integers through float32",
        tile(INTEGERS),
        empty(INTEGERS.shape, "uint32"),
        np.array([[2**24, 0, 2**31, 7]]).repeat(32, axis=0),
    ),
    copy("int32 to float32", tile(INTEGERS), empty(INTEGERS.shape), INTEGERS.astype(np.float32)),
    copy(
        "another shape of the same stream",
        tile(X),
        empty((128, 4, 6)),
        X.reshape(128, 4, 6),
    ),
    copy(
        "every second element into a part",
        tile(X, view=lambda t: t[:, 0:24:2]),
        empty((128, 20), view=lambda t: t[:, 3:15]),
        np.hstack([empty((128, 3)).data, X[:, ::2], empty((128, 5)).data]),
    ),
    copy(
        "packed keeps its bits",
        tile(np.arange(64).reshape(2, 32), "float8_e4m3fn_x4"),
        empty((2, 32), "float8_e4m3fn_x4"),
        np.arange(64).reshape(2, 32),
    ),
    *(
        copy(f"float32 to {d}", tile(X * 40), empty(X.shape, d), rounded(X * 40, d))
        for d in ("bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn")
    ),
    *(
        copy(f"{d} to float32", tile(X, d), empty(X.shape), rounded(X, d).astype(float))
        for d in ("bfloat16", "float16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn")
    ),
    copy(
        "bfloat16 to float16",
        tile(X * 1e-3, "bfloat16"),
        empty(X.shape, "float16"),
        rounded(rounded(X * 1e-3, "bfloat16").astype(float), "float16"),
    ),
    *(
        copy(
            f"float32 to {d}", tile(AWKWARD), empty(AWKWARD.shape, d), saturated(AWKWARD, d)
        )
        for d in ("int8", "uint8", "int16", "uint16", "int32", "uint32")
    ),
    copy("uint8 to float32", tile(BITS8), empty(BITS8.shape), BITS8),
    copy(
        "float32 to tfloat32",
        tile([[1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 2.0**-12), np.inf, np.nan]]),
        empty((1, 6), "tfloat32"),
        [[1 + 2.0**-10, 1, 1 + 2.0**-9, -1, np.inf, np.nan]],
    ),
    copy(
        "float32 to bool_",
        tile([[0.0, -0.0, 0.25, -3.0]]),
        empty((1, 4), "bool_"),
        [[False, False, True, True]],
    ),
    refuse_copy("partitions", "same number of partitions", tile(X), empty((64, 24))),
    refuse_copy("free size", "same number of elements per partition", tile(X), empty((128, 23))),
    refuse_copy(
        "packed to float",
        "same dtype when one of them is packed",
        tile(np.ones((2, 8)), "float8_e5m2_x4"),
        empty((2, 8)),
    ),
    refuse_copy(
        "engine", "`engine` must be one that runs", tile(X), empty(X.shape),
        lambda t: isa.tensor_copy(t.dst, t.src, engine=TENSOR),
    ),
    refuse_copy(
        "engine by number", "`engine` must be one that runs", tile(X), empty(X.shape),
        lambda t: isa.tensor_copy(t.dst, t.src, engine=99),
    ),
    refuse_copy(
        "Scalar before v3", "only on a target with", tile(X), empty(X.shape),
        lambda t: isa.tensor_copy(t.dst, t.src, engine=SCALAR), targets=("trn1",),
    ),
    refuse_copy(
        "GpSimd from PSUM", "must not be in psum", tile(X, space=PSUM), empty(X.shape),
        lambda t: isa.tensor_copy(t.dst, t.src, engine=GPSIMD),
    ),
]  # fmt: skip


def fill(name, dst, value, expected=None, breaks="", **facts):
    engine = {"engine": facts.pop("engine")} if "engine" in facts else {}
    return Case(
        "memset",
        name,
        {"dst": dst},
        lambda t: isa.memset(t.dst, value, **engine),
        {} if expected is None else {"dst": expected},
        breaks=breaks,
        **facts,
    )


FILLS = [
    fill("float32", empty((128, 24)), -1.5, np.full((128, 24), -1.5)),
    fill("zeros of bfloat16", empty((64, 24), "bfloat16"), 0, np.zeros((64, 24))),
    fill(
        "bfloat16 rounds",
        empty((32, 8), "bfloat16"),
        0.1,
        np.full((32, 8), rounded(0.1, "bfloat16")),
    ),
    fill("int32", empty((32, 8), "int32"), 2**31 - 1, np.full((32, 8), 2**31 - 1)),
    fill("in PSUM", empty((32, 8), space=PSUM), 2.5, np.full((32, 8), 2.5)),
    fill("on GpSimd", empty((32, 8), "int8"), -128, np.full((32, 8), -128), engine=GPSIMD),
    fill("tfloat32 rounds", empty((32, 8), "tfloat32"), 1 + 2.0**-11, np.full((32, 8), 1.0)),
    fill("packed zeros", empty((32, 8), "float4_e2m1fn_x4"), 0, np.zeros((32, 8))),
    fill("bool_", empty((32, 8), "bool_"), True, np.ones((32, 8))),
    fill(
        "a part of a tile",
        empty((64, 8), view=lambda t: t[32:64, 2:5]),
        9.0,
        np.block(
            [
                [empty((32, 2)).data, empty((32, 3)).data, empty((32, 3)).data],
                [empty((32, 2)).data, np.full((32, 3), 9.0), empty((32, 3)).data],
            ]
        ),
    ),
    fill("too large for float16", empty((32, 8), "float16"), 7e4, np.full((32, 8), np.inf)),
    fill("float into integers", empty((32, 8), "int32"), 2.0, breaks="`value` must be a number"),
    fill("out of range", empty((32, 8), "uint8"), 256, breaks="`value` must be a number"),
    fill("packed", empty((32, 8), "float8_e5m2_x4"), 1, breaks="`value` must be a number"),
    fill("no number", empty((32, 8)), "0", breaks="`value` must be a number"),
    fill("engine", empty((32, 8)), 0, breaks="`engine` must be", engine=SCALAR),
    fill(
        "GpSimd to PSUM",
        empty((32, 8), space=PSUM),
        0,
        breaks="must not be in psum",
        engine=GPSIMD,
    ),
]

OLD = sample(64, 12, seed=2)
NEW = sample(64, 12, seed=3)
MASK = (np.arange(64 * 12).reshape(64, 12) % 3).astype(
    np.uint8
)  # 0, 1 and 2: every non-zero counts


def choose(name, dst, src, predicate, expected=None, reverse=False, breaks="", **facts):
    tiles = {"dst": dst, "predicate": predicate}
    number = not hasattr(src, "data")
    if not number:
        tiles["src"] = src
    return Case(
        "tensor_copy_predicated",
        name,
        tiles,
        lambda t: isa.tensor_copy_predicated(t.dst, src if number else t.src, t.predicate, reverse),
        {} if expected is None else {"dst": expected},
        breaks=breaks,
        **facts,
    )


CHOICES = [
    choose("float32", tile(OLD), tile(NEW), tile(MASK), np.where(MASK, NEW, OLD)),
    choose("reversed", tile(OLD), tile(NEW), tile(MASK), np.where(MASK, OLD, NEW), True),
    choose("a number", tile(OLD), -2.5, tile(MASK), np.where(MASK, -2.5, OLD)),
    choose(
        "a number where PSUM says",
        tile(OLD),
        -2.5,
        tile(MASK, space=PSUM),
        np.where(MASK, -2.5, OLD),
    ),
    choose(
        "integers of another shape",
        tile(np.arange(64 * 12).reshape(64, 12), "int32"),
        tile(-np.arange(64 * 12).reshape(64, 3, 4), "int32"),
        tile(MASK.reshape(64, 2, 6), "uint32"),
        np.where(MASK, -1, 1) * np.arange(64 * 12).reshape(64, 12),
    ),
    choose(
        "bfloat16 and a number",
        tile(OLD, "bfloat16"),
        0.1,
        tile(MASK, "uint16"),
        np.where(MASK, rounded(0.1, "bfloat16"), rounded(OLD, "bfloat16")),
    ),
    choose(
        "source in PSUM",
        tile(OLD),
        tile(NEW, space=PSUM),
        tile(MASK),
        np.where(MASK, NEW, OLD),
    ),
    choose("partitions", tile(OLD), tile(NEW[:32]), tile(MASK), breaks="number of partitions"),
    choose("free size", tile(OLD), tile(NEW), tile(MASK[:, :6]), breaks="elements per partition"),
    choose("dtype", tile(OLD), tile(NEW, "bfloat16"), tile(MASK), breaks="same dtype"),
    choose(
        "both in PSUM",
        tile(OLD),
        tile(NEW, space=PSUM),
        tile(MASK, "uint32", PSUM),
        breaks="must not both be in psum",
    ),
    choose(
        "number for integers",
        tile(MASK, "int32"),
        2.5,
        tile(MASK),
        breaks="a number given as `src`",
    ),
    choose(
        "number for tfloat32",
        tile(OLD, "tfloat32"),
        0.1,
        tile(MASK),
        breaks="a number given as `src`",
    ),
    choose("flag", tile(OLD), tile(NEW), tile(MASK), reverse=1, breaks="must be True or False"),
]

CASES = [*COPIES, *FILLS, *CHOICES]
