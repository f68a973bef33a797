"""Index tensors: affine expressions over a grid of positions, which `nl.arange` and `nl.mgrid` make.

Variables of loops and ids of programs are integers here, so an expression is a constant and one step for each axis of
its grid. Comparisons of index tensors are masks (masks.py). (nki/programming_model.rst, Tensor Indexing)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from nki_lab.beta1.masks import Box, Mask, Term
from nki_lab.beta1.notes import noted
from nki_lab.errors.beta1 import BadMask, IndexExpression, older

__all__ = ["Box", "Grid", "Index", "Mask", "arange", "common_shape", "mgrid"]

_ALL = slice(None)
_common: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[int, ...]] = {}


def common_shape(first: tuple[int, ...], *others: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape that index tensors of these shapes have together, as NumPy broadcasts."""
    for other in others:
        if first != other:
            pair = first, other
            common = _common.get(pair)
            if common is None:
                common = _common[pair] = _broadcast(first, other)
            first = common
    return first


def _broadcast(first: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(first, other)
    except ValueError:
        raise IndexExpression(
            f"index tensors of shapes {list(first)} and {list(other)} do not broadcast",
            help="give each axis one position: nl.arange(n)[:, None] and nl.arange(m)[None, :]",
        ) from None


class Index(Term):
    """An index tensor: `const + sum(coef[d] * position[d])` over the positions of a grid.

    Attributes:
        shape: of the grid.
        coef: step along each axis of the grid; 0 along an axis with one position.
        const: value at the first position.
    """

    __slots__ = ()
    __array_ufunc__ = None

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _plus(self, other: Any, sign: int, symbol: str) -> Any:
        if type(other) is Index:
            a, b = self.coef, other.coef
            shape = self.shape
            if shape != other.shape:
                if len(a) != len(b):
                    rank = max(len(a), len(b))
                    a, b = self.lifted(rank).coef, other.lifted(rank).coef
                shape = _common.get((shape, other.shape)) or common_shape(shape, other.shape)
            coef = tuple(map(operator.add if sign > 0 else operator.sub, a, b))
            return Index(shape, coef, self.const + sign * other.const)
        step = _integer(other, symbol)
        if step is None:
            return NotImplemented
        return Index(self.shape, self.coef, self.const + sign * step)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, int):  # variables of loops, too
            return Index(self.shape, self.coef, self.const + other)
        return self._plus(other, 1, "+")

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1, "-")

    def __rsub__(self, other: Any) -> Any:
        return (-self)._plus(other, 1, "-")

    def _negative(self) -> tuple[int, ...]:
        return tuple(map(operator.neg, self.coef))

    def __neg__(self) -> Index:
        return Index(self.shape, self._negative(), -self.const)

    def __pos__(self) -> Index:
        return self

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Index):
            if any(self.coef) and any(other.coef):
                raise _not_affine("the product of two index tensors")
            index, number = (other, self) if any(other.coef) else (self, other)
            product = index * number.const
            return Index(common_shape(self.shape, other.shape), product.coef, product.const)
        factor = _integer(other, "*")
        if factor is None:
            return NotImplemented
        return Index(self.shape, tuple([c * factor for c in self.coef]), self.const * factor)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        divisor = _integer(other, "//")
        if divisor is None:
            return NotImplemented
        if (notes := noted()) is not None:
            notes.same.append(self.const)
        if divisor == 0:
            raise IndexExpression(
                "an index tensor divided by 0", help="divide by an integer that is not 0"
            )
        if not any(c % divisor for c in self.coef):
            coef = tuple([c // divisor for c in self.coef])
            return Index(self.shape, coef, self.const // divisor)
        low, high = (value // divisor for value in self.range(tuple((0, n) for n in self.shape)))
        if low == high:
            return Index(self.shape, (0,) * len(self.shape), low)
        raise _not_affine(f"an index tensor // {divisor}")

    def __mod__(self, other: Any) -> Any:
        divisor = _integer(other, "%")
        if divisor is None:
            return NotImplemented
        try:
            quotient = self // divisor
        except IndexExpression as error:
            raise _not_affine(f"an index tensor % {divisor}") if divisor else error from None
        return self - quotient * divisor

    def _refuse(self, other: Any = None) -> NoReturn:
        raise _not_affine("this operation of an index tensor")

    __truediv__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __pow__ = __rpow__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __invert__ = __abs__ = _refuse

    def __and__(self, other: Any) -> NoReturn:
        raise BadMask(
            "`&`, `|` and `^` join masks, not index tensors",
            help="compare first, in brackets: (i_p < 64) & (i_f < 256)",
        )

    __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __and__

    # -- comparisons ---------------------------------------------------------------------------------------------

    def _minus(self, other: Any, symbol: str, whole: Callable[[float], int]) -> Any:
        """Return the difference to what it is compared with; `whole` makes an integer of a limit with a fraction."""
        if isinstance(other, (float, np.floating)):
            if (notes := noted()) is not None:
                notes.same.append(float(other))
            other = whole(float(other)) if math.isfinite(other) else None
        if other is None:
            raise BadMask(
                f"an index tensor is compared with {symbol} to a value that is not a finite number",
                help="compare with an integer: i_f < 256",
            )
        return self._plus(other, -1, symbol)

    def __lt__(self, other: Any) -> Any:
        if type(other) is int:
            return Mask.of(Index(self.shape, self._negative(), other - self.const - 1))
        difference = self._minus(other, "<", math.ceil)
        return difference if difference is NotImplemented else Mask.of(-difference - 1)

    def __le__(self, other: Any) -> Any:
        if type(other) is int:
            return Mask.of(Index(self.shape, self._negative(), other - self.const))
        difference = self._minus(other, "<=", math.floor)
        return difference if difference is NotImplemented else Mask.of(-difference)

    def __gt__(self, other: Any) -> Any:
        difference = self._minus(other, ">", math.floor)
        return difference if difference is NotImplemented else Mask.of(difference - 1)

    def __ge__(self, other: Any) -> Any:
        difference = self._minus(other, ">=", math.ceil)
        return difference if difference is NotImplemented else Mask.of(difference)

    def __eq__(self, other: Any) -> Any:
        if other is None:
            return False
        difference = self._minus(other, "==", _exactly)
        return difference if difference is NotImplemented else Mask.equal(difference)

    def __ne__(self, other: Any) -> Any:
        equal = self == other
        return not equal if type(equal) is bool else equal if equal is NotImplemented else ~equal

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise IndexExpression(
            "control flow depends on an index tensor of nl.arange or nl.mgrid, which has many values",
            notes=[older("err_control_flow_condition_depending_on_arange")],
            help="give the comparison to the call as its mask: nl.add(x, y, mask=i_f > 2048)",
        )

    # -- indexing ------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """Select positions with slices and integers, and add axes of one position with None."""
        entries = key if type(key) is tuple else (key,)
        if (notes := noted()) is not None:
            notes.same += map(str, entries)
        if len(self.shape) == 1 and len(entries) == 2:  # nl.arange(n)[:, None], or [None, :]
            (n,), (c,) = self.shape, self.coef
            if entries[1] is None and entries[0] == _ALL:
                return Index((n, 1), (c, 0), self.const)
            if entries[0] is None and entries[1] == _ALL:
                return Index((1, n), (0, c), self.const)
        if any(k is Ellipsis for k in entries):
            at = next(d for d, k in enumerate(entries) if k is Ellipsis)
            more = len(self.shape) - sum(k is not None for k in entries) + 1
            entries = entries[:at] + (slice(None),) * more + entries[at + 1 :]
        sizes: list[int] = []
        coef: list[int] = []
        const, d = self.const, 0
        for k in entries:
            if k is None:
                sizes.append(1)
                coef.append(0)
                continue
            if d == len(self.shape):
                raise IndexExpression(
                    f"an index tensor of shape {list(self.shape)} is indexed with more than {d} positions",
                    help="write None for a new axis: nl.arange(n)[:, None]",
                )
            n, step = self.shape[d], self.coef[d]
            if type(k) is slice:
                if k.start is not None or k.stop is not None or k.step is not None:
                    chosen = range(n)[k]
                    if not chosen:
                        raise IndexExpression(
                            f"{_written(k)} selects nothing of {n} positions",
                            help=f"write a slice with a position from 0 to {n - 1}",
                        )
                    const += step * chosen.start
                    n, step = len(chosen), step * chosen.step
                sizes.append(n)
                coef.append(step if n > 1 else 0)
            else:
                position = _integer(k, "[]")
                if position is None or not -n <= position < n:
                    raise IndexExpression(
                        f"position {k!r} of an index tensor with {n} along axis {d}",
                        help=f"write an integer from {-n} to {n - 1}, a slice, or None",
                    )
                const += step * (position % n)
            d += 1
        if d < len(self.shape):
            sizes += self.shape[d:]
            coef += self.coef[d:]
        return Index(tuple(sizes), tuple(coef), const) if sizes else const

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise cannot_assign("an index tensor")

    def __iter__(self) -> NoReturn:
        raise IndexExpression(
            "an index tensor cannot be the range of a loop, and has no elements to take apart",
            help="loop over nl.affine_range(n); nl.arange makes positions for t[...]",
        )

    # -- values --------------------------------------------------------------------------------------------------

    def values(self) -> np.ndarray:
        """Return its value at each position of the grid."""
        value = np.array(self.const, dtype=np.int64)
        for d, (n, c) in enumerate(zip(self.shape, self.coef, strict=True)):
            along = (1,) * d + (n,) + (1,) * (len(self.shape) - d - 1)
            value = value + (np.arange(n) * c).reshape(along)
        return np.broadcast_to(value, self.shape)

    def compose(self, positions: Sequence[Index], shape: tuple[int, ...]) -> Index:
        """Return it over another grid, on which `positions` are the places in this one."""
        rank = len(shape)
        coef, const = [0] * rank, self.const
        for c, position in zip(self.coef, positions, strict=True):
            if c:
                const += c * position.const
                for d, inner in enumerate(position.coef, rank - len(position.coef)):
                    if inner:
                        coef[d] += c * inner
        return Index(shape, tuple(coef), const)

    def __repr__(self) -> str:
        steps = [f"{c}*i{d}" for d, c in enumerate(self.coef) if c]
        return f"<index tensor {list(self.shape)}: {' + '.join([str(self.const), *steps])}>"

    def lifted(self, rank: int) -> Index:
        """Return it over a grid with more axes, which lead and have one position."""
        more = rank - len(self.shape)
        return (
            Index((1,) * more + self.shape, (0,) * more + self.coef, self.const) if more else self
        )


def cannot_assign(what: str) -> IndexExpression:
    """Return the error for `i[...] = value`."""
    return IndexExpression(
        f"{what} does not support item assignment: its values are fixed when the kernel is traced",
        notes=[older("err_cannot_assign_to_index")],
        help="make a tile of it first: tile = nisa.iota(index, dtype=nl.int32)",
    )


def _not_affine(what: str) -> IndexExpression:
    return IndexExpression(
        f"{what} is not affine: an index tensor may be added to, subtracted from and multiplied by integers",
        notes=[older("err_unsupported_expression_in_mask")],
        help="give each factor its own axis, such as i = 4 * nl.arange(n)[:, None] + nl.arange(4)[None, :]",
    )


def _exactly(limit: float) -> int:
    if limit.is_integer():
        return int(limit)
    raise BadMask(
        f"an index tensor never equals {limit}: compare with an integer",
        help=f"compare with an integer, or write a limit: < {limit}",
    )


def _integer(value: Any, symbol: str) -> int | None:
    """Return an operand as an integer; None where its own operator may know better, as that of a tile does."""
    if type(value) is int:
        return value
    try:
        return operator.index(value)
    except TypeError:
        pass
    if hasattr(value, "on_chip"):
        return None
    found = f"{type(value).__name__} {value!r}" if np.ndim(value) == 0 else type(value).__name__
    raise IndexExpression(
        f"an index tensor takes integers as operands of `{symbol}`; found {found}",
        help="make an integer of it: // instead of /, or int(value)",
    )


def _written(key: slice) -> str:
    start, stop, step = (
        "" if part is None else str(part) for part in (key.start, key.stop, key.step)
    )
    return f"{start}:{stop}" + (f":{step}" if step else "")


# -- index tensors of authors ------------------------------------------------------------------------------------


def _line(start: Any, stop: Any, step: Any, what: str) -> range:
    """Return the values of `nl.arange(start, stop, step)`, of which there must be some."""
    parts = []
    for part in (start, stop, step):
        try:
            parts.append(operator.index(part))
        except TypeError:
            raise IndexExpression(
                f"{what} takes integers known while the kernel is traced; found {type(part).__name__} {part!r}",
                help="pass it to the kernel as an int",
            ) from None
    if parts[2] == 0 or not range(*parts):
        raise IndexExpression(
            f"{what} from {parts[0]} to {parts[1]} in steps of {parts[2]} has no elements",
            help="leave the call out where the extent is 0, for example with `if`",
        )
    return range(*parts)


def arange(*args: Any) -> Index:
    """Return the index tensor of `nl.arange(stop)`, `nl.arange(start, stop)` or `nl.arange(start, stop, step)`."""
    if not 1 <= len(args) <= 3:
        raise IndexExpression(
            f"nl.arange takes 1 to 3 integers; found {len(args)} arguments",
            help="write nl.arange(n), or nl.arange(start, stop, step)",
        )
    if len(args) == 1 and type(args[0]) is int:
        return _first(args[0])
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    line = _line(start, stop, step, "nl.arange")
    return _grid((line,))[0]


@lru_cache(maxsize=256)  # kernels ask for the same few in every trip
def _first(count: int) -> Index:
    return _grid((_line(0, count, 1, "nl.arange"),))[0]


class Grid(tuple[Index, ...]):
    """The index tensors of `nl.mgrid[...]`, one for each axis, each over the whole grid."""

    __slots__ = ()

    def _axis(self, d: int) -> Index:
        if d < len(self):
            return self[d]
        raise IndexExpression(
            f"field {'pxyz'[d]} of an nl.mgrid with {len(self)} axes",
            help="the fields of a grid are p, x, y, z in the order of its axes",
        )

    p = property(lambda self: self._axis(0), doc="Positions along axis 0, the partitions.")
    x = property(lambda self: self._axis(1), doc="Positions along axis 1.")
    y = property(lambda self: self._axis(2), doc="Positions along axis 2.")
    z = property(lambda self: self._axis(3), doc="Positions along axis 3.")


class _Mgrid:
    """`nl.mgrid`: indexed with slices, it gives a dense grid of positions as NumPy's does."""

    def __getitem__(self, key: Any) -> Grid:
        lines = []
        for k in key if type(key) is tuple else (key,):
            if type(k) is not slice or k.stop is None:
                raise IndexExpression(
                    f"nl.mgrid takes slices with an end; found {_written(k) if type(k) is slice else repr(k)}",
                    help="write nl.mgrid[0:128, 0:512]",
                )
            start, step = 0 if k.start is None else k.start, 1 if k.step is None else k.step
            lines.append(_line(start, k.stop, step, "nl.mgrid"))
        if (notes := noted()) is not None:
            notes.same += lines
        return _grid(tuple(lines))


@lru_cache(maxsize=256)
def _grid(lines: tuple[range, ...]) -> Grid:
    shape = tuple(map(len, lines))
    return Grid(
        Index(
            shape,
            tuple(r.step if d == axis and len(r) > 1 else 0 for d in range(len(lines))),
            r.start,
        )
        for axis, r in enumerate(lines)
    )


mgrid = _Mgrid()
