"""The activation functions of the Scalar engine: their meaning, valid range and table.

The rows are those of nki/api/nki.api.shared.rst (nki-act-func). The engine evaluates piecewise polynomials that are not
published; here every function has its mathematical value in float32, and `sin` what the page says it does outside its
range. Elsewhere outside a range the engine's result is invalid and ours is the true value. Inputs outside a range are
counted, and a finding of the run reports them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from nki_lab.isa.arrays import change_sign, scratch
from nki_lab.isa.operators import OPS, Activation, Op, reciprocal, relu, rsqrt

_INF = math.inf


def _temporary(x: np.ndarray, use: str) -> np.ndarray:
    return scratch(x.shape, x.dtype, f"activation {use}")


# -- functions that are not one ufunc ---------------------------------------------------------------------------------

# erf(x) = x P(x^2) / Q(x^2) on |x| <= 4, where erf(4) is 1 in float32. Coefficients: our own fit (least squares of the
# relative error, reweighted until level); evaluated in float32 it is within 4e-7 of the true value.
_ERF_P = (
    1.98669464e-06, 2.84538816e-04, 3.88276013e-03, 5.30999085e-02, 1.93533486e-01, 1.12837914,
)  # fmt: skip
_ERF_Q = (
    3.74178318e-05, 1.18540314e-03, 1.52060965e-02, 1.15344938e-01, 5.04847146e-01, 1.0,
)  # fmt: skip


def _polynomial(z: np.ndarray, coefficients: tuple[float, ...], out: np.ndarray) -> None:
    np.multiply(z, coefficients[0], out=out)
    for c in coefficients[1:-1]:
        np.add(out, c, out=out)
        np.multiply(out, z, out=out)
    np.add(out, coefficients[-1], out=out)


def _erf(x: np.ndarray, out: np.ndarray) -> None:
    limited, square, p = _temporary(x, "x"), _temporary(x, "x2"), _temporary(x, "p")
    np.clip(x, -4, 4, out=limited)
    np.square(limited, out=square)
    _polynomial(square, _ERF_P, p)
    np.multiply(p, limited, out=p)
    _polynomial(square, _ERF_Q, limited)
    np.divide(p, limited, out=p)
    np.clip(p, -1, 1, out=out)


def _erf_dx(x: np.ndarray, out: np.ndarray) -> None:
    np.square(x, out=out)
    change_sign(out, out)
    np.exp(out, out=out)
    np.multiply(out, 2 / math.sqrt(math.pi), out=out)


def _sigmoid(x: np.ndarray, out: np.ndarray) -> None:
    change_sign(x, out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.divide(1, out, out=out)


def _tanh_half_plus_half(x: np.ndarray, out: np.ndarray) -> None:
    np.tanh(x, out=out)
    np.add(out, 1, out=out)
    np.multiply(out, 0.5, out=out)


def _normal_cdf(x: np.ndarray, out: np.ndarray) -> None:
    np.multiply(x, math.sqrt(0.5), out=out)
    _erf(out, out)
    np.add(out, 1, out=out)
    np.multiply(out, 0.5, out=out)


def _gelu(x: np.ndarray, out: np.ndarray) -> None:
    gate = _temporary(x, "gate")
    _normal_cdf(x, gate)
    _gate(x, gate, out)


def _gate(x: np.ndarray, gate: np.ndarray, out: np.ndarray) -> None:
    # x * gate, where a gate of 0 closes even an infinite input: the limit at -inf is 0, not NaN.
    closed = np.equal(gate, 0, out=scratch(x.shape, np.dtype(bool), "activation closed"))
    np.multiply(x, gate, out=out)
    np.copyto(out, 0, where=closed)


def _gelu_dx(x: np.ndarray, out: np.ndarray) -> None:
    # Phi(x) + x phi(x); the second term vanishes long before |x| = 20, where its factors would meet as inf * 0.
    limited, density = _temporary(x, "gate"), _temporary(x, "density")
    np.clip(x, -20, 20, out=limited)
    np.square(limited, out=density)
    np.multiply(density, -0.5, out=density)
    np.exp(density, out=density)
    np.multiply(density, 1 / math.sqrt(2 * math.pi), out=density)
    np.multiply(density, limited, out=density)
    _normal_cdf(x, out)
    np.add(out, density, out=out)


def _gelu_tanh(x: np.ndarray, out: np.ndarray) -> None:
    # 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), Hendrycks and Gimpel, "Gaussian Error Linear Units".
    gate = _temporary(x, "gate")
    np.square(x, out=gate)
    np.multiply(gate, 0.044715, out=gate)
    np.add(gate, 1, out=gate)
    np.multiply(gate, x, out=gate)
    np.multiply(gate, math.sqrt(2 / math.pi), out=gate)
    _tanh_half_plus_half(gate, gate)
    _gate(x, gate, out)


# x sigmoid(1.702 x), the second approximation of the same paper; public kernels use the same factor
# (nki-library core/moe/moe_cte/moe_cte_torch_utils.py).
_GELU_SIGMOID = 1.702


def _swish(factor: float) -> Callable[..., None]:
    def apply(x: np.ndarray, out: np.ndarray) -> None:
        gate = _temporary(x, "gate")
        np.multiply(x, factor, out=gate)
        _sigmoid(gate, gate)
        _gate(x, gate, out)

    return apply


def _swish_dx(factor: float) -> Callable[..., None]:
    # s (1 + z (1 - s)) with z = factor x and s = sigmoid(z); beyond |z| = 100 it is 0 or 1 in float32.
    def apply(x: np.ndarray, out: np.ndarray) -> None:
        z, gate = _temporary(x, "z"), _temporary(x, "gate")
        np.multiply(x, factor, out=z)
        np.clip(z, -100, 100, out=z)
        _sigmoid(z, gate)
        np.subtract(1, gate, out=out)
        np.multiply(out, z, out=out)
        np.add(out, 1, out=out)
        np.multiply(out, gate, out=out)

    return apply


def _softplus(x: np.ndarray, out: np.ndarray) -> None:
    # max(x, 0) + log(1 + exp(-|x|)) does not overflow, and is far faster than np.logaddexp.
    tail = _temporary(x, "tail")
    np.abs(x, out=tail)
    change_sign(tail, tail)
    np.exp(tail, out=tail)
    np.log1p(tail, out=tail)
    relu(x, out)
    np.add(out, tail, out=out)


def _mish(x: np.ndarray, out: np.ndarray) -> None:
    gate = _temporary(x, "gate")
    _softplus(x, gate)
    np.tanh(gate, out=gate)
    _gate(x, gate, out)


def _sin(x: np.ndarray, out: np.ndarray) -> None:
    # No range reduction: outside [-pi, pi] the polynomial of the last segment goes on. The page gives one value,
    # sin(9) ~ 27.65, which is that of the cubic Taylor polynomial around pi: -(x - pi) + (x - pi)^3 / 6.
    beyond = _temporary(x, "beyond")
    np.abs(x, out=beyond)
    np.subtract(beyond, math.pi, out=beyond)
    far = np.greater(beyond, 0, out=scratch(x.shape, np.dtype(bool), "activation far"))
    if not far.any():
        np.sin(x, out=out)
        return
    cubic = _temporary(x, "cubic")
    np.square(beyond, out=cubic)
    np.divide(cubic, 6, out=cubic)
    np.subtract(cubic, 1, out=cubic)
    np.multiply(cubic, beyond, out=cubic)
    np.copysign(1, x, out=beyond)
    np.multiply(cubic, beyond, out=cubic)
    np.clip(x, -math.pi, math.pi, out=out)
    np.sin(out, out=out)
    np.copyto(out, cubic, where=far)


def _copy(x: np.ndarray, out: np.ndarray) -> None:
    if x is not out:
        np.copyto(out, x)


def _gelu_slope(x: Any, y: Any) -> Any:
    return x().apply("gelu_dx")


def _density(x: Any) -> Any:
    # The normal density, phi(x).
    return (x * x * -0.5).apply("exp") * (1 / math.sqrt(2 * math.pi))


def _gelu_dx_slope(x: Any, y: Any) -> Any:
    # (Phi + x phi)' = (2 - x^2) phi
    return _density(x()) * (2.0 - x() * x())


def _gelu_tanh_slope(x: Any, y: Any) -> Any:
    # With t = tanh(u): 0.5 (1 + t) + 0.5 x (1 - t^2) u'
    square = x() * x()
    c = math.sqrt(2 / math.pi)
    t = (x() * (square * 0.044715 + 1.0) * c).apply("tanh")
    return (t + 1.0) * 0.5 + x() * (1.0 - t * t) * (square * (3 * 0.044715) + 1.0) * (0.5 * c)


def _swish_dx_slope(factor: float) -> Callable[..., Any]:
    # With s = sigmoid(z), z = factor x: (s (1 + z (1 - s)))' = factor s (1 - s) (2 + z (1 - 2 s))
    def slope(x: Any, y: Any) -> Any:
        z = x() * factor
        s = z.apply("sigmoid")
        return s * (1.0 - s) * (z * (1.0 - s * 2.0) + 2.0) * factor

    return slope


def _mish_slope(x: Any, y: Any) -> Any:
    # With t = tanh(softplus(x)): t + x (1 - t^2) sigmoid(x)
    t = x().apply("softplus").apply("tanh")
    return t + x() * (1.0 - t * t) * x().apply("sigmoid")


def _cosine(x: Any, y: Any) -> Any:
    # 1 - 2 sin(x / 2)^2, whose argument stays in the range of sin.
    half = (x() * 0.5).apply("sin")
    return half * half * -2.0 + 1.0


#: The derivative of each function: a number, or `(x, result) -> value`, of functions that give them as tiles.
_SLOPES: dict[str, Any] = {
    "copy": 1,
    "sign": 0,
    "square": lambda x, y: x() * 2.0,
    "relu": lambda x, y: x().compare("greater", 0.0),
    "abs": lambda x, y: x().apply("sign"),
    "sigmoid": lambda x, y: y() * (1.0 - y()),
    "gelu": _gelu_slope,
    "gelu_dx": _gelu_dx_slope,
    "gelu_apprx_tanh": _gelu_tanh_slope,
    "gelu_apprx_sigmoid": lambda x, y: x().apply("gelu_apprx_sigmoid_dx"),
    "gelu_apprx_sigmoid_dx": _swish_dx_slope(_GELU_SIGMOID),
    "silu": lambda x, y: x().apply("silu_dx"),
    "silu_dx": _swish_dx_slope(1.0),
    "tanh": lambda x, y: 1.0 - y() * y(),
    "softplus": lambda x, y: x().apply("sigmoid"),
    "mish": _mish_slope,
    "erf": lambda x, y: x().apply("erf_dx"),
    "erf_dx": lambda x, y: x() * y() * -2.0,
    "exp": lambda x, y: y(),
    "log": lambda x, y: x().reciprocal(),
    "sin": _cosine,
    "arctan": lambda x, y: (x() * x() + 1.0).reciprocal(),
    "sqrt": lambda x, y: y().reciprocal() * 0.5,
    "rsqrt": lambda x, y: y() * y() * y() * -0.5,
    "reciprocal": lambda x, y: -(y() * y()),
}


def _needs_slope(x: np.ndarray, out: np.ndarray) -> None:
    raise AssertionError("nl.prelu takes a slope: the instruction that has it applies it")


# -- the table --------------------------------------------------------------------------------------------------------

# Which functions share a table is not published. Assumed: one table each, and none for functions that are piecewise
# polynomials themselves and need no approximation.
_EXACT = {
    "copy": Activation(_copy),
    "square": Activation(np.square),
    "relu": Activation(relu),
    "prelu": Activation(_needs_slope),
    "sign": Activation(np.sign),
    "abs": Activation(np.absolute),
}


#: Rows of nki/api/nki.api.shared.rst, "Supported Activation Functions for NKI ISA", by name in nki.language.
ACTIVATIONS: dict[str, Activation] = _EXACT | {
    name: Activation(apply, table=name)
    for name, apply in (
        ("sigmoid", _sigmoid),
        ("gelu", _gelu),
        ("gelu_dx", _gelu_dx),
        ("gelu_apprx_tanh", _gelu_tanh),
        ("gelu_apprx_sigmoid", _swish(_GELU_SIGMOID)),
        ("gelu_apprx_sigmoid_dx", _swish_dx(_GELU_SIGMOID)),
        ("silu", _swish(1.0)),
        ("silu_dx", _swish_dx(1.0)),
        ("tanh", np.tanh),
        ("softplus", _softplus),
        ("mish", _mish),
        ("erf", _erf),
        ("erf_dx", _erf_dx),
        ("exp", np.exp),
    )
}
ACTIVATIONS |= {
    name: Activation(apply, low, high, by_magnitude=name == "reciprocal", table=name)
    for name, apply, low, high in (
        ("log", np.log, 2.0**-64, 2.0**64),
        ("sin", _sin, -math.pi, math.pi),
        ("arctan", np.arctan, -math.pi / 2, math.pi / 2),
        ("sqrt", np.sqrt, 2.0**-116, 2.0**118),
        ("rsqrt", rsqrt, 2.0**-87, 2.0**97),
        ("reciprocal", reciprocal, 2.0**-42, 2.0**42),
    )
}

ACTIVATIONS = {
    name: replace(function, slope=_SLOPES.get(name)) for name, function in ACTIVATIONS.items()
}

for _name, _function in ACTIVATIONS.items():
    OPS.setdefault(_name, Op(_name)).activation = _function
