"""Operators of nki.language as functions of tiles: nl.add(x, y), nl.exp(x).

The objects are the rows of isa/operators.py; here they get the instructions they stand for as functions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from numbers import Real
from typing import Any

from nki_lab.dtypes import DType
from nki_lab.errors import RuleBroken, WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.ir.definition.operands import instead_of
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.activation import activation
from nki_lab.isa.elementwise import reciprocal, tensor_scalar, tensor_tensor
from nki_lab.isa.operators import OPS, SIMULATED, Op
from nki_lab.language.operands import (
    broadcast_together,
    new_tile,
    on_chip,
    result_like,
    settle_dtype,
)
from nki_lab.language.shaping import broadcast_to
from nki_lab.targets.spaces import PSUM
from nki_lab.versions import FORMS

# Functions of two operands. Each is one nisa.tensor_tensor, or one nisa.tensor_scalar with a number on one side.
_BINARY = {
    "add": "Add two tiles, or a tile and a number, element by element.",
    "subtract": "Subtract `y` from `x`, element by element.",
    "multiply": "Multiply two tiles, or a tile and a number, element by element.",
    "maximum": "Return the larger of `x` and `y`, element by element.",
    "minimum": "Return the smaller of `x` and `y`, element by element.",
    "abs_max": "Return the operand of larger magnitude, with its sign; `y` on a tie.",
    "abs_min": "Return the operand of smaller magnitude, with its sign; `y` on a tie.",
    "power": "Raise the elements of tile `x` to the powers in tile `y`.",
    "equal": "Return 1 where `x` equals `y`, else 0.",
    "not_equal": "Return 1 where `x` differs from `y`, else 0.",
    "less": "Return 1 where `x` is less than `y`, else 0.",
    "less_equal": "Return 1 where `x` is at most `y`, else 0.",
    "greater": "Return 1 where `x` is greater than `y`, else 0.",
    "greater_equal": "Return 1 where `x` is at least `y`, else 0.",
    "logical_and": "Return 1 where `x` and `y` are both not 0, else 0.",
    "logical_or": "Return 1 where `x` or `y` is not 0, else 0.",
    "logical_xor": "Return 1 where exactly one of `x` and `y` is not 0, else 0.",
    "bitwise_and": "Combine the bits of two integer operands with AND.",
    "bitwise_or": "Combine the bits of two integer operands with OR.",
    "bitwise_xor": "Combine the bits of two integer operands with exclusive OR.",
    "left_shift": "Shift the bits of integers `x` left by `y`.",
    "right_shift": "Shift the bits of integers `x` right by `y`, filling with zeros.",
}
_BINARY_REST = """

    The result is a new SBUF tile of the same shape, with the dtype of the tile operand (of `x` if both are tiles)
    unless `dtype` says otherwise. At least one operand is a tile; two tiles have the same shape.
    """
# One value per partition is documented for these two only (nki/api/nki/language/__init__.py:838).
_COLUMN_ALLOWED = ("abs_max", "abs_min")

# Functions of one operand that are one nisa.activation.
_ACTIVATIONS = {
    "abs": "Return the magnitude of each element.",
    "arctan": "Return the arc tangent; the Scalar engine is valid for inputs in [-pi/2, pi/2].",
    "erf": "Return the error function of each element.",
    "erf_dx": "Return the derivative of the error function at each element.",
    "exp": "Return e to the power of each element.",
    "gelu": "Return x times the normal distribution function of x.",
    "gelu_apprx_sigmoid": "Return the approximation x * sigmoid(1.702 x) of gelu.",
    "gelu_apprx_sigmoid_dx": "Return the derivative of gelu_apprx_sigmoid at each element.",
    "gelu_apprx_tanh": "Return the approximation of gelu by a hyperbolic tangent.",
    "gelu_dx": "Return the derivative of gelu at each element.",
    "log": "Return the natural logarithm; valid for inputs in [2^-64, 2^64].",
    "mish": "Return x * tanh(softplus(x)) of each element.",
    "relu": "Return the larger of 0 and each element.",
    "sigmoid": "Return 1 / (1 + exp(-x)) of each element.",
    "sign": "Return -1, 0 or 1: the sign of each element.",
    "silu": "Return x * sigmoid(x) of each element.",
    "silu_dx": "Return the derivative of silu at each element.",
    "softplus": "Return log(1 + exp(x)) of each element.",
    "sqrt": "Return the square root; valid for inputs in [2^-116, 2^118].",
    "square": "Return the square of each element.",
    "tanh": "Return the hyperbolic tangent of each element.",
}
_SIMULATED_REST = """

    NKI's compiler refuses it, since no engine has it. The model of time takes it for one arithmetic instruction, less
    than what has to be written for a chip.
"""
_UNARY_REST = """

    The result is a new SBUF tile of the same shape, with the dtype of `x` unless `dtype` says otherwise.
    """


def apply_binary(op: Op, x: Any, y: Any, dtype: DType | None) -> NkiTensor:
    """Emit the instruction for `x op y` and return its new tile."""
    name = op.name
    tiles = [isinstance(v, NkiTensor) for v in (x, y)]
    if tiles == [True, True]:
        on_chip(name, "x", x)
        on_chip(name, "y", y)
        result = new_tile(x.shape, settle_dtype(name, x, y, dtype))
        if name in _COLUMN_ALLOWED and y.shape == (x.shape[0], 1) != x.shape:
            tensor_scalar(dst=result, data=x, op0=op, operand0=y)
            return result
        x, y = broadcast_together(name, x, y)
        if x.shape[0] < y.shape[0]:
            x = broadcast_to(x, y.shape)
        elif y.shape[0] < x.shape[0]:
            y = broadcast_to(y, x.shape)
        if result.shape != x.shape:
            result = new_tile(x.shape, result.dtype)
        tensor_tensor(dst=result, data1=x, data2=y, op=op)
        return result
    if True not in tiles:
        raise WrongOperand(
            f"nl.{name}: one of the operands must be a tile, found {x!r} and {y!r}",
            help=instead_of((x, y), "compute with Python's operators on numbers"),
        )
    data, number = (x, y) if tiles[0] else (y, x)
    on_chip(name, "x" if tiles[0] else "y", data)
    if name == "power":
        raise WrongOperand(
            f"nl.power takes two tiles; a number as {'exponent' if tiles[0] else 'base'} is not supported",
            help="write nl.square(x) for 2, or make a tile of it: nl.full(x.shape, exponent, dtype=x.dtype)",
        )
    if not isinstance(number, Real):
        raise WrongOperand(
            f"nl.{name}: operands are tiles and numbers, found {type(number).__name__} {number!r}",
            help="load a tensor with nl.load; give the tensor of a grid, `.data`",
        )
    result = result_like(data, dtype)
    tensor_scalar(dst=result, data=data, op0=op, operand0=number, reverse0=not tiles[0])
    return result


def _binary(name: str, summary: str) -> None:
    op = OPS[name]

    def composite(x: Any, y: Any, dtype: DType | None = None) -> NkiTensor:
        return apply_binary(op, x, y, dtype)

    _register(op, composite, summary + _BINARY_REST)


def _activation(name: str, summary: str) -> None:
    op = OPS[name]

    def composite(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
        result = result_like(on_chip(name, "x", x), dtype)
        activation(dst=result, op=op, data=x)
        return result

    _register(op, composite, summary + _UNARY_REST)


def _register(op: Op, composite: Callable[..., Any], doc: str) -> None:
    composite.__name__ = composite.__qualname__ = op.name
    composite.__doc__ = inspect.cleandoc(doc)
    op.expand = composite


def _reciprocal(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return 1 / x of each element, on the Vector engine.

    It is more exact there than on the Scalar engine, and up to 8 times slower
    (nki/api/nki.api.shared.rst, nki-engine-sel).
    """
    result = result_like(on_chip("reciprocal", "x", x), dtype)
    reciprocal(dst=result, data=x)
    return result


def _rsqrt(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return 1 / sqrt(x) of each element, on the GpSimd engine.

    That engine cannot read PSUM. It is more exact there than on the Scalar engine, and 4 times slower
    (release-notes/components/nki.rst; nki/api/nki.api.shared.rst, nki-engine-sel).
    """
    result = result_like(on_chip("rsqrt", "x", x), dtype)
    form = "rsqrt of PSUM"
    if x.buffer is PSUM:
        current().meet_form(form, FORMS[form].what, error=RuleBroken)
        activation(dst=result, op=OPS["rsqrt"], data=x)  # as versions do that take it
        return result
    tensor_scalar(dst=result, data=x, op0=OPS["rsqrt"], operand0=0.0)
    return result


def _invert(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return the integers with every bit turned over: exclusive OR with all ones."""
    result = result_like(on_chip("invert", "x", x), dtype)
    tensor_scalar(dst=result, data=x, op0=OPS["bitwise_xor"], operand0=-1)
    return result


def negative(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return each element with the opposite sign, in a new SBUF tile."""
    result = result_like(on_chip("negative", "x", x), dtype)
    tensor_scalar(dst=result, data=x, op0=OPS["multiply"], operand0=-1.0)
    return result


def logical_not(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return 1 where `x` is 0, else 0, in a new SBUF tile.

    The documentation promises this for elements that are 0 or 1; for others it advises nl.equal(x, 0).
    """
    result = result_like(on_chip("logical_not", "x", x), dtype)
    tensor_scalar(dst=result, data=x, op0=OPS["logical_xor"], operand0=1.0)
    return result


def _simulated(name: str, summary: str) -> None:
    """Make a function that only NKI's simulator computes, with an operator of its name that no chip has."""
    op = Op(name, SIMULATED[name], home="simulator")

    def composite(x: Any, y: Any, dtype: DType | None = None) -> NkiTensor:
        current().meet_form("quotient" if name == "divide" else "remainder", f"nl.{name}")
        return apply_binary(op, x, y, dtype)

    _register(OPS[name], composite, summary + _SIMULATED_REST + _BINARY_REST)


for _name, _summary in _BINARY.items():
    _binary(_name, _summary)
for _name, _summary in _ACTIVATIONS.items():
    _activation(_name, _summary)
OPS["reciprocal"].expand = _reciprocal
OPS["rsqrt"].expand = _rsqrt
OPS["invert"].expand = _invert

# These work in the official simulator and do not compile for a device (release-notes/components/nki.rst, NKI Language:
# known limitations). Of division the page says the latter only; published kernels that divide ran on that simulator.
_simulated("divide", "Return x / y, rounded once, as NKI's simulator does.")
_simulated("mod", "Return the remainder of x / y with the sign of `y`, as NKI's simulator does.")
_simulated("fmod", "Return the remainder of x / y with the sign of `x`, as NKI's simulator does.")
