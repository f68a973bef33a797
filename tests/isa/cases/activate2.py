"""Cases of activate2; the functions themselves are tested in test_activations.py."""

from __future__ import annotations

import math

import numpy as np

from nki_lab.isa.enums import reduce_cmd
from nki_lab.targets.engines import GPSIMD, VECTOR
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, empty, isa, nl, one_call, rounded, sample, tile

X = sample(128, 20, seed=90)
X64 = X.astype(float)
V, W = sample(128, 1, seed=91), sample(128, 1, seed=92)
IDLE, RESET, REDUCE = reduce_cmd.idle, reduce_cmd.reset, reduce_cmd.reduce
RESET_REDUCE = reduce_cmd.reset_reduce
NEAR = {"rtol": 1e-5, "atol": 1e-5}
ONE = empty((128, 1))
FACTS = ("rtol", "atol", "targets", "breaks")


def column(values):
    return np.reshape(values, (128, 1))


def activate(name, wrote=None, result=None, **given):
    """Copy without operators, unless `given` says otherwise; expect `wrote` in dst and `result` in reduce_res."""
    facts = {"targets": ("trn3",)} | {k: v for k, v in given.items() if k in FACTS}
    standard = {"dst": empty((128, 20)), "op": nl.copy, "data": tile(X), "imm0": 0.0, "imm1": 0.0, "op0": nl.bypass,
                "op1": nl.bypass}  # fmt: skip
    arguments = standard | {k: v for k, v in given.items() if k not in FACTS}
    wanted = {k: v for k, v in (("dst", wrote), ("reduce_res", result)) if v is not None}
    return one_call("activate2", name, arguments, wanted, **facts)


def accumulate(name, commands, result, op=nl.add, **facts):
    """Run one instruction per command on five columns each; only the last one reads the accumulator."""

    def run(t):
        for k, command in enumerate(commands):
            part = slice(5 * k, 5 * k + 5)
            isa.activate2(
                t.dst[:, part], nl.copy, t.x[:, part], 0.0, 0.0, nl.bypass, nl.bypass, reduce_op=op,
                reduce_cmd=command, reduce_res=t.reduce_res if k == len(commands) - 1 else None,
            )  # fmt: skip

    tiles = {"dst": empty((128, 20)), "x": tile(X), "reduce_res": ONE}
    return Case("activate2", name, tiles, run, {"reduce_res": result}, targets=("trn3",), **facts)


def _run_after_activation(t):
    """Go on from activation: both use one accumulator."""
    isa.activation(t.dst, nl.square, t.x, reduce_op=nl.add, reduce_cmd=RESET_REDUCE)
    isa.activate2(t.dst, nl.copy, t.x, 3.0, 0.0, nl.multiply, nl.bypass, reduce_op=nl.maximum, reduce_cmd=REDUCE,
                  reduce_res=t.reduce_res)  # fmt: skip


def by_magnitude(rows, better):
    """Return the signed value of the largest or smallest magnitude per row; the later one on a tie."""
    found = []
    for first, *rest in rows.tolist():
        for value in rest:
            first = first if better(abs(first), abs(value)) else value
        found.append([first])
    return found


def gelu(z):
    return 0.5 * z * (1 + math.erf(z / math.sqrt(2)))


TIES = np.array([[-3.0, 1, 3, -1], [2, -2, 2, -2], [0.5, -0.25, 0.25, 4]], np.float32)
TIED = {
    "data": tile(TIES),
    "dst": empty((3, 4)),
    "reduce_res": empty((3, 1)),
    "reduce_cmd": RESET_REDUCE,
}
SLOPED = np.where(X64 > 0, X64, rounded(X64 * -0.75, "float32"))
BY_ROW = np.where(X64 > 0, X64, X64 * V)

CASES = [
    activate("on GpSimd", X64 * V - W, imm0=tile(V), imm1=tile(W), op0=nl.multiply, op1=nl.subtract, engine=GPSIMD,
             **NEAR),
    activate("on GpSimd from PSUM", imm0=tile(V, space=PSUM), op0=nl.add, engine=GPSIMD, breaks="must not be in psum"),
    activate("on GpSimd with a sum", reduce_op=nl.add, reduce_res=ONE, reduce_cmd=RESET_REDUCE, engine=GPSIMD,
             breaks="has no accumulator"),
    activate("on Vector", engine=VECTOR, breaks="`engine` must be nisa.engine.scalar or"),
    # The official example: gelu(2 x + 0.5).
    activate("gelu with scale and bias", [[gelu(z) for z in row] for row in 2 * X64 + 0.5], op=nl.gelu,
             imm0=2.0, imm1=0.5, op0=nl.multiply, op1=nl.add, **NEAR),
    activate("scale less a vector", X64 * V - W, imm0=tile(V), imm1=tile(W), op0=nl.multiply, op1=nl.subtract, **NEAR),
    activate("vector less the scaled", W - X64 * 3, imm0=3.0, imm1=tile(W), op0=nl.multiply, op1=nl.subtract,
             reverse1=True, **NEAR),
    activate("scale only", X64 * -2, imm0=-2.0, op0=nl.multiply),
    activate("bias only", X64 + V, imm0=tile(V, space=PSUM), op0=nl.add, **NEAR),
    activate("less a number", rounded(X64 - 0.1, "float32"), imm0=0.1, op0=nl.subtract, atol=1e-7),
    activate("number less the tile", rounded(0.5 - X64, "float32"), imm0=0.5, op0=nl.subtract, reverse0=True),
    activate("no operators", X64, imm0=9.0, imm1=tile(V)),
    activate("exp from PSUM, other axes", np.exp(X64).reshape(128, 4, 5), op=nl.exp, dst=empty((128, 4, 5), space=PSUM),
             data=tile(X.reshape(128, 2, 10), space=PSUM), **NEAR),
    activate("bfloat16 immediates", X64 * rounded(V, "bfloat16").astype(float) + rounded(W, "bfloat16").astype(float),
             imm0=tile(V, "bfloat16"), imm1=tile(W, "bfloat16"), op0=nl.multiply, op1=nl.add, **NEAR),
    activate("prelu", SLOPED, op=nl.prelu, relu_param=-0.75),
    activate("prelu with a slope per partition", BY_ROW, op=nl.prelu, relu_param=tile(V), **NEAR),
    activate("prelu without a slope", np.maximum(X64, 0), op=nl.prelu, atol=1e-30),
    activate("sum before the cast", np.ones((128, 8)), np.full((128, 1), 8 + 2.0**-7), dst=empty((128, 8), "bfloat16"),
             data=tile(np.full((128, 8), 1 + 2.0**-10)), reduce_op=nl.add, reduce_res=ONE, reduce_cmd=RESET_REDUCE),
    activate("maximum into bfloat16", X64, rounded(column(X64.max(axis=1)), "bfloat16"), reduce_op=nl.max,
             reduce_res=empty((128, 1), "bfloat16"), reduce_cmd=RESET_REDUCE),
    activate("minimum", X64, column(X64.min(axis=1)), reduce_op=nl.minimum, reduce_res=ONE, reduce_cmd=RESET_REDUCE),
    activate("largest magnitude", X64, by_magnitude(X64, np.greater), reduce_op=nl.abs_max, reduce_res=ONE,
             reduce_cmd=RESET_REDUCE),
    activate("smallest magnitude", X64, by_magnitude(X64, np.less), reduce_op=nl.abs_min, reduce_res=ONE,
             reduce_cmd=RESET_REDUCE),
    activate("the later of equal magnitudes", TIES, [[3], [-2], [4]], reduce_op=nl.abs_max, **TIED),
    activate("the later of equal small ones", TIES, [[-1], [-2], [0.25]], reduce_op=nl.abs_min, **TIED),
    accumulate("reduce goes on", (RESET_REDUCE, REDUCE, REDUCE, REDUCE), column(X64.sum(axis=1)), **NEAR),
    accumulate("largest magnitude goes on", (RESET_REDUCE, REDUCE, REDUCE, REDUCE), by_magnitude(X64, np.greater),
               nl.abs_max),
    accumulate("idle leaves", (RESET_REDUCE, IDLE, IDLE), column(X64[:, :5].sum(axis=1)), **NEAR),
    accumulate("reset", (RESET_REDUCE, RESET, IDLE), np.full((128, 1), np.inf), nl.minimum),
    accumulate("reset, then reduce", (REDUCE, RESET, REDUCE), column(X64[:, 10:15].max(axis=1)), nl.maximum),
    accumulate("nothing was reset", (REDUCE,), np.full((128, 1), np.nan)),
    Case("activate2", "accumulator of activation", {"dst": empty((128, 20)), "x": tile(X), "reduce_res": ONE},
         _run_after_activation, {"reduce_res": column(np.maximum((X64**2).sum(axis=1), 3 * X64.max(axis=1)))},
         targets=("trn3",), **NEAR),
    activate("before trn3", targets=("trn1", "trn2"), breaks="needs a target with `activate2`"),
    activate("other operators", op0=nl.add, op1=nl.multiply, breaks="`op0` and `op1` must be"),
    activate("second operator alone", op1=nl.add, breaks="`op0` and `op1` must be"),
    activate("no operator", op0=None, breaks="`op0` and `op1` must be"),
    activate("no activation function", op=nl.maximum, breaks="`op` must be an activation function"),
    activate("reversed bypass", op0=nl.multiply, reverse1=True, breaks="`reverse0` must be False when"),
    activate("flag", op0=nl.multiply, reverse0=1, breaks="True or False"),
    activate("dtypes of immediates", imm0=tile(V), imm1=tile(W, "bfloat16"), op0=nl.multiply, op1=nl.add,
             breaks="the same dtype"),
    activate("product", reduce_op=nl.multiply, reduce_cmd=RESET_REDUCE, breaks="`reduce_op` must be None or"),
    activate("nothing to reduce with", reduce_cmd=RESET, breaks="`reduce_op` must be given"),
    activate("load", reduce_op=nl.add, reduce_cmd=reduce_cmd.load_reduce, breaks="`reduce_cmd` must be"),
    activate("partitions", data=tile(X[:64]), breaks="number of partitions"),
    activate("elements", data=tile(X[:, 1:]), breaks="elements per partition"),
    activate("packed", dst=empty((128, 20), "float8_e5m2_x4"), breaks="packed (x4)"),
]  # fmt: skip
