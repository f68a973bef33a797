"""Masks: where comparisons of index tensors hold, and the boxes of an access that they leave.

A mask is known while the kernel is traced, so a masked call is one or several calls with smaller tiles: what is masked
off is neither computed nor moved. (nki/api/nki.api.shared.rst, NKI API Masking)
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from nki_lab.beta1.notes import noted
from nki_lab.errors.beta1 import BadMask, IndexExpression, older
from nki_lab.ir.building.builder import active

#: First and last + 1 position along each axis.
Box = tuple[tuple[int, int], ...]

#: The most boxes that a mask may leave: each is an instruction.
_MOST = 300


class Term:
    """An affine expression over a grid: `const + sum(coef[d] * position[d])`."""

    __slots__ = ("shape", "coef", "const")

    def __init__(self, shape: tuple[int, ...], coef: tuple[int, ...], const: int) -> None:
        self.shape = shape
        self.coef = coef
        self.const = const

    def range(self, box: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return the smallest and the largest value in a box of the grid."""
        low = high = self.const
        for c, (first, end) in zip(self.coef, box, strict=True):
            if c > 0:
                low += c * first
                high += c * (end - 1)
            elif c:
                low += c * (end - 1)
                high += c * first
        return low, high


class Mask:
    """Where comparisons of index tensors hold.

    Attributes:
        cases: conjunctions of terms that are not negative; no position meets two of them.
        relation: the one comparison that it is: "greater_equal", "equal" or "not_equal", and the index tensor that is
            compared with 0; None for what joins several.
    """

    __slots__ = ("cases", "relation", "_left")
    __array_ufunc__ = None

    def __init__(
        self, cases: tuple[tuple[Term, ...], ...], relation: tuple[str, Any] | None = None
    ) -> None:
        self.cases = cases
        self.relation = relation
        #: The shape of the last access, and the boxes that are left of it.
        self._left: tuple[Sequence[int], list[Box]] | None = None

    @classmethod
    def of(cls, term: Term) -> Mask:
        """Return where a term is not negative."""
        mask = cls(((term,),), ("greater_equal", term))
        return _joined(mask) if _waiting else mask

    @classmethod
    def equal(cls, term: Any) -> Mask:
        """Return where a term is 0."""
        return _joined(cls(((term, -term),), ("equal", term)))

    def __and__(self, other: Any) -> Mask:
        if isinstance(other, (bool, np.bool_)):
            _note_truth()
            return self if other else NOWHERE
        if not isinstance(other, Mask):
            raise _no_mask(other)
        return _joined(_both(self, other))

    __rand__ = __and__

    def __or__(self, other: Any) -> Mask:
        if isinstance(other, (bool, np.bool_)):
            _note_truth()
            return EVERYWHERE if other else self
        if not isinstance(other, Mask):
            raise _no_mask(other)
        return _joined(Mask(self.cases + _both(other, _opposite(self)).cases))

    __ror__ = __or__

    def __invert__(self) -> Mask:
        return _joined(_opposite(self))

    def __bool__(self) -> bool:
        return _begin_and(self, sys._getframe(1))

    def __setitem__(self, key: Any, value: Any) -> None:
        raise IndexExpression(
            "a mask does not support item assignment: it is fixed when the kernel is traced",
            notes=[older("err_cannot_assign_to_index")],
            help="compute the values with a comparison of tiles: nl.less(tile, limit)",
        )

    def __repr__(self) -> str:
        return f"<mask: {' or '.join(' and '.join(f'{t!r} >= 0' for t in case) for case in self.cases)}>"


EVERYWHERE = Mask(((),))
NOWHERE = Mask(())


def _note_truth() -> None:
    """Note that a mask is True or False: how it depends on a loop variable is not known."""
    if (notes := noted()) is not None:
        notes.differs()


def _both(a: Mask, b: Mask) -> Mask:
    if len(a.cases) == len(b.cases) == 1:
        return Mask((a.cases[0] + b.cases[0],))
    return Mask(tuple(first + second for first in a.cases for second in b.cases))


def _opposite(mask: Mask) -> Mask:
    """Return where a mask does not hold: in each of its cases a first term is negative."""
    relation = mask.relation
    if relation is not None and relation[0] == "equal":
        relation = ("not_equal", relation[1])
    elif relation is not None and relation[0] == "greater_equal":
        relation = ("greater_equal", -relation[1] - 1)
    else:
        relation = None
    rest = EVERYWHERE
    for case in mask.cases:
        failing = [(*case[:at], -term - 1) for at, term in enumerate(case)]  # type: ignore[operator]
        rest = _both(rest, Mask(tuple(failing)))
    return Mask(rest.cases, relation)


def _no_mask(value: Any) -> BadMask:
    if hasattr(value, "on_chip"):
        found = "a tile, whose values are only known at run time"
    else:
        found = repr(value) if isinstance(value, (int, float, str)) else type(value).__name__
    return BadMask(
        f"a mask joins comparisons of index tensors; found {found}",
        notes=[older("err_unsupported_expression_in_mask")],
        help="compare nl.arange, variables of loops and program ids; choose by data with nl.where(condition, x, y)",
    )


# -- `a and b` -----------------------------------------------------------------------------------------------------
#
# Python asks the first mask for its truth, and the value of `a and b` is `b`. Where the text shows that `b` is a
# comparison, the truth is True and the mask that this comparison makes is joined with the first one.


class _And(NamedTuple):
    """An `and` in the author's text, and the mask of its operands so far."""

    builder: Any
    frame: int
    node: ast.BoolOp
    mask: Mask


_waiting: list[_And] = []


def _begin_and(mask: Mask, frame: FrameType) -> bool:
    node = _node_at(frame)
    if not isinstance(node, ast.BoolOp) or not isinstance(node.op, ast.And):
        raise _no_truth(node)
    if not _is_comparison(node.values[-1]):
        raise BadMask(
            "`and` gives the mask on its right only",
            notes=[older("err_ambiguous_tensor_truth_value")],
            help="join masks with &, each comparison in brackets: (a < b) & (c < d)",
        )
    if _waiting and _waiting[-1].node is node and _waiting[-1].frame == id(frame):
        mask = _both(_waiting.pop().mask, mask)  # an operand that is the name of a mask
    _waiting.append(_And(active.builder, id(frame), node, mask))
    return True


def _no_truth(node: ast.expr | None) -> BadMask:
    """Return the error for an expression that asks for the truth of a mask."""
    if isinstance(node, (ast.BoolOp, ast.UnaryOp)):
        return BadMask(
            "`or` and `not` ask for the truth of a mask, which differs from position to position",
            notes=[older("err_ambiguous_tensor_truth_value")],
            help="write | for `or` and ~ for `not`, with each comparison in brackets",
        )
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        return BadMask(
            "a chain of comparisons, such as 0 <= i < 64, asks for the truth of the first one",
            notes=[older("err_ambiguous_tensor_truth_value")],
            help="write (0 <= i) & (i < 64)",
        )
    return BadMask(
        "control flow depends on a comparison of nl.arange or nl.mgrid, which differs from position to position",
        notes=[older("err_control_flow_condition_depending_on_arange")],
        help="give the comparison to the call as its mask: nl.add(x, y, mask=i_f > 2048)",
    )


def _is_comparison(node: ast.expr) -> bool:
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.BitAnd, ast.BitOr))
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)


def _joined(mask: Mask) -> Mask:
    """Return a mask joined with those before it in an `and`, if it is the next operand of one."""
    if not _waiting:
        return mask
    last = _waiting[-1]
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and id(frame) != last.frame:
        frame = frame.f_back
    if frame is None or _place_at(frame) not in map(_place_of, last.node.values[1:]):
        return mask
    return _both(_waiting.pop().mask, mask)


def _place_of(node: ast.expr) -> tuple[int | None, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


def _place_at(frame: FrameType) -> tuple[int | None, ...]:
    return _places(frame.f_code)[frame.f_lasti // 2]


@lru_cache(maxsize=256)
def _places(code: Any) -> list[tuple[int | None, ...]]:
    return list(code.co_positions())


def _node_at(frame: FrameType) -> ast.expr | None:
    """Return the expression of the author's text that a frame is evaluating."""
    filename = frame.f_code.co_filename
    text = "".join(linecache.getlines(filename, frame.f_globals))
    return _expressions(text).get(_place_at(frame))


@lru_cache(maxsize=16)
def _expressions(text: str) -> dict[tuple[int | None, ...], ast.expr]:
    """Return the expressions of a text by their places, the outermost where several have the same."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except SyntaxError:
        return {}
    return {_place_of(n): n for n in reversed(nodes) if isinstance(n, ast.expr)}


# -- boxes ---------------------------------------------------------------------------------------------------------


def whole(shape: Sequence[int]) -> Box:
    """Return all of a grid."""
    return tuple([(0, n) for n in shape])


def boxes(mask: Any, shape: Sequence[int], limit: int = _MOST) -> list[Box]:
    """Return the boxes of an access of `shape` that a mask leaves; all of it for None and True, none for False."""
    if _waiting and any(entry.builder is active.builder for entry in _waiting):
        _waiting.clear()
        raise BadMask(
            "an operand of `and` beside a mask is no comparison of index tensors, so the mask before it was lost",
            notes=[older("err_ambiguous_tensor_truth_value")],
            help="join masks with &, each comparison in brackets: (a < b) & (c < d)",
        )
    if type(mask) is Mask and mask._left is not None and mask._left[0] == shape:
        return mask._left[1]
    everywhere = whole(shape)
    if isinstance(mask, (bool, np.bool_)):
        _note_truth()
    if mask is None or mask is True:
        return [everywhere]
    if mask is False:
        return []
    if type(mask) is list:  # they have been computed
        return mask
    if type(mask) is not Mask:
        if isinstance(mask, np.bool_):
            return [everywhere] if mask else []
        raise _no_mask(mask)
    result: list[Box] = []
    notes = noted()
    for case in mask.cases:
        terms = tuple([(_along(term, shape), term.const) for term in case])
        if notes is not None:
            for coef, const in terms:
                low, _ = Term((), coef, const).range(everywhere)
                if low >= 0:
                    notes.least.append(low)
                else:
                    notes.same += coef, const
        for box in _cut(terms, everywhere):
            result.append(box)
            if len(result) > limit:
                raise BadMask(
                    f"a mask leaves more than {limit} boxes of an access of {list(shape)}: each takes an instruction",
                    help="compare one axis at a time; for a triangle use nisa.affine_select or nl.where",
                )
    mask._left = shape, result
    return result


def _along(term: Term, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the steps of a term along the axes of an access, to which its grid must belong."""
    if len(term.shape) != len(shape):
        raise BadMask(
            f"a mask over a grid with {len(term.shape)} axes, {list(term.shape)}, on an access of {list(shape)}",
            notes=["the axes of a mask are those of the access; NumPy would line up the last ones"],
            help="give each index of the mask one position for each axis, such as nl.arange(n)[:, None, None]",
        )
    for c, n, size in zip(term.coef, term.shape, shape, strict=True):
        if c and n != size:
            raise BadMask(
                f"a mask over a grid of {list(term.shape)} on an access of {list(shape)}",
                help="make the mask from the index tensors of the access",
            )
    return term.coef


Terms = tuple[tuple[tuple[int, ...], int], ...]


def _cut(terms: Terms, box: Box) -> Iterator[Box]:
    """Yield the boxes within `box` where no term is negative."""
    wide: list[tuple[tuple[int, ...], int]] = []
    for coef, const in terms:
        axes = [d for d, c in enumerate(coef) if c]
        if not axes:
            if const < 0:
                return
        elif len(axes) == 1:
            (d,) = axes
            c = coef[d]
            first, end = box[d]
            if c > 0:
                first = max(first, -(const // c))
            else:
                end = min(end, const // -c + 1)
            if first >= end:
                return
            box = (*box[:d], (first, end), *box[d + 1 :])
        else:
            wide.append((coef, const))
    rest = []
    for coef, const in wide:
        low, high = Term((), coef, const).range(box)
        if high < 0:
            return
        if low < 0:
            rest.append((coef, const))
    if not rest:
        yield box
        return
    # Position by position along the shortest axis that several axes depend on; equal neighbours are one box.
    axes = [d for d, c in enumerate(rest[0][0]) if c]
    axis = min(axes, key=lambda d: box[d][1] - box[d][0])
    open_boxes: list[Box] = []
    for position in range(*box[axis]):
        fixed = tuple(
            ((*coef[:axis], 0, *coef[axis + 1 :]), const + coef[axis] * position)
            for coef, const in rest
        )
        here = list(_cut(fixed, (*box[:axis], (position, position + 1), *box[axis + 1 :])))
        if open_boxes and [_without(b, axis) for b in open_boxes] == [
            _without(b, axis) for b in here
        ]:
            open_boxes = [
                (*b[:axis], (b[axis][0], position + 1), *b[axis + 1 :]) for b in open_boxes
            ]
        else:
            yield from open_boxes
            open_boxes = here
    yield from open_boxes


def _without(box: Box, axis: int) -> Box:
    return box[:axis] + box[axis + 1 :]
