"""Cases of tensor_tensor_scan and tensor_scalar_cumulative, against loops over float32 numbers."""

from __future__ import annotations

import operator

import numpy as np

from nki_lab.isa.enums import reduce_cmd
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, Tile, empty, isa, nl, one_call, rounded, sample, tile

F = np.float32
A, B = sample(40, 300, seed=70), sample(40, 300, seed=71)
DECAY = np.random.default_rng(72).uniform(0.1, 1, (40, 300)).astype(F)
V = sample(40, 1, seed=73)
PYTHON = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "maximum": max, "minimum": min,
    "max": max, "min": min, "less": lambda a, b: F(a < b), "greater_equal": lambda a, b: F(a >= b),
    "not_equal": lambda a, b: F(a != b), "logical_and": lambda a, b: F(a != 0 and b != 0),
    "abs_max": lambda x, y: x if abs(x) > abs(y) else y,
}  # fmt: skip


def recurrence(a, b, start, op0, op1, reverse0=False, reverse1=False):
    """Return result[i] = op1(op0(a[i], result[i - 1]), b[i]), one float32 number at a time."""
    first, second = PYTHON[op0], PYTHON[op1]
    found = np.empty(a.shape, F)
    for row, (left, right) in enumerate(zip(a, b, strict=True)):
        before = F(start if np.ndim(start) == 0 else start[row, 0])
        for k, (x, y) in enumerate(zip(left, right, strict=True)):
            between = first(before, x) if reverse0 else first(x, before)
            before = found[row, k] = second(y, between) if reverse1 else second(between, y)
    return found


def running(x, operand, start, op0, op1):
    """Return result[i] = op1(op0(x[i], operand), result[i - 1]), one float32 number at a time."""
    first, second = PYTHON[op0], PYTHON[op1]
    found = np.empty(x.shape, F)
    for row, values in enumerate(x):
        before = F(start if np.ndim(start) == 0 else start[row, 0])
        other = F(operand if np.ndim(operand) == 0 else operand[row, 0])
        for k, value in enumerate(values):
            before = found[row, k] = second(first(value, other), before)
    return found


# -- tensor_tensor_scan -------------------------------------------------------------------------------


def scan(name, op0="multiply", op1="add", initial=0.0, expected=None, **facts):
    given = {
        "dst": facts.pop("dst", None) or empty((40, 300)),
        "data0": facts.pop("data0", None) or tile(DECAY),
        "data1": facts.pop("data1", None) or tile(B),
        "initial": initial,
        "op0": getattr(nl, op0) if isinstance(op0, str) else op0,
        "op1": getattr(nl, op1) if isinstance(op1, str) else op1,
    } | {k: facts.pop(k) for k in ("reverse0", "reverse1") if k in facts}
    if expected is None and "breaks" not in facts:
        start = initial.data if isinstance(initial, Tile) else initial
        reverse = {k: v for k, v in given.items() if k.startswith("reverse")}
        expected = recurrence(DECAY, B, start, op0, op1, **reverse)
    wanted = {} if expected is None else {"dst": expected}
    return one_call("tensor_tensor_scan", name, given, wanted, **facts)


def _run_in_two_parts(t):
    """Go on where the first half ended, as the official example does."""
    isa.tensor_tensor_scan(t.dst[:, :150], t.a[:, :150], t.b[:, :150], 0.0, nl.multiply, nl.add)
    isa.tensor_tensor_scan(
        t.dst[:, 150:], t.a[:, 150:], t.b[:, 150:], t.dst[:, 149:150], nl.multiply, nl.add
    )


LINEAR = recurrence(DECAY, B, 0.0, "multiply", "add")
NARROW = rounded(DECAY, "bfloat16"), rounded(B, "bfloat16")
ONES = np.ones((128, 4097), F)
STEP = np.full((128, 4097), 2.0**-8, F)
STEP[:, 0] = 1
SUMS = 1 + 2.0**-8 * np.arange(4097)  # exact in float32, not in bfloat16

SCANS = [
    scan("linear recurrence"),
    scan("from a number", initial=-1.5),
    scan("from a vector", initial=tile(V)),
    scan("from bfloat16 in PSUM", initial=tile(V, "bfloat16", PSUM),
         expected=recurrence(DECAY, B, rounded(V, "bfloat16").astype(F), "multiply", "add")),
    scan("subtract", "subtract", "multiply", 0.25),
    scan("reversed", "subtract", "subtract", 0.25, reverse0=True),
    scan("both reversed", "subtract", "subtract", 0.25, reverse0=True, reverse1=True),
    scan("maximum and minimum", "maximum", "minimum", 0.5),
    scan("comparisons", "less", "not_equal", 0.5),
    scan("logic", "greater_equal", "logical_and", 0.5),
    scan("larger magnitude", "abs_max", "add", 0.5, targets=("trn3",)),
    scan("carried in float32", data0=tile(ONES, "bfloat16"), data1=tile(STEP, "bfloat16"),
         dst=empty((128, 4097), "bfloat16"), expected=rounded(np.tile(SUMS, (128, 1)), "bfloat16")),
    scan("bfloat16 tiles", data0=tile(DECAY, "bfloat16"), data1=tile(B, "bfloat16"), dst=empty((40, 300), "bfloat16"),
         expected=rounded(recurrence(*(t.astype(F) for t in NARROW), 0.0, "multiply", "add"), "bfloat16")),
    scan("data0 in PSUM, several axes", data0=tile(DECAY.reshape(40, 2, 150), space=PSUM),
         dst=empty((40, 3, 100), space=PSUM), expected=LINEAR.reshape(40, 3, 100)),
    scan("data1 in PSUM, some rows", data0=tile(DECAY, view=lambda t: t[32:36]),
         data1=tile(B, space=PSUM, view=lambda t: t[32:36]), dst=empty((4, 300)), expected=LINEAR[32:36]),
    Case("tensor_tensor_scan", "in two parts", {"dst": empty((40, 300)), "a": tile(DECAY), "b": tile(B)},
         _run_in_two_parts, {"dst": LINEAR}),
    Case("tensor_tensor_scan", "onto data1", {"a": tile(DECAY), "b": tile(B)},
         lambda t: isa.tensor_tensor_scan(t.b, t.a, t.b, 0.0, nl.multiply, nl.add), {"b": LINEAR}),
    scan("both in PSUM", data0=tile(A, space=PSUM), data1=tile(B, space=PSUM), breaks="must not both be in psum"),
    scan("bits", "bitwise_and", breaks="`op0` must be"),
    scan("one operand", op1="abs", breaks="`op1` must be"),
    scan("power", "power", breaks="must not be nl.power"),
    scan("larger magnitude before trn3", "abs_max", breaks="the target must have", targets=("trn1", "trn2")),
    scan("partitions", data1=tile(B[:32]), breaks="number of partitions"),
    scan("elements", data1=tile(B[:, 1:]), breaks="elements per partition"),
    scan("packed", dst=empty((40, 300), "float8_e5m2_x4"), breaks="packed (x4)"),
    scan("flag", reverse0=1, breaks="True or False"),
]  # fmt: skip


# -- tensor_scalar_cumulative -------------------------------------------------------------------------

RESET, REDUCE, LOAD = reduce_cmd.reset_reduce, reduce_cmd.reduce, reduce_cmd.load_reduce
IDENTITY = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf,
            "max": -np.inf, "min": np.inf}  # fmt: skip


def cumulate(
    name, op0="add", op1="add", imm0=0.25, imm1=None, command=None, expected=None, **facts
):
    given = {
        "dst": facts.pop("dst", None) or empty((40, 300)),
        "src": facts.pop("src", None) or tile(A),
        "op0": getattr(nl, op0) if isinstance(op0, str) else op0,
        "op1": getattr(nl, op1) if isinstance(op1, str) else op1,
        "imm0": imm0,
        "imm1": imm1,
    } | ({} if command is None else {"reduce_cmd": command})
    if expected is None and "breaks" not in facts:
        start = imm1 if command is LOAD else IDENTITY[op1]
        operand, start = (v.data if isinstance(v, Tile) else v for v in (imm0, start))
        expected = running(A, operand, start, op0, op1)
    wanted = {} if expected is None else {"dst": expected}
    return one_call("tensor_scalar_cumulative", name, given, wanted, **facts)


def chain(name, commands, op, expected, imm1=None, **facts):
    """Run one instruction per command on consecutive 100 columns."""

    def run(t):
        for k, command in enumerate(commands):
            part = slice(100 * k, 100 * k + 100)
            isa.tensor_scalar_cumulative(
                t.dst[:, part], t.src[:, part], nl.multiply, getattr(nl, op), 0.5, imm1, command
            )

    tiles = {"dst": empty((40, 300)), "src": tile(A)}
    return Case("tensor_scalar_cumulative", name, tiles, run, {"dst": expected}, **facts)


WHOLE = running(A, 0.5, 0.0, "multiply", "add")
HALVES = np.concatenate(
    [running(p, 0.5, 0.0, "multiply", "add") for p in (A[:, :100], A[:, 100:])], axis=1
)
CUMULATIVE = [
    *(cumulate(f"nl.{op}", op1=op) for op in IDENTITY),
    cumulate("product", "multiply", "multiply", 1.125),
    cumulate("vector operand", "subtract", imm0=tile(V)),
    cumulate("comparison first", "less", "add", 0.5),
    cumulate("load a number", imm1=-3.5, command=LOAD),
    cumulate("load a vector", op1="subtract", imm0=tile(V, space=PSUM), imm1=tile(V + 1), command=LOAD),
    cumulate("imm1 is not looked at", imm1=7.0, expected=running(A, 0.25, 0.0, "add", "add")),
    cumulate("int8 into uint16", src=tile(np.full((32, 300), 3), "int8"), imm0=-1.5, dst=empty((32, 300), "uint16"),
             expected=np.rint(np.tile(1.5 * np.arange(1, 301), (32, 1)))),
    cumulate("kept in float32", src=tile(STEP, "bfloat16"), imm0=0.0, dst=empty((128, 4097), "bfloat16"),
             expected=rounded(np.tile(SUMS, (128, 1)), "bfloat16")),
    cumulate("float8, several axes in PSUM", src=tile(A.reshape(40, 3, 100), "float8_e4m3", PSUM),
             dst=empty((40, 2, 150), space=PSUM),
             expected=running(rounded(A, "float8_e4m3").astype(F), 0.25, 0.0, "add", "add").reshape(40, 2, 150)),
    chain("reduce goes on", (RESET, REDUCE, REDUCE), "add", WHOLE),
    chain("load, then reduce", (LOAD, REDUCE, REDUCE), "max", running(A, 0.5, 1.5, "multiply", "max"), imm1=1.5),
    chain("subtract goes on", (RESET, REDUCE, REDUCE), "subtract", running(A, 0.5, 0.0, "multiply", "subtract")),
    chain("reset starts anew", (REDUCE, RESET, REDUCE), "add",
          np.concatenate([A[:, :100] * np.nan, HALVES[:, 100:]], axis=1)),
    Case("tensor_scalar_cumulative", "onto its source", {"src": tile(A)},
         lambda t: isa.tensor_scalar_cumulative(t.src, t.src, nl.multiply, nl.add, 0.5), {"src": WHOLE}),
    cumulate("idle", command=reduce_cmd.idle, breaks="`reduce_cmd` must be"),
    cumulate("load without a value", command=LOAD, breaks="`imm1` must be given"),
    cumulate("bits", "bitwise_and", breaks="`op0` must be"),
    cumulate("comparison second", op1="less", breaks="`op1` must be"),
    cumulate("power", "power", breaks="must not be nl.power"),
    cumulate("larger magnitude before trn3", "abs_max", breaks="the target must have", targets=("trn1", "trn2")),
    cumulate("bfloat16 operand", imm0=tile(V, "bfloat16"), breaks="must be float32"),
    cumulate("int32", src=tile(A, "int32"), breaks="`src` must have dtype"),
    cumulate("partitions", src=tile(A[:32]), breaks="number of partitions"),
    cumulate("elements", src=tile(A[:, 1:]), breaks="elements per partition"),
]  # fmt: skip

CASES = [*SCANS, *CUMULATIVE]
