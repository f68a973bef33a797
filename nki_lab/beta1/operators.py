"""The operators of the older dialect: those it has beside today's, and which one a function stands for.

Its instructions take functions of its nki.language and of NumPy as operators: `np.add` and `np.amax` mean
`nl.add` and `nl.maximum` (general/nki/api/nki.api.shared.rst@0521004c, nki-aluop).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from nki_lab.errors import WrongOperand
from nki_lab.isa.operators import ALU, OPS, SIMULATED, AluOperator, Op, OpClass

HOME = "beta1"


_TWICE: ContextVar[bool] = ContextVar("_TWICE", default=False)


@contextmanager
def divided_by_products() -> Iterator[None]:
    """Compute `a / b` as `a * (1 / b)` in a block: rounded twice, as today's instructions can."""
    before = _TWICE.set(True)
    try:
        yield
    finally:
        _TWICE.reset(before)


def _divide(a: Any, b: Any, out: np.ndarray) -> None:
    if out.dtype.kind == "f" and _TWICE.get():
        np.multiply(a, np.divide(np.float32(1), b, dtype=np.float32), out=out)
    else:
        SIMULATED["divide"].apply(a, b, out)


def _power(a: Any, b: Any, out: np.ndarray) -> None:
    if out.dtype.kind == "f":
        # float64 has the bits that one rounding to float32 needs. Numbers are scalars of 32 bits.
        base, exponent = np.asarray(a, np.float32), np.asarray(b, np.float32)
        np.power(base, exponent, out=out, dtype=np.float64, casting="same_kind")
    else:
        OPS["power"].apply(a, b, out)


_ROWS = SIMULATED | {
    "divide": AluOperator(OpClass.ARITHMETIC, _divide, slopes=SIMULATED["divide"].slopes),
    "logical_not": AluOperator(OpClass.UNARY, np.logical_not, operands=1, slopes=(0,)),
    "power": AluOperator(OpClass.ARITHMETIC, _power, slopes=ALU["power"].slopes),
}

#: Every operator of the dialect by its name in nki.language. Division, remainders and powers are rounded exactly, and
#: every instruction with an operator takes them.
OPERATORS: dict[str, Op] = OPS | {name: Op(name, row, home=HOME) for name, row in _ROWS.items()}

#: Names of functions that mean an operator of another name.
_OTHER_NAMES = {
    "absolute": "abs",
    "all": "logical_and",
    "amax": "maximum",
    "amin": "minimum",
    "any": "logical_or",
    "max": "maximum",
    "min": "minimum",
    "prod": "multiply",
    "remainder": "mod",
    "sum": "add",
}


def operator_of(value: Any, function: str, parameter: str = "op") -> Op:
    """Return the operator that a function of nki.language or NumPy stands for.

    Args:
        value: what the author passed.
        function: the instruction it was passed to, for the error.
        parameter: its parameter.
    """
    known = _MEANT.get(value) if value.__hash__ is not None else None
    if known is not None:
        return known
    if isinstance(value, Op):
        name = value.name
    elif isinstance(value, np.ufunc) or _is_ours(value):
        name = value.__name__
    else:
        name = ""
    operator = OPERATORS.get(_OTHER_NAMES.get(name, name))
    if operator is None:
        shown = getattr(value, "__name__", None) or repr(value)
        raise WrongOperand(
            f"{function}: {parameter}={shown} stands for no operator",
            help="pass a function of nki.language or NumPy that is listed as an operator, such as nl.add, np.add or"
            " nl.exp",
        )
    _MEANT[value] = operator
    return operator


#: What functions were found to stand for.
_MEANT: dict[Any, Op] = {}


def _is_ours(value: Any) -> bool:
    home = (getattr(value, "__module__", None) or "").partition(".")[0]
    return callable(value) and home in ("numpy", "nki_lab")
