"""Random index tensors and masks, each beside the NumPy array that the same expression gives."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from nki_lab.beta1.index import Index, arange, mgrid

Draw = Any
_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)


@dataclass(frozen=True)
class Pair:
    """An index tensor or mask, what NumPy makes of the same expression, and the text of the expression."""

    ours: Any
    array: np.ndarray
    text: str

    def with_(self, function: Any, other: Any, text: str) -> Pair:
        """Return a function of this pair and another, or a number, applied to both of its sides."""
        ours, array = (other.ours, other.array) if isinstance(other, Pair) else (other, other)
        shown = other.text if isinstance(other, Pair) else repr(other)
        return Pair(
            function(self.ours, ours), function(self.array, array), text.format(self.text, shown)
        )


def _line(draw: Draw, size: int) -> Pair:
    start, step = draw(st.integers(-9, 9)), draw(st.sampled_from([1, 1, 1, 2, 3, -1]))
    text = f"arange({start}, {start + size * step}, {step})"
    stop = start + size * step
    return Pair(arange(start, stop, step), np.arange(start, stop, step), text)


def axes(draw: Draw, shape: tuple[int, ...]) -> list[Pair]:
    """Return a pair for each axis of a grid: open ones of `nl.arange`, or dense ones of `nl.mgrid`."""
    if draw(st.booleans()):
        starts = [draw(st.integers(-5, 5)) for _ in shape]
        key = tuple(slice(a, a + n) for a, n in zip(starts, shape, strict=True))
        return [
            Pair(ours, array, f"mgrid{key}[{d}]")
            for d, (ours, array) in enumerate(zip(mgrid[key], np.mgrid[key], strict=True))
        ]
    pairs = []
    for d, n in enumerate(shape):
        line = _line(draw, n)
        key = (None,) * d + (slice(None),) + (None,) * (len(shape) - d - 1)
        pairs.append(Pair(line.ours[key], line.array[key], f"{line.text}[{key}]"))
    return pairs


def expression(draw: Draw, shape: tuple[int, ...], pairs: list[Pair]) -> Pair:
    """Return an affine expression of a few axes of a grid."""
    value = draw(st.sampled_from(pairs))
    for _ in range(draw(st.integers(0, 4))):
        number = draw(st.integers(-7, 7))
        match draw(st.sampled_from("+-rRmMnast")):
            case "+":
                value = value.with_(operator.add, number, "({} + {})")
            case "-":
                value = value.with_(operator.sub, number, "({} - {})")
            case "r":
                value = value.with_(lambda a, b: b + a, number, "({1} + {0})")
            case "R":
                value = value.with_(lambda a, b: b - a, number, "({1} - {0})")
            case "m":
                value = value.with_(operator.mul, number, "({} * {})")
            case "M":
                value = value.with_(lambda a, b: b * a, np.int64(number), "({1} * {0})")
            case "n":
                value = Pair(-value.ours, -value.array, f"(-{value.text})")
            case "a":
                value = value.with_(operator.add, draw(st.sampled_from(pairs)), "({} + {})")
            case "s":
                value = value.with_(operator.sub, draw(st.sampled_from(pairs)), "({} - {})")
            case "t":
                factor = abs(number) + 2
                value = value.with_(operator.mul, factor, "({} * {})")
                value = value.with_(operator.floordiv, factor, "({} // {})")
    return value


def mask(draw: Draw, shape: tuple[int, ...], pairs: list[Pair], depth: int = 2) -> Pair:
    """Return a mask of a few comparisons."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        left = expression(draw, shape, pairs)
        compare = draw(st.sampled_from(_COMPARISONS))
        low, high = int(left.array.min()), int(left.array.max())
        if draw(st.booleans()):
            right: Any = draw(st.integers(low - 1, high + 1))
            if compare in _COMPARISONS[:4] and draw(st.booleans()):
                right += draw(st.sampled_from([0.0, 0.25, 0.5]))
        else:
            right = expression(draw, shape, pairs)
        return left.with_(compare, right, "({} " + compare.__name__ + " {})")
    left = mask(draw, shape, pairs, depth - 1)
    if draw(st.integers(0, 4)) == 0:
        return Pair(~left.ours, ~left.array, f"~{left.text}")
    join = operator.and_ if draw(st.integers(0, 3)) else operator.or_
    return left.with_(join, mask(draw, shape, pairs, depth - 1), "({} " + join.__name__ + " {})")


def key_of(draw: Draw, index: Index) -> tuple[Any, ...]:
    """Return a key for an index tensor: slices that select something, integers, None, perhaps an ellipsis."""
    key: list[Any] = []
    for n in index.shape:
        if draw(st.integers(0, 3)) == 0:
            key.append(None)
        match draw(st.sampled_from("sSi")):
            case "s":
                key.append(slice(None, None, draw(st.sampled_from([1, -1, 2]))))
            case "S":
                first = draw(st.integers(0, n - 1))
                key.append(slice(first, draw(st.integers(first + 1, n))))
            case "i":
                key.append(draw(st.integers(-n, n - 1)))
    if draw(st.booleans()):
        first = draw(st.integers(0, len(key)))
        end = draw(st.integers(first, len(key)))
        if None not in key[first:end] and not any(isinstance(k, int) for k in key[first:end]):
            key[first:end] = [Ellipsis]
    return tuple(key)
