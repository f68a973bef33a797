"""What happens when a kernel applies a Python operator to a tensor?

NKI has no operators on tensors (the compiler rejects them); each error names the function to write. Presence tests
are the exception: kernels in the field ask `if tile:` and `tile == None`.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, NoReturn

from nki_lab.errors import TensorOperator

_BINARY = {
    "add": ("+", "nl.add({a}, {b}), or nisa.tensor_tensor(dst, a, b, op=nl.add)"),
    "sub": ("-", "nl.subtract({a}, {b}), or nisa.tensor_tensor(dst, a, b, op=nl.subtract)"),
    "mul": ("*", "nl.multiply({a}, {b}), or nisa.tensor_tensor(dst, a, b, op=nl.multiply)"),
    "truediv": ("/", "nl.multiply({a}, nl.reciprocal({b})): no engine divides"),
    "floordiv": ("//", "nl.floor(nl.multiply({a}, nl.reciprocal({b}))): no engine divides"),
    "mod": ("%", "nl.subtract with nl.floor and nl.reciprocal: no engine divides"),
    "divmod": ("divmod", "nl.floor and nl.reciprocal: no engine divides"),
    "pow": ("**", "nl.power({a}, {b}), or nl.square({a})"),
    "matmul": ("@", "nl.matmul(x, y, transpose_x=True), or nisa.nc_matmul(dst, stationary, moving)"),
    "and": ("&", "nl.bitwise_and({a}, {b})"),
    "or": ("|", "nl.bitwise_or({a}, {b})"),
    "xor": ("^", "nl.bitwise_xor({a}, {b})"),
    "lshift": ("<<", "nl.left_shift({a}, {b})"),
    "rshift": (">>", "nl.right_shift({a}, {b})"),
}  # fmt: skip
_COMPARE = {
    "lt": ("<", "nl.less({a}, {b})"),
    "le": ("<=", "nl.less_equal({a}, {b})"),
    "gt": (">", "nl.greater({a}, {b})"),
    "ge": (">=", "nl.greater_equal({a}, {b})"),
}
_UNARY = {
    "neg": ("-a", "nl.negative(a)"),
    "pos": ("+a", "the tensor itself"),
    "invert": ("~a", "nl.invert(a)"),
    "abs": ("abs(a)", "nl.abs(a)"),
    "round": ("round(a)", "nl.floor, nl.ceil or nl.trunc"),
}
_VALUE = "the value of a tensor is not known while the kernel is traced"


def _refuse(expression: str, instead: str, *tensors: Any) -> NoReturn:
    shown = [t.describe() for t in tensors if isinstance(t, TensorOperators)]
    raise TensorOperator(
        f"`{expression}`: Python operators do not work on tensors",
        notes=shown,
        help=f"write {instead}",
    )


def _binary(symbol: str, instead: str, reflected: bool) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any, *_: Any) -> Any:
        left, right = (other, self) if reflected else (self, other)
        a = "a" if isinstance(left, TensorOperators) else repr(left)
        b = "b" if isinstance(right, TensorOperators) else repr(right)
        written = f"divmod({a}, {b})" if symbol == "divmod" else f"{a} {symbol} {b}"
        _refuse(written, instead.format(a=a, b=b), left, right)

    return operator


def _unary(expression: str, instead: str) -> Callable[..., Any]:
    def operator(self: Any, *_: Any) -> Any:
        _refuse(expression, instead, self)

    return operator


def _equality(symbol: str, function: str, absent: bool) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        if other is None:
            return absent
        if isinstance(other, (TensorOperators, Number)):
            b = "b" if isinstance(other, TensorOperators) else repr(other)
            _refuse(f"a {symbol} {b}", f"{function}(a, {b}), or `a is b` for the same view", self, other)  # fmt: skip
        return NotImplemented

    return operator


class TensorOperators:
    """Base of NkiTensor: every operator of Python, answered with what to write instead."""

    __slots__ = ()
    # NumPy then leaves `np.float32(2) * tensor` to the reflected operator below.
    __array_ufunc__ = None
    __hash__ = object.__hash__

    __eq__ = _equality("==", "nl.equal", False)
    __ne__ = _equality("!=", "nl.not_equal", True)

    def describe(self) -> str:
        """Return what the tensor is, as errors show it."""
        raise AssertionError("the tensor class describes itself")

    def __bool__(self) -> bool:
        """Answer a presence test: a tensor is there, whatever its values are."""
        from nki_lab.ir.instruction import active

        builder = active.builder
        if builder is not None:
            message = f"the truth value of a tensor ({self.describe()}) only tells that it is there"
            help = "write `tensor is not None`"
            if builder.strict:
                raise TensorOperator(message, help=help)
            builder.find("portability", message, help, TensorOperator.code)
        return True

    def __contains__(self, item: Any) -> bool:
        raise TensorOperator(f"`x in {self.describe()}`: {_VALUE}", help="compare with nl.equal")

    def _number(self, kind: str) -> NoReturn:
        raise TensorOperator(
            f"{kind} of {self.describe()}: {_VALUE}",
            help="pass numbers that the kernel's text needs as arguments of the kernel",
        )

    def __int__(self) -> int:
        self._number("int()")

    def __float__(self) -> float:
        self._number("float()")

    def __index__(self) -> int:
        self._number("an integer is needed instead")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TensorOperator(
            f"NumPy was asked for the values of {self.describe()}: {_VALUE}",
            help="compute with functions of nki.language or nki.isa",
        )


for _name, (_symbol, _instead) in _BINARY.items():
    setattr(TensorOperators, f"__{_name}__", _binary(_symbol, _instead, reflected=False))
    setattr(TensorOperators, f"__r{_name}__", _binary(_symbol, _instead, reflected=True))
for _name, (_symbol, _instead) in _COMPARE.items():
    setattr(TensorOperators, f"__{_name}__", _binary(_symbol, _instead, reflected=False))
for _name, (_symbol, _instead) in _UNARY.items():
    setattr(TensorOperators, f"__{_name}__", _unary(_symbol, _instead))
