"""Cases of tensor_tensor, scalar_tensor_tensor and reciprocal; tensor_scalar has a module of its own."""

from __future__ import annotations

import numpy as np

from nki_lab.targets.engines import GPSIMD, SCALAR, VECTOR
from nki_lab.targets.spaces import PSUM
from tests.isa.case import Case, empty, isa, nl, rounded, sample, tile

A = sample(128, 20, seed=10)
B = sample(128, 20, seed=11)
A64, B64 = A.astype(float), B.astype(float)
TIES = np.round(A)  # many equal values, for comparisons
TIES2 = np.round(B)

# Products and sums that float32 cannot hold; Python integers are exact.
I1 = np.array([[2**31 - 1, -(2**31), 123456789, -3, 2**24 + 1, 0]], np.int32).repeat(32, axis=0)
I2 = np.array([[1, 2, -1000, 7, 1, -5]], np.int32).repeat(32, axis=0)


def exactly(op, dtype="int32", a=I1, b=I2):
    wrapped = [
        [op(int(x), int(y)) for x, y in zip(p, q, strict=True)] for p, q in zip(a, b, strict=True)
    ]
    bits = np.array(wrapped, object) % 2**32
    unsigned = bits.astype(np.uint32)
    return unsigned if dtype == "uint32" else unsigned.view(np.int32)  # fmt: skip


def combine(name, op, a, b, dst, expected=None, **facts):
    options = {"engine": facts.pop("engine")} if "engine" in facts else {}
    return Case(
        "tensor_tensor",
        name,
        {"dst": dst, "data1": a, "data2": b},
        lambda t: isa.tensor_tensor(t.dst, t.data1, t.data2, op, **options),
        {} if expected is None else {"dst": expected},
        **facts,
    )


FLOATS = {
    "add": A64 + B64,
    "subtract": A64 - B64,
    "multiply": A64 * B64,
    "maximum": np.where(A64 > B64, A64, B64),
    "minimum": np.where(A64 < B64, A64, B64),
}
COMPARES = {
    "equal": TIES == TIES2,
    "not_equal": TIES != TIES2,
    "greater_equal": TIES >= TIES2,
    "greater": TIES > TIES2,
    "less_equal": TIES <= TIES2,
    "less": TIES < TIES2,
    "logical_and": (TIES != 0) & (TIES2 != 0),
    "logical_or": (TIES != 0) | (TIES2 != 0),
    "logical_xor": (TIES != 0) != (TIES2 != 0),
    "max": np.where(TIES > TIES2, TIES, TIES2),
    "min": np.where(TIES < TIES2, TIES, TIES2),
}
P1 = np.random.default_rng(12).integers(0, 2**16, (64, 12)).astype(np.uint16)
P2 = np.random.default_rng(13).integers(0, 2**16, (64, 12)).astype(np.uint16)
SHIFTS = (np.arange(64 * 12).reshape(64, 12) % 18).astype(
    np.uint16
)  # 16 and 17 shift everything out
PATTERNS = {
    "bitwise_and": [[int(x) & int(y) for x, y in zip(p, q, strict=True)] for p, q in zip(P1, P2, strict=True)],
    "bitwise_or": [[int(x) | int(y) for x, y in zip(p, q, strict=True)] for p, q in zip(P1, P2, strict=True)],
    "bitwise_xor": [[int(x) ^ int(y) for x, y in zip(p, q, strict=True)] for p, q in zip(P1, P2, strict=True)],
}  # fmt: skip
NAN_ROW = np.array([[1.0, np.nan, -np.inf, np.nan]], np.float32)
NAN_ROW2 = np.array([[np.nan, 2.0, np.nan, np.nan]], np.float32)

TENSOR_TENSOR = [
    *(
        combine(n, getattr(nl, n), tile(A), tile(B), empty(A.shape), rounded(e, "float32"))
        for n, e in FLOATS.items()
    ),
    *(
        combine(n, getattr(nl, n), tile(TIES), tile(TIES2), empty(A.shape), e)
        for n, e in COMPARES.items()
    ),
    *(
        combine(n, getattr(nl, n), tile(P1), tile(P2), empty(P1.shape, "uint16"), e)
        for n, e in PATTERNS.items()
    ),
    combine(
        "left_shift",
        nl.left_shift,
        tile(P1),
        tile(SHIFTS),
        empty(P1.shape, "uint16"),
        [[(int(x) << int(s)) % 2**16 for x, s in zip(p, q, strict=True)] for p, q in zip(P1, SHIFTS, strict=True)],
    ),
    combine(
        "right_shift is logical",
        nl.right_shift,
        tile(P1.view(np.int16)),
        tile(SHIFTS.view(np.int16)),
        empty(P1.shape, "uint16"),
        [[int(x) >> int(s) for x, s in zip(p, q, strict=True)] for p, q in zip(P1, SHIFTS, strict=True)],
    ),
    combine(
        "power on GpSimd", nl.power, tile(np.abs(A)), tile(B), empty(A.shape),
        np.abs(A64) ** B64, rtol=1e-6,
    ),
    combine("power of integers", nl.power, tile(I1), tile(np.abs(I2) % 4, "int32"), empty(I1.shape, "int32"),
            exactly(lambda x, y: x**y, b=np.abs(I2) % 4)),
    *(
        combine(f"{n} of magnitudes", getattr(nl, n), tile(TIES), tile(-TIES2), empty(A.shape), e,
                targets=("trn3",))
        for n, e in {
            "abs_max": np.where(abs(TIES) > abs(TIES2), TIES, -TIES2),
            "abs_min": np.where(abs(TIES) < abs(TIES2), TIES, -TIES2),
        }.items()
    ),
    combine("NaN wins in maximum", nl.maximum, tile(NAN_ROW), tile(NAN_ROW2), empty((1, 4)), [[np.nan] * 4]),
    combine("NaN wins in minimum", nl.minimum, tile(NAN_ROW), tile(NAN_ROW2), empty((1, 4)), [[np.nan] * 4]),
    combine("bfloat16 rounds once", nl.multiply, tile(A, "bfloat16"), tile(B, "bfloat16"),
            empty(A.shape, "bfloat16"),
            rounded(rounded(A, "bfloat16").astype(float) * rounded(B, "bfloat16").astype(float), "bfloat16")),
    combine("mixed dtypes, one in PSUM", nl.subtract, tile(A, space=PSUM), tile(np.round(B * 25), "int8"),
            empty(A.shape, "float16"), rounded(A64 - np.round(B * 25), "float16")),
    combine("another shape of the same stream", nl.add, tile(A.reshape(128, 4, 5)), tile(B.reshape(128, 2, 10)),
            empty((128, 5, 4)), rounded(A64 + B64, "float32").reshape(128, 5, 4)),
    combine("comparison into uint8", nl.greater, tile(TIES), tile(TIES2), empty(A.shape, "uint8"), TIES > TIES2),
    *(
        combine(f"exact {n} of int32", getattr(nl, n), tile(I1), tile(I2), empty(I1.shape, "int32"), exactly(e))
        for n, e in {
            "add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__, "maximum": max, "minimum": min,
            "less": lambda x, y: x < y,
        }.items()
    ),
    combine("exact sum of mixed signs", nl.add, tile(I1), tile(I2.view(np.uint32)), empty(I1.shape, "uint32"),
            exactly(int.__add__, "uint32", b=I2.view(np.uint32))),
    combine("int32 in PSUM goes through float32", nl.add, tile([[2**24 + 1]] * 32, "int32", PSUM),
            tile([[2]] * 32, "int32"), empty((32, 1), "int32"), [[2**24 + 2]] * 32),
    combine("int32 on Vector goes through float32", nl.add, tile([[2**24 + 1]] * 32, "int32"),
            tile([[2]] * 32, "int32"), empty((32, 1), "int32"), [[2**24 + 2]] * 32, engine=VECTOR),
    combine("floats on GpSimd", nl.add, tile(A), tile(B), empty(A.shape), rounded(A64 + B64, "float32"),
            engine=GPSIMD),
    combine("quotient, of no engine", nl.divide, tile(A), tile(B), empty(A.shape), rounded(A64 / B64, "float32")),
    # What it refuses.
    combine("partitions", nl.add, tile(A), tile(B[:64]), empty(A.shape), breaks="number of partitions"),
    combine("free size", nl.add, tile(A), tile(B[:, :10]), empty(A.shape), breaks="elements per partition"),
    combine("packed", nl.add, tile(A), tile(B, "float8_e5m2_x4"), empty(A.shape), breaks="packed (x4)"),
    combine("both in PSUM", nl.add, tile(A, space=PSUM), tile(B, space=PSUM), empty(A.shape),
            breaks="must not both be in psum"),
    combine("NumPy operator", np.add, tile(A), tile(B), empty(A.shape), breaks="operator of nki.language"),
    combine("operator by name", "add", tile(A), tile(B), empty(A.shape), breaks="operator of nki.language"),
    combine("no operator", None, tile(A), tile(B), empty(A.shape), breaks="operator of nki.language"),
    combine("one operand", nl.abs, tile(A), tile(B), empty(A.shape), breaks="operator of nki.language"),
    combine("activation function", nl.exp, tile(A), tile(B), empty(A.shape), breaks="operator of nki.language"),
    combine("remainder", nl.mod, tile(A), tile(B), empty(A.shape), breaks="operator of nki.language"),
    combine("abs_max before v4", nl.abs_max, tile(A), tile(B), empty(A.shape), breaks="target must have the operator",
            targets=("trn1", "trn2")),
    combine("bits of floats", nl.bitwise_or, tile(A), tile(B), empty(A.shape), breaks="integers of one width"),
    combine("bits of two widths", nl.bitwise_or, tile(P1), tile(P2, "uint32"), empty(P1.shape, "uint16"),
            breaks="integers of one width"),
    combine("power in PSUM", nl.power, tile(A, space=PSUM), tile(B), empty(A.shape), breaks="in sbuf for nl.power"),
    combine("engine", nl.add, tile(A), tile(B), empty(A.shape), breaks="`engine` must be one", engine=SCALAR),
    combine("bits on GpSimd", nl.bitwise_or, tile(P1), tile(P2), empty(P1.shape, "uint16"),
            breaks="must have the operator", engine=GPSIMD),
    combine("power on Vector", nl.power, tile(A), tile(B), empty(A.shape), breaks="must have the operator",
            engine=VECTOR),
    combine("GpSimd and PSUM", nl.add, tile(A), tile(B), empty(A.shape, space=PSUM), breaks="must not be in psum",
            engine=GPSIMD),
]  # fmt: skip

V = sample(128, 1, seed=14)


def chain(name, a, op0, operand0, op1, b, dst, expected=None, **facts):
    number = not hasattr(operand0, "data")
    tiles = {"dst": dst, "data": a, "operand1": b} | ({} if number else {"operand0": operand0})
    flags = {k: facts.pop(k) for k in ("reverse0", "reverse1") if k in facts}
    return Case(
        "scalar_tensor_tensor",
        name,
        tiles,
        lambda t: isa.scalar_tensor_tensor(
            t.dst, t.data, op0, operand0 if number else t.operand0, op1, t.operand1, **flags
        ),
        {} if expected is None else {"dst": expected},
        **facts,
    )


CHAIN = [
    chain("number", tile(A), nl.multiply, 3.0, nl.add, tile(B), empty(A.shape), A64 * 3 + B64, rtol=1e-5, atol=1e-6),
    chain("vector", tile(A), nl.subtract, tile(V), nl.multiply, tile(B), empty(A.shape), (A64 - V) * B64,
          rtol=1e-5, atol=1e-6),
    chain("reversed", tile(A), nl.subtract, tile(V), nl.subtract, tile(B), empty(A.shape), B64 - (V - A64),
          rtol=1e-5, atol=1e-6, reverse0=True, reverse1=True),
    chain("bfloat16 in PSUM", tile(A, "bfloat16", PSUM), nl.maximum, 0.0, nl.multiply, tile(B, "bfloat16"),
          empty((128, 5, 4), "bfloat16"),
          rounded(np.maximum(rounded(A, "bfloat16").astype(float), 0)
                  * rounded(B, "bfloat16").astype(float), "bfloat16").reshape(128, 5, 4)),
    chain("comparison", tile(TIES), nl.greater, 0.0, nl.logical_and, tile(TIES2), empty(A.shape, "uint8"),
          (TIES > 0) & (TIES2 != 0)),
    chain("partitions", tile(A), nl.add, 1.0, nl.add, tile(B[:64]), empty(A.shape), breaks="number of partitions"),
    chain("free size", tile(A), nl.add, 1.0, nl.add, tile(B[:, :3]), empty(A.shape), breaks="elements per partition"),
    chain("packed", tile(A, "float8_e5m2_x4"), nl.add, 1.0, nl.add, tile(B), empty(A.shape), breaks="packed (x4)"),
    chain("both in PSUM", tile(A, space=PSUM), nl.add, 1.0, nl.add, tile(B, space=PSUM), empty(A.shape),
          breaks="must not both be in psum"),
    chain("bits first", tile(A), nl.bitwise_or, 1, nl.add, tile(B), empty(A.shape), breaks="`op0` must be"),
    chain("bits second", tile(A), nl.add, 1, nl.bitwise_or, tile(B), empty(A.shape), breaks="`op1` must be"),
    chain("power", tile(A), nl.power, 2.0, nl.add, tile(B), empty(A.shape), breaks="must run on Vector"),
    chain("abs_min before v4", tile(A), nl.abs_min, 2.0, nl.add, tile(B), empty(A.shape),
          breaks="target must have the operator", targets=("trn1", "trn2")),
    chain("flag", tile(A), nl.add, 2.0, nl.add, tile(B), empty(A.shape), breaks="True or False", reverse1=1),
]  # fmt: skip


def invert(name, data, dst, expected=None, **facts):
    return Case(
        "reciprocal",
        name,
        {"dst": dst, "data": data},
        lambda t: isa.reciprocal(t.dst, t.data),
        {} if expected is None else {"dst": expected},
        **facts,
    )


RECIPROCAL = [
    invert("float32", tile(A), empty(A.shape), 1 / A64, rtol=1e-7),
    invert("bfloat16", tile(A, "bfloat16"), empty(A.shape, "bfloat16"),
           rounded(1 / rounded(A, "bfloat16").astype(float), "bfloat16")),
    invert("zeros, in PSUM", tile([[0.0, -0.0, np.inf, np.nan]], space=PSUM), empty((1, 4), space=PSUM),
           [[np.inf, -np.inf, 0, np.nan]]),
    invert("partitions", tile(A), empty((64, 20)), breaks="number of partitions"),
    invert("free size", tile(A), empty((128, 10)), breaks="elements per partition"),
    invert("packed", tile(A, "float8_e5m2_x4"), empty(A.shape), breaks="packed (x4)"),
]  # fmt: skip

CASES = [*TENSOR_TENSOR, *CHAIN, *RECIPROCAL]
