"""Cases of tensor_scalar."""

from __future__ import annotations

import numpy as np

from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, empty, isa, nl, rounded, sample, tile

X = sample(128, 20, seed=20)
X64 = X.astype(float)
V = sample(128, 1, seed=21)
W = sample(128, 1, seed=22)
TIES = np.round(X)
BITS = np.random.default_rng(23).integers(0, 2**32, (64, 12)).astype(np.uint32)
SHIFT = (np.arange(64) % 34).astype(np.uint32).reshape(64, 1)


def scale(name, data, dst, expected, op0, operand0, op1=None, operand1=None, **facts):
    """`operand0` and `operand1` are numbers, None or tiles."""
    operands = {"operand0": operand0, "operand1": operand1}
    tiled = {k: v for k, v in operands.items() if hasattr(v, "data") and hasattr(v, "space")}
    options = {k: facts.pop(k) for k in ("reverse0", "reverse1", "engine") if k in facts}

    def run(t):
        given = {k: getattr(t, k) if k in tiled else v for k, v in operands.items()}
        return isa.tensor_scalar(t.dst, t.data, op0=op0, op1=op1, **given, **options)

    return Case(
        "tensor_scalar",
        name,
        {"dst": dst, "data": data, **tiled},
        run,
        {} if expected is None else {"dst": expected},
        **facts,
    )


def refuse(name, breaks, op0, operand0, op1=None, operand1=None, data=None, dst=None, **facts):
    data = tile(X) if data is None else data
    dst = empty(X.shape) if dst is None else dst
    return scale(name, data, dst, None, op0, operand0, op1, operand1, breaks=breaks, **facts)


OUT = empty(X.shape)
NEAR = {"rtol": 1e-5, "atol": 1e-6}

CASES = [
    # The official examples: a - 1, 1 - c, and e * f + 2.5 with a vector (nki/test/test_nki_isa_tensor_scalar.py).
    scale("subtract a number", tile(X), OUT, rounded(X64 - 1, "float32"), nl.subtract, 1),
    scale("subtract from a number", tile(X), OUT, rounded(1 - X64, "float32"), nl.subtract, 1.0, reverse0=True),
    scale("vector and number", tile(X), OUT, X64 * V + 2.5, nl.multiply, tile(V), nl.add, 2.5, **NEAR),
    scale("two vectors, reversed", tile(X), OUT, W - (V - X64), nl.subtract, tile(V), nl.subtract, tile(W, space=PSUM),
          reverse0=True, reverse1=True, **NEAR),
    scale("quotient, of no engine", tile(X), OUT, rounded(rounded(V / X64, "float32") - W.astype(float), "float32"),
          nl.divide, tile(V), nl.subtract, tile(W), reverse0=True),
    scale("three free axes", tile(X.reshape(128, 2, 2, 5)), empty((128, 4, 5)), (X64 * V).reshape(128, 4, 5),
          nl.multiply, tile(V), **NEAR),
    scale("maximum and minimum", tile(X), OUT, np.clip(X64, -0.5, 0.75), nl.maximum, -0.5, nl.minimum, 0.75),
    scale("maximum with a vector", tile(X), OUT, np.where(X > V, X, V), nl.maximum, tile(V)),
    scale("NaN wins", tile([[np.nan, 1.0, -1.0]]), empty((1, 3)), [[np.nan, 1.0, 0.0]], nl.maximum, 0.0),
    scale("comparison of a bfloat16 tile", tile(TIES, "bfloat16"), empty(X.shape, "uint8"), TIES >= 1.0,
          nl.greater_equal, 1.0),
    scale("comparison with the number on the left", tile(TIES), OUT, TIES < 0.0, nl.greater, 0.0, reverse0=True),
    scale("the first result is not rounded", tile([[1 + 2.0**-7]], "bfloat16"), empty((1, 1), "bfloat16"),
          [[2.0**-14]], nl.multiply, 1 + 2.0**-7, nl.subtract, 1 + 2.0**-6),
    scale("abs", tile(X), OUT, abs(X64), nl.abs, None),
    scale("abs, then add", tile(X), OUT, rounded(abs(X64) + 1, "float32"), nl.abs, 0, nl.add, 1.0),
    scale("square", tile(X), OUT, rounded(X64 * X64, "float32"), nl.square, 0.0, targets=("trn3",)),
    scale("relu", tile(X), OUT, np.where(X > 0, X, 0), nl.relu, None, targets=("trn3",)),
    scale("reciprocal", tile(X), OUT, rounded(1 / X64, "float32"), nl.reciprocal, None),
    scale("add, then abs", tile(X), OUT, abs(rounded(X64 + 0.5, "float32")), nl.add, 0.5, nl.abs, 0),
    scale("rsqrt on GpSimd", tile(abs(X)), OUT, abs(X64) ** -0.5, nl.rsqrt, 0.0, rtol=1e-6),
    scale("rsqrt, asked for", tile(abs(X)), OUT, abs(X64) ** -0.5, nl.rsqrt, None, engine=GPSIMD, rtol=1e-6),
    scale("scale on Scalar", tile(X), OUT, X64 * 2 + 1, nl.multiply, 2.0, nl.add, 1.0, engine=SCALAR,
          targets=("trn2", "trn3"), **NEAR),
    scale("any operator on Scalar", tile(X), OUT, np.maximum(X64, 0.5), nl.maximum, 0.5, engine=SCALAR,
          targets=("trn3",)),
    scale("on Vector", tile(X), OUT, rounded(X64 * 0.5, "float32"), nl.multiply, 0.5, engine=VECTOR),
    scale("int32 goes through float32", tile([[2**24 + 1]], "int32"), empty((1, 1), "int32"), [[2**24 + 2]],
          nl.add, 2),
    scale("abs_max", tile(TIES), OUT, np.where(abs(TIES) > 1, TIES, -1.0), nl.abs_max, -1.0, targets=("trn3",)),
    scale("and with a mask", tile(BITS), empty(BITS.shape, "uint32"), BITS % 256, nl.bitwise_and, 255),
    scale("all ones", tile(BITS), empty(BITS.shape, "uint32"), 2**32 - 1 - BITS.astype(np.int64), nl.bitwise_xor, -1),
    scale("invert, then shift", tile(BITS.view(np.int32)), empty(BITS.shape, "uint32"),
          (2**32 - 1 - BITS.astype(np.int64)) // 16, nl.invert, None, nl.right_shift, 4),
    scale("shift by a vector", tile(BITS), empty(BITS.shape, "uint32"),
          [[int(b) >> int(s) for b in row] for row, s in zip(BITS, SHIFT[:, 0], strict=True)],
          nl.right_shift, tile(SHIFT)),
    scale("a number shifted by data", tile(SHIFT), empty(SHIFT.shape, "uint32"),
          [[(1 << int(s)) % 2**32] for s in SHIFT[:, 0]], nl.left_shift, 1, reverse0=True),
    # What it refuses.
    refuse("partitions", "number of partitions", nl.add, 1.0, dst=empty((64, 20))),
    refuse("free size", "elements per partition", nl.add, 1.0, dst=empty((128, 4))),
    refuse("packed", "packed (x4)", nl.add, 1.0, data=tile(X, "float8_e4m3fn_x4")),
    refuse("NumPy operator", "`op0` must be", np.multiply, 1.0),
    refuse("NumPy operator second", "`op1` must be", nl.multiply, 1.0, np.add, 1.0),
    refuse("abs_max before v4", "target must have the operator", nl.abs_max, 1.0, targets=("trn1", "trn2")),
    refuse("square before v4", "target must have the operator", nl.square, None, targets=("trn1", "trn2")),
    refuse("relu before v4", "target must have the operator", nl.abs, None, nl.relu, None, targets=("trn1", "trn2")),
    refuse("power", "must run on Vector", nl.power, 2.0),
    refuse("mixed classes", "both be bitvec or both be arithmetic", nl.bitwise_and, 1, nl.add, 1,
           data=tile(BITS), dst=empty(BITS.shape, "uint32")),
    refuse("rsqrt with another", "must be the only operator", nl.add, 1e-6, nl.rsqrt, 0.0),
    refuse("rsqrt in PSUM", "in sbuf for nl.rsqrt", nl.rsqrt, None, data=tile(X, space=PSUM)),
    refuse("operand left out", "`operand0` must be given", nl.add, None),
    refuse("operand of a unary operator", "`operand0` must be given", nl.abs, 2.0),
    refuse("second operand left out", "`operand1` must be given", nl.add, 1.0, nl.multiply),
    refuse("second operand alone", "`operand1` must be given", nl.add, 1.0, None, 2.0),
    refuse("bits of floats", "integers of one width", nl.bitwise_and, 1),
    refuse("bits with a float", "integers of one width", nl.bitwise_and, 1.0, data=tile(BITS),
           dst=empty(BITS.shape, "uint32")),
    refuse("bfloat16 operand", "must be float32 when given as a tile", nl.add, tile(V, "bfloat16")),
    refuse("flag", "True or False", nl.add, 1.0, reverse0=None),
    refuse("engine by number", "`engine` must be one", nl.add, 1.0, engine=1),
    refuse("Scalar before v3", "only on a target with", nl.add, 1.0, engine=SCALAR, targets=("trn1",)),
    refuse("add on GpSimd", "must have the operators", nl.add, 1.0, engine=GPSIMD),
    refuse("rsqrt on Vector", "must have the operators", nl.rsqrt, None, engine=VECTOR),
    refuse("bits on Scalar", "must have the operators", nl.bitwise_and, 1, data=tile(BITS),
           dst=empty(BITS.shape, "uint32"), engine=SCALAR, targets=("trn3",)),
    refuse("maximum on Scalar", "on Scalar, `op0` and `op1`", nl.maximum, 0.0, engine=SCALAR, targets=("trn2",)),
]  # fmt: skip
