"""Python operators on tensors: each is an error that names the function to write.

NKI has no operators on tensors; its compiler rejects them. Presence tests are the exception: published kernels ask
`if tile:` and `tile == None`.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from collections.abc import Callable
from numbers import Number
from typing import Any, ClassVar, NoReturn

import numpy as np

from nki_lab.errors import TensorOperator
from nki_lab.ir.tensor.fields import TensorFields
from nki_lab.ir.tensor.trace import active, watch_of
from nki_lab.rewrite import Hint, Rewrite
from nki_lab.source import Span, Stack

# Dunder name -> (symbol, what to write for two tensors or a tensor and a number; {i} is the instruction).
_BINARY = {
    "add": ("+", "nl.add({a}, {b}), or {i}, op{n}=nl.add)"),
    "sub": ("-", "nl.subtract({a}, {b}), or {i}, op{n}=nl.subtract)"),
    "mul": ("*", "nl.multiply({a}, {b}), or {i}, op{n}=nl.multiply)"),
    "truediv": ("/", "nl.multiply({a}, nl.reciprocal({b})): no engine divides"),
    "floordiv": ("//", "nl.floor(nl.multiply({a}, nl.reciprocal({b}))): no engine divides"),
    "mod": ("%", "nl.subtract with nl.floor and nl.reciprocal: no engine divides"),
    "divmod": ("divmod", "nl.floor and nl.reciprocal: no engine divides"),
    "pow": ("**", "nl.power({a}, {b}) of two tiles, or nl.square(tile)"),
    "matmul": (
        "@",
        "nl.matmul({a}, {b}, transpose_x=True), or nisa.nc_matmul(dst, stationary, moving)",
    ),
    "and": ("&", "nl.bitwise_and({a}, {b})"),
    "or": ("|", "nl.bitwise_or({a}, {b})"),
    "xor": ("^", "nl.bitwise_xor({a}, {b})"),
    "lshift": ("<<", "nl.left_shift({a}, {b})"),
    "rshift": (">>", "nl.right_shift({a}, {b})"),
}
_WITH_COLUMN = {"+": "add", "-": "subtract", "*": "multiply", "/": "multiply"}
_COMPARE = {
    "lt": ("<", "nl.less({a}, {b})"),
    "le": ("<=", "nl.less_equal({a}, {b})"),
    "gt": (">", "nl.greater({a}, {b})"),
    "ge": (">=", "nl.greater_equal({a}, {b})"),
}
_UNARY = {
    "neg": ("-{a}", "nl.negative({a})"),
    "pos": ("+{a}", "{a} alone"),
    "invert": ("~{a}", "nl.invert({a})"),
    "abs": ("abs({a})", "nl.abs({a})"),
    "round": ("round({a})", "nl.floor({a}), nl.ceil({a}) or nl.trunc({a})"),
}
_VALUE = "the value of a tensor is not known while the kernel is traced"


def _name(value: Any) -> str:
    return value.name if isinstance(value, TensorOperators) else repr(value)


def _refuse(expression: str, instead: str, call: str, *operands: Any) -> NoReturn:
    """Raise for an operator; `call` is what stands instead of it, with its operands, where that is one call."""
    raise TensorOperator(
        f"`{expression}`: Python operators do not work on tensors",
        notes=dict.fromkeys(t.describe() for t in operands if isinstance(t, TensorOperators)),
        help=Hint(f"write {instead}", Rewrite("", call)) if call else f"write {instead}",
    )


_ONE_CALL = re.compile(r"nl\.\w+\(\{a\}(, \{b\})?(, transpose_x=True)?\)")


def _call_in(instead: str) -> str:
    """Return the call that a row of the tables begins with, where that alone replaces the operation."""
    match = _ONE_CALL.match(instead)
    return match[0] if match else ""


def _with_column(left: Any, symbol: str, right: Any) -> str:
    """Return the instruction that computes a tile with one value per partition, or nothing where neither is one.

    nl.add and the others take equal shapes only, and naming them would lead from one error to the next.
    """
    function = _WITH_COLUMN.get(symbol)
    if function is None or left.shape == right.shape or left.shape[:1] != right.shape[:1]:
        return ""
    if right.free_size == 1:
        tile, column, reverse = left, right, ""
    elif left.free_size == 1 and symbol != "/":
        tile, column, reverse = right, left, ", reverse0=True" if symbol == "-" else ""
    else:
        return ""
    inverted = f"nisa.reciprocal({column.name}, {column.name}), then " if symbol == "/" else ""
    return (
        f"{inverted}nisa.tensor_scalar(dst, {tile.name}, op0=nl.{function}, operand0={column.name}{reverse}):"
        f" `{column.name}` is one value per partition"
    )


def _binary(symbol: str, instead: str, reflected: bool) -> Callable[..., Any]:
    def operator(self: Any, other: Any, *_: Any) -> Any:
        left, right = (other, self) if reflected else (self, other)
        a, b = _name(left), _name(right)
        if isinstance(other, TensorOperators):
            instruction, number = f"nisa.tensor_tensor(dst, {a}, {b}", ""
        else:
            reverse = ", reverse0=True" if reflected else ""
            instruction = f"nisa.tensor_scalar(dst, {_name(self)}, operand0={other!r}{reverse}"
            number = "0"
        written = f"divmod({a}, {b})" if symbol == "divmod" else f"{a} {symbol} {b}"
        advice = _with_column(left, symbol, right) if number == "" else ""
        call = "" if advice or symbol == "divmod" else _call_in(instead)
        if number and symbol in ("/", "//"):  # nl.reciprocal takes no numbers
            call = (
                "nl.multiply(nl.reciprocal({b}), {a})" if reflected else "nl.multiply({a}, 1 / {b})"
            )
            call = f"nl.floor({call})" if symbol == "//" else call
            instead_ = f"{call}: no engine divides"
        else:
            instead_ = instead
        help = advice or instead_.format(a=a, b=b, i=instruction, n=number)
        _refuse(written, help, call, left, right)

    return operator


def _unary(expression: str, instead: str) -> Callable[..., Any]:
    def operator(self: Any, *_: Any) -> Any:
        call = _call_in(instead) if len(expression) == 4 else ""
        _refuse(expression.format(a=self.name), instead.format(a=self.name), call, self)

    return operator


def _equality(symbol: str, function: str, absent: bool) -> Callable[[Any, Any], Any]:
    def operator(self: Any, other: Any) -> Any:
        if other is None:
            return absent
        if not isinstance(other, (TensorOperators, Number)):
            return NotImplemented
        a, b = self.name, _name(other)
        same = f", or `{a} is {b}` to ask for the same view" if isinstance(other, TensorOperators) else ""  # fmt: skip
        call = f"{function}({{a}}, {{b}})"
        _refuse(f"{a} {symbol} {b}", f"{function}({a}, {b}){same}", call, self, other)

    return operator


_ASSERTED = re.compile(r"\s*assert[\s(]+")


def _is_asserted(stack: Stack) -> bool:
    """Tell whether the expression whose truth value is needed is the whole condition of an `assert`."""
    span = Span.of(stack[0]) if stack else None
    if span is None or span.column is None:
        return False
    if _ASSERTED.fullmatch(span.text[: span.column]):
        return True
    # pytest rewrites assertions: the place is the whole statement then.
    lines = [
        linecache.getline(span.filename, n) for n in range(span.line, (span.end_line or 0) + 1)
    ]
    try:
        (statement,) = ast.parse("".join(lines)[span.column :]).body
    except (SyntaxError, ValueError):
        return False
    return isinstance(statement, ast.Assert) and isinstance(statement.test, (ast.Call, ast.Name))


class TensorOperators(TensorFields):
    """Base of NkiTensor: answers Python's operators with what to write instead."""

    __slots__ = ()
    __hash__ = object.__hash__

    __eq__ = _equality("==", "nl.equal", False)
    __ne__ = _equality("!=", "nl.not_equal", True)

    # What `assert nl.equal(t, other)` does; nki_lab.language gives it.
    _assert_true: ClassVar[Callable[..., Any]]

    def __bool__(self) -> bool:
        """Answer a presence test: a tensor counts as true whatever its values are.

        The result of a comparison is refused, unless it is all that an `assert` asks for: a run looks at it then.
        """
        builder = active.builder
        if builder is not None:
            if builder.holds_comparison(self):
                if _is_asserted(builder.stack()):
                    self._assert_true(self)
                    return True
                raise TensorOperator(
                    f"the truth value of {self.describe()}, the result of a comparison: {_VALUE}",
                    help="choose between values with nl.where(mask, a, b), or load a value into a register and loop"
                    " with nl.while_loop",
                )
            if builder.loops_for_ever(sys._getframe(1)):
                raise TensorOperator(
                    f"`while` over {self.describe()} never ends: a tensor counts as true whatever its values are",
                    help="load the value into a register with nisa.register_load and loop with"
                    " nl.while_loop(register, body)",
                )
            message = f"the truth value of a tensor ({self.describe()}) only tells that it is there"
            help = "write `tensor is not None`"
            if builder.strict:
                raise TensorOperator(message, help=help)
            builder.find("portability", message, help, TensorOperator.code)
        return True

    def __contains__(self, item: Any) -> bool:
        raise TensorOperator(
            f"`in` asks for elements of {self.describe()}: {_VALUE}", help="compare with nl.equal"
        )

    def _number(self, kind: str) -> NoReturn:
        raise TensorOperator(
            f"{kind} of {self.describe()}: {_VALUE}",
            help="pass the number as a kernel argument",
        )

    def __int__(self) -> int:
        self._number("int()")

    def __float__(self) -> float:
        self._number("float()")

    def __index__(self) -> int:
        self._number("an integer is needed instead")

    def _array(self, function: str) -> NoReturn:
        raise TensorOperator(
            f"{function} of {self.describe()}: {_VALUE}",
            help="compute with functions of nki.language or nki.isa; to see values, run it with debug and print the"
            " tensor",
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Return the values a tensor has now, in a debug run; no other knows them."""
        watch = watch_of(self.storage.owner)
        if watch is None:
            self._array("np.asarray")
        self.storage.owner.find(
            "advice",
            f"np.asarray of {self.describe()}: only a debug run knows its values; any other refuses this",
            help="take the line out when you have seen enough",
        )
        return np.asarray(watch.values(self), dtype)

    def __array_ufunc__(self, ufunc: Any, *_: Any, **__: Any) -> Any:
        self._array(f"np.{ufunc.__name__}")

    def __array_function__(self, function: Any, *_: Any, **__: Any) -> Any:
        self._array(f"np.{function.__name__}")


for _dunder, (_symbol, _instead) in _BINARY.items():
    setattr(TensorOperators, f"__{_dunder}__", _binary(_symbol, _instead, reflected=False))
    setattr(TensorOperators, f"__r{_dunder}__", _binary(_symbol, _instead, reflected=True))
for _dunder, (_symbol, _instead) in _COMPARE.items():
    setattr(TensorOperators, f"__{_dunder}__", _binary(_symbol, _instead, reflected=False))
for _dunder, (_symbol, _instead) in _UNARY.items():
    setattr(TensorOperators, f"__{_dunder}__", _unary(_symbol, _instead))
