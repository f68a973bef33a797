"""Functions of nki.language that act element by element; instructions take them as operators, too."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from nki_lab.beta1.broadcasting import broadcast_to, together
from nki_lab.beta1.operators import operator_of
from nki_lab.beta1.promotion import dtype_named, number, number_dtype, promoted
from nki_lab.beta1.results import as_dtype, column, each, filled, in_sbuf, new, on_chip, part
from nki_lab.beta1.tile import Tile, means
from nki_lab.dtypes import DType, bool_, float32, uint8
from nki_lab.errors import WrongOperand
from nki_lab.ir.building.builder import current
from nki_lab.isa.activation import activation
from nki_lab.isa.copies import tensor_copy, tensor_copy_predicated
from nki_lab.isa.elementwise import reciprocal as isa_reciprocal
from nki_lab.isa.elementwise import tensor_scalar, tensor_tensor
from nki_lab.language import rounding, trigonometry

#: Functions that compare; their result is a truth value.
COMPARISONS = (
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "logical_not",
)  # fmt: skip
_BINARY = (
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "mod", "fmod", "bitwise_and", "bitwise_or",
    "bitwise_xor", "left_shift", "right_shift", *COMPARISONS[:-1],
)  # fmt: skip
#: Functions of bits -> those of truth values.
_OF_TRUTH = {
    "bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor",
}  # fmt: skip
_ACTIVATIONS = (
    "abs", "arctan", "erf", "erf_dx", "exp", "gelu", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh", "gelu_dx", "log", "mish", "relu", "rsqrt", "sigmoid", "sign", "silu", "silu_dx", "softplus",
    "sqrt", "square", "tanh",
)  # fmt: skip
_COMPOSED: dict[str, Callable[..., Any]] = {
    "ceil": rounding.ceil, "floor": rounding.floor, "trunc": rounding.trunc,
    "cos": trigonometry.cos, "sin": trigonometry.sin, "tan": trigonometry.tan,
}  # fmt: skip


def result_dtype(name: str, x: Any, y: Any, dtype: Any) -> DType:
    """Return the dtype of `name(x, y)`: what was asked for, a truth value, or the promoted one."""
    if dtype is not None:
        return dtype_named(dtype)
    if name in COMPARISONS:
        return bool_
    a = x.dtype if isinstance(x, Tile) else number_dtype(x)
    b = y.dtype if isinstance(y, Tile) else number_dtype(y)
    both = promoted(a, b)
    of_bits = name in _OF_TRUTH or name.endswith("_shift")
    if both.is_float and not (a.is_float or b.is_float or of_bits):
        current().find(
            "hazard",
            f"nl.{name}: {a} and {b} are promoted to {both}, which rounds integers beyond 2**24",
            "cast one of them first: t.astype(nl.int32), or say what the result is with dtype=",
        )
    if not both.is_float:
        check_integers(name, x, y)
    return both if both.is_float or name != "divide" else float32


def check_integers(name: str, *operands: Any) -> None:
    """Raise where a number beside a tile of integers is none of 32 bits, which is what numbers count as."""
    for value in operands:
        if not isinstance(value, Tile) and not -(2**31) <= value < 2**32:
            raise WrongOperand(
                f"nl.{name}: the number {value} beside a tile of integers has more than 32 bits",
                help="write a float, or cast the tile to float32 first",
            )


def binary(
    name: str, x: Any, y: Any, dtype: Any = None, mask: Any = None, partitions: bool = True
) -> Tile:
    """Emit the instruction for `name(x, y)`, of two tiles or a tile and a number, and return its new tile."""
    x, y = on_chip(x, f"nl.{name}"), on_chip(y, f"nl.{name}", "y")
    if not isinstance(x, Tile) and not isinstance(y, Tile):
        raise WrongOperand(
            f"nl.{name}: one of the operands must be a tile, found {x!r} and {y!r}",
            help="compute with Python's operators on numbers",
        )
    if name == "floor_divide":
        quotient = binary("divide", x, y, float32, mask, partitions)
        return unary("floor", quotient, result_dtype(name, x, y, dtype), mask)
    if name in _OF_TRUTH:
        name = _of_truth_values(name, x, y)
        if name == "logical_not":
            return unary(name, x, dtype, mask)
    op = operator_of(_FUNCTIONS[name], name)
    if isinstance(x, Tile) and isinstance(y, Tile):
        return _of_tiles(name, op, x, y, dtype, mask, partitions)
    data, value = (x, y) if isinstance(x, Tile) else (y, x)
    value = number(value)
    kind = result_dtype(name, x, y, dtype)
    if op.is_bitvec:
        kind = data.dtype if dtype is None else kind
    else:
        value = float(value)
    out = new(data.shape, kind)
    reverse = data is y
    return each(
        out,
        mask,
        lambda box: tensor_scalar(
            dst=out.target(box), data=data.read(box), op0=op, operand0=value, reverse0=reverse
        ),
    )


def _of_truth_values(name: str, x: Any, y: Any) -> str:
    """Return the function that stands for `&`, `|`, `^` or `~` of truth values; the same of other tiles."""
    tiles = [v for v in (x, y) if isinstance(v, Tile)]
    if any(tile.dtype is not bool_ for tile in tiles):
        return name
    if len(tiles) == 2:
        return _OF_TRUTH[name]
    return "logical_not" if name == "bitwise_xor" and y == -1 else name


def _of_tiles(
    name: str, op: Any, x: Tile, y: Tile, dtype: Any, mask: Any, partitions: bool
) -> Tile:
    kind = result_dtype(name, x, y, dtype)
    x, y, shape = together(x, y, partitions)
    if x.shape != y.shape and prod(shape[1:]) > 1 and not op.is_bitvec:
        for data, one, reverse in ((x, y, False), (y, x, True)):
            if prod(one.shape[1:]) == 1 and data.shape == shape:
                return _with_column(op, data, one, reverse, kind, mask)
    if x.in_psum and y.in_psum:
        y = in_sbuf(y)
    out = new(shape, kind)
    return each(
        out,
        mask,
        lambda box: tensor_tensor(
            dst=out.target(box), data1=part(x, box, shape), data2=part(y, box, shape), op=op
        ),
    )


def _with_column(op: Any, data: Tile, one: Tile, reverse: bool, kind: DType, mask: Any) -> Tile:
    """Return a tile combined with one value per partition."""
    one = as_dtype(one, float32)
    out = new(data.shape, kind)
    return each(
        out,
        mask,
        lambda box: tensor_scalar(
            dst=out.target(box), data=data.read(box), op0=op, operand0=column(one, box), reverse0=reverse
        ),
    )  # fmt: skip


def unary(name: str, x: Any, dtype: Any = None, mask: Any = None) -> Tile:
    """Emit the instruction for `name(x)` and return its new tile."""
    x = on_chip(x, f"nl.{name}")
    if not isinstance(x, Tile):
        raise WrongOperand(
            f"nl.{name}: `x` must be a tile, found {type(x).__name__} {x!r}",
            help="load arrays first with nl.load; compute numbers by Python",
        )
    if name == "negative":
        return binary("multiply", x, -1.0, dtype or x.dtype, mask)
    if name == "invert" and x.dtype is not bool_:
        return binary("bitwise_xor", x, -1, dtype, mask)
    if name in ("logical_not", "invert"):
        return binary("equal", x, 0.0, dtype or bool_, mask)
    kind = x.dtype if dtype is None else dtype_named(dtype)
    if name in _COMPOSED:
        source, compute = in_sbuf(x), _COMPOSED[name]
        if mask is None:
            return Tile(compute(source.read(), dtype=kind))
        out = new(x.shape, kind)
        return each(
            out,
            mask,
            lambda box: tensor_copy(dst=out.target(box), src=compute(source.read(box), dtype=kind)),
        )
    out = new(x.shape, kind)
    if name == "reciprocal":
        return each(
            out, mask, lambda box: isa_reciprocal(dst=out.target(box), data=part(x, box, out.shape))
        )
    op = operator_of(_FUNCTIONS[name], f"nl.{name}")
    return each(
        out,
        mask,
        lambda box: activation(dst=out.target(box), op=op, data=part(x, box, out.shape)),
    )


@means("operator")
def operator(name: str, x: Any, y: Any) -> Tile:
    """Do what an operator between tiles does: partitions are not repeated."""
    return binary(name, x, y, partitions=False)


def where(condition: Any, x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:  # fmt: skip
    """Return elements of `x` where the condition is not 0, else of `y`."""
    condition = on_chip(condition, "nl.where", "condition")
    x, y = on_chip(x, "nl.where"), on_chip(y, "nl.where", "y")
    tiles = [v for v in (x, y) if isinstance(v, Tile)]
    shape = condition.shape
    for tile in tiles:
        shape = together(condition, tile)[2] if tile.shape != shape else shape
    kind = dtype_named(dtype) if dtype is not None else result_dtype("add", x, y, None)
    chosen = broadcast_to(condition, shape)
    if chosen.dtype.kind not in ("uint", "bool") or chosen.itemsize != 1:
        chosen = binary("not_equal", chosen, 0.0, uint8)
    elif chosen.dtype is bool_:  # which is stored as uint8
        chosen = Tile(chosen.read().view(uint8))
    out, other = _spread_value(y, shape, kind), _spread_value(x, shape, kind)
    return each(
        out,
        mask,
        lambda box: tensor_copy_predicated(
            dst=out.target(box), src=other.read(box), predicate=chosen.read(box)
        ),
    )


def _spread_value(value: Any, shape: tuple[int, ...], kind: DType) -> Tile:
    """Return a new tile of a shape with a number, or with the elements of a tile."""
    if isinstance(value, Tile):
        source = broadcast_to(value, shape)
        out = new(shape, kind)
        tensor_copy(dst=out.target(), src=source.read())
        return out
    out = new(shape, kind)
    filled(out.target(), value)
    return out


_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _of_two(name: str) -> None:
    def function(x: Any, y: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
        return binary(name, x, y, dtype, mask)

    def compare(x: Any, y: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any) -> Tile:
        return binary(name, x, y, dtype, mask)

    def fmod(x: Any, y: Any, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
        return binary(name, x, y, dtype, mask)

    _offer(name, fmod if "mod" in name else compare if name in COMPARISONS else function, "x, y")


def _of_one(name: str) -> None:
    def function(x: Any, *, dtype: Any = None, mask: Any = None, **kwargs: Any) -> Tile:
        return unary(name, x, dtype, mask)

    def compare(x: Any, *, dtype: Any = bool, mask: Any = None, **kwargs: Any) -> Tile:
        return unary(name, x, dtype, mask)

    _offer(name, compare if name in COMPARISONS else function, "x")


def _offer(name: str, function: Callable[..., Any], operands: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return {name}({operands}), element by element."
    _FUNCTIONS[name] = function


for _name in _BINARY:
    _of_two(_name)
for _name in (*_ACTIVATIONS, *_COMPOSED, "reciprocal", "negative", "invert", "logical_not"):
    _of_one(_name)
#: All of these functions by their name.
FUNCTIONS = _FUNCTIONS
__all__ = ["COMPARISONS", "FUNCTIONS", "binary", "unary", "where"]
