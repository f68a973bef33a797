"""Cases of tensor_scalar_reduce and exponential, and of the accumulator Vector's instructions share."""

from __future__ import annotations

import numpy as np

from nki_lab.isa.enums import reduce_cmd
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, empty, isa, nl, one_call, rounded, sample, tile

X = sample(128, 30, seed=80)
X64 = X.astype(float)
V = sample(128, 1, seed=81)
V64 = V.astype(float)
WHOLE = np.round(X64 * 8)  # integers: their sums are exact
IDLE, REDUCE = reduce_cmd.idle, reduce_cmd.reduce
RESET, LOAD = reduce_cmd.reset_reduce, reduce_cmd.load_reduce
NEAR = {"rtol": 1e-5, "atol": 1e-5}
ONE = empty((128, 1))


def column(values):
    return np.reshape(values, (128, 1))


def call(instruction, name, given, wrote=None, result=None, **facts):
    """Make a case of one call; `wrote` and `result` are expected in `dst` and `reduce_res`."""
    wanted = {k: v for k, v in (("dst", wrote), ("reduce_res", result)) if v is not None}
    return one_call(instruction, name, given, wanted, **facts)


FACTS = ("rtol", "atol", "targets", "breaks")


def split(given):
    """Return arguments of the instruction and facts of the case."""
    return {k: v for k, v in given.items() if k not in FACTS}, {
        k: v for k, v in given.items() if k in FACTS
    }


# -- tensor_scalar_reduce -----------------------------------------------------------------------------


def reduced(name, wrote=None, result=None, **given):
    """Multiply by 0.5 and sum, unless `given` says otherwise."""
    arguments, facts = split(given)
    standard = {"dst": empty((128, 30)), "data": tile(X), "op0": nl.multiply, "operand0": 0.5, "reduce_op": nl.add,
                "reduce_res": ONE}  # fmt: skip
    return call("tensor_scalar_reduce", name, standard | arguments, wrote, result, **facts)


def chained(name, commands, result, op=nl.add, init=None, x=WHOLE, **last):
    """Run one instruction per command on ten columns each; only the last one hands out the accumulator."""

    def run(t):
        for k, command in enumerate(commands):
            part = slice(10 * k, 10 * k + 10)
            ends = k == len(commands) - 1
            isa.tensor_scalar_reduce(
                t.dst[:, part], t.x[:, part], nl.multiply, 0.5, op, t.reduce_res if ends else None,
                reduce_cmd=command, reduce_init=init if command is LOAD else None, **(last if ends else {}),
            )  # fmt: skip

    tiles = {"dst": empty((128, 30)), "x": tile(x), "reduce_res": ONE}
    return Case("tensor_scalar_reduce", name, tiles, run, {"reduce_res": result})


def _run_negated_once(t):
    """Negate what the first instruction hands out; the second goes on with what the accumulator kept."""
    isa.tensor_scalar_reduce(
        t.dst[:, :10], t.x[:, :10], nl.add, 1.0, nl.add, t.first, reduce_res_negate=True
    )
    isa.tensor_scalar_reduce(
        t.dst[:, 10:], t.x[:, 10:], nl.add, 1.0, nl.add, t.reduce_res, reduce_cmd=REDUCE
    )


SUM = column(WHOLE.sum(axis=1)) / 2
ROUNDS = np.full((128, 16), 1 + 2.0**-10)  # 1 in bfloat16
LESS_V = rounded(X64 - V64, "float32").astype(float)
LARGER = np.where(abs(X64) > 0.5, X64, 0.5)

REDUCED = [
    reduced("four free axes", dst=empty((128, 30)), data=tile(X.reshape(128, 2, 3, 5, 1)),
            breaks="at most 3 free axes from NKI 0.7 on"),
    reduced("sum", X64 / 2, column(X64.sum(axis=1)) / 2, **NEAR),
    reduced("product", X64 + 1.5, column((X64 + 1.5).prod(axis=1)), op0=nl.add, operand0=1.5, reduce_op=nl.multiply,
            rtol=1e-4, atol=1e-6),
    reduced("maximum less a vector", LESS_V, column(LESS_V.max(axis=1)), op0=nl.subtract, operand0=tile(V),
            reduce_op=nl.max),
    reduced("nl.minimum over several axes, from PSUM to PSUM", X64.reshape(128, 5, 6) * 2,
            column(X64.min(axis=1)) * 2, dst=empty((128, 5, 6), space=PSUM), operand0=2.0, reduce_op=nl.minimum,
            data=tile(X.reshape(128, 2, 15), space=PSUM), reduce_res=empty((128, 1), space=PSUM)),
    # The largest magnitude per row, as published quantization kernels take it.
    reduced("abs", abs(X64), column(abs(X64).max(axis=1)), op0=nl.abs, operand0=0.0, reduce_op=nl.maximum),
    reduced("abs with None", abs(X64), column(abs(X64).min(axis=1)), op0=nl.abs, operand0=None, reduce_op=nl.min),
    reduced("comparison", X64 > 0.5, column((X64 > 0.5).sum(axis=1)), op0=nl.greater),
    reduced("larger magnitude", LARGER, column(LARGER.max(axis=1)), op0=nl.abs_max, reduce_op=nl.max,
            targets=("trn3",)),
    reduced("square", rounded(X64**2, "float32"), column((X64**2).sum(axis=1)), op0=nl.square, operand0=None,
            targets=("trn3",), **NEAR),
    reduced("reduced before the cast", np.ones((128, 16)), np.full((128, 1), 16 + 2.0**-6), operand0=1.0,
            data=tile(ROUNDS), dst=empty((128, 16), "bfloat16")),
    reduced("narrow result", X64 / 2, rounded(column(X64.sum(axis=1)) / 2, "bfloat16"),
            reduce_res=empty((128, 1), "bfloat16"), rtol=2.0**-8),
    reduced("int16 data", WHOLE / 2, SUM, data=tile(WHOLE, "int16")),
    reduced("load a number", WHOLE / 2, SUM + 100, data=tile(WHOLE), reduce_cmd=LOAD, reduce_init=100.0),
    reduced("load a vector", WHOLE / 2, np.maximum(column(WHOLE.max(axis=1)) / 2, V64 * 10), data=tile(WHOLE),
            reduce_op=nl.max, reduce_cmd=LOAD, reduce_init=tile(V64 * 10), rtol=1e-6),
    reduced("negated", WHOLE / 2, -SUM, data=tile(WHOLE), reduce_res_negate=True),
    chained("reduce goes on", (RESET, REDUCE, REDUCE), SUM),
    chained("load, then reduce", (LOAD, REDUCE, REDUCE), SUM - 3, init=-3.0),
    chained("reset forgets", (RESET, REDUCE, RESET), column(WHOLE[:, 20:].sum(axis=1)) / 2),
    chained("minimum goes on, negated", (RESET, REDUCE, REDUCE), -column(WHOLE.min(axis=1)) / 2, op=nl.min,
            reduce_res_negate=True),
    chained("nothing was reset", (REDUCE, REDUCE), SUM * np.nan),
    Case("tensor_scalar_reduce", "negation leaves the accumulator",
         {"dst": empty((128, 30)), "x": tile(WHOLE), "first": ONE, "reduce_res": ONE}, _run_negated_once,
         {"first": -column(WHOLE[:, :10].sum(axis=1) + 10), "reduce_res": SUM * 2 + 30}),
    reduced("reversed", reverse0=True, breaks="`reverse0` must be False"),
    reduced("idle", reduce_cmd=IDLE, breaks="`reduce_cmd` must be"),
    reduced("start without load", reduce_init=0.0, breaks="`reduce_init` must be given"),
    reduced("load without start", reduce_cmd=LOAD, breaks="`reduce_init` must be given"),
    reduced("bits", op0=nl.bitwise_and, operand0=1, data=tile(WHOLE, "int32"), breaks="`op0` must be"),
    reduced("rsqrt", op0=nl.rsqrt, operand0=0.0, breaks="must not be nl.power or nl.rsqrt"),
    reduced("larger magnitude before trn3", op0=nl.abs_max, breaks="the target must have", targets=("trn1", "trn2")),
    reduced("square before trn3", op0=nl.square, operand0=None, breaks="the target must have",
            targets=("trn1", "trn2")),
    reduced("no operand", operand0=None, breaks="`operand0` must be given"),
    reduced("bfloat16 operand", operand0=tile(V, "bfloat16"), breaks="must be float32"),
    reduced("subtract", reduce_op=nl.subtract, breaks="`reduce_op` must be"),
    reduced("flag", reduce_res_negate=1, breaks="True or False"),
    reduced("partitions", data=tile(X[:64]), breaks="number of partitions"),
    reduced("elements", data=tile(X[:, 1:]), breaks="elements per partition"),
    reduced("packed", reduce_res=empty((128, 1), "float8_e5m2_x4"), breaks="packed (x4)"),
]  # fmt: skip


# -- exponential --------------------------------------------------------------------------------------

POWERS = np.exp(X64)
SOFT = np.exp(X64 - X64.max(axis=1, keepdims=True))


def exponent(name, wrote=None, result=None, **given):
    arguments, facts = split(given)
    facts = {"targets": ("trn3",)} | ({} if "breaks" in facts else NEAR) | facts
    standard = {"dst": empty((128, 30)), "src": tile(X)}
    return call("exponential", name, standard | arguments, wrote, result, **facts)


def _run_softmax(t):
    """Sum over three parts; only the last one hands out the sum."""
    for k, command in enumerate((RESET, REDUCE, REDUCE)):
        part = slice(10 * k, 10 * k + 10)
        isa.exponential(
            t.dst[:, part], t.x[:, part], t.largest, t.reduce_res if k == 2 else None, command
        )


def _run_shared(t):
    """Go on from one of Vector's instructions to another: they share one accumulator."""
    isa.exponential(t.dst, t.x, reduce_cmd=RESET)
    isa.tensor_scalar_reduce(t.dst, t.x, nl.multiply, 1.0, nl.max, reduce_cmd=REDUCE)
    isa.tensor_scalar_cumulative(t.dst, t.x, nl.multiply, nl.add, 1.0, reduce_cmd=REDUCE)
    isa.exponential(t.dst, t.x, 1.0, t.reduce_res, REDUCE)


def _run_after_idle(t):
    isa.exponential(t.dst, t.x, reduce_cmd=RESET)
    isa.exponential(t.dst, t.x)
    isa.tensor_scalar_reduce(t.dst, t.x, nl.multiply, 1.0, nl.add, t.reduce_res, reduce_cmd=REDUCE)


TILES = {"dst": empty((128, 30)), "x": tile(X), "reduce_res": ONE}
SHARED = (
    np.maximum(POWERS.sum(axis=1), X64.max(axis=1)) + X64.sum(axis=1) + np.exp(X64 - 1).sum(axis=1)
)
EXPONENTS = [
    exponent("of a tile", POWERS),
    exponent("less a number", np.exp(X64 - 1.5), max_value=1.5),
    exponent("less a vector, with a sum", SOFT, column(SOFT.sum(axis=1)), max_value=tile(X.max(axis=1, keepdims=True)),
             reduce_res=ONE, reduce_cmd=RESET),
    exponent("bfloat16 in PSUM, several axes", np.exp(rounded(X, "bfloat16").astype(float)).reshape(128, 2, 15),
             src=tile(X, "bfloat16", PSUM), dst=empty((128, 2, 15), "bfloat16", PSUM), rtol=2.0**-8),
    exponent("int8 into uint16", np.rint(np.exp(np.clip(WHOLE, -8, 8))), src=tile(np.clip(WHOLE, -8, 8), "int8"),
             dst=empty((128, 30), "uint16")),
    exponent("summed before the cast", np.zeros((128, 30)), np.full((128, 1), 30 * np.exp(-2)), max_value=2.0,
             src=tile(X * 0), dst=empty((128, 30), "int8"), reduce_res=ONE, reduce_cmd=RESET),
    exponent("load a number", POWERS, column(POWERS.sum(axis=1)) - 5, reduce_res=ONE, reduce_cmd=LOAD,
             reduce_init=-5.0),
    exponent("load a vector into bfloat16", POWERS, column(POWERS.sum(axis=1)) + V64, reduce_init=tile(V),
             reduce_res=empty((128, 1), "bfloat16"), reduce_cmd=LOAD, rtol=2.0**-7),
    Case("exponential", "softmax in parts", TILES | {"largest": tile(X.max(axis=1, keepdims=True))}, _run_softmax,
         {"dst": SOFT, "reduce_res": column(SOFT.sum(axis=1))}, targets=("trn3",), **NEAR),
    Case("exponential", "one accumulator for all", TILES, _run_shared, {"reduce_res": column(SHARED)},
         targets=("trn3",), **NEAR),
    Case("exponential", "idle leaves the accumulator undefined", TILES, _run_after_idle,
         {"reduce_res": np.full((128, 1), np.nan)}, targets=("trn3",)),
    exponent("before trn3", targets=("trn1", "trn2"), breaks="needs a target with `exponential`"),
    exponent("idle with a result", reduce_res=ONE, breaks="needs a `reduce_cmd` that accumulates"),
    exponent("start without load", reduce_init=1.0, reduce_cmd=RESET, breaks="`reduce_init` must be left out"),
    exponent("reset", reduce_cmd=reduce_cmd.reset, breaks="`reduce_cmd` must be"),
    exponent("five axes", src=tile(X.reshape(128, 1, 2, 3, 5)), breaks="at most 4 axes"),
    exponent("partitions", src=tile(X[:64]), breaks="number of partitions"),
    exponent("elements", src=tile(X[:, 1:]), breaks="elements per partition"),
    exponent("uint32 result", dst=empty((128, 30), "uint32"), breaks="`dst` must have dtype"),
]  # fmt: skip

CASES = [*REDUCED, *EXPONENTS]
