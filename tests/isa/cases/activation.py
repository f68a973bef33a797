"""Cases of activation and activation_reduce; the functions themselves are tested in test_activations.py."""

from __future__ import annotations

import math

import numpy as np

from nki_lab.isa.enums import reduce_cmd
from nki_lab.targets.engines import GPSIMD, VECTOR
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, empty, isa, nl, rounded, sample, tile

X = sample(128, 20, seed=30)
X64 = X.astype(float)
RAMP = np.arange(128, dtype=np.float32).reshape(128, 1)
S = sample(128, 1, seed=31)
LATER = ("trn2", "trn3")
NEAR = {"rtol": 1e-5, "atol": 1e-6}
SUM = X64.sum(axis=1, keepdims=True)
ROW = np.array([[9.0, -9.0, math.pi, 1.0]], np.float32)


def activate(
    name,
    op,
    expected=None,
    data=None,
    dst=None,
    results=None,
    calls=1,
    instruction="activation",
    **facts,
):
    """`bias`, `scale` and `reduce_res` may be tiles; `results` are expected contents of `reduce_res`."""
    given = {
        k: facts.pop(k)
        for k in ("bias", "scale", "reduce_op", "reduce_cmd", "reduce_res", "engine")
        if k in facts
    }
    tiled = {k: v for k, v in given.items() if hasattr(v, "data") and hasattr(v, "space")}
    data = tile(X) if data is None else data
    dst = empty(X.shape) if dst is None else dst
    definition = getattr(isa, instruction)

    def run(t):
        arguments = {k: getattr(t, k) if k in tiled else v for k, v in given.items()}
        for _ in range(calls):
            definition(dst=t.dst, op=op, data=t.data, **arguments)

    wanted = {} if expected is None else {"dst": expected}
    if results is not None:
        wanted["reduce_res"] = results
    return Case(instruction, name, {"dst": dst, "data": data, **tiled}, run, wanted, **facts)  # fmt: skip


def accumulate(name, commands, total, **facts):
    """Run one activation per command on the same data; the last one reads the accumulator."""

    def run(t):
        for n, command in enumerate(commands):
            last = n == len(commands) - 1
            isa.activation(t.dst, nl.copy, t.data, reduce_op=nl.add, reduce_cmd=command,
                           reduce_res=t.reduce_res if last else None)  # fmt: skip

    tiles = {"dst": empty(X.shape), "data": tile(X), "reduce_res": empty((128, 1))}
    return Case("activation", name, tiles, run, {"dst": X, "reduce_res": total}, atol=1e-5, **facts)


IDLE, RESET, REDUCE = reduce_cmd.idle, reduce_cmd.reset, reduce_cmd.reduce
RESET_REDUCE = reduce_cmd.reset_reduce

ACTIVATION = [
    # data * 2 + partition number, through three functions.
    activate("copy with bias and scale", nl.copy, X64 * 2 + RAMP, bias=tile(RAMP), scale=2.0, **NEAR),
    activate("relu with bias and scale", nl.relu, np.maximum(X64 * 2 + RAMP, 0), bias=tile(RAMP), scale=2.0, **NEAR),
    activate("exp with bias and scale", nl.exp, np.exp(X64 * 2 + RAMP / 128), bias=tile(RAMP / 128), scale=2.0,
             rtol=1e-5),
    # The official example: square(b * 2 + c), into bfloat16 (nki/test/test_nki_isa_activation.py).
    activate("square into bfloat16", nl.square, np.square(X64 * 2 + S), dst=empty(X.shape, "bfloat16"),
             bias=tile(S), scale=2.0, rtol=2.0**-8, atol=1e-6),
    activate("vector scale", nl.copy, X64 * S, scale=tile(S), **NEAR),
    activate("vectors in PSUM and bfloat16", nl.copy, X64 * S + rounded(S, "bfloat16").astype(float),
             scale=tile(S, space=PSUM), bias=tile(S, "bfloat16"), **NEAR),
    activate("number as bias", nl.copy, rounded(X64 + 0.5, "float32"), bias=0.5, targets=LATER),
    activate("from PSUM to PSUM, several axes", nl.tanh, np.tanh(X64).reshape(128, 4, 5),
             data=tile(X.reshape(128, 2, 10), space=PSUM), dst=empty((128, 4, 5), space=PSUM), **NEAR),
    activate("integers", nl.abs, abs(np.round(X64 * 9)), data=tile(np.round(X * 9), "int32"),
             dst=empty(X.shape, "int8")),
    activate("sin has no range reduction", nl.sin,
             [[math.pi - 9 + (9 - math.pi) ** 3 / 6, 9 - math.pi - (9 - math.pi) ** 3 / 6, 0, math.sin(1)]],
             data=tile(ROW), dst=empty((1, 4)), **NEAR),
    activate("sum of the results", nl.square, X64**2, results=(X64**2).sum(axis=1, keepdims=True),
             reduce_op=nl.add, reduce_cmd=RESET_REDUCE, reduce_res=empty((128, 1)), **NEAR),
    activate("sum is taken before rounding", nl.copy, np.ones((32, 8)), data=tile(np.full((32, 8), 1 + 2.0**-10)),
             dst=empty((32, 8), "bfloat16"), results=np.full((32, 1), 8 + 2.0**-7), reduce_op=nl.add,
             reduce_cmd=RESET_REDUCE, reduce_res=empty((32, 1))),
    activate("sum over all free axes into bfloat16", nl.copy, X.reshape(128, 2, 10), data=tile(X.reshape(128, 2, 10)),
             dst=empty((128, 2, 10)), results=rounded(SUM, "bfloat16"), reduce_op=nl.add, reduce_cmd=RESET_REDUCE,
             reduce_res=empty((128, 1), "bfloat16"), rtol=2.0**-8),
    activate("nothing was reset before idle", nl.copy, X, results=np.full((128, 1), np.nan),
             reduce_res=empty((128, 1))),
    accumulate("nothing was reset before reduce", (REDUCE, REDUCE), SUM * np.nan),
    accumulate("reset_reduce twice", (RESET_REDUCE, RESET_REDUCE), SUM),
    accumulate("reduce adds", (RESET_REDUCE, REDUCE, REDUCE), SUM * 3),
    accumulate("idle leaves", (RESET_REDUCE, IDLE), SUM),
    accumulate("reset forgets", (RESET_REDUCE, RESET), SUM * 0),
    accumulate("reset, then reduce", (REDUCE, RESET, REDUCE, IDLE), SUM),
    Case(
        "activation", "accumulators are per partition",
        {"dst": empty(X.shape), "data": tile(X), "reduce_res": empty((128, 1))},
        lambda t: [
            isa.activation(t.dst[p : p + 32], nl.copy, t.data[p : p + 32], reduce_op=nl.add, reduce_cmd=RESET_REDUCE)
            for p in (96, 0, 64, 32)
        ] and isa.activation(t.dst, nl.copy, t.data, reduce_res=t.reduce_res),
        {"dst": X, "reduce_res": SUM}, **NEAR,
    ),
    Case(
        "activation", "reduce_res in a column of dst survives",
        {"dst": empty(X.shape), "data": tile(X)},
        lambda t: isa.activation(t.dst, nl.copy, t.data, reduce_op=nl.add, reduce_cmd=RESET_REDUCE,
                                 reduce_res=t.dst[:, 3:4]),
        {"dst": np.hstack([X64[:, :3], SUM, X64[:, 4:]])}, **NEAR,
    ),
    Case(
        "activation", "reduce_res in a column of a bfloat16 dst survives",
        {"dst": empty(X.shape, "bfloat16"), "data": tile(X)},
        lambda t: isa.activation(t.dst, nl.copy, t.data, reduce_op=nl.add, reduce_cmd=RESET_REDUCE,
                                 reduce_res=t.dst[:, 3:4]),
        {"dst": np.hstack([rounded(X, "bfloat16").astype(float)[:, :3], rounded(SUM, "bfloat16").astype(float),
                           rounded(X, "bfloat16").astype(float)[:, 4:]])}, rtol=2.0**-8,
    ),
    Case(
        "activation", "reduce_res as float32 in a bfloat16 dst survives",
        {"dst": empty(X.shape, "bfloat16"), "data": tile(X), "read": empty((128, 1))},
        lambda t: isa.activation(t.dst, nl.copy, t.data, reduce_op=nl.add, reduce_cmd=RESET_REDUCE,
                                 reduce_res=t.dst.view("float32")[:, 0:1])
        and isa.tensor_copy(t.read, t.dst.view("float32")[:, 0:1]),
        {"read": SUM}, **NEAR,
    ),
    # What it refuses.
    activate("partitions", nl.exp, dst=empty((64, 20)), breaks="number of partitions"),
    activate("free size", nl.exp, dst=empty((128, 10)), breaks="elements per partition"),
    activate("packed", nl.exp, data=tile(X, "float8_e5m2_x4"), breaks="packed (x4)"),
    activate("packed sum", nl.exp, reduce_res=empty((128, 1), "float8_e5m2_x4"), breaks="packed (x4)"),
    activate("ALU operator", nl.add, breaks="`op` must be an activation function"),
    activate("NumPy function", np.exp, breaks="`op` must be an activation function"),
    activate("no function", None, breaks="`op` must be an activation function"),
    activate("slope", nl.prelu, breaks="`op` must be an activation function"),
    activate("bfloat16 scale", nl.exp, scale=tile(S, "bfloat16"), breaks="must be float32 when given as a tile"),
    activate("number as bias before v3", nl.exp, bias=0.5, targets=("trn1",), breaks="`bias` must be a [partitions"),
    activate("tfloat32 bias", nl.exp, bias=tile(S, "tfloat32"), breaks="any dtype but tfloat32"),
    activate("reciprocal with bias before v3", nl.reciprocal, bias=tile(S), targets=("trn1",),
             breaks="left out with nl.reciprocal"),
    activate("reduction", nl.exp, reduce_op=nl.maximum, reduce_cmd=RESET_REDUCE, breaks="must be None or nl.add"),
    activate("NumPy reduction", nl.exp, reduce_op=np.add, reduce_cmd=RESET_REDUCE, breaks="must be None or nl.add"),
    activate("reduction left out", nl.exp, reduce_cmd=REDUCE, breaks="when `reduce_cmd` accumulates"),
    activate("command", nl.exp, reduce_op=nl.add, reduce_cmd=reduce_cmd.load_reduce, breaks="`reduce_cmd` must be"),
    activate("on GpSimd", nl.exp, np.exp(X64 * 0.5 + S), bias=tile(S), scale=0.5, engine=GPSIMD, rtol=1e-5,
             targets=("trn3",)),
    activate("on GpSimd before v4", nl.exp, engine=GPSIMD, targets=("trn1", "trn2"), breaks="`engine` may be"),
    activate("on GpSimd from PSUM", nl.exp, data=tile(X, space=PSUM), engine=GPSIMD, targets=("trn3",),
             breaks="must not be in psum"),
    activate("on GpSimd with a sum", nl.exp, reduce_op=nl.add, reduce_cmd=RESET_REDUCE, engine=GPSIMD,
             targets=("trn3",), breaks="has no accumulator"),
    activate("on Vector", nl.exp, engine=VECTOR, breaks="`engine` must be nisa.engine.scalar or"),
    activate("command no member", nl.exp, reduce_op=nl.add, reduce_cmd=9, breaks="`reduce_cmd` must be"),
]  # fmt: skip


def both(name, op, expected=None, **facts):
    return activate(name, op, expected, instruction="activation_reduce", **facts)


RES = empty((128, 1))

ACTIVATION_REDUCE = [
    both("sum of exp", nl.exp, np.exp(X64 * 0.5 + S), results=np.exp(X64 * 0.5 + S).sum(axis=1, keepdims=True),
         reduce_op=nl.add, reduce_res=RES, bias=tile(S), scale=0.5, rtol=1e-5),
    both("vector scale, rounded", nl.copy, rounded(X64 * S, "bfloat16"), dst=empty(X.shape, "bfloat16"),
         results=(X64 * S).sum(axis=1, keepdims=True), scale=tile(S), reduce_op=nl.add, reduce_res=RES,
         rtol=2.0**-8, atol=1e-5),
    both("twice gives the same", nl.copy, X, results=SUM, reduce_op=nl.add, reduce_res=RES, calls=2, **NEAR),
    both("maximum of results", nl.copy, reduce_op=nl.maximum, reduce_res=RES, targets=LATER,
         breaks="`reduce_op` must be nl.add from NKI 0.7 on"),
    Case(
        "activation_reduce", "shares the accumulator with activation",
        {"dst": empty(X.shape), "data": tile(X), "reduce_res": empty((128, 1))},
        lambda t: isa.activation_reduce(t.dst, nl.copy, t.data, nl.add, None)
        and isa.activation(t.dst, nl.copy, t.data, reduce_op=nl.add, reduce_cmd=REDUCE, reduce_res=t.reduce_res),
        {"dst": X, "reduce_res": SUM * 2}, **NEAR,
    ),
    both("partitions", nl.exp, dst=empty((64, 20)), reduce_op=nl.add, reduce_res=empty((64, 1)),
         breaks="number of partitions"),
    both("free size", nl.exp, dst=empty((128, 10)), reduce_op=nl.add, reduce_res=RES,
         breaks="elements per partition"),
    both("packed", nl.exp, data=tile(X, "float8_e5m2_x4"), reduce_op=nl.add, reduce_res=RES, breaks="packed (x4)"),
    both("packed sum", nl.exp, reduce_op=nl.add, reduce_res=empty((128, 1), "float8_e5m2_x4"), breaks="packed (x4)"),
    both("NumPy function", np.exp, reduce_op=nl.add, reduce_res=RES, breaks="`op` must be an activation function"),
    both("bfloat16 scale", nl.exp, scale=tile(S, "bfloat16"), reduce_op=nl.add, reduce_res=RES,
         breaks="must be float32 when given as a tile"),
    both("number as bias before v3", nl.exp, bias=0.5, reduce_op=nl.add, reduce_res=RES, targets=("trn1",),
         breaks="`bias` must be a [partitions"),
    both("tfloat32 bias", nl.exp, bias=tile(S, "tfloat32"), reduce_op=nl.add, reduce_res=RES,
         breaks="any dtype but tfloat32"),
    both("reciprocal with bias before v3", nl.reciprocal, bias=tile(S), reduce_op=nl.add, reduce_res=RES,
         targets=("trn1",), breaks="left out with nl.reciprocal"),
    both("reduction", nl.exp, reduce_op=nl.bitwise_or, reduce_res=RES, breaks="`reduce_op` must be nl.add or"),
    both("maximum before v3", nl.exp, reduce_op=nl.maximum, reduce_res=RES, targets=("trn1",),
         breaks="without other reductions on Scalar"),
]  # fmt: skip

CASES = [*ACTIVATION, *ACTIVATION_REDUCE]
