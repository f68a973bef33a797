"""Evaluates an expression given as an option, and compares a result with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from nki_lab.errors import CheckFailed, NkiError, UsageError
from nki_lab.runtime.arrays import is_foreign_array, to_numpy
from nki_lab.runtime.check import Comparison, compare_arrays, difference_of
from nki_lab.session.questions import CHECK, Expression
from nki_lab.session.reading import Locate, nowhere
from nki_lab.source import Place, Span, Stack, headline, keep_lines, stack_of_traceback


def evaluate(expression: Expression, scope: dict[str, Any], locate: Locate = nowhere) -> Any:
    """Return the value of an expression in `scope`.

    Args:
        expression: what to evaluate.
        scope: the names it may use.
        locate: gives the place of a part of its text in the author's line.

    Raises:
        NkiError: as a kernel raised it.
        UsageError: anything else that was raised, with the place in the expression or below it.
    """
    text = expression.text
    keep_lines(expression.filename, text)
    try:
        return eval(expression.code, scope)
    except NkiError as error:
        if not error.stack:
            error.stack = _stack(error, expression, locate)
        raise
    except Exception as error:
        raise UsageError(
            headline(error),
            stack=_stack(error, expression, locate),
            notes=(f"raised by {_flag(expression)} {text}",),
        ) from error


def _stack(error: Exception, expression: Expression, locate: Locate) -> Stack:
    places: list[Place] = []
    for place in stack_of_traceback(error.__traceback__, expression.code):
        span = Span.of(place)
        stack: Stack = ()
        if span.filename == expression.filename and span.line == 1 and span.column is not None:
            width = (span.end_column or span.column + 1) - span.column
            stack = locate(expression.text, span.column, width)
        places += stack or (place,)
    return tuple(places)


def reference(expression: Expression, scope: dict[str, Any], locate: Locate = nowhere) -> Any:
    """Return the value to compare with, copied: a kernel may update arrays it is a view of."""
    return _copied(evaluate(expression, scope, locate))


def check_value(
    found: Any,
    expected: Any,
    stack: Stack = (),
    *,
    rtol: float | None = None,
    atol: float | None = None,
) -> tuple[Comparison, ...]:
    """Compare what a kernel returned with its reference; tuples and dicts are compared item by item.

    The tolerances are those of each result's dtype where they are not given.

    Raises CheckFailed at `stack` when any part differs.
    """
    if found is None:
        raise UsageError(
            "the run returns nothing to compare",
            stack=stack,
            help="a kernel that updates its input: --run '(kernel(a), a)[1]'",
        )
    pairs = _pairs(found, expected, stack)
    results = []
    for name, one, other in pairs:
        try:
            result = compare_arrays(one, other, rtol=rtol, atol=atol)
        except NkiError as error:
            error.stack = error.stack or stack
            raise
        results.append(result)
        if not result.ok:
            failed = CheckFailed(f"{_named(name)} {result.summary()}", stack=stack)
            failed.comparisons = tuple(results)
            failed.difference = difference_of(_named(name), one, other, result)
            raise failed
    return tuple(results)


def _flag(expression: Expression) -> str:
    return expression.filename.strip("<>")


def _copied(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_copied(v) for v in value]
    if isinstance(value, dict):
        return {key: _copied(v) for key, v in value.items()}
    if is_foreign_array(value):
        return np.array(to_numpy("reference", value))
    return value


def _pairs(found: Any, expected: Any, stack: Stack, at: str = "") -> list[tuple[str, Any, Any]]:
    """Return (place in the containers, array, reference) for every array that a kernel returned."""
    if isinstance(found, dict):
        keys = ", ".join(map(repr, found))
        if not isinstance(expected, dict) or expected.keys() != found.keys():
            given = (
                f"the keys {', '.join(map(repr, expected))}"
                if isinstance(expected, dict) and expected
                else "no such dict"
            )
            raise CheckFailed(
                f"{_named(at)} is a dict with the keys {keys}, {CHECK.flag} gives {given}",
                stack=stack,
                help="write a dict of references, one per key",
            )
        items = [(key, found[key], expected[key]) for key in found]
    elif isinstance(found, (tuple, list)):
        if not isinstance(expected, (tuple, list)) or len(expected) != len(found):
            parts = len(expected) if isinstance(expected, (tuple, list)) else 1
            what = f"{_named(at)} has" if at else "the run returns"
            raise CheckFailed(
                f"{what} {len(found)} values, {CHECK.flag} gives {parts}",
                stack=stack,
                help="write a tuple of references, one per value",
            )
        items = [(k, *pair) for k, pair in enumerate(zip(found, expected, strict=True))]
    else:
        return [(at, found, expected)]
    return [
        pair for key, one, other in items for pair in _pairs(one, other, stack, f"{at}[{key!r}]")
    ]


def _named(at: str) -> str:
    return f"the result {at}" if at else "the result"
