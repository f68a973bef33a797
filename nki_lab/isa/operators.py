"""The operators that instructions apply: their names, their meaning, and which instructions take them.

`nl.add` is the object OPS["add"]: instructions take it as `op=`, and called inside a kernel it is the composite that
`nki_lab.language` registers. The table ALU has one row per operator of nki/api/nki.api.shared.rst (nki-aluop);
activation functions stand in `activations.py`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from nki_lab.dtypes import dtype_of
from nki_lab.errors import OutsideKernel, SimulationError
from nki_lab.isa.arrays import scratch
from nki_lab.isa.numerics import FLOAT32, store_cast
from nki_lab.targets.engines import GPSIMD, VECTOR, Engine


class OpClass(Enum):
    """Groups of operators that instructions accept or refuse together."""

    BITVEC = "bitvec"  # integers as bit patterns, nothing is cast
    ARITHMETIC = "arithmetic"
    COMPARE = "compare"  # arithmetic with the result 1.0 or 0.0
    LOGICAL = "logical"  # arithmetic on truth values, result 1.0 or 0.0
    UNARY = "unary"  # arithmetic with one operand

    __hash__ = object.__hash__


@dataclass(frozen=True, eq=False)
class AluOperator:
    """One row of the table of ALU operators.

    Attributes:
        kind: its class.
        apply: `apply(a, b, out)`, or `apply(a, out)` with one operand; `out` may be `a` or `b` itself.
        operands: 1 or 2.
        reduction: `reduction(array, axis=..., out=...)` where the operator may reduce, else None.
        identity: the value a reduction starts from, None where there is none.
        engines: engines that have it in element-wise instructions.
        feature: ability a target must have, or an empty string.
        slopes: the derivative with respect to each operand: a number, or `(a, b, result) -> its value`, of
            functions that give them as tiles, so that only what is used is kept; None where there is no rule.
    """

    kind: OpClass
    apply: Callable[..., Any]
    operands: int = 2
    reduction: Callable[..., Any] | None = None
    identity: float | None = None
    engines: tuple[Engine, ...] = (VECTOR, GPSIMD)
    feature: str = ""
    slopes: tuple[Any, ...] | None = None


#: Every operator that the text of a program can name, by its repr.
NAMED: dict[str, Op] = {}


def _bound_text(bound: float) -> str:
    if bound > 0 and math.log2(bound).is_integer():
        return f"2**{int(math.log2(bound))}"
    return {math.pi: "pi", math.pi / 2: "pi/2", -math.pi: "-pi", -math.pi / 2: "-pi/2"}[bound]


@dataclass(frozen=True, eq=False)
class Activation:
    """One row of the table of activation functions.

    Attributes:
        apply: `apply(x, out)` on float32 arrays; `out` may be `x` itself.
        low, high: valid input range; of the magnitude when `by_magnitude`.
        by_magnitude: the range holds for the absolute value.
        table: the activation table it needs, for the timing model; None when any will do.
        slope: its derivative, `(x, result) -> value`, of functions that give them as tiles, or a number; None without.
    """

    apply: Callable[..., Any]
    low: float = -math.inf
    high: float = math.inf
    by_magnitude: bool = False
    table: str | None = None
    slope: Any = None

    @property
    def is_limited(self) -> bool:
        """Whether some inputs are outside the valid range."""
        return (self.low, self.high) != (-math.inf, math.inf)

    def outside(self, x: np.ndarray) -> int:
        """Return how many elements of `x` are outside the valid input range (NaN counts as inside)."""
        low, high = np.float32(self.low), np.float32(self.high)  # float32's pi is inside
        if not self.by_magnitude and x.min() >= low and x.max() <= high:
            return 0  # the usual case, without arrays of the size of x
        magnitude = np.abs(x) if self.by_magnitude else x
        return int(np.count_nonzero((magnitude < low) | (magnitude > high)))

    @property
    def range_text(self) -> str:
        """The valid input range as a reader knows it, e.g. "2**-64 to 2**64"."""
        low, high = (_bound_text(b) for b in (self.low, self.high))
        return f"{low} to {high}" + (" in magnitude" if self.by_magnitude else "")


class Op:
    """An operator of nki.language: a value for `op=` of instructions, and a function inside kernels.

    Compared by identity; copies and pickles give the same object.

    Attributes:
        name: name in nki.language.
        alu: its row in the table of ALU operators, or None.
        activation: its row in the table of activation functions, or None.
        refusal: for operators no engine has: the reason, as a sentence. Those with a row run on NKI's simulator.
        home: what stands before the name in the text of a program; a dialect's operator has another row than `nl.name`.
    """

    def __init__(
        self, name: str, alu: AluOperator | None = None, refusal: str = "", home: str = "nl"
    ) -> None:
        self.name = self.__name__ = name
        self.home = home
        self.alu = alu
        self.activation: Activation | None = None
        self.refusal = refusal
        self._expand: Callable[..., Any] | None = None
        NAMED.setdefault(repr(self), self)

    def facts(self) -> list[str]:
        """Return what it is as a value of `op=`, one phrase for each of its rows."""
        facts = []
        if self.alu is not None and not self.refusal:
            engines = " and ".join(engine.name for engine in self.alu.engines)
            count = "one operand" if self.alu.operands == 1 else "two operands"
            facts.append(f"{self.alu.kind.value} operator with {count}, on {engines}")
        if self.activation is not None:
            facts.append("activation function, on scalar")
        return facts

    def __repr__(self) -> str:
        return f"{self.home}.{self.name}"

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return op_named, (repr(self),)

    @property
    def expand(self) -> Callable[..., Any] | None:
        """The function behind `nl.add(x, y)`, set by nki_lab.language; gives signature and docstring."""
        return self._expand

    @expand.setter
    def expand(self, function: Callable[..., Any]) -> None:
        self._expand = function
        self.__doc__ = function.__doc__
        self.__signature__ = inspect.signature(function)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the composite behind the name; an error where it has none."""
        if self._expand is None:
            raise OutsideKernel(
                f"nl.{self.name} is only a value for `op=` of an instruction; it cannot be called",
                help=f"pass it, e.g. nisa.tensor_tensor(..., op=nl.{self.name})",
            )
        return self._expand(*args, **options)

    # -- what instructions ask -----------------------------------------------------------------------------------

    @property
    def is_bitvec(self) -> bool:
        """Whether it works on bit patterns of integers."""
        return self.alu is not None and self.alu.kind is OpClass.BITVEC

    @property
    def gives_truth(self) -> bool:
        """Whether it compares or joins truth values, with 1.0 or 0.0 as the result."""
        return self.alu is not None and self.alu.kind in (OpClass.COMPARE, OpClass.LOGICAL)

    @property
    def is_unary(self) -> bool:
        """Whether it takes one operand."""
        return self.alu is not None and self.alu.operands == 1

    @property
    def can_reduce(self) -> bool:
        """Whether it is a legal reduction operator."""
        return self.alu is not None and self.alu.reduction is not None

    def apply(self, a: Any, b: Any, out: np.ndarray) -> None:
        """Write `a op b` into `out`, which may be `a` or `b` itself."""
        self.alu.apply(a, b, out)  # type: ignore[union-attr]

    def apply_unary(self, a: Any, out: np.ndarray) -> None:
        """Write `op a` into `out`, which may be `a` itself."""
        self.alu.apply(a, out)  # type: ignore[union-attr]

    def apply_with(self, data: Any, operand: Any, reverse: bool, out: np.ndarray) -> None:
        """Write `data op operand` into `out`, with `reverse` `operand op data`; unary operators see only `data`."""
        if self.is_unary:
            self.apply_unary(data, out)
        elif reverse:
            self.apply(operand, data, out)
        else:
            self.apply(data, operand, out)

    def reduce(self, array: np.ndarray, axes: int | tuple[int, ...], out: np.ndarray) -> None:
        """Reduce `axes` of `array` into `out`, which has the shape of the remaining axes."""
        self.alu.reduction(array, axis=axes, out=out)  # type: ignore[misc, union-attr]


# -- meanings that are not one ufunc ---------------------------------------------------------------------------


def _vectors(array: np.ndarray, axis: int | tuple[int, ...], gaps: bool) -> np.ndarray:
    """Return `array` with its reduced axes as one, the last, laid out so that NumPy reduces one vector after the other.

    NumPy walks along the axis with the smallest step. Where that is a kept axis, where the elements of a vector have
    gaps or are cast in blocks, it may take a sum in another order, and another of two zeros as the largest.

    Args:
        array: the data.
        axis: the last axes of it, or axis 0.
        gaps: whether elements of a vector may have the same gap between them.
    """
    count = 1 if isinstance(axis, int) else len(axis)
    if axis == 0:
        array = array.transpose((*range(1, array.ndim), 0))
    rows = array.reshape((*array.shape[:-count], -1))  # a view wherever there is one
    if _in_order(rows, gaps):
        return rows
    packed = scratch(rows.shape, rows.dtype, "vectors")
    if rows.ndim == 2 and 0 < rows.strides[0] < rows.strides[1]:
        # Columns whose distance is a power of two would meet in a few lines of the cache.
        across = scratch((rows.shape[1], rows.shape[0] + 16), rows.dtype, "across")[:, : len(rows)]
        np.copyto(across, rows.T)
        rows = across.T
    np.copyto(packed, rows)
    return packed


def _in_order(rows: np.ndarray, gaps: bool) -> bool:
    if not rows.flags.aligned:
        return False
    if rows.flags.c_contiguous or rows.shape[-1] == 1:
        return True
    step = rows.strides[-1]
    kept = zip(rows.strides[:-1], rows.shape[:-1], strict=True)
    return (step > 0 if gaps else step == rows.itemsize) and all(
        s > step or n == 1 for s, n in kept
    )


def _reduction(ufunc: np.ufunc, gaps: bool = True) -> Callable[..., None]:
    """Return a reduction whose results depend on their vectors alone, not on where those lie or beside what."""

    def reduction(array: np.ndarray, axis: int | tuple[int, ...], out: np.ndarray) -> None:
        ufunc.reduce(_vectors(array, axis, gaps), axis=-1, out=out)

    return reduction


#: Writes sums: `total(array, axis, out)`.
total = _reduction(np.add)


def _by_magnitude(compare: np.ufunc) -> Callable[..., None]:
    # nki/api/nki/language/__init__.py:838: the signed operand with the larger magnitude; `y` on a tie. A NaN
    # compares false, so `y` is taken when `x` is NaN.
    def apply(a: Any, b: Any, out: np.ndarray) -> None:
        left, right = (
            scratch(out.shape, out.dtype, "magnitude1"),
            scratch(out.shape, out.dtype, "magnitude2"),
        )
        np.abs(a, out=left)
        np.abs(b, out=right)
        chosen = compare(left, right, out=scratch(out.shape, np.dtype(bool), "magnitude"))
        np.copyto(left, b)
        np.copyto(left, a, where=chosen)
        np.copyto(out, left)

    return apply


_WORTH_A_ROW = 64


def _extremum(ufunc: np.ufunc) -> Callable[..., None]:
    # NaN wins, as in NumPy (and unlike C's fmax). Against a single number NumPy's loop is four times slower than
    # against a row of it.
    def apply(a: Any, b: Any, out: np.ndarray) -> None:
        if isinstance(a, (int, float)):
            a, b = b, a
        if isinstance(b, (int, float)) and out.shape[-1] >= _WORTH_A_ROW:
            row = scratch(out.shape[-1:], out.dtype, "extremum")
            row.fill(b)
            b = row
        ufunc(a, b, out=out)

    return apply


_maximum, _minimum = _extremum(np.maximum), _extremum(np.minimum)


def relu(a: np.ndarray, out: np.ndarray) -> None:
    """Write max(a, 0) into `out`."""
    _maximum(a, 0, out)


def rsqrt(a: np.ndarray, out: np.ndarray) -> None:
    """Write 1 / sqrt(a) into `out`."""
    np.sqrt(a, out=out)
    np.divide(1, out, out=out)


def reciprocal(a: np.ndarray, out: np.ndarray) -> None:
    """Write 1 / a into `out`."""
    np.divide(1, a, out=out)


def _power(a: Any, b: Any, out: np.ndarray) -> None:
    if out.dtype.kind in "iu" and np.any(np.less(b, 0)):
        raise SimulationError(
            "power of 32-bit integers with a negative exponent has no integer result",
            help="cast both tiles to float32 first",
        )
    np.power(a, b, out=out)


def _bits(ufunc: np.ufunc) -> Callable[..., None]:
    # Operands are unsigned, so >> is the logical shift (there is no arithmetic one) and a shift by the width
    # or more gives 0 in NumPy. Python integers are taken modulo the width: -1 is all ones.
    def apply(a: Any, b: Any, out: np.ndarray) -> None:
        ones = (1 << 8 * out.itemsize) - 1
        for value in (a, b):
            if type(value) is int and not -(1 << 31) <= value < 1 << 32:
                raise SimulationError(
                    f"a bitwise operator takes integers of 32 bits; found {value}",
                    help="write the bits that are meant, such as 0xFFFFFFFF",
                )
        if type(a) is int:
            a = out.dtype.type(a & ones)
        if type(b) is int:
            b = out.dtype.type(b & ones)
        ufunc(a, b, out=out)

    return apply


def _share(at_least: str, above: str, is_left: bool) -> Callable[..., Any]:
    # The operand that is chosen has slope 1; where both are equal each has a half, as in PyTorch and JAX.
    def slope(a: Any, b: Any, result: Any) -> Any:
        first, second = (a(), b()) if is_left else (b(), a())
        both = _compared(first, at_least, second) + _compared(first, above, second)
        return both * 0.5

    return slope


_TURNED = {
    "greater": "less",
    "less": "greater",
    "greater_equal": "less_equal",
    "less_equal": "greater_equal",
}


def _compared(a: Any, name: str, b: Any) -> Any:
    return b.compare(_TURNED[name], a) if isinstance(a, (int, float)) else a.compare(name, b)


def _inverse(a: Any) -> Any:
    return 1.0 / a if isinstance(a, (int, float)) else a.reciprocal()


_OF_MAXIMUM = _share("greater_equal", "greater", True), _share("greater_equal", "greater", False)
_OF_MINIMUM = _share("less_equal", "less", True), _share("less_equal", "less", False)


def _bit_row(ufunc: np.ufunc, **facts: Any) -> AluOperator:
    return AluOperator(OpClass.BITVEC, _bits(ufunc), engines=(VECTOR,), **facts)


def _unary_row(apply: Callable[..., Any], **facts: Any) -> AluOperator:
    return AluOperator(OpClass.UNARY, apply, operands=1, **facts)


_INF = float("inf")

#: Rows of nki/api/nki.api.shared.rst, "Supported Math Operators for NKI ISA".
ALU: dict[str, AluOperator] = {
    "invert": AluOperator(OpClass.BITVEC, np.invert, operands=1, engines=(VECTOR,)),
    "bitwise_and": _bit_row(np.bitwise_and, reduction=np.bitwise_and.reduce),
    "bitwise_or": _bit_row(np.bitwise_or, reduction=np.bitwise_or.reduce),
    "bitwise_xor": _bit_row(np.bitwise_xor, reduction=np.bitwise_xor.reduce),
    "left_shift": _bit_row(np.left_shift),
    "right_shift": _bit_row(np.right_shift),
    "add": AluOperator(OpClass.ARITHMETIC, np.add, reduction=total, identity=0.0, slopes=(1, 1)),
    # ((x0 - x1) - x2) - ...: the documents allow it as a reduction without saying which element is the minuend; the
    # first one is, as in a left fold.
    "subtract": AluOperator(
        OpClass.ARITHMETIC,
        np.subtract,
        reduction=_reduction(np.subtract),
        identity=0.0,
        slopes=(1, -1),
    ),
    "multiply": AluOperator(
        OpClass.ARITHMETIC,
        np.multiply,
        reduction=_reduction(np.multiply),
        identity=1.0,
        slopes=(lambda a, b, y: b(), lambda a, b, y: a()),
    ),
    "maximum": AluOperator(
        OpClass.ARITHMETIC,
        _maximum,
        reduction=_reduction(np.maximum, gaps=False),
        identity=-_INF,
        slopes=_OF_MAXIMUM,
    ),
    "minimum": AluOperator(
        OpClass.ARITHMETIC,
        _minimum,
        reduction=_reduction(np.minimum, gaps=False),
        identity=_INF,
        slopes=_OF_MINIMUM,
    ),
    "equal": AluOperator(OpClass.COMPARE, np.equal, slopes=(0, 0)),
    "not_equal": AluOperator(OpClass.COMPARE, np.not_equal, slopes=(0, 0)),
    "greater_equal": AluOperator(OpClass.COMPARE, np.greater_equal, slopes=(0, 0)),
    "greater": AluOperator(OpClass.COMPARE, np.greater, slopes=(0, 0)),
    "less_equal": AluOperator(OpClass.COMPARE, np.less_equal, slopes=(0, 0)),
    "less": AluOperator(OpClass.COMPARE, np.less, slopes=(0, 0)),
    "logical_and": AluOperator(
        OpClass.LOGICAL, np.logical_and, reduction=np.logical_and.reduce, slopes=(0, 0)
    ),
    "logical_or": AluOperator(
        OpClass.LOGICAL, np.logical_or, reduction=np.logical_or.reduce, slopes=(0, 0)
    ),
    "logical_xor": AluOperator(
        OpClass.LOGICAL, np.logical_xor, reduction=np.logical_xor.reduce, slopes=(0, 0)
    ),
    # Only GpSimd has it (page of tensor_tensor).
    "power": AluOperator(
        OpClass.ARITHMETIC,
        _power,
        engines=(GPSIMD,),
        slopes=(
            lambda a, b, y: b() * a().combine(OPS["power"], b() - 1.0),
            lambda a, b, y: y() * a().apply("log"),
        ),
    ),
    "abs_max": AluOperator(
        OpClass.ARITHMETIC, _by_magnitude(np.greater), identity=0.0, feature="abs_max_abs_min"
    ),
    "abs_min": AluOperator(
        OpClass.ARITHMETIC, _by_magnitude(np.less), identity=_INF, feature="abs_max_abs_min"
    ),
    "abs": _unary_row(np.absolute, slopes=(lambda a, b, y: a().apply("sign"),)),
    "square": _unary_row(np.square, feature="square_relu", slopes=(lambda a, b, y: a() * 2.0,)),
    "relu": _unary_row(
        relu, feature="square_relu", slopes=(lambda a, b, y: a().compare("greater", 0.0),)
    ),
    "rsqrt": _unary_row(rsqrt, engines=(GPSIMD,), slopes=(lambda a, b, y: y() * y() * y() * -0.5,)),
    "reciprocal": _unary_row(reciprocal, slopes=(lambda a, b, y: -(y() * y()),)),
}


def _divide(a: Any, b: Any, out: np.ndarray) -> None:
    if out.dtype.kind == "f":
        np.divide(a, b, out=out)
        return
    # Integers: the quotient is a float32 there, too; it is rounded as any result that becomes an integer.
    quotient = np.divide(a, b, dtype=np.float32, casting="unsafe")
    dtype = dtype_of(out.dtype)
    assert dtype is not None
    if dtype.itemsize == 4 and (store := store_cast(FLOAT32, dtype)):
        store(quotient, out)
    else:  # of both signs: 64 bits, of which the machine keeps the low 32
        np.copyto(out, np.rint(quotient), casting="unsafe")


def _of_divisor(a: Any, b: Any, y: Any) -> Any:
    # a = n b + y with an integer n, of which -n is the slope.
    return (y() - a()) * _inverse(b())


#: Rows of operators that no engine has, each rounded once: simulators compute them.
SIMULATED = {
    "divide": AluOperator(
        OpClass.ARITHMETIC,
        _divide,
        slopes=(lambda a, b, y: _inverse(b()), lambda a, b, y: y() * _inverse(b()) * -1.0),
    ),
    "fmod": AluOperator(OpClass.ARITHMETIC, np.fmod, slopes=(1, _of_divisor)),
    "mod": AluOperator(OpClass.ARITHMETIC, np.mod, slopes=(1, _of_divisor)),
}

_NO_DIVISION = (
    "no engine divides; multiply by nl.reciprocal of the divisor (release-notes/components/nki.rst)"
)
_NO_REMAINDER = "the remainder exists only as a function of the official CPU simulator"

#: Every operator object, by its name in nki.language.
OPS: dict[str, Op] = {name: Op(name, row) for name, row in ALU.items()}
OPS |= {
    # nl.max and nl.min reduce when called; as `op=` they are maximum and minimum (nki.isa.tensor_scalar_reduce).
    "max": Op("max", ALU["maximum"]),
    "min": Op("min", ALU["minimum"]),
    # Values whose meaning the instructions that take them define.
    "bypass": Op("bypass"),
    "average": Op("average"),
    "divide": Op("divide", SIMULATED["divide"], refusal=_NO_DIVISION),
    "mod": Op("mod", refusal=_NO_REMAINDER),
    "fmod": Op("fmod", refusal=_NO_REMAINDER),
}


def op_named(text: str) -> Op:
    """Return the operator whose repr is `text`; KeyError where there is none."""
    return NAMED[text]


def suggested_name(value: object) -> str | None:
    """Return the nki.language name meant by a string, NumPy function or ufunc, or None."""
    name = value if isinstance(value, str) else getattr(value, "__name__", "")
    name = str(name).removeprefix("nl.").removeprefix("np.").removeprefix("numpy.")
    name = {
        "sum": "add",
        "prod": "multiply",
        "amax": "maximum",
        "amin": "minimum",
        "absolute": "abs",
    }.get(name, name)
    return name if name in OPS else None
