"""Sine, cosine and tangent of angles of any size.

The Scalar engine's sine is valid in [-pi, pi] and extrapolates outside (nki/api/nki.api.shared.rst, nki-act-func);
`nl.sin` takes whole turns away first. The turns are subtracted in three parts, the first two of few bits, so that
their products with the number of turns are exact in float32 (Cody and Waite): up to 2^15 turns the reduced angle is
as good as float32 allows.
"""

from __future__ import annotations

import math

import numpy as np

from nki_lab.dtypes import DType
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.activation import activation
from nki_lab.isa.copies import tensor_copy
from nki_lab.isa.elementwise import reciprocal, scalar_tensor_tensor, tensor_scalar, tensor_tensor
from nki_lab.isa.operators import OPS
from nki_lab.language.operands import FLOAT32, new_tile, on_chip, result_like

_TURN = 2 * math.pi
_BITS = 9  # of each exact part: 9 + 15 bits of quarter turns are the 24 of a float32


def _leading_bits(value: float) -> float:
    scale = 2.0 ** (_BITS - 1 - math.floor(math.log2(value)))
    return math.floor(value * scale) / scale


_FIRST = _leading_bits(_TURN)
_SECOND = _leading_bits(_TURN - _FIRST)
_PARTS = (_FIRST, _SECOND, float(np.float32(_TURN - _FIRST - _SECOND)))
_HALF_TURN = float(np.nextafter(np.float32(math.pi), np.float32(0)))  # the largest float32 below pi
_QUARTER_TURN = 0.25


def _sin(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return the sine of each element (radians), for angles of any size.

    As `op=` of `nisa.activation` the same object is the bare function of the Scalar engine, which is valid in
    [-pi, pi] only.
    """
    result = result_like(on_chip("sin", "x", x), dtype)
    _sine(result, x, shift=0.0)
    return result


def cos(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return the cosine of each element (radians), in a new SBUF tile."""
    result = result_like(on_chip("cos", "x", x), dtype)
    _sine(result, x, shift=_QUARTER_TURN)
    return result


def tan(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return the tangent of each element (radians), in a new SBUF tile."""
    result = result_like(on_chip("tan", "x", x), dtype)
    sine = new_tile(x.shape, FLOAT32, name="tan_sine")
    cosine = new_tile(x.shape, FLOAT32, name="tan_cosine")
    _sine(sine, x, shift=0.0)
    _sine(cosine, x, shift=_QUARTER_TURN)
    reciprocal(dst=cosine, data=cosine)
    tensor_tensor(dst=result, data1=sine, data2=cosine, op=OPS["multiply"])
    return result


def _sine(dst: NkiTensor, x: NkiTensor, shift: float) -> None:
    """Write the sine of x plus `shift` turns, 0 or a quarter."""
    turns = new_tile(x.shape, "int32", name="turns")  # the cast rounds to the nearest whole turn
    tensor_scalar(dst=turns, data=x, op0=OPS["multiply"], operand0=1 / _TURN,
                  op1=OPS["add"], operand1=shift)  # fmt: skip
    if shift:
        shifted = new_tile(x.shape, FLOAT32, name="turns_shifted")
        tensor_scalar(dst=shifted, data=turns, op0=OPS["subtract"], operand0=shift)
        turns = shifted
    angle = new_tile(x.shape, FLOAT32, name="angle")
    tensor_copy(dst=angle, src=x)
    for part in _PARTS:
        scalar_tensor_tensor(dst=angle, data=turns, op0=OPS["multiply"], operand0=-part,
                             op1=OPS["add"], operand1=angle)  # fmt: skip
    # Rounding of the turns can leave the angle an ulp outside.
    tensor_scalar(dst=angle, data=angle, op0=OPS["minimum"], operand0=_HALF_TURN,
                  op1=OPS["maximum"], operand1=-_HALF_TURN)  # fmt: skip
    activation(dst=dst, op=OPS["sin"], data=angle)


sin = OPS["sin"]
sin.expand = _sin
