"""Index expressions of the older dialect as text: `4 * i + nl.arange(n)[:, None]` is the slice `4 * i:4 * i + n`."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Positions:
    """An index tensor: `start + sum(step[d] * position[d])`, all as text.

    Attributes:
        start: its value at the first position.
        terms: step and size along each axis of its grid; axes are counted from the last one, which is -1.
    """

    start: str
    terms: dict[int, tuple[str, str]] = field(default_factory=dict)

    def plus(self, other: Positions, sign: int = 1) -> Positions:
        """Return the sum, or the difference, of two."""
        terms = dict(self.terms)
        for axis, (step, size) in other.terms.items():
            step = step if sign > 0 else minus("0", step)
            terms[axis] = (plus(terms[axis][0], step), size) if axis in terms else (step, size)
        start = plus(self.start, other.start) if sign > 0 else minus(self.start, other.start)
        return Positions(start, {a: t for a, t in terms.items() if t[0] != "0"})

    def times(self, factor: str) -> Positions:
        """Return it multiplied by a number."""
        terms = {axis: (times(step, factor), size) for axis, (step, size) in self.terms.items()}
        return Positions(times(self.start, factor), terms)


@dataclass(frozen=True)
class Bound:
    """What a comparison leaves along an axis: positions for which `start + step * position < stop`.

    Attributes:
        is_lower: it leaves those that are not below `stop` instead.
    """

    start: str
    stop: str
    step: str = "1"
    is_lower: bool = False

    @property
    def position(self) -> str:
        """The first position that it does not leave, or with `is_lower` the first that it does."""
        return rounded_up(minus(self.stop, self.start), self.step)


#: The bounds of a mask along each axis of its grid, counted from the last one.
Bounds = dict[int, list[Bound]]


def length(size: str, bounds: list[Bound]) -> str:
    """Return how many positions bounds leave of an axis."""
    return minus(end_of(size, bounds), skipped(bounds))


def end_of(size: str, bounds: list[Bound]) -> str:
    """Return the position behind the last one that bounds leave of an axis."""
    return _extreme("min", [size, *(b.position for b in bounds if not b.is_lower)])


def skipped(bounds: list[Bound]) -> str:
    """Return the first position that bounds leave."""
    return _extreme("max", ["0", *(b.position for b in bounds if b.is_lower)])


def slice_of(start: str, step: str, size: str, bounds: list[Bound]) -> str:
    """Return the slice of an axis that a term covers, within bounds."""
    if step != "1":
        last = minus(end_of(size, bounds), "1")
        first = plus(start, times(step, skipped(bounds)))
        return f"{first}:{plus(plus(start, times(step, last)), '1')}:{step}"
    if bounds and all(b.start == start and b.step == "1" for b in bounds):
        first = _extreme("max", [start, *(b.stop for b in bounds if b.is_lower)])
        return f"{first}:{_extreme('min', [plus(start, size), *(b.stop for b in bounds if not b.is_lower)])}"
    return f"{plus(start, skipped(bounds))}:{plus(start, end_of(size, bounds))}"


def rounded_up(text: str, step: str) -> str:
    """Return the text of a number divided by a step, rounded up."""
    return text if step == "1" else _folded(f"-(-{_factor(text)} // {_factor(step)})")


def _extreme(name: str, texts: list[str]) -> str:
    """Return the smallest or the largest of numbers: one text where nothing but numbers are in it."""
    texts = list(dict.fromkeys(texts))
    if len(texts) == 1:
        return texts[0]
    if all(text.lstrip("-").isdigit() for text in texts):
        return str((min if name == "min" else max)(map(int, texts)))
    return f"{name}({', '.join(texts)})"


def plus(a: str, b: str) -> str:
    """Return the text of a sum."""
    if a == "0" or b == "0":
        return b if a == "0" else a
    return _folded(f"{a} - {b[1:]}" if b.startswith("-") and b[1:].isalnum() else f"{a} + {b}")


def minus(a: str, b: str) -> str:
    """Return the text of a difference."""
    if b == "0":
        return a
    if a == "0":
        return _folded(f"-{_factor(b)}")
    return "0" if a == b else _folded(f"{a} - {_factor(b, subtracted=True)}")


def times(a: str, b: str) -> str:
    """Return the text of a product."""
    if "0" in (a, b):
        return "0"
    if "1" in (a, b):
        return b if a == "1" else a
    return _folded(f"{_factor(a)} * {_factor(b)}")


def _factor(text: str, subtracted: bool = False) -> str:
    node = ast.parse(text, mode="eval").body
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and subtracted:
        return text
    simple = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript)
    return text if isinstance(node, simple) else f"({text})"


def _folded(text: str) -> str:
    """Return a text, or the number that it is where nothing but numbers are in it."""
    node = ast.parse(text, mode="eval")
    if any(isinstance(n, (ast.Name, ast.Call, ast.Attribute)) for n in ast.walk(node)):
        return text
    return str(eval(compile(node, "positions", "eval"), {"__builtins__": {}}))
