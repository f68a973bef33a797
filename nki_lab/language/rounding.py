"""Rounds elements to whole numbers.

No engine has floor, ceil or trunc. The cast from float32 to int32 rounds to the nearest integer, ties to even
(release-notes/components/nki.rst, NKI 0.6.0); where that went past the wanted side, 1 is taken back. Elements of
2^23 and more have no fraction and are kept as they are, as are infinities and NaN.
"""

from __future__ import annotations

from nki_lab.dtypes import DType
from nki_lab.ir.tensor.view import NkiTensor
from nki_lab.isa.activation import activation
from nki_lab.isa.copies import tensor_copy, tensor_copy_predicated
from nki_lab.isa.elementwise import tensor_scalar, tensor_tensor
from nki_lab.isa.operators import OPS
from nki_lab.language.operands import FLOAT32, new_tile, on_chip, result_like

# From here on every float32 is a whole number.
_WHOLE_FROM = float(2**23)


def floor(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return the largest whole number up to each element, in a new SBUF tile."""
    on_chip("floor", "x", x)
    result = result_like(x, dtype)
    _round(result, x, "greater", "subtract")
    return result


def ceil(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return the smallest whole number from each element on, in a new SBUF tile."""
    on_chip("ceil", "x", x)
    result = result_like(x, dtype)
    _round(result, x, "less", "add")
    return result


def trunc(x: NkiTensor, dtype: DType | None = None) -> NkiTensor:
    """Return each element without its fraction, in a new SBUF tile."""
    on_chip("trunc", "x", x)
    result = result_like(x, dtype)
    magnitude = new_tile(x.shape, FLOAT32, name="trunc_magnitude")
    tensor_scalar(dst=magnitude, data=x, op0=OPS["abs"], operand0=0.0)
    _round(magnitude, magnitude, "greater", "subtract")
    sign = new_tile(x.shape, FLOAT32, name="trunc_sign")
    activation(dst=sign, op=OPS["sign"], data=x)
    tensor_tensor(dst=result, data1=magnitude, data2=sign, op=OPS["multiply"])
    return result


def _round(dst: NkiTensor, x: NkiTensor, overshoot: str, back: str) -> None:
    whole = new_tile(x.shape, FLOAT32, name="whole")
    integer = new_tile(x.shape, "int32", name="integer")
    tensor_copy(dst=integer, src=x)
    past = new_tile(x.shape, FLOAT32, name="past")
    tensor_tensor(dst=past, data1=integer, data2=x, op=OPS[overshoot])
    tensor_tensor(dst=whole, data1=integer, data2=past, op=OPS[back])
    # NaN compares false, so it counts among the elements to keep.
    fraction = new_tile(x.shape, "uint8", name="fraction")
    tensor_scalar(dst=fraction, data=x, op0=OPS["abs"], operand0=0.0,
                  op1=OPS["less"], operand1=_WHOLE_FROM)  # fmt: skip
    if dst is not x:
        tensor_copy(dst=dst, src=x)
    if dst.dtype != FLOAT32:
        narrow = new_tile(x.shape, dst.dtype, name="narrow")
        tensor_copy(dst=narrow, src=whole)
        whole = narrow
    tensor_copy_predicated(dst=dst, src=whole, predicate=fraction)
