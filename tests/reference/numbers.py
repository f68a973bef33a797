"""Element types, their rounding, and the operators and functions of engines, in float64.

Pages: nki/api/nki.api.shared.rst (types, ALU operators, activation functions). A value that the pages fix to the bit
has the error 0, another one an absolute tolerance, and infinity where the pages leave it open.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]
FREE = math.inf  # the error of a value that the pages leave open
NAN = -1.0  # the error of a NaN, whose bits are open
EPS = 2.0**-24


@dataclass(frozen=True)
class DType:
    """An element type.

    Attributes:
        name: in nki.language.
        np: NumPy type of the stored bytes.
        kind: f, i, u, b (bool), s (scale) or p (packed).
        mantissa, low, high: bits after the point, least and largest exponent of a normal number.
        top: largest finite value.
        lane: type of one of the four packed values.
    """

    name: str
    np: Any
    kind: str
    mantissa: int = 0
    low: int = 0
    top: float = 0.0
    lane: DType | None = None

    @property
    def size(self) -> int:
        return int(self.np.itemsize)

    def __repr__(self) -> str:
        return f"nl.{self.name}"


def _types() -> dict[str, DType]:
    rows = [DType(f"{k}int{n}".lstrip("s"), np.dtype(f"{'u' if k else ''}int{n}"), "u" if k else "i")
            for k in ("", "u") for n in (8, 16, 32)]  # fmt: skip
    rows += [
        DType("bool_", np.dtype(np.uint8), "b"),
        DType("float32", np.dtype(np.float32), "f", 23, -126, 2.0**128 - 2.0**104),
        DType("tfloat32", np.dtype(np.float32), "f", 10, -126, 2.0**128 - 2.0**117),
        DType("bfloat16", np.dtype(ml_dtypes.bfloat16), "f", 7, -126, 2.0**128 - 2.0**120),
        DType("float16", np.dtype(np.float16), "f", 10, -14, 65504.0),
        DType("float8_e5m2", np.dtype(ml_dtypes.float8_e5m2), "f", 2, -14, 57344.0),
        DType("float8_e4m3", np.dtype(ml_dtypes.float8_e4m3), "f", 3, -6, 240.0),
        DType("float8_e4m3fn", np.dtype(ml_dtypes.float8_e4m3fn), "f", 3, -6, 448.0),
        DType("float8_e8m0fnu", np.dtype(ml_dtypes.float8_e8m0fnu), "s"),
    ]
    names = {d.name: d for d in rows}
    fp4 = DType("float4_e2m1fn", np.dtype(ml_dtypes.float4_e2m1fn), "f", 1, 0, 6.0)
    names["float8_e5m2_x4"] = DType(
        "float8_e5m2_x4", np.dtype(np.uint32), "p", lane=names["float8_e5m2"]
    )
    names["float8_e4m3fn_x4"] = DType(
        "float8_e4m3fn_x4", np.dtype(np.uint32), "p", lane=names["float8_e4m3fn"]
    )
    names["float4_e2m1fn_x4"] = DType("float4_e2m1fn_x4", np.dtype(np.uint16), "p", lane=fp4)
    return names


TYPES = _types()


def rounded(values: Array, dtype: DType) -> tuple[Array, Array]:
    """Round float32 values, held in float64, to a type; return float64 values and what the pages leave open of each.

    Floats round to nearest, ties to even, and overflow to infinity, or to NaN where a type has none; integers
    saturate (release-notes/components/nki.rst). No page says what integer a NaN becomes.
    """
    open_ = np.zeros(values.shape)
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            _, exponent = np.frexp(values)
            step = np.ldexp(1.0, np.maximum(exponent - 1, dtype.low) - dtype.mantissa)
            result = np.rint(values / step) * step
        result = np.where(np.isfinite(values), result, values)
        beyond = math.nan if dtype.name == "float8_e4m3fn" else math.inf
        result = np.where(np.abs(result) > dtype.top, np.copysign(beyond, values), result)
        return result, np.where(np.isnan(result), NAN, open_)
    open_[np.isnan(values)] = FREE
    if dtype.kind == "b":
        return (values != 0).astype(float), open_
    if dtype.kind in "iu":
        info = np.iinfo(dtype.np)
        return np.clip(np.rint(np.nan_to_num(values, nan=0.0)), info.min, info.max), open_
    power = np.log2(
        np.where(values > 0, values, 1.0)
    )  # a scale: only powers of two have one meaning
    fits = (values > 0) & (power == np.rint(power)) & (np.abs(power) <= 127)
    return np.where(fits, values, 1.0), np.where(fits, 0.0, FREE)


def spacing(values: Array, dtype: DType) -> Array:
    """Return the distance of neighbouring values of a type."""
    if dtype.kind != "f":
        return np.ones(values.shape)
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(np.nan_to_num(values))
        return np.ldexp(1.0, np.maximum(exponent - 1, dtype.low) - dtype.mantissa)


def f32(values: Array) -> Array:
    """Round float64 values to float32, kept in float64."""
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(np.float64)


@dataclass(frozen=True)
class Val:
    """Values in float32, held in float64 (or exact integers), with the error of each."""

    v: Array
    e: Array

    def map(self, change: Callable[[Array], Array]) -> Val:
        return Val(change(self.v), change(self.e))

    @property
    def dirty(self) -> Array:
        return self.e > 0


def exact(values: Any) -> Val:
    """Wrap values that are right to the bit."""
    v = np.asarray(values, np.float64)
    return Val(v, np.zeros(v.shape))


def spoilt(result: Array, *inputs: Val, error: Any = 0.0, leave: Any = False) -> Val:
    """Return a result with an error; open where an input is not exact or where `leave` says so."""
    e = np.broadcast_to(np.asarray(error, float), result.shape).copy()
    for x in inputs:
        e[np.broadcast_to(x.dirty, result.shape)] = FREE
    e[np.broadcast_to(leave, result.shape)] = FREE
    return Val(result, e)


# -- ALU operators -------------------------------------------------------------------------------------------------


def _truth(a: Array) -> Array:
    return a != 0


def _larger(a: Array, b: Array) -> Array:
    return np.where(np.abs(a) > np.abs(b), a, b)


def _smaller(a: Array, b: Array) -> Array:
    return np.where(np.abs(a) < np.abs(b), a, b)


#: (function in float64, relative error, whether NaN and the sign of zero are left open)
BINARY: dict[str, tuple[Callable[..., Array], float, bool]] = {
    "add": (np.add, 0, False), "subtract": (np.subtract, 0, False), "multiply": (np.multiply, 0, False),
    "maximum": (np.maximum, 0, True), "minimum": (np.minimum, 0, True),
    "max": (np.maximum, 0, True), "min": (np.minimum, 0, True),
    "equal": (np.equal, 0, False), "not_equal": (np.not_equal, 0, False),
    "greater": (np.greater, 0, False), "greater_equal": (np.greater_equal, 0, False),
    "less": (np.less, 0, False), "less_equal": (np.less_equal, 0, False),
    "logical_and": (lambda a, b: _truth(a) & _truth(b), 0, True),
    "logical_or": (lambda a, b: _truth(a) | _truth(b), 0, True),
    "logical_xor": (lambda a, b: _truth(a) ^ _truth(b), 0, True),
    "power": (np.power, 2e-6, True), "abs_max": (_larger, 0, True), "abs_min": (_smaller, 0, True),
}  # fmt: skip
UNARY: dict[str, tuple[Callable[..., Array], float, bool]] = {
    "abs": (np.abs, 0, False), "square": (np.square, 0, False), "relu": (lambda a: np.maximum(a, 0), 0, True),
    "rsqrt": (lambda a: 1 / np.sqrt(a), 4e-7, True), "reciprocal": (lambda a: 1 / a, 2.5e-7, False),
}  # fmt: skip
COMPARES = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BITVEC: dict[str, Callable[..., Array]] = {
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
    "left_shift": lambda a, b: a << b, "right_shift": lambda a, b: a >> b,
}  # fmt: skip
IDENTITY = {
    "add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -math.inf, "minimum": math.inf, "max": -math.inf,
    "min": math.inf, "abs_max": 0.0, "abs_min": math.inf,
}  # fmt: skip


def alu(op: str, a: Val, b: Val | None = None, reverse: bool = False) -> Val:
    """Apply an operator in float32."""
    with np.errstate(all="ignore"):
        if op in UNARY:
            apply, relative, special = UNARY[op]
            r = f32(apply(a.v))
            e = np.where(np.isfinite(r), np.abs(r) * relative, 0.0)
            if special:
                e = np.where((r == 0) & (op == "relu"), 1e-45, e)
            bad = np.isnan(a.v) & special | (relative > 0) & (
                (np.abs(a.v) < 2.0**-120) | (np.abs(r) < 2.0**-125)
            )
            return spoilt(r, a, error=e, leave=bad)
        assert b is not None
        if reverse:
            a, b = b, a
        apply, relative, special = BINARY[op]
        r = f32(np.asarray(apply(a.v, b.v), np.float64))
        e = np.abs(r) * relative
        leave: Any = False
        if special:
            leave = np.isnan(a.v) | np.isnan(b.v)
            e = np.where((r == 0) & (op[:3] in ("max", "min")), 1e-45, e)
        if op == "power":
            leave = (
                leave
                | ~np.isfinite(r)
                | ~np.isfinite(a.v)
                | ~np.isfinite(b.v)
                | (np.abs(r) < 2.0**-120)
            )
        return spoilt(r, a, b, error=e, leave=leave)


def total(x: Val, start: Val | None = None) -> Val:
    """Add up the last axis in float32 in an order that the pages do not fix, `start` (one per row) among it.

    Sums of few bits are exact in any order; others get the tolerance of the longest chain of additions.
    """
    v, e = x.v, x.e
    if start is not None:
        v, e = np.concatenate([start.v, v], -1), np.concatenate([start.e, e], -1)
    with np.errstate(all="ignore"):
        r = v.sum(-1, keepdims=True)
        size = np.abs(v).sum(-1, keepdims=True)
        grid = v * 2.0**10
        whole = (np.rint(grid) == grid).all(-1, keepdims=True) & (size * 2.0**10 < 2**24)
        plain = np.isfinite(size) & (size < 2.0**127)
        error = np.where(whole, 0.0, size * EPS * 2 * v.shape[-1] + 1e-44)
        # With infinities the result is clear unless both signs meet or a finite part may overflow.
        finite = np.where(np.isfinite(v), np.abs(v), 0).sum(-1, keepdims=True) < 2.0**126
        error = np.where(plain, error, np.where(np.isfinite(r) | ~finite, FREE, 0.0))
        error = np.where(np.isnan(r) & finite, 0.0, error)
        error[e.max(-1, keepdims=True) > 0] = FREE
        zero = (r == 0) & (error == 0)  # the sign of a sum of zeros depends on where it starts
        return Val(f32(r), np.where(zero, 1e-45, error))


def fold(op: str, x: Val, start: Val | None = None) -> Val:
    """Reduce the last axis with an operator."""
    if op in ("add",):
        return total(x, start)
    if op in ("maximum", "minimum", "max", "min", "abs_max", "abs_min"):
        r = start
        columns = x.v.shape[-1]
        if op[:3] in ("max", "min"):
            pick = np.max if op.startswith("max") else np.min
            r0 = spoilt(
                pick(x.v, -1, keepdims=True), Val(x.v, x.e).map(lambda a: a.max(-1, keepdims=True))
            )
            r0.e[np.isnan(x.v).any(-1, keepdims=True)] = FREE
            r0.e[(r0.v == 0) & (r0.e == 0)] = 1e-45
            return r0 if r is None else alu(op, _clean_zero(r), _clean_zero(r0))
        for k in range(columns):
            column = x.map(lambda a, k=k: a[..., k : k + 1])  # type: ignore[misc]
            r = column if r is None else alu(op, r, column)
        assert r is not None
        return r
    if op in LOGICAL:
        with np.errstate(all="ignore"):
            t = _truth(x.v)
            r1 = {"logical_and": t.all, "logical_or": t.any}.get(
                op, lambda *a, **k: t.sum(*a, **k) % 2
            )(-1, keepdims=True)
        # One element reduces to itself without an operator, and chains begin with one: only its truth is fixed.
        alone = x.v.shape[-1] == 1
        return spoilt(
            np.asarray(r1, float),
            x.map(lambda a: a.max(-1, keepdims=True)),
            leave=np.isnan(x.v).any(-1, keepdims=True) | alone,
        )
    with np.errstate(all="ignore"):
        if op == "subtract":  # the first element is the minuend
            return total(Val(np.concatenate([x.v[..., :1], -x.v[..., 1:]], -1), x.e))
        r2 = (
            np.prod(x.v, -1, keepdims=True)
            if start is None
            else np.prod(x.v, -1, keepdims=True) * start.v
        )
        n = x.v.shape[-1]
        inner = np.cumprod(np.sort(np.abs(x.v), -1), -1)
        risky = (
            ~np.isfinite(r2)
            | (np.abs(r2) > 2.0**126)
            | ((np.abs(r2) < 2.0**-120) & (r2 != 0))
            | (inner.min(-1, keepdims=True) < 2.0**-120)
        )
        upper = (
            np.cumprod(np.sort(np.abs(x.v), -1)[..., ::-1], -1).max(-1, keepdims=True) > 2.0**126
        )
        ints = (np.rint(x.v * 8) == x.v * 8).all(-1, keepdims=True) & (
            np.abs(x.v).prod(-1, keepdims=True) * 8.0**n < 2**24
        )
        ok = ints & (x.v != 0).all(-1, keepdims=True)
        error = np.where(ok, 0.0, np.abs(r2) * EPS * 2 * n)
        result = spoilt(
            f32(r2), x.map(lambda a: a.max(-1, keepdims=True)), error=error, leave=risky | upper
        )
        return result if start is None else spoilt(result.v, start, error=result.e)


def _clean_zero(x: Val) -> Val:
    return Val(x.v, np.where(x.e == 1e-45, 0.0, x.e))


# -- activation functions ----------------------------------------------------------------------------------------

_erf_one = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> Array:
    return np.asarray(_erf_one(x), np.float64)


def _sigmoid(x: Array) -> Array:
    return np.where(
        x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))
    )


def _density(x: Array) -> Array:
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _normal(x: Array) -> Array:
    return (1 + _erf(x / math.sqrt(2))) / 2


def _gelu_tanh(x: Array) -> Array:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _silu_dx(x: Array) -> Array:
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


#: (function, valid range, factor of the absolute error that float32 arithmetic brings: 1 or the input's size)
ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], float, float, float]] = {
    "copy": (lambda x: x, -math.inf, math.inf, 0), "square": (np.square, -math.inf, math.inf, 0),
    "abs": (np.abs, -math.inf, math.inf, 0), "relu": (lambda x: np.maximum(x, 0), -math.inf, math.inf, 0),
    "sign": (np.sign, -math.inf, math.inf, 0),
    "sigmoid": (_sigmoid, -80, 80, 0), "tanh": (np.tanh, -80, 80, 0),
    "gelu": (lambda x: x * _normal(x), -80, 80, 1),
    "gelu_dx": (lambda x: _normal(x) + x * _density(x), -80, 80, 1),
    "gelu_apprx_tanh": (_gelu_tanh, -80, 80, 1),
    "gelu_apprx_sigmoid": (lambda x: x * _sigmoid(1.702 * x), -40, 40, 0),
    "gelu_apprx_sigmoid_dx": (lambda x: _silu_dx(1.702 * x), -40, 40, 1),
    "silu": (lambda x: x * _sigmoid(x), -80, 80, 0), "silu_dx": (_silu_dx, -80, 80, 1),
    "softplus": (_softplus, -80, 1e30, 0), "mish": (lambda x: x * np.tanh(_softplus(x)), -80, 1e30, 0),
    "erf": (_erf, -80, 80, 0), "erf_dx": (lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), -9, 9, 0),
    "exp": (np.exp, -80, 85, 0), "log": (np.log, 2.0**-64, 2.0**64, 1),
    "sin": (np.sin, -math.pi, math.pi, 1), "arctan": (np.arctan, -math.pi / 2, math.pi / 2, 0),
    "sqrt": (np.sqrt, 2.0**-116, 2.0**118, 0), "rsqrt": (lambda x: 1 / np.sqrt(x), 2.0**-87, 2.0**97, 0),
    "reciprocal": (lambda x: 1 / x, 2.0**-42, 2.0**42, 0),
}  # fmt: skip
EXACT_ACTIVATIONS = ("copy", "square", "abs", "relu", "sign", "prelu")


def activate(op: str, x: Val, slope: Val | None = None, argument: Any = 0.0) -> Val:
    """Apply an activation function; `argument` is the error of the input that scale and bias left, 0 for exact."""
    nan = np.isnan(x.v)
    with np.errstate(all="ignore"):
        if op == "prelu":
            assert slope is not None
            return spoilt(
                np.where(x.v >= 0, x.v, f32(x.v * slope.v)), x, slope, leave=nan | (x.v == 0)
            )
        apply, low, high, factor = ACTIVATIONS[op]
        y = apply(x.v)
        if op in EXACT_ACTIVATIONS:
            leave = nan if op in ("relu", "sign") else False
            zero = np.where((y == 0) & (op in ("relu", "sign")), 1e-45, 0.0)
            shaken = np.zeros(y.shape)
            if np.any(argument):
                shaken = np.maximum(
                    np.abs(apply(x.v + argument) - y), np.abs(apply(x.v - argument) - y)
                )
            return spoilt(
                f32(y), x, error=np.maximum(zero, np.nan_to_num(shaken, nan=FREE)), leave=leave
            )
        size = np.abs(x.v) if op == "reciprocal" else x.v
        outside = ~((size >= low) & (size <= high))
        moved = np.abs(x.v) * 3e-7 + argument
        shaken = np.maximum(np.abs(apply(x.v + moved) - y), np.abs(apply(x.v - moved) - y))
        error = (
            shaken
            + 2e-6 * np.abs(y)
            + factor * 1e-6 * np.maximum(1, np.abs(x.v) if factor else 0)
            + 1e-38
        )
        return spoilt(
            f32(y), x, error=np.nan_to_num(error, nan=FREE), leave=outside | nan | ~np.isfinite(y)
        )
